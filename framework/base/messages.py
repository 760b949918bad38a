"""The messages and counts that tasks and the driver exchange, in their wire format. Knows nothing of Spark.

Pack sends blocks (node, bucket, kind, data): rows to the host of their bucket, and to its shards (``SHARD``, with the slot of the shard
in the place of the bucket) where there are some; everything else past the host (``ASIDE``). The driver
receives (kind, data), adds ``RUNS`` and passes tables to the sink by kind. ``data`` is an Arrow table (``blocks.table_bytes``). It is JSON
for ``COUNTS`` and for rows that a task has written to a file of their table (``file_message``).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from skyband.framework.base.plain_json import mapping, whole
from skyband.framework.base.reasons import FILTERED, REASONS

HOST, ASIDE, SHARD = 0, 1, 2
"""Nodes that receive the blocks of pack."""

ROWS: Final = "rows"
"""Pack -> host: rows of one bucket (``HostConfig.row_schema``)."""
COUNTS: Final = "counts"
"""Pack, host -> driver: a ``Tally``."""
HEADS: Final = "heads"
"""Host -> table ``heads``: a row for every key of the bucket that got rows."""
REJECTED: Final = "rejected"
"""Pack, host -> table ``rejected``: rows with the reason."""
STOPPING: Final = "stopping"
"""Pack -> driver: the first of the rows that stop the run, as rows of ``rejected``. Also the name of their count."""
STRETCHES: Final = "stretches"
"""Pack -> driver: the stretches of a task's event times (``rows.instants.stretches``)."""
FOUND: Final = "found"
"""Shard -> host: the pairs that it found (``rows.shards.found``)."""
STATE: Final = "state"
"""Host -> driver: where the state of the bucket is after the batch (``bucket.bucket_states``), if it is in files of the sink."""
FLUSH: Final = "flush"
"""Marks rows of the control source, by reason and count, that ask buckets to send all rows of tables that they have deferred."""
RUNS: Final = "runs"
"""Driver -> table ``runs``: the batch's row."""
_FILE: Final = "file:"
BATCH: Final = "skyband.batch"
"""The Spark property with which the driver passes the batch number to tasks."""
SOURCES_NEWEST: Final = "skyband.newest"
"""The Spark property with which the driver passes to tasks the newest event time of each of several sources, as JSON."""
CLOCK: Final = "skyband.clock"
"""The Spark property with which the driver passes to tasks the clock at which the batch was planned, in microseconds."""


@dataclass(frozen=True)
class _OfQuery:
    """Host -> a table of a query to which rows are appended. ``prefix``: the beginning of the message's kind."""

    query: str
    prefix: ClassVar[str]

    @property
    def kind(self) -> str:
        """Return ``<prefix>:<query>``."""
        return f"{self.prefix}:{self.query}"


class Changes(_OfQuery):
    """Host -> table ``<query>_changes``: the changes of a query."""

    prefix = "changes"


class Trajectory(_OfQuery):
    """Host -> table ``<query>_trajectory``: points of the trajectories of time-varying values."""

    prefix = "trajectory"


class FinalResults(_OfQuery):
    """Host -> table ``<query>_final``: results of tumbling windows as they close."""

    prefix = "final"


@dataclass(frozen=True, slots=True)
class Skyband:
    """Host -> table ``<operator>_skyband``: the whole content of one bucket, possibly no rows."""

    operator: str
    bucket: int

    @property
    def kind(self) -> str:
        """Return ``skyband:<operator>:<bucket>``."""
        return f"skyband:{self.operator}:{self.bucket}"


_OF_QUERIES: Final = {of.prefix: of for of in (Changes, Trajectory, FinalResults)}


def parse_kind(kind: str) -> Changes | Skyband | Trajectory | FinalResults | None:
    """Return the message whose kind names a query or a state, or None for other kinds."""
    what, _, rest = kind.partition(":")
    if what in _OF_QUERIES:
        return _OF_QUERIES[what](rest)
    if what == "skyband":
        operator, _, bucket = rest.rpartition(":")
        return Skyband(operator, int(bucket))
    return None


def file_message(kind: str, file: Mapping[str, Any]) -> tuple[str, bytes]:
    """Return the message for rows of ``kind`` that a task wrote to ``file``."""
    return _FILE + kind, json.dumps(file).encode()


def parse_file_message(kind: str, data: bytes) -> tuple[str, dict[str, Any]] | None:
    """Return (kind, file) of a ``file_message``, or None for other messages."""
    return (kind.removeprefix(_FILE), json.loads(data)) if kind.startswith(_FILE) else None


