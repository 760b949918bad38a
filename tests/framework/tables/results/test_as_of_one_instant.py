"""Every value of a row of groups is as of one instant: score and carried aggregates, in every table and at any instant, by definition."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pytest

from skyband.framework.rehearsal.rehearsal import Rehearsal
from skyband.framework.tables.results.reader import Reader
from tests.framework.verify import small
from tests.framework.verify.group_jobs import instants, spec_of, stamp
from tests.seeds import seeds
from tests.specs import plan_of_text

SPEC = spec_of(
    "instants",
    """\
queries:
  best: {type: topk_groups, group: side, score: count(), k: 2, carry: [count(), last(y), first(id), sum(y)]}
  high: {type: threshold_groups, group: side, score: sum(y), above: 4, below: 2, carry: [count(), last(y), first(id), sum(y)]}
  regular: {type: topk_groups, group: side, score: count(), k: 2, every: 5 minutes, carry: [count(), last(y), first(id), sum(y)]}
  closing:
    {type: topk_groups, group: side, score: sum(y), k: 2, carry: [count(), last(y), first(id), sum(y)], window: {tumbling: 7 minutes}}
""",
)
CARRIED = ("count", "last_y", "first_id", "sum_y")
SCORES = {"best": "count", "high": "sum_y", "regular": "count", "closing": "sum_y"}
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
Row = tuple[int, datetime, str, float, str]


def rows_of(seed: int) -> list[Row]:
    rng = random.Random(seed)
    times = enumerate(instants(rng, 120, (0, 0, 20, 60, 200)))
    return [(i, at, rng.choice("pq"), float(rng.randrange(4)), rng.choice("abc")) for i, at in times]


def values_of(rows: list[Row]) -> dict[str, Any]:
    """What a group carries, by definition; ``rows`` in order."""
    return {"count": len(rows), "last_y": rows[-1][3], "first_id": rows[0][0], "sum_y": sum(r[3] for r in rows)} if rows else {}


def in_window(query: str, rows: list[Row], grp: str, side: str, at: datetime) -> list[Row]:
    """The rows of a group that count at an instant; with ``every`` at the last boundary."""
    if query == "regular":
        at -= (at - EPOCH) % timedelta(minutes=5)
    since = at - timedelta(minutes=20)
    # The windows of 7 minutes are counted from Monday, 3 January 2000.
    began = at - (at - datetime(2000, 1, 3, tzinfo=UTC)) % timedelta(minutes=7)
    mine = [r for r in rows if r[2] == grp and r[4] == side and since < r[1] <= at]
    return [r for r in mine if r[1] >= began] if query == "closing" else mine


def consistent(query: str, row: dict[str, Any], expected: dict[str, Any]) -> None:
    assert {c: row[c] for c in (*CARRIED, "score")} == {**expected, "score": expected[SCORES[query]]}, (query, row)


@pytest.mark.parametrize("seed", seeds(0, 4))
def test_every_row_is_as_of_one_instant(tmp_path: Path, seed: int) -> None:
    (tmp_path / "job.yaml").write_text(SPEC)
    rows = rows_of(seed)
    plan = small.make(tmp_path / "job.yaml", [[i, stamp(at), grp, y, y, side] for i, at, grp, y, side in rows])
    reader, rng = Reader(plan), random.Random(seed)
    asked = [None, *(rng.choice(rows)[1] + timedelta(seconds=rng.choice([0, 0, 30, 299])) for _ in range(12))]
    moved = 0
    with duckdb.connect() as con:
        for query in SCORES:
            for name in (query, f"{query}_now", f"{query}_trajectory"):
                found = reader.read(name)
                con.register(name, found)
            for at in (t for t in asked if t is None or t <= rows[-1][1]):
                answer = reader.as_of(query, at)
                given = answer.rows.to_pylist()
                for row in given:
                    when = at if at is not None else row.get("as_of") or answer.as_of
                    assert when is not None
                    consistent(query, row, values_of(in_window(query, rows, row["grp"], row["side"], when)))
                if at is not None:
                    con.execute(answer.sql)
                    names = [d[0] for d in con.description or ()]
                    told = [dict(zip(names, row, strict=True)) for row in con.fetchall()]
                    assert told == answer.rows.select(names).to_pylist()
            for row in reader.read(f"{query}_now").to_pylist():
                consistent(query, row, values_of(in_window(query, rows, row["grp"], row["side"], row["as_of"])))
            points = reader.read(f"{query}_trajectory").to_pylist()
            for row in points:
                consistent(query, row, values_of(in_window(query, rows, row["grp"], row["side"], row["valid_from"])))
            moved += len(points) - reader.read(query).num_rows
            for row in reader.read(f"{query}_changes").to_pylist():
                # Which event of an instant it is as of is not said: the score says how many of the instant's rows had come.
                assert row["score"] == row[SCORES[query]], (query, row)
        for row in reader.read("closing_final").to_pylist():
            last = row["window_end"] - timedelta(microseconds=1)
            consistent("closing", row, values_of(in_window("closing", rows, row["grp"], row["side"], last)))
    assert moved > 100


SMALL = """\
job: last_values
source:
  format: csv
  path: /nowhere/in
  schema: {{id: bigint, ts: timestamp, g: string, x: double, t: string}}
  id: [id]
  event_time: {{column: ts}}
