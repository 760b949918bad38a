"""A year of hourly runs on the tables, without Spark: 8,760 times commit a batch, derive the results, do the upkeep.

Every hour is a batch with its commits, its derivation and its upkeep, by the code of a run. At each of ``POINTS`` along the year,
``SAMPLE`` consecutive hours are separate runs: a new writer, as in a new process, opens the tables and queries the result. Between them
one writer stays open, which saves half of the time and leaves the same tables. Retention is off, because the clock is the machine's.

A row is a point: medians of its ``SAMPLE`` hours of the milliseconds to open the tables and find the last run (``open``), to write a
batch (``commit``), to bring the results up to it and do the upkeep (``derive``; ``slowest`` of them), to ask for the current result and
for that of long ago (``now``, ``as_of``); ``between`` is the mean of commit and derive of an hour since the point before. Times are the
processor's, of all threads: what counts is the curve. ``SKYBAND_YEAR_HOURS`` makes the year shorter.
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

from skyband.framework.tables.results.derive import derive
from skyband.framework.tables.sql.statements import Statements
from skyband.framework.tables.writing import table_properties, upkeep
from skyband.framework.tables.writing.driver_writer import DriverWriter
from skyband.framework.tables.writing.sink import Sink
from tests.framework.tables.plans import batch_blocks, make_plan, random_changes

WORK = Path(__file__).resolve().parents[1] / "build" / "bench" / "year"
HOURS = int(os.environ.get("SKYBAND_YEAR_HOURS", 8760))
POINTS = 8
"""Beside the first."""
SAMPLE = 15
STEPS = 24
"""Events an hour that change a result, at most; 4 changes each."""
LONG_AGO = "select * from near where valid_from <= timestamptz '2020-01-01 00:10:00Z' and timestamptz '2020-01-01 00:10:00Z' < valid_to"


def run() -> Iterator[dict[str, Any]]:
    shutil.rmtree(WORK, ignore_errors=True)
    WORK.mkdir(parents=True)
    plan, began = make_plan(str(WORK)), datetime.now(UTC) - timedelta(hours=HOURS)
    changes = random_changes(plan, seed=7, batches=HOURS, steps=STEPS)
    begins = {n * (HOURS - SAMPLE) // POINTS for n in range(POINTS + 1)}
    spent: dict[str, list[float]] = defaultdict(list)
    sink: Sink | None = None
    with _no_grace():
        for hour in range(HOURS):
            sampled = any(b <= hour < b + SAMPLE for b in begins)
            if sampled or sink is None:
                with _timed(spent["open"]):
                    sink = Sink(plan, DriverWriter(WORK), "g")
                    sink.ensure_all()
                    sink.last_runs(10)
            _one_hour(sink, hour, changes[hour], began + hour * timedelta(hours=1), spent, sampled)
            if hour + 1 - SAMPLE in begins:
                with _timed(spent["as_of"]):
                    Statements(plan).ask(LONG_AGO)
                yield _row(hour + 1, spent)
                spent.clear()


def _one_hour(
    sink: Sink, n: int, changes: dict[str, list[dict[str, Any]]], at: datetime, spent: dict[str, list[float]], sampled: bool
) -> None:
    row = {"batch_id": n, "batch_time": at, "rows_in": 1000, "frontier": at, "newest": at, "counters": "{}"}
    blocks = batch_blocks(sink.plan, changes, n) | {"runs": sink.runs_row(row)}
    with _timed(spent["commit" if sampled else "between"]):
        sink.commit(n, blocks)
    with _timed(spent["derive" if sampled else "between"]):
        derive(sink, n)
    if sampled:
        with _timed(spent["now"]):
            Statements(sink.plan).ask('select * from near_now order by "rank"')


def _row(hours: int, spent: dict[str, list[float]]) -> dict[str, Any]:
    files = [p for p in WORK.rglob("*") if p.is_file()]
    between = spent.pop("between", [])
    figures = {name: 1000 * statistics.median(times) for name, times in spent.items()}
    figures["slowest"] = 1000 * max(spent["derive"])
    if between:
        figures["between"] = 2000 * statistics.mean(between)
    size = {"files": len(files), "kB": sum(p.stat().st_size for p in files) // 1000}
    return {"operator": "year", "params": {"hours": hours}, **figures, **size}


@contextmanager
def _timed(times: list[float]) -> Iterator[None]:
    began = time.process_time()
    yield
    times.append(time.process_time() - began)


@contextmanager
def _no_grace() -> Iterator[None]:
    """Replaced files and log may go at once."""
    before = upkeep.MINUTES
    upkeep.MINUTES = table_properties.MINUTES = dict.fromkeys(before, 0)  # type: ignore[misc]
    try:
        yield
    finally:
        upkeep.MINUTES = table_properties.MINUTES = before  # type: ignore[misc]
