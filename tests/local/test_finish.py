"""How far a finish goes: to the newest row, to the ends of the windows that hold it, or to an instant; never back."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from skyband.framework.plan.finish import finished_frontier
from skyband.jobs.spec import load_plan
from tests.local.jobs import run_apart
from tests.spark.jobs import table, write_file
from tests.spark.kinds import KINDS

WINDOWS = replace(
    KINDS["keyed"],
    queries="""\
  best: {type: topk, scoring: high, k: 4, window: {tumbling: 1 hour}}
  visits: {type: topk_pairs, scoring: far, k: 2, window: {session: 90 minutes}}
  hops: {type: threshold, scoring: high, above: 1, window: {hop: {size: 1 hour, every: 50 minutes}}}
  slow: {type: topk, scoring: high, k: 2, every: 40 minutes}
""",
    sections="",
)
START = datetime(2020, 1, 1, tzinfo=UTC)
LAST = START + timedelta(hours=3, minutes=7)


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    rng = random.Random(3)
    rows = [[i, START + timedelta(minutes=4 * i), rng.choice("pq"), rng.randint(0, 9), rng.randint(0, 5), "a"] for i in range(46)]
    rows.append([99, LAST, "p", 9, 1, "a"])
    made = WINDOWS.write(tmp_path / "job", 10)
    write_file(tmp_path / "job", "a.csv", [[i, f"{at:%Y-%m-%dT%H:%M:%SZ}", *rest] for i, at, *rest in rows], at=0)
    return made


def frontier(directory: Path) -> datetime:
    found = max(f for f in table(directory, "runs")["frontier"].to_pylist() if f is not None)
    assert isinstance(found, datetime)
    return found


def test_each_goes_so_far_and_none_goes_back(spec: Path) -> None:
    directory, micro = spec.parent, timedelta(microseconds=1)
    for arguments, expected in (
        (("--finish",), LAST),
        (("--finish-at", "2020-01-01T02:00"), LAST),  # rows are not taken back
        (("--finish-at", "end"), LAST + timedelta(minutes=90)),
        (("--finish",), LAST + timedelta(minutes=90)),
        (("--finish-at", "2020-01-01T06:00"), START + timedelta(hours=6)),
        (("--finish-at", "end"), START + timedelta(hours=6)),
    ):
        run_apart(spec, *arguments, "--quiet").check_returncode()
        assert frontier(directory) == expected + micro, arguments
    ends = {row["window_end"] for row in table(directory, "best_final").to_pylist()}
    assert ends == {START + timedelta(hours=h) for h in (1, 2, 3, 4)}
    # Sessions of a key end 90 minutes after its last row.
    assert LAST + timedelta(minutes=90) in {row["window_end"] for row in table(directory, "visits_final").to_pylist()}
    assert table(directory, "best_now").num_rows == table(directory, "visits_now").num_rows == 0


def test_what_is_no_instant_is_refused(spec: Path) -> None:
    done = run_apart(spec, "--finish-at", "tomorrow")
    assert done.returncode == 2 and "SKY-E201 --finish-at takes an instant, not 'tomorrow'" in done.stderr


@pytest.mark.parametrize(
    ("queries", "after"),
    [
        ("  q: {type: topk, scoring: high, k: 4, window: {tumbling: 1 hour}}\n", 53),
        ("  q: {type: topk, scoring: high, k: 4, window: {session: 20 minutes}}\n", 20),
        ("  q: {type: topk, scoring: high, k: 4, window: {hop: {size: 1 hour, every: 187 minutes}}}\n", 187),
        ("  q: {type: topk, scoring: high, k: 4, every: 187 minutes}\n", 0),
        ("  q: {type: topk, scoring: high, k: 4}\n", 0),
    ],
)
def test_ends_of_what_the_newest_row_has_opened(tmp_path: Path, queries: str, after: int) -> None:
    """A row at a boundary is in the result there with ``every``, in the next one with ``hop``."""
    plan = load_plan(str(replace(WINDOWS, queries=queries).write(tmp_path / "job", 10)))
    newest = 187 * 60_000_000  # since 1970, a Thursday: hours and boundaries are multiples from there
    assert finished_frontier(plan, newest, "end") == newest + after * 60_000_000 + 1
    assert finished_frontier(plan, newest) == finished_frontier(plan, newest, 5) == newest + 1
    assert finished_frontier(plan, newest, newest + 7) == newest + 8
