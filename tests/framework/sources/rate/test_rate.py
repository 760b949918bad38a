"""Rows made up for load tests: what a spec may say of them, and how many have been taken."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from skyband.framework.plan.compile import compile_job
from skyband.framework.sources.rate.format import RateFormat
from skyband.framework.sources.rate.rows import start_micros, taken
from skyband.framework.spec.load import validate_text
from tests.specs import spec_text

SPEC = spec_text(
    "load",
    "{n: {type: bigint, from: $n}, at: {type: timestamp, from: $time}, x: double, OTHER}",
    path=None,
    format="rate",
    options="{OPTIONS}",
    id="[n]",
    event_time="{column: at}",
    sink="{path: /srv/out}",
    window="{count: 10}",
    scoring="{x: {expression: x, direction: max}}",
    queries={"best": "{type: topk, scoring: x, k: 2}"},
)


def found(options: str, other: str = "y: string") -> list[tuple[str, int, str]]:
    text = SPEC.replace("OPTIONS", options).replace("OTHER", other)
    return [(e.code, e.where.line if e.where else 0, e.message) for e in validate_text(text, {})[1]]


@pytest.mark.parametrize(
    "options, other",
    [
        ("", "y: string"), ("rows: '1', per_second: '1000000', keys: '7', seed: '0'", "k: {type: string, from: $key}"),
        ("start: '2024-02-29T12:00:00Z'", "k: {type: int, from: $key}, b: boolean, i: int, f: float"),
    ],
)  # fmt: skip
def test_what_it_takes(options: str, other: str) -> None:
    assert found(options, other) == []


@pytest.mark.parametrize(
    "options, other, code, said",
    [
        ("rowsPerSecond: '5'", "y: string", "SKY-E119", "does not take"), ("rows: '0'", "y: string", "SKY-E114", "from 1 to"),
        ("per_second: '1000001'", "y: string", "SKY-E114", "1,000,000"), ("seed: '-1'", "y: string", "SKY-E114", "from 0 to"),
        ("start: '2024-01-01'", "y: string", "SKY-E114", "instant"), ("start: '2024-01-01T00:00:00+01:00'", "y: string", "SKY-E114", "UTC"),
        ("start: '1969-01-01T00:00:00Z'", "y: string", "SKY-E114", "instant"), ("", "y: date", "SKY-E114", "as date"),
        ("", "y: {type: int, from: $n}", "SKY-E114", "as int"), ("", "y: {type: int, from: $m}", "SKY-E114", "nothing that is made up"),
    ],
)  # fmt: skip
def test_what_it_refuses_and_where(options: str, other: str, code: str, said: str) -> None:
    (only,) = found(options, other)
    assert only[0] == code and only[1] in (4, 5) and said in only[2], only


def test_a_path_is_refused() -> None:
    text = SPEC.replace("OPTIONS", "").replace("OTHER", "y: string").replace("  format: rate\n", "  format: rate\n  path: /srv/in\n")
    assert [e.code for e in validate_text(text, {})[1]] == ["SKY-E119"]


def test_what_is_not_said() -> None:
    assert RateFormat().options({"rows": "5"})["per_second"] == "5" and RateFormat().options({"rows": "2000000"})["per_second"] == "1000000"
    job, _ = validate_text(SPEC.replace("OPTIONS", "start: '1970-01-02T00:00:00Z'").replace("OTHER", "y: string"), {})
    assert job is not None and start_micros(compile_job(job).source) == 86_400_000_000


def test_what_has_been_taken_is_up_to_the_last_batch_that_is_done(tmp_path: Path) -> None:
    assert taken(tmp_path) == 0
    for directory in ("commits", "offsets"):
        (tmp_path / directory).mkdir()
    for batch in range(3):
        (tmp_path / "offsets" / str(batch)).write_text(f"v1\n{{}}\n{json.dumps({'offset': 5 * batch + 5, 'timestamp': 0})}\n-\n")
        if batch < 2:
            (tmp_path / "commits" / str(batch)).write_text("v1\n{}")
    assert taken(tmp_path) == 10
