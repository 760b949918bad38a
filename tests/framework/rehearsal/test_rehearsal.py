"""A job rehearsed in memory: its changes and results are what the definition says, however its rows come and wherever it is restarted."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from skyband.framework.base.errors import SkybandError
from skyband.framework.plan.compile import compile_job
from skyband.framework.plan.model import Plan
from skyband.framework.rehearsal.rehearsal import Rehearsal
from skyband.framework.spec.load import validate_text
from tests.oracles import topk as oracle
from tests.seeds import seeds
from tests.specs import plan_of_text, spec_text

SPEC = spec_text(
    "small",
    "{id: bigint, ts: timestamp, grp: string, x: double, y: double}",
    path="/nowhere/in",
    event_time="{column: ts, watermark: 5 minutes}",
    partition_by="[grp]",
    sink="{path: /nowhere/out}",
    transform=['derive: {z: "x - y"}', 'where: "coalesce(y, 0) <> 99"'],
    quality={
        "rows": [
            '{name: sane, expect: "x < 1000"}',
            '{name: odd, expect: "x <> 7", severity: warn}',
            '{name: never, expect: "x <> -1", severity: fail}',
        ]
    },
    window="{count: 6, time: 20 minutes}",
    scoring={"z": "{expression: z, direction: max}"},
    queries={
        "best": "{type: topk, scoring: z, k: 3}",
        "hourly": "{type: topk, scoring: z, k: 2, window: {count: 4}, every: 10 minutes}",
    },
)
MINUTE = 60_000_000


@pytest.fixture(scope="module")
def plan() -> Plan:
    return plan_of_text(SPEC)


def row(number: int, minute: int, grp: str = "p", x: float | None = 0.0, y: float | None = 0.0) -> dict[str, Any]:
    return {"id": number, "ts": minute * MINUTE, "grp": grp, "x": None if x is None else float(x), "y": None if y is None else float(y)}


def changes(job: Rehearsal, query: str) -> list[tuple[Any, ...]]:
    rows = job.tables()[f"{query}_changes"].to_pylist()
    at = [
        (r["grp"], int(r["changed_at"].timestamp() * 1e6), r["step"], r["pos"], r["change"], r["cause"], r["seq"], r["score"]) for r in rows
    ]
    return sorted(at, key=lambda c: (c[0], c[2], c[3]))


@pytest.mark.parametrize("seed", seeds(0, 8))
def test_changes_and_results_are_those_of_the_definition(plan: Plan, seed: int) -> None:
    rng = np.random.default_rng(seed)
    many = int(rng.integers(1, 40))
    minutes = np.sort(rng.integers(0, 90, many)).tolist()
    rows = [
        row(i, minutes[i], str(rng.choice(["p", "q"])), *(None if rng.random() < 0.1 else float(rng.integers(0, 5)) for _ in "xy"))
        for i in range(many)
    ]
    job = Rehearsal(plan)
    left = list(rows)
    while left:
        n = int(rng.integers(1, 9))
        job.drop([left[i] for i in rng.permutation(len(left[:n]))])
        left = left[n:]
        if rng.random() < 0.5:
            job.restart()
    job.finish()
    until = minutes[-1] * MINUTE + 1
    for query, asked in (("best", oracle.Query(3, 6, 20 * MINUTE)), ("hourly", oracle.Query(2, 4, 20 * MINUTE, every=10 * MINUTE))):
        expected = []
        for grp in ("p", "q"):
            mine = [r for r in rows if r["grp"] == grp]
            scores = [math.nan if r["x"] is None or r["y"] is None else r["x"] - r["y"] for r in mine]
            events = [oracle.Event(r["ts"], s) for r, s in zip(mine, scores, strict=True)]
            expected += [(grp, *c[2:5], "+" if c[5] > 0 else "-", *c[6:]) for c in oracle.replay(0, 0, events, asked, until)]
        assert changes(job, query) == sorted(expected, key=lambda c: (c[0], c[2], c[3]))
        standing: set[tuple[str, int]] = set()
        for grp, _, _, _, sign, _, seq, _ in expected:
            (standing.add if sign == "+" else standing.discard)((grp, seq))
        now = job.tables()[f"{query}_now"].to_pylist()
        assert {(r["grp"], r["seq"]) for r in now} == standing


def test_every_row_is_accounted_for_with_its_reason(plan: Plan) -> None:
    job = Rehearsal(plan)
    job.drop([row(1, 0), row(2, 60), row(3, 1, x=2000), row(4, 1, y=99), {**row(5, 1), "grp": None}, {**row(6, 1), "ts": None}])
    job.drop([row(7, 54), row(8, 55), row(2, 58), row(9, 61, x=7), {**row(9, 61), "id": None}, {**row(10, 0), "ts": -1}])
    job.finish()
    reasons = sorted(job.tables()["rejected"]["reason"].to_pylist())
    assert reasons == ["duplicate_id", "late", "null_id", "null_key", "null_time", "rule:sane", "time_range"]
    assert (job.counts["rows_in"], job.counts["filtered"], job.counts["accepted"], job.counts["pending"]) == (12, 1, 4, 0)
    assert job.counts["warned:odd"] == 1


def test_which_of_two_with_one_id_counts_does_not_depend_on_the_order_within_a_drop(plan: Plan) -> None:
    for rows in ([row(1, 5, x=1), row(1, 4, x=2)], [row(1, 4, x=2), row(1, 5, x=1)]):
        job = Rehearsal(plan)
        job.drop(rows)
        job.finish()
        assert [c[7] for c in changes(job, "best")] == [2.0]


def test_a_row_that_breaks_a_rule_of_severity_fail_stops_it_and_leaves_nothing(plan: Plan) -> None:
    job = Rehearsal(plan)
    job.drop([row(1, 0)])
    with pytest.raises(SkybandError, match="never") as e:
        job.drop([row(2, 30), row(3, 31, x=-1)])
    assert e.value.code == "SKY-E502"
    job.finish()
    assert [c[6] for c in changes(job, "best")] == [0]


def test_nothing_is_written(plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    job = Rehearsal(plan)
    job.drop([row(1, 0)])
    job.finish()
    assert job.tables()["best_now"].num_rows == 1
    assert list(tmp_path.iterdir()) == [] and not Path("/nowhere").exists()


FAR = spec_text(
    "far",
    "{id: bigint, ts: timestamp, body: string, up: int, what: string}",
    path="/nowhere/in",
    sink="{path: /nowhere/out}",
    window="{time: 1 day}",
    tokens={
        "w": "{column: body, min_tokens: 2, max_tokens: 3, short: reject}",
        "lenient": "{column: body, min_tokens: 2}",
    },
    queries={
        "twins": "{type: similar_sets, tokens: w, min_score: 0.5}",
        "others": "{type: similar_sets, tokens: lenient, min_score: 0.5}",
        "known": "{type: topk_loyalty, object: what, updates: up, k: 1, window: {time: 1 hour}}",
    },
)


def far(number: int, minute: int, body: str = "a b", up: int | None = 1, what: str | None = "o") -> dict[str, Any]:
    return {"id": number, "ts": minute * MINUTE, "body": body, "up": up, "what": what}


@pytest.mark.parametrize(
    ("ahead", "reason"),
    [
        (far(2, 900, body="a"), "empty_set:w"),
        (far(2, 900, body="a b c d"), "large_set:w"),
        (far(2, 900, up=7), "no_update:up"),
        (far(2, 900, what=None), "null_object:what"),
        ({**far(2, 900), "id": None}, "null_id"),
    ],
)
def test_a_row_that_is_rejected_as_it_is_read_moves_no_frontier(ahead: dict[str, Any], reason: str) -> None:
    spec, errors = validate_text(FAR, {})
    assert spec is not None, errors
    job = Rehearsal(compile_job(spec))
    job.drop([far(1, 0), ahead])
    job.drop([far(3, 1), far(4, 2)])
    job.finish()
    assert job.tables()["rejected"]["reason"].to_pylist() == [reason]


def test_a_row_that_waits_for_its_turn_moves_the_frontier() -> None:
    """Whether it is a duplicate is known when its turn comes, after the frontier has passed it."""
    spec, errors = validate_text(FAR, {})
    assert spec is not None, errors
    job = Rehearsal(compile_job(spec))
    job.drop([far(1, 0), far(1, 900)])
    job.drop([far(3, 1)])
    job.finish()
    assert sorted(job.tables()["rejected"]["reason"].to_pylist()) == ["duplicate_id", "late"]
