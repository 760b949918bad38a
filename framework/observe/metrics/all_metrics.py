"""The list of all metrics. Prometheus, OpenTelemetry, ``skyband metrics``, the dashboard and the alert rules are made from it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import metadata
from typing import TYPE_CHECKING, Final, Literal

from skyband.framework.base.messages import ACCEPTED, ROWS_IN, TIMES, time_count
from skyband.framework.base.reasons import FILTERED

if TYPE_CHECKING:
    from skyband.framework.streaming.run.batch import Batch


# One metric: its name for OpenTelemetry, and the name for Prometheus that follows from it.

Kind = Literal["counter", "gauge", "histogram"]
Labels = tuple[str, ...]
"""The values of a metric's labels, in their order."""

JOB: Final = "skyband.job"
"""The label that every metric has first: the job of the spec."""
_SUFFIXES: Final[Mapping[str, str]] = {"s": "_seconds", "By": "_bytes"}


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric. ``name``: for OpenTelemetry. ``unit``: of UCUM, as OpenTelemetry has it. ``labels``: beside ``JOB``.

    ``read`` gives the metric's part of a batch by the values of its labels: what a counter rises by, a gauge's value, or what a histogram
    observes. None: the metric is not read from batches. ``bounds``: the upper bounds of a histogram's buckets.
    """

    name: str
    kind: Kind
    unit: str
    description: str
    labels: tuple[str, ...] = ()
    read: Callable[[Batch], Mapping[Labels, float]] | None = None
    bounds: tuple[float, ...] = ()

    @property
    def prometheus(self) -> str:
        """Return the name for Prometheus, by the rule with which OpenTelemetry's own receivers translate names.

        Dots become underscores; the unit follows, if it is none in braces; counters end with ``_total``.
        """
        return plain(self.name) + _SUFFIXES.get(self.unit, "") + ("_total" if self.kind == "counter" else "")

    @property
    def prometheus_labels(self) -> tuple[str, ...]:
        """Return the names of all labels for Prometheus, the job's first."""
        return tuple(plain(label) for label in (JOB, *self.labels))


def plain(name: str) -> str:
    """Return an OpenTelemetry name as Prometheus spells it."""
    return name.replace(".", "_")


def version() -> str:
    """Return the version of Skyband, empty if it is not installed as a package."""
    try:
        return metadata.version("skyband")
    except metadata.PackageNotFoundError:
        return ""


Read = Callable[["Batch"], Mapping[Labels, float]]

SECONDS: Final = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0)
"""Bounds of the buckets of durations: from a small batch to a large backlog."""


def _count(name: str) -> Read:
    return lambda batch: {(): batch.get(name)}


def _by_label(of: Callable[[Batch], Mapping[str, int]]) -> Read:
    return lambda batch: {(label,): n for label, n in of(batch).items()}


def _instant(micros: Callable[[Batch], int | None]) -> Read:
    def read(batch: Batch) -> Mapping[Labels, float]:
        at = micros(batch)
        return {} if at is None else {(): at / 1e6}

    return read


