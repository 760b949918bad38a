"""The columns of every table of a job, declared once: name, type, description and whether a null may stand there.

The Arrow schemas, the checks of a spec, the rows of changes, the data dictionary and ``verify`` are made from these layouts, so a new
column is declared here only. Imports no Spark and no Arrow.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

from skyband.framework.base.items import SCORE
from skyband.framework.base.messages import TIMES
from skyband.framework.base.reasons import REASONS
from skyband.framework.base.table_names import FINAL_RESULTS, JOB_RUNS, TRAJECTORY

DURATIONS: Final = ("batch", "engine", *TIMES, "write")
"""What ``runs`` times, in milliseconds, a column each."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table. ``type``: Spark DDL. ``comment``: its description, which is also its comment in Delta.

    ``nullable``: false where a null means that the table is damaged. In Delta every column is nullable.
    """

    name: str
    type: str
    comment: str
    nullable: bool = False


class Group(Enum):
    """Columns that depend on the spec: a layout names them where a table has them."""

    KEYS = "the key columns (partition_by)"
    STREAM = "the name of the query, in a table of queries, and the key columns"
    ITEM = "the columns that name the item, and those it carries"
    EXTRA = "further columns of the items of a shared state"


@dataclass(frozen=True, slots=True)
class Values:
    """The columns of an item's values, as of the instant in column ``as_of``."""

    as_of: str


Layout = tuple[Column | Group | Values, ...]

BATCH: Final = "batch_id"
"""The column with the micro-batch that wrote a row: the driver adds it to the rows of the workers."""

_BATCH: Final = Column(BATCH, "bigint", "micro-batch that wrote the row (see runs)")
_BUCKET_OF_KEY: Final = Column("bucket", "int", "bucket of keys that this row's key belongs to")

_CHANGES: Final[Layout] = (
    Group.STREAM,
    Column("changed_at", "timestamp", "event time of the change"),
    Column("step", "bigint", "number of the event that changed this query's result: 1, 2, 3, ... per key, without gaps"),
    Column("pos", "int", "place of the change within its step, from 0: all - first, then all +, each in rank order"),
    Column("change", "string", "+ the item entered the result, - it left"),
    Group.ITEM,
    Values("changed_at"),
    Column("cause", "string", "why: arrival, promoted, displaced, expiry, delete, crossing or boundary"),
    _BATCH,
)

_REPORTS: Final[Layout] = (
    Group.STREAM,
    Column("changed_at", "timestamp", "event time of the arrival at which the item was told"),
    Column("step", "bigint", "number of the arrival that had something to tell: 1, 2, 3, ... per key, without gaps"),
    Column("pos", "int", "place of the item within its step, from 0, in rank order"),
    Group.ITEM,
    Values("changed_at"),
    _BATCH,
)


def changes_layout(lasting: bool) -> Layout:
    """Return the columns of ``<query>_changes``. Items that are reported once (not ``lasting``) have no sign and no cause."""
    return _CHANGES if lasting else _REPORTS


RESULTS: Final[Layout] = (
    Group.STREAM,
    Group.ITEM,
    Values("valid_from"),
    Column("valid_from", "timestamp", "event time from which the item was in the result"),
    Column(
        "valid_to",
        "timestamp",
        "event time at which it left; null: still in. In the result as of t: valid_from <= t < valid_to",
        nullable=True,
    ),
    Column("from_step", "bigint", "step at which it entered"),
    Column("to_step", "bigint", "step at which it left; null: still in", nullable=True),
    Column("is_current", "boolean", "true: still in the result"),
)
"""``<query>``: results as intervals."""

NOW: Final[Layout] = (
    Group.STREAM,
    Column("rank", "int", "place in the result, from 1"),
    Group.ITEM,
    Values("as_of"),
    Column("as_of", "timestamp", "last instant up to which this key's result is complete", nullable=True),
)
"""``<query>_now``: the current result."""

TRAJECTORIES: Final[Layout] = (
    Group.STREAM,
    Group.ITEM,
    Column("valid_from", "timestamp", "event time from which the values move so, until the item's next point (or its end in the result)"),
    Values("valid_from"),
    _BATCH,
)
"""``<query>_trajectory``: the points between which the values of items change linearly."""

FINALS: Final[Layout] = (
    Group.STREAM,
    Column("window_start", "timestamp", "instant at which the window began"),
    Column("window_end", "timestamp", "instant at which it ended: it holds the rows with window_start <= event time < window_end"),
    Column("rank", "int", "place in the result, from 1"),
    Group.ITEM,
    Values("window_end"),
    _BATCH,
)
"""``<query>_final``: the results of tumbling windows as they close."""