# Counts by name. Operators' own counters are ``<operator>.<name>``; rejected rows are counted under ``reasons.count_name``.
ROWS_IN: Final = "rows_in"
ACCEPTED: Final = "accepted"
DELETED: Final = "deleted"
"""Accepted rows that delete an object and bring none."""
REPLACED: Final = "replaced"
"""Accepted rows that take the place of an object with their id."""
KEPT_FIRST: Final = "kept_first"
"""Rows left out because an object has their id (``on_duplicate: keep_first``). They are counted as filtered, too."""
CHANGED: Final = "changes"
PENDING: Final = "pending"
"""Rows pending after a call, minus those before it."""
NEWEST: Final = "newest"
"""The latest event time of an accepted or pending row, in microseconds."""
DEFERRED: Final = "deferred"
"""The buckets that saved their input alone, and deferred rows of ``heads`` and skybands."""
BEHIND: Final = "behind"
"""The batches by which ``heads`` and skybands are behind the other tables."""
PLANNED: Final = "clock_ms"
"""The clock at which the batch was planned, in milliseconds, if event times are compared with it."""
MAX_AHEAD: Final = "max_ahead_us"
"""How far event times might be ahead of ``PLANNED``, in microseconds."""
JUMP: Final = "jump_ms"
"""The longest stretch of time without a row that the watermark has passed, in milliseconds, if it is longer than the job's window."""
FRONTIER: Final = "frontier"
"""The frontier in microseconds."""
GREATEST: Final = "greatest"
"""Of backlog rows read under caps: the latest event time that the watermark would have seen without caps, in microseconds."""
NEWEST_OF: Final = "newest:"
"""Begins the name of the newest event time of one of several sources, in microseconds: at most the cap of its file."""
GREATEST_OF: Final = "greatest:"
"""Begins the name of the same time without caps, where there are caps."""
REACHED: Final = "reached"
"""The latest instant to which rows of several sources move the watermark, in microseconds."""
_MAXIMA: Final = frozenset({NEWEST, FRONTIER, GREATEST, REACHED})
"""Counts that a batch aggregates by maximum, beside those of single sources; all others are summed."""

TIMES: Final = ("load", "decode", "order", "operator", "state")
"""The phases that tasks time, in microseconds."""
SENT: Final = "sent"
"""Rows that go to a bucket: no reason rejected them on reading."""
_TIME, _UNUSABLE, _REQUESTED, _NULL, _WARNED, _KEPT = "us_", "unusable:", "asked:", "null:", "warned:", "kept:"
_COLUMNS: Final = frozenset({ROWS_IN, FILTERED, ACCEPTED, PENDING, CHANGED, NEWEST, FRONTIER, GREATEST, REACHED, SENT}).union(
    *(c.counts for c in REASONS)
)
"""Counts that have a column in ``runs``, alone or summed, or that ``runs`` does not show."""


def _is_maximum(name: str) -> bool:
    return name in _MAXIMA or name.startswith((NEWEST_OF, GREATEST_OF))


def time_count(what: str) -> str:
    """Return the name of the time of a phase."""
    return _TIME + what


def unusable_count(query: str) -> str:
    """Return the name of a query's count of unusable objects."""
    return _UNUSABLE + query


def requested_count(query: str) -> str:
    """Return the name of a query's count of requested objects."""
    return _REQUESTED + query


def null_count(column: str) -> str:
    """Return the name of the count of rows with a null in a column."""
    return _NULL + column


def warned_count(rule: str) -> str:
    """Return the name of the count of rows that break a rule of severity ``warn``."""
    return _WARNED + rule


def kept_count(bucket: int) -> str:
    """Return the name of the number of rows in a bucket's state."""
    return f"{_KEPT}{bucket}"


def behind(counters: str | None) -> int:
    """Return ``BEHIND`` of a batch's ``counters`` in table ``runs``, 0 if it is not there or cannot be read."""
    try:
        return max(0, whole(mapping(counters or "{}").get(BEHIND, 0)))
    except ValueError:
        return 0


class Tally(dict[str, int]):
    """Counts by name; a missing count is 0."""

    def __missing__(self, name: str) -> int:
        return 0

    def add(self, data: bytes) -> None:
        """Add the counts of a message."""
        for name, n in json.loads(data).items():
            self.include(name, n)

    def include(self, name: str, n: int) -> None:
        """Add ``n`` to a count, or raise one that is aggregated by maximum to it."""
        self[name] = max(self.get(name, n), n) if _is_maximum(name) else self[name] + n

    def message(self) -> bytes:
        """Return the data of a ``COUNTS`` message."""
        return json.dumps(self).encode()

    def unusable(self) -> dict[str, int]:
        """Return the numbers of unusable objects by query."""
        return {k.removeprefix(_UNUSABLE): n for k, n in self.items() if k.startswith(_UNUSABLE)}

    def requested(self) -> dict[str, int]:
        """Return the numbers of requested objects by query."""
        return {k.removeprefix(_REQUESTED): n for k, n in self.items() if k.startswith(_REQUESTED)}

    def nulls(self) -> dict[str, int]:
        """Return the numbers of rows with a null by column."""
        return {k.removeprefix(_NULL): n for k, n in self.items() if k.startswith(_NULL)}

    def warned(self) -> dict[str, int]:
        """Return the numbers of rows that break a rule of severity ``warn``, by rule."""
        return {k.removeprefix(_WARNED): n for k, n in self.items() if k.startswith(_WARNED)}

    def kept(self) -> dict[str, int]:
        """Return the numbers of rows in the state of the buckets that ran, by bucket."""
        return {k.removeprefix(_KEPT): n for k, n in self.items() if k.startswith(_KEPT)}

    def counters(self) -> dict[str, int]:
        """Return the counts that have no column of their own in ``runs``, without those that it does not show."""
        hidden = (_TIME, _UNUSABLE, _REQUESTED, _NULL, _WARNED, _KEPT)
        return {k: n for k, n in self.items() if k not in _COLUMNS and not k.startswith(hidden)}
