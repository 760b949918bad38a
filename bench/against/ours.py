"""Skyband: a job over all files at once, and a continuous job over arriving files."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import DeltaTable

from bench.against.payments import COLUMNS, ITEM, Answer, spec

LIMIT = 300
"""Seconds to wait for a batch."""


class Exact:
    """What Skyband's tables say of a job's rows: the answer as of any instant, and how many changes there were between two."""

    def __init__(self, query: str, intervals: pa.Table, changes: pa.Table) -> None:
        self.query = query
        ids = ("older_id", "newer_id") if query == "topk_pairs" else ("id",)
        self.items = np.stack([intervals[c].to_numpy() for c in ("market", *ids)])
        order = {"topk": ("score", "seq"), "topk_pairs": ("score", "older_seq", "newer_seq"), "skyline": ()}[query]
        keys = [intervals[c].to_numpy() * (1 if (c, query) == ("score", "topk_pairs") else -1) for c in order]
        self.by_rank = np.lexsort([*keys[::-1], self.items[0]])
        self.start, self.end = (_micros(intervals[c]) for c in ("valid_from", "valid_to"))
        self.changed_at = np.sort(_micros(changes["changed_at"]))

    @staticmethod
    def of(query: str, sink: Path) -> Exact:
        """Of the tables of a run."""
        return Exact(query, *(DeltaTable(sink / t).to_pyarrow_table() for t in ("answer", "answer_changes")))

    def answer(self, at: int) -> Answer:
        """After all events with time <= ``at`` (microseconds)."""
        alive = self.by_rank[((self.start <= at) & (at < self.end))[self.by_rank]]
        said: list[tuple[int, ...]] = []
        for i in alive:
            market, *item = (int(v) for v in self.items[:, i])
            rank = said[-1][1] + 1 if said and said[-1][0] == market else 1
            said.append((market, *([] if self.query == "skyline" else [rank]), *item))
        assert all(len(row) == len(COLUMNS[self.query]) for row in said) and len(ITEM[self.query]) == len(self.items) - 1
        return frozenset(said)

    def changes(self, after: int, until: int) -> int:
        """Count the changes with ``after`` < time <= ``until``."""
        first, last = np.searchsorted(self.changed_at, [after, until], side="right")
        return int(last - first)


def changes(sink: Path, after: int, before: int) -> pa.Table:
    """The changes with ``after`` < time < ``before`` (microseconds), in order, without their batch numbers."""
    table = DeltaTable(sink / "answer_changes").to_pyarrow_table()
    at = table["changed_at"].cast(pa.int64())
    there = table.filter(pc.and_(pc.greater(at, after), pc.less(at, before)))
    return there.drop_columns(["batch_id"]).sort_by([(c, "ascending") for c in ("market", "step", "pos")])


def _micros(column: Any) -> Any:
    """Instants as whole microseconds; none is later than all."""
    return column.cast(pa.int64()).fill_null(np.iinfo(np.int64).max).to_numpy()


def everything(spark: Any, query: str, files: Path, directory: Path) -> tuple[int, float, Path]:
    """(rows accepted, seconds, sink) of one run over ``files`` into fresh tables, with a finish."""
    from skyband.framework.streaming.run.batch import Batch
    from skyband.framework.streaming.run.runner import Runner
    from skyband.framework.streaming.run.spark_engine import SparkEngine
    from skyband.framework.tables.writing.factory import writer_for
    from skyband.jobs.spec import load_plan

    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    (directory / "job.yaml").write_text(spec(query, files, directory / "out"), encoding="utf-8")
    plan = load_plan(str(directory / "job.yaml"))
    batches: list[Batch] = []
    start = time.perf_counter()
    Runner(SparkEngine(spark), plan, writer_for(plan.sink, spark), batches.append).run(once=True, finish=True)
    return sum(b.get("accepted") for b in batches), time.perf_counter() - start, directory / "out"


@contextmanager
def continuous(query: str, directory: Path) -> Iterator[Callable[[Path], None]]:
    """``skyband run --continuous`` in a process of its own; what it gives takes a file, and returns when the changes can be read."""
    shutil.rmtree(directory, ignore_errors=True)
    (directory / "in").mkdir(parents=True)
    sink = directory / "out"
    (directory / "job.yaml").write_text(spec(query, directory / "in", sink), encoding="utf-8")
    command = [sys.executable, "-m", "skyband.jobs.cli", "run", str(directory / "job.yaml"), "--continuous", "--quiet"]
    with (directory / "run.log").open("w") as log, subprocess.Popen(command, stdout=log, stderr=log) as job:
        sent = 0

        def take(path: Path) -> None:
            nonlocal sent
            shutil.copy2(path, directory / "in" / f"_{path.name}")
            (directory / "in" / f"_{path.name}").rename(directory / "in" / path.name)
            sent += pq.read_metadata(path).num_rows
            seen, until = 0, time.monotonic() + LIMIT
            while True:
                if (commits := len(list((sink / "runs" / "_delta_log").glob("*.json")))) > seen:
                    seen = commits
                    if accepted(sink) >= sent - 1:  # the newest row waits for the next one: another of its instant may come
                        return
                if job.poll() is not None or time.monotonic() > until:
                    raise RuntimeError(f"the job stopped or is stuck: {directory / 'run.log'}")
                time.sleep(0.005)

        try:
            yield take
        finally:
            job.send_signal(signal.SIGINT)
            job.wait(LIMIT)


def accepted(sink: Path) -> int:
    """Rows whose changes can be read: ``runs`` is the table that a batch writes last."""
    return int(sum(DeltaTable(sink / "runs").to_pyarrow_table(columns=["accepted"])["accepted"].to_pylist()))