SKYBAND: Final[Layout] = (Group.KEYS, Group.ITEM, Values("changed_at"), Group.EXTRA, _BUCKET_OF_KEY)
"""``<operator>_skyband``: everything that can be in a result of a shared state."""

HEADS: Final[Layout] = (
    Group.KEYS,
    Column("bucket", "int", "bucket of keys that this key belongs to"),
    Column("last_seq", "bigint", "position of the key's newest object"),
    Column("last_time", "timestamp", "event time of the key's newest object"),
    Column("as_of", "timestamp", "last instant up to which this key's results were complete when it last got rows", nullable=True),
)
"""``heads``: one row per key."""

REJECTED: Final[Layout] = (
    Column("reason", "string", ", ".join(r for c in REASONS for r in c.reasons)),
    Column(
        "text",
        "string",
        "the row: its original text (parse) or the parsed row as JSON; of a file (bad_file) what is known of it",
        nullable=True,
    ),
    Column("origin", "string", "source file or offset", nullable=True),
    Column("event_time", "timestamp", "event time of the row, if it has one", nullable=True),
    Column("batch_id", "bigint", "micro-batch that rejected the row (see runs)"),
)
"""``rejected``: one row per row that is no object of the stream."""

RUNS: Final[Layout] = (
    Column("batch_id", "bigint", "number of the micro-batch"),
    Column("batch_time", "timestamp", "wall-clock time of the batch", nullable=True),
    Column("rows_in", "bigint", "rows read"),
    Column("filtered", "bigint", "rows dropped by the spec's filters, by op.ignore or by on_duplicate: keep_first", nullable=True),
    Column("rejected", "bigint", "rows in table rejected"),
    *(Column(f"rejected_{c.name}", "bigint", f"rejected: {c.meaning}", nullable=True) for c in REASONS),
    Column("accepted", "bigint", "rows that became objects of the stream, or deleted one"),
    Column("pending", "bigint", "rows waiting behind the watermark after this batch"),
    Column("pending_change", "bigint", "rows waiting after this batch less those before it"),
    Column("changes", "bigint", "rows written to the changes tables"),
    Column("unusable", "string", "JSON: query to number of objects it could not use (null, NaN)", nullable=True),
    Column(
        "warned", "string", "JSON: row rule of severity warn to number of rows that break it, late ones and duplicates too", nullable=True
    ),
    Column("drift", "string", "JSON: what is not as it was with the columns of the files of this batch", nullable=True),
    Column("frontier", "timestamp", "the watermark: all events before it had been processed", nullable=True),
    Column("newest", "timestamp", "latest event time accepted or pending so far", nullable=True),
    Column("counters", "string", "JSON: work counters of the operators", nullable=True),
    Column("committed", "string", "JSON: table to the last batch that it has rows of", nullable=True),
    Column("state", "string", "JSON: bucket to the files of its state after this batch; null: Spark keeps the state", nullable=True),
    *(Column(f"{d}_ms", "double", f"milliseconds: {d}", nullable=True) for d in DURATIONS),
)
"""``runs``: one row per micro-batch, written last. rows_in = filtered + rejected + accepted + pending_change."""

CHECKS: Final[Layout] = (
    Column("run_id", "string", "the run: checkpoint generation and last batch, and what was asked"),
    Column("batch_id", "bigint", "last batch in the tables when the check ran"),
    Column("first_batch_id", "bigint", "first batch whose rows were looked at; null: the whole table", nullable=True),
    Column("checked_at", "timestamp", "wall-clock time of the check"),
    Column("table_name", "string", "table checked"),
    Column("table_version", "bigint", "version of the table (Delta) that was looked at", nullable=True),
    Column("expectation", "string", "Great Expectations' name of the expectation; skyband_...: a rule over runs, or what always holds"),
    Column("arguments", "string", "JSON: arguments of the expectation"),
    Column("severity", "string", "critical, warning or info"),
    Column("success", "boolean", "the expectation was met"),
    Column("observed", "string", "JSON: value observed, for expectations about the whole table", nullable=True),
    Column("rows_checked", "bigint", "rows looked at", nullable=True),
    Column("unexpected", "bigint", "rows that do not meet the expectation", nullable=True),
    Column("unexpected_percent", "double", "the same in percent of the rows looked at", nullable=True),
    Column("examples", "string", "JSON: a few values that do not meet the expectation", nullable=True),
    Column("error", "string", "why the check could not be evaluated, if it could not", nullable=True),
    Column("check_ms", "double", "milliseconds that the look took", nullable=True),
)
"""``checks``: one row per expectation, rule or invariant and gate."""