ROWS: Final = Metric("skyband.rows", "counter", "{row}", "rows read from the source", read=_count(ROWS_IN))
FILTERED_ROWS: Final = Metric(
    "skyband.rows.filtered", "counter", "{row}", "rows dropped by the spec's filters, by op.ignore or by keep_first", read=_count(FILTERED)
)
ACCEPTED_ROWS: Final = Metric(
    "skyband.rows.accepted", "counter", "{row}", "rows that became objects of the stream, or deleted one", read=_count(ACCEPTED)
)
REJECTED_ROWS: Final = Metric(
    "skyband.rows.rejected", "counter", "{row}", "rows in table rejected, by their reason", ("reason",), _by_label(lambda b: b.reasons)
)
WARNED_ROWS: Final = Metric(
    "skyband.rows.warned", "counter", "{row}", "rows that break a row rule of severity warn, by rule", ("rule",),
    _by_label(lambda b: b.counts.warned()),
)  # fmt: skip
UNUSABLE_ROWS: Final = Metric(
    "skyband.rows.unusable", "counter", "{row}", "objects that a query could not use (null, NaN), by query", ("query",),
    _by_label(lambda b: b.counts.unusable()),
)  # fmt: skip
PENDING_ROWS: Final = Metric(
    "skyband.rows.pending", "gauge", "{row}", "rows that wait for the watermark", read=lambda batch: {(): batch.pending}
)
CHANGES: Final = Metric(
    "skyband.changes", "counter", "{change}", "rows written to the tables of changes, by query", ("query",), _by_label(lambda b: b.changes)
)
BATCHES: Final = Metric("skyband.batches", "counter", "{batch}", "batches committed by this run", read=lambda batch: {(): 1})
BATCH_ID: Final = Metric(
    "skyband.batch.id", "gauge", "", "number of the last committed batch, as in table runs", read=lambda batch: {(): batch.number}
)
BATCH_DURATION: Final = Metric(
    "skyband.batch.duration", "histogram", "s", "time from the start of a batch to its commit", read=lambda batch: {(): batch.seconds},
    bounds=SECONDS,
)  # fmt: skip
STAGE_DURATION: Final = Metric(
    "skyband.batch.stage.duration", "histogram", "s",
    "time of a batch by stage: tasks (Spark), check, write (tables), send (Kafka); they follow each other", ("stage",),
    lambda batch: {(stage,): seconds for stage, seconds in batch.stages.items()}, SECONDS,
)  # fmt: skip
TASK_TIME: Final = Metric(
    "skyband.task.time", "counter", "s", f"time of Spark's tasks by phase, summed over tasks: {', '.join(TIMES)}", ("phase",),
    lambda batch: {(phase,): batch.get(time_count(phase)) / 1e6 for phase in TIMES},
)  # fmt: skip
COMMITTED: Final = Metric("skyband.batch.commit.timestamp", "gauge", "s", "when the last batch was committed, in Unix time")
WATERMARK: Final = Metric(
    "skyband.watermark.timestamp", "gauge", "s", "the watermark in Unix time: all events before it have been processed",
    read=_instant(lambda batch: batch.frontier),
)  # fmt: skip
WATERMARK_LAG: Final = Metric("skyband.watermark.lag", "gauge", "s", "now less the watermark: how far results are behind the clock")
NEWEST: Final = Metric(
    "skyband.newest.timestamp", "gauge", "s", "the latest event time accepted or pending so far, in Unix time",
    read=_instant(lambda batch: batch.newest),
)  # fmt: skip
NEWEST_LAG: Final = Metric("skyband.newest.lag", "gauge", "s", "now less the latest event time: how far the source is behind the clock")
STATE_ROWS: Final = Metric(
    "skyband.state.rows", "gauge", "{row}", "rows in state, of the buckets that this run has worked on: of their windows, or not due yet"
)
STATE_SIZE: Final = Metric("skyband.state.size", "gauge", "By", "size of the files with the states of buckets", ("place",))
BACKLOG_FILES: Final = Metric("skyband.backlog.files", "gauge", "{file}", "files of a local source that no batch has taken")
BACKLOG_SIZE: Final = Metric("skyband.backlog.size", "gauge", "By", "size of the files of a local source that no batch has taken")
RUN_INFO: Final = Metric("skyband.run.info", "gauge", "", "1, with the run's command, version and id", ("command", "version", "run"))
RUN_START: Final = Metric("skyband.run.start.timestamp", "gauge", "s", "when the run began, in Unix time")
RUN_ACTIVE: Final = Metric("skyband.run.active", "gauge", "", "1 while the run goes on, 0 when it is over")
EXIT_CODE: Final = Metric("skyband.run.exit_code", "gauge", "", "exit code of the run when it is over, as in its outcome")

METRICS: Final = (
    ROWS, FILTERED_ROWS, ACCEPTED_ROWS, REJECTED_ROWS, WARNED_ROWS, UNUSABLE_ROWS, PENDING_ROWS, CHANGES, BATCHES, BATCH_ID,
    BATCH_DURATION, STAGE_DURATION, TASK_TIME, COMMITTED, WATERMARK, WATERMARK_LAG, NEWEST, NEWEST_LAG, STATE_ROWS, STATE_SIZE,
    BACKLOG_FILES, BACKLOG_SIZE, RUN_INFO, RUN_START, RUN_ACTIVE, EXIT_CODE,
)  # fmt: skip
"""All metrics, in the order in which they are shown."""
