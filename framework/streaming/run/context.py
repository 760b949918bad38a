"""What the stages of a run share: the session with the callbacks of the caller, the opened job, and its source."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pyspark.sql import SparkSession

from skyband.framework.console.lines import Warn
from skyband.framework.lookups.join import Tables
from skyband.framework.plan.model import Plan
from skyband.framework.streaming.job.layout import JobFile, Layout
from skyband.framework.streaming.rows.instants.source_times import SourceTimes
from skyband.framework.streaming.run.backlog import BacklogCaps
from skyband.framework.streaming.run.batch import Report
from skyband.framework.streaming.run.drift_check import DriftCheck
from skyband.framework.streaming.run.source_files import SourceFiles
from skyband.framework.tables.writing.sink import Sink
from skyband.framework.tables.writing.writer import Writer


@dataclass(frozen=True, slots=True)
class RunContext:
    """The session, the sink and the callbacks of a run.

    ``report`` is called after every batch, ``warn`` with warnings for the user, ``phase`` with a few words about the current work.
    ``gate`` gets the tables every ``plan.check_every`` batches of a continuous run, with results up to date. ``derive_seconds`` is the
    interval at which a continuous run derives results. ``clock``: for tests, the clock of all batches in microseconds; None: each has
    that at which it was planned. ``tell`` is called with news that are no warnings. ``boundary``: whether a continuous query is to stop
    after its batch, for what is done between two batches.
    """

    spark: SparkSession
    layout: Layout
    writer: Writer
    report: Report
    derive_seconds: float
    warn: Warn
    phase: Warn
    gate: Callable[[Sink], object]
    clock: int | None = None
    tell: Warn = lambda _: None
    boundary: Callable[[], bool] = lambda: False


@dataclass(frozen=True, slots=True)
class OpenedJob:
    """A job that fits the plan, with its tables.

    ``plan`` is the plan of this run: it keeps the former number of buckets while a batch is unfinished. ``repeats_committed``: tables have
    rows of a batch that an earlier run did not finish.
    """

    plan: Plan
    job: JobFile
    sink: Sink
    repeats_committed: bool


@dataclass(frozen=True, slots=True)
class OpenedSource:
    """The source during a run: its files, the caps of its backlog, the check of its columns, and the tables of look-ups.

    ``times``: how far several sources have come.
    """

    files: SourceFiles
    backlog: BacklogCaps
    drift: DriftCheck
    lookups: Tables
    times: SourceTimes