PUBLISHED: Final[Layout] = (
    Column("table_name", "string", "table of results"),
    Column("version", "bigint", "its newest version (Delta) that passed all checks: select ... version as of ..."),
    Column("published_at", "timestamp", "wall-clock time at which that version passed"),
)
"""``published``: one row per table of results."""

RUNS_OF_JOB: Final[Layout] = (
    Column("run_id", "bigint", "number of the run: 1, 2, 3, ..."),
    Column("command", "string", "run, or rebuild: a new generation of all tables"),
    Column("started_at", "timestamp", "wall-clock time at which it began"),
    Column("ended_at", "timestamp", "wall-clock time at which it ended; null: it was killed", nullable=True),
    Column("status", "string", "done, checks_failed, too_many_rejected, refused, failed, stopped (by a signal) or killed"),
    Column("exit_code", "bigint", "of the command; null: it was killed", nullable=True),
    Column("error_code", "string", "code of the first error that it told", nullable=True),
    Column("batches", "bigint", "batches that it completed; null: it was killed, see runs", nullable=True),
    Column("first_batch_id", "bigint", "first of them (see runs); null: none", nullable=True),
    Column("last_batch_id", "bigint", "last of them (see runs); null: none", nullable=True),
    Column("rows_in", "bigint", "rows read in them", nullable=True),
    Column("accepted", "bigint", "of these, rows that became objects of the stream, or deleted one", nullable=True),
    Column("rejected", "bigint", "of these, rows in table rejected", nullable=True),
    Column("changes", "bigint", "rows written to the changes tables", nullable=True),
    Column("generation", "string", "generation of the tables that it wrote to; null: it got no further than its start", nullable=True),
    Column("spec_hash", "string", "SHA-256 of the spec file's bytes", nullable=True),
    Column("skyband_version", "string", "version of Skyband", nullable=True),
    Column("spark_version", "string", "version of PySpark", nullable=True),
    Column("run_by", "string", "user of the machine who ran it", nullable=True),
    Column("host_name", "string", "machine that it ran on", nullable=True),
    Column("process_id", "bigint", "number of its process there", nullable=True),
)
"""``job_runs``: one row per run of the job, whatever became of it."""

JOB_LAYOUTS: Final[Mapping[str, Layout]] = {
    "heads": HEADS, "rejected": REJECTED, "runs": RUNS, "checks": CHECKS, "published": PUBLISHED, JOB_RUNS: RUNS_OF_JOB,
}  # fmt: skip
"""The columns of the tables that every job has, by table."""


def query_layout(suffix: str, lasting: bool) -> Layout:
    """Return the columns of the table of a query whose name ends in ``suffix``, one of ``table_names``."""
    own = {"": RESULTS, "_changes": changes_layout(lasting), "_now": NOW, "_skyband": SKYBAND}
    return (own | {TRAJECTORY: TRAJECTORIES, FINAL_RESULTS: FINALS})[suffix]


def fixed(*layouts: Layout) -> Iterator[Column]:
    """Yield the columns of ``layouts`` that are the same in every job."""
    return (part for layout in layouts for part in layout if isinstance(part, Column))


def _names(columns: Iterable[Column]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(c.name for c in columns))


FIXED_COLUMNS: Final = (SCORE, *_names(fixed(_CHANGES, _REPORTS, RESULTS, NOW, TRAJECTORIES, SKYBAND)))
"""Columns of result tables that are not the user's."""

FINAL_COLUMNS: Final = frozenset(_names(fixed(FINALS))) - frozenset(FIXED_COLUMNS)
"""Further columns of the results of queries with tumbling windows."""

HEAD_COLUMNS: Final = _names(fixed(HEADS))


# The names of the columns of streams that the results of queries make up.


def membership(of: str) -> str:
    """Return the name of the column that says whether an object is in the result of query ``of``."""
    return f"in_{of}"


def instant(of: str) -> str:
    """Return the name of the column with the instant of a change of the result of query ``of``."""
    return f"{of}_at"


def sign(of: str) -> str:
    """Return the name of the column with the sign of a change of the result of query ``of``."""
    return f"{of}_change"


def cause(of: str) -> str:
    """Return the name of the column with the cause of a change of the result of query ``of``."""
    return f"{of}_cause"


def given_column(of: str, name: str, user: bool) -> str:
    """Return the name in the stream of the column ``name`` of the changes of query ``of``; ``user``: the spec chose it."""
    return name if user else f"{of}_{name}"
