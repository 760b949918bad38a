"""Rules of order, frontiers and windows that the pages on semantics state for rare values, each by a small example."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from skyband.framework.rehearsal.rehearsal import Rehearsal
from skyband.operators.base import Calendar
from skyband.operators.calendar import window_ends, window_starts
from tests.specs import plan_of_text

SPEC = """\
job: ordered
source:
  format: csv
  path: /nowhere/in
  schema: {id: bigint, ts: timestamp, x: double, y: double}
  id: [id]
  event_time: {column: ts, tie_break: [x]}
window: WINDOW
STATS
scoring: {y: {expression: y, direction: max}}
queries:
  all: {type: topk, scoring: y, k: 99, carry: CARRY}
sink: {path: /nowhere/out}
"""
SEVERAL = """\
job: several
source: {id: [id], event_time: {column: ts}}
sources:
  zebra: {format: csv, path: /nowhere/z, schema: {id: bigint, ts: timestamp, before: string}}
  ant: {format: csv, path: /nowhere/a, schema: {id: bigint, ts: timestamp, before: string}, idle_after: IDLE}
window: {time: 1 hour}
scoring: {id: {expression: id, direction: max}}
queries:
  all: {type: topk, scoring: id, k: 99}
sink: {path: /nowhere/out}
"""


def rehearsed(text: str, *drops: list[dict[str, Any]]) -> Rehearsal:
    job = Rehearsal(plan_of_text(text))
    for rows in drops:
        job.drop(rows)
    return job


def spec(window: str = "{time: 1 hour}", stats: str = "", carry: str = "[x]") -> str:
    return SPEC.replace("WINDOW", window).replace("STATS\n", stats).replace("CARRY", carry)


def test_nan_comes_after_null_and_before_all_numbers() -> None:
    """-0.0 and 0.0 are equal, so their ids decide."""
    values = [1.0, 0.0, math.inf, None, -math.inf, -0.0, math.nan]
    job = rehearsed(spec(), [{"id": i, "ts": 0, "x": x, "y": 1.0} for i, x in enumerate(values)])
    job.finish()
    rows = sorted(job.tables()["all_now"].to_pylist(), key=lambda r: r["seq"])
    assert [r["id"] for r in rows] == [3, 6, 4, 1, 5, 0, 2]


def test_a_source_is_the_last_column_of_the_id() -> None:
    """Its name decides between rows of one id and instant, before any other column: also one whose name comes before ``source``."""
    rows = [
        {"source": s, "id": i, "ts": 0, "before": b} for s, i, b in [("zebra", 1, "a"), ("ant", 1, "z"), ("ant", 2, "a"), ("zebra", 0, "z")]
    ]
    job = rehearsed(SEVERAL.replace("IDLE", "1 hour"), rows)
    job.finish()
    found = sorted(job.tables()["all_now"].to_pylist(), key=lambda r: r["seq"])
    assert [(r["id"], r["source"]) for r in found] == [(0, "zebra"), (1, "ant"), (1, "zebra"), (2, "ant")]


@pytest.mark.parametrize(("idle", "late"), [("1500 microseconds", False), ("2 milliseconds", False), ("1 millisecond", True)])
def test_idle_after_is_rounded_up_to_milliseconds(idle: str, late: bool) -> None:
    """The other source is at 10 seconds: this one may be 1.5 milliseconds behind it, which count as 2."""
    first = [{"source": "zebra", "id": 1, "ts": 10_000_000, "before": ""}, {"source": "ant", "id": 2, "ts": 5_000_000, "before": ""}]
    job = rehearsed(SEVERAL.replace("IDLE", idle), first, [{"source": "ant", "id": 3, "ts": 9_998_000, "before": ""}])
    job.finish()
    assert job.tables()["rejected"]["reason"].to_pylist() == (["late"] if late else [])


@pytest.mark.parametrize(
    ("window", "counts"), [("30 seconds", [0, 1, 2, 2, 2]), ("{count: 1}", [0, 1, 1, 1, 1]), ("2 seconds", [0, 1, 1, 1, 1])]
)
def test_a_statistic_has_the_bounds_of_the_jobs_window_that_it_does_not_name(window: str, counts: list[int]) -> None:
    job = rehearsed(
        spec("{time: 1 minute, count: 2}", f"stats: {{usual: {{count: x, window: {window}}}}}\n", "[usual_count]"),
        [{"id": i, "ts": i * 1_000_000, "x": 1.0, "y": 1.0} for i in range(5)],
    )
    job.finish()
    changes = [r for r in job.tables()["all_changes"].to_pylist() if r["change"] == "+"]
    assert [r["usual_count"] for r in sorted(changes, key=lambda r: r["seq"])] == counts


def shown(instant: int) -> str:
    return datetime.fromtimestamp(instant / 1e6, ZoneInfo("Europe/Berlin")).strftime("%H:%M %z")


@pytest.mark.parametrize(
    ("minutes", "at", "window"),
    [
        (25, "00:50", ("02:40 +0200", "02:15 +0100")),  # in the local time before the change, 02:50
        (25, "01:05", ("02:40 +0200", "02:15 +0100")),  # after it, 02:05
        (25, "01:15", ("02:15 +0100", "02:40 +0100")),
        (40, "00:50", ("02:40 +0200", "02:00 +0100")),  # the clock shows a boundary as it is set back
        (60, "00:50", ("02:00 +0200", "02:00 +0100")),
        (60, "01:05", ("02:00 +0100", "03:00 +0100")),
        (90, "01:05", ("01:30 +0200", "03:00 +0100")),  # longer than the setback
    ],
)
def test_a_window_into_which_a_setback_falls_lasts_until_the_next_boundary_that_is_shown(
    minutes: int, at: str, window: tuple[str, str]
) -> None:
    hour, minute = map(int, at.split(":"))
    micros = int((datetime(2013, 10, 27, hour, minute, tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)) / timedelta(microseconds=1))
    calendar, time = Calendar(minutes * 60_000_000, "Europe/Berlin", 0), np.array([micros], np.int64)
    assert (shown(int(window_starts(calendar, time)[0])), shown(int(window_ends(calendar, time)[0]))) == window
