"""A year of hourly runs on the tables, without the engine: 8,760 times open, commit a batch, derive results, do the upkeep.

Every run is a writer of its own, as a new process has it. The clock is the machine's, so what a table keeps for an hour or three days is
kept for none: an hour lies between two runs. A row is a stretch of runs: medians of milliseconds to open the tables and find the last run
(``open``), to write a batch (``commit``), to bring the results up to it (``derive``) and to ask for the current result and one of a year
ago (``now``, ``as_of``), and the slowest ``derive``; files and kB on disk. Times are the processor's, of all threads: what counts is the
curve. With ``SKYBAND_YEAR_EVERY_HOUR=N`` only the first and the last N hours are runs of their own, those between come a hundred in a run.
"""

from __future__ import annotations

import os
import shutil
import statistics
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from skyband.framework.plan.model import Plan
from skyband.framework.tables import upkeep, writer_upkeep
from skyband.framework.tables.derive import derive
from skyband.framework.tables.driver_writer import DriverWriter
from skyband.framework.tables.duck import Statements
from skyband.framework.tables.sink import Sink
from tests.framework.tables.plans import batch_blocks, make_plan, random_changes

WORK = Path(__file__).resolve().parent.parent.parent / "build" / "bench" / "year"
HOURS = 8760
STEPS = 24
"""Events an hour that change a result, at most; 4 changes each."""
ROWS = 8
"""Rows of the table that is printed."""
LONG_AGO = "select * from near where valid_from <= timestamptz '2020-01-01 00:10:00Z' and timestamptz '2020-01-01 00:10:00Z' < valid_to"


def run() -> Iterator[dict[str, Any]]:
    shutil.rmtree(WORK, ignore_errors=True)
    WORK.mkdir(parents=True)
    plan, began = make_plan(str(WORK)), datetime.now(UTC) - timedelta(hours=HOURS)
    hours = random_changes(plan, seed=7, batches=HOURS, steps=STEPS)
    spans = list(_spans(int(os.environ.get("SKYBAND_YEAR_EVERY_HOUR", HOURS))))
    every_hour = sum(last - first == 1 for first, last in spans)
    with _no_grace():
        spent: dict[str, list[float]] = defaultdict(list)
        for n, (first, last) in enumerate(spans):
            single = last - first == 1
            changes = {q.name: [row for hour in hours[first:last] for row in hour[q.name]] for q in plan.queries}
            _one_run(plan, n, changes, began + last * timedelta(hours=1), spent if single else defaultdict(list))
            if single and len(spent["open"]) == every_hour // ROWS:
                with _timed(spent["as_of"]):
                    Statements(plan).ask(LONG_AGO)
                yield _row(last, spent)
                spent.clear()


def _spans(every: int) -> Iterator[tuple[int, int]]:
    """The hours [first, last) of every run."""
    at = 0
    while at < HOURS:
        upto = at + 1 if at < every or at >= HOURS - every else min(at + 100, HOURS - every)
        yield at, upto
        at = upto


def _one_run(plan: Plan, n: int, changes: dict[str, list[dict[str, Any]]], at: datetime, spent: dict[str, list[float]]) -> None:
    with _timed(spent["open"]):
        sink = Sink(plan, DriverWriter(WORK), "g")
        sink.ensure_all()
        sink.last_runs(10)
    row = {"batch_id": n, "batch_time": at, "rows_in": 1000, "frontier": at, "newest": at, "counters": "{}"}
    blocks = batch_blocks(plan, changes, n) | {"runs": sink.runs_row(row)}
    with _timed(spent["commit"]):
        sink.commit(n, blocks)
    with _timed(spent["derive"]):
        derive(sink, n)
    with _timed(spent["now"]):
        Statements(plan).ask('select * from near_now order by "rank"')


def _row(hours: int, spent: dict[str, list[float]]) -> dict[str, Any]:
    files = [p for p in WORK.rglob("*") if p.is_file()]
    figures = {name: 1000 * statistics.median(times) for name, times in spent.items()}
    size = {"files": len(files), "kB": sum(p.stat().st_size for p in files) // 1000}
    return {"operator": "year", "params": {"hours": hours}, **figures, **size, "slowest": 1000 * max(spent["derive"])}


@contextmanager
def _timed(times: list[float]) -> Iterator[None]:
    began = time.process_time()
    yield
    times.append(time.process_time() - began)


@contextmanager
def _no_grace() -> Iterator[None]:
    """Replaced files and log may go at once."""
    before = upkeep.MINUTES
    upkeep.MINUTES = writer_upkeep.MINUTES = dict.fromkeys(before, 0)  # type: ignore[misc]
    try:
        yield
    finally:
        upkeep.MINUTES = writer_upkeep.MINUTES = before  # type: ignore[misc]
