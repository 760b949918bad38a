"""What the stages of a run share: the session with the callbacks of the caller, the opened job, and its source."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from skyband.framework.console.lines import Warn, warning_to_stderr
from skyband.framework.lookups.join import Tables
from skyband.framework.plan.model import Plan
from skyband.framework.streaming.job.layout import JobFile, Layout
from skyband.framework.streaming.rows.instants.source_times import SourceTimes
from skyband.framework.streaming.run.backlog import BacklogCaps
from skyband.framework.streaming.run.batch import Report
from skyband.framework.streaming.run.drift_check import DriftCheck
from skyband.framework.streaming.run.source_files import SourceFiles
from skyband.framework.tables.results.derive import Spread
from skyband.framework.tables.writing.sink import Sink
from skyband.framework.tables.writing.writer import Writer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Engine(Protocol):
    """What works for a run: Spark, or this process alone."""

    @property
    def session(self) -> SparkSession:
        """Return Spark's session. Raises SkybandError SKY-E137 if the engine has none."""

    @property
    def spread(self) -> Spread:
        """Return what derives the parts of results."""

    @property
    def local(self) -> bool:
        """Return whether this process reads rows itself, and starts Spark only for files that Arrow does not read as Spark would."""


class Batches(Protocol):
    """Runs the batches of a job."""

    def run(self, once: bool, phase: str) -> bool:
        """Run batches over the present input (``once``), or until a signal or a ``boundary``. Return False if a signal stopped it.

        ``phase`` describes the work for progress lines. Raises SkybandError.
        """


@dataclass(frozen=True, slots=True)
class Texts:
    """Where the texts of a run go: warnings for the user, a few words about the current work, and news that are no warnings."""

    warn: Warn = warning_to_stderr
    phase: Warn = lambda _: None
    tell: Warn = lambda _: None


@dataclass(frozen=True, slots=True)
class RunContext:
    """The engine, the sink and the callbacks of a run.

    ``report`` is called after every batch, ``texts`` with what a run says. ``gate`` gets the tables every ``plan.check_every`` batches of
    a continuous run, with results up to date. ``clock``: for tests, the clock of all batches in microseconds; None: each has that at which
    it was planned. ``derive_seconds`` is the interval at which a continuous run derives results. ``boundary``: whether a continuous query
    is to stop after its batch, for what is done between two batches.
    """

    engine: Engine
    layout: Layout
    writer: Writer
    report: Report
    texts: Texts
    gate: Callable[[Sink], object]
    clock: int | None = None
    derive_seconds: float = 60.0
    boundary: Callable[[], bool] = lambda: False

    @property
    def spark(self) -> SparkSession:
        """Return the engine's session. Raises SkybandError SKY-E137 if it has none."""
        return self.engine.session

    def warn(self, text: str) -> None:
        """Warn the user."""
        self.texts.warn(text)

    def phase(self, text: str) -> None:
        """Report what the run does now, in a few words."""
        self.texts.phase(text)

    def tell(self, text: str) -> None:
        """Report news that are no warning."""
        self.texts.tell(text)


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