window: {{time: 10 minutes}}
queries:
  q: {{type: topk_groups, group: g, score: sum(x), k: 1{every}, carry: [count(), last(t), max(x)]}}
sink: {{path: /nowhere/out}}
"""


SHOWN = ("score", "count", "last_t", "max_x")
ROWS = [
    (1.5, "a", 5.0),
    (2.5, "a", 2.0),
    (3.25, "b", 1.0),
    (12.75, "c", -9.0),
    (30, "b", 9.0),
    (31, "b", -8.0),
    (31, "a", 3.0),
    (50, "c", 1.0),
]
AT_EVENTS = [
    (1.5, "+", "a", 5.0, 1, "t0", 5.0),
    (12.5, "-", "a", 2.0, 1, "t1", 2.0),
    (12.5, "+", "b", 1.0, 1, "t2", 1.0),
    (13.25, "-", "b", 1.0, 1, "t2", 1.0),
    (13.25, "+", "c", -9.0, 1, "t3", -9.0),
    (22.75, "-", "c", -9.0, 1, "t3", -9.0),
    (30.0, "+", "b", 9.0, 1, "t4", 9.0),
    (31.0, "-", "b", 1.0, 2, "t5", 9.0),
    (31.0, "+", "a", 3.0, 1, "t6", 3.0),
    (41.0, "-", "a", 3.0, 1, "t6", 3.0),
    (50.0, "+", "c", 1.0, 1, "t7", 1.0),
]
AT_BOUNDARIES = [
    (2.0, "+", "a", 5.0, 1, "t0", 5.0),
    (13.0, "-", "a", 2.0, 1, "t1", 2.0),
    (13.0, "+", "b", 1.0, 1, "t2", 1.0),
    (14.0, "-", "b", 1.0, 1, "t2", 1.0),
    (14.0, "+", "c", -9.0, 1, "t3", -9.0),
    (23.0, "-", "c", -9.0, 1, "t3", -9.0),
    (30.0, "+", "b", 9.0, 1, "t4", 9.0),
    (31.0, "-", "b", 9.0, 1, "t4", 9.0),
    (31.0, "+", "a", 3.0, 1, "t6", 3.0),
    (41.0, "-", "a", 3.0, 1, "t6", 3.0),
    (50.0, "+", "c", 1.0, 1, "t7", 1.0),
]


@pytest.mark.parametrize(("every", "expected"), [("", AT_EVENTS), (", every: 1 minute", AT_BOUNDARIES)])
@pytest.mark.parametrize("restarts", [False, True])
def test_what_leaves_has_the_values_that_it_last_had(every: str, expected: list[Any], restarts: bool) -> None:
    """Score and carried aggregates, also where no row of the window has them any more, between an expiry and the boundary that shows it.

    At 31 minutes b first has another row, and then a comes: with ``every`` nothing of the former is shown.
    """
    job = Rehearsal(plan_of_text(SMALL.format(every=every)))
    for i, (at, g, x) in enumerate(ROWS):
        job.drop([{"id": i, "ts": int(at * 60_000_000), "g": g, "x": x, "t": f"t{i}"}])
        if restarts:
            job.restart()
    job.drop([{"id": 99, "ts": 51 * 60_000_000, "g": "a", "x": -99.0, "t": "t"}])
    job.finish()
    rows = sorted(job.tables()["q_changes"].to_pylist(), key=lambda r: (r["step"], r["pos"]))
    minutes = [(r["changed_at"].minute + r["changed_at"].second / 60, *(r[c] for c in ("change", "g", *SHOWN))) for r in rows]
    assert minutes == expected
