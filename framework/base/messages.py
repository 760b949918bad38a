"""What tasks and driver say to each other, each message and each count once, as it is on the wire. Knows nothing of Spark.

Pack sends blocks (node, bucket, kind, data): rows to the host of their bucket, the rest aside, past the host. Host and what passes it send
(kind, data) to the driver, which adds ``RUNS`` and hands tables by kind to the sink. ``data`` is an Arrow table (``blocks.table_bytes``),
that of ``COUNTS`` is JSON, and so is
that of rows that a task has written to a file of their table (``in_file``).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from skyband.framework.base.reasons import FILTERED, REASONS

HOST, ASIDE = 0, 1
"""Nodes that a block of pack's can go to."""

ROWS: Final = "rows"
"""Pack -> host: rows of one bucket (``HostConfig.row_schema``)."""
WAKE: Final = "wake"
"""Pack -> host: nothing but that the bucket is to run, without data."""
COUNTS: Final = "counts"
"""Pack, host -> driver: a ``Tally``."""
HEADS: Final = "heads"
"""Host -> table ``heads``: a row for every key of the bucket that got rows."""
REJECTED: Final = "rejected"
"""Pack, host -> table ``rejected``: rows with the reason."""
STOPPING: Final = "stopping"
"""Pack -> driver: the first of the rows for which the run stops, as rows of ``rejected``; also the name under which all are counted."""
RUNS: Final = "runs"
"""Driver -> table ``runs``: the batch's row."""
_FILE: Final = "file:"
BATCH: Final = "skyband.batch"
"""Spark's property by which the driver tells tasks the number of their batch."""


@dataclass(frozen=True, slots=True)
class Changes:
    """Host -> table ``<query>_changes``: the changes of an entry of the spec."""

    query: str

    @property
    def kind(self) -> str:
        """``changes:<query>``."""
        return f"changes:{self.query}"


@dataclass(frozen=True, slots=True)
class Skyband:
    """Host -> table ``<operator>_skyband``: the whole content of one bucket, maybe no rows."""

    operator: str
    bucket: int

    @property
    def kind(self) -> str:
        """``skyband:<operator>:<bucket>``."""
        return f"skyband:{self.operator}:{self.bucket}"


@dataclass(frozen=True, slots=True)
class Trajectory:
    """Host -> table ``<query>_trajectory``: points from which values of items move."""

    query: str

    @property
    def kind(self) -> str:
        """``trajectory:<query>``."""
        return f"trajectory:{self.query}"


def addressed(kind: str) -> Changes | Skyband | Trajectory | None:
    """The message of a kind that names a query or a state, None for the others."""
    what, _, rest = kind.partition(":")
    if what == "changes":
        return Changes(rest)
    if what == "trajectory":
        return Trajectory(rest)
    if what == "skyband":
        operator, _, bucket = rest.rpartition(":")
        return Skyband(operator, int(bucket))
    return None


def in_file(kind: str, file: Mapping[str, Any]) -> tuple[str, bytes]:
    """The message of rows of ``kind`` that lie in ``file``."""
    return _FILE + kind, json.dumps(file).encode()


def of_file(kind: str, data: bytes) -> tuple[str, dict[str, Any]] | None:
    """(kind, file) of such a message, None if it is another."""
    return (kind.removeprefix(_FILE), json.loads(data)) if kind.startswith(_FILE) else None


# Counts by name. Operators' own counters are ``<operator>.<name>``; rejected rows are counted under ``reasons.count_of``.
ROWS_IN: Final = "rows_in"
ACCEPTED: Final = "accepted"
DELETED: Final = "deleted"
CHANGED: Final = "changes"
PENDING: Final = "pending"
"""Rows waiting after a call less those before it."""
NEWEST: Final = "newest"
"""The latest event time of a row accepted or waiting, in microseconds."""
FRONTIER: Final = "frontier"
"""F in microseconds."""
GREATEST: Final = "greatest"
"""Of rows read under caps (``sources.drop``): the latest event time that the watermark would have been given without, in microseconds."""
_MAXIMA: Final = frozenset({NEWEST, FRONTIER, GREATEST})
"""Counts of which a batch has the largest; of all others it has the sum."""

TIMES: Final = ("load", "decode", "order", "operator", "state")
"""What tasks time, in microseconds."""
SENT: Final = "sent"
"""Rows that no reason rejects as they are read: those that go to a bucket."""
_TIME, _UNUSABLE, _ASKED, _NULL, _WARNED = "us_", "unusable:", "asked:", "null:", "warned:"
_COLUMNS: Final = frozenset({ROWS_IN, FILTERED, ACCEPTED, PENDING, CHANGED, NEWEST, FRONTIER, GREATEST, SENT}).union(
    *(c.counts for c in REASONS)
)
"""Counts that ``runs`` has a column of its own for, alone or with others, or that are not for it."""


def time_of(what: str) -> str:
    """The name of a time."""
    return _TIME + what


def unusable_of(query: str) -> str:
    """The name under which an entry of the spec counts the objects it cannot use."""
    return _UNUSABLE + query


def asked_of(query: str) -> str:
    """The name under which an entry of the spec counts the objects it asks for."""
    return _ASKED + query


def null_of(column: str) -> str:
    """The name under which rows that are sent with a null in a column are counted."""
    return _NULL + column


def warned_of(rule: str) -> str:
    """The name under which rows that break a rule and are used are counted."""
    return _WARNED + rule


class Tally(dict[str, int]):
    """Counts by name; 0 is what is not there."""

    def __missing__(self, name: str) -> int:
        return 0

    def add(self, data: bytes) -> None:
        """Takes up the counts of a message."""
        for name, n in json.loads(data).items():
            self[name] = max(self[name], n) if name in _MAXIMA else self[name] + n

    def message(self) -> bytes:
        """The data of a ``COUNTS`` message."""
        return json.dumps(self).encode()

    def unusable(self) -> dict[str, int]:
        """Objects that could not be used, by entry of the spec."""
        return {k.removeprefix(_UNUSABLE): n for k, n in self.items() if k.startswith(_UNUSABLE)}

    def asked(self) -> dict[str, int]:
        """Objects that were asked for, by entry of the spec."""
        return {k.removeprefix(_ASKED): n for k, n in self.items() if k.startswith(_ASKED)}

    def nulls(self) -> dict[str, int]:
        """Rows that were sent with a null in a column, by column."""
        return {k.removeprefix(_NULL): n for k, n in self.items() if k.startswith(_NULL)}

    def warned(self) -> dict[str, int]:
        """Rows that break a rule of severity ``warn``, by rule."""
        return {k.removeprefix(_WARNED): n for k, n in self.items() if k.startswith(_WARNED)}

    def counters(self) -> dict[str, int]:
        """What has no place of its own in ``runs``."""
        return {k: n for k, n in self.items() if k not in _COLUMNS and not k.startswith((_TIME, _UNUSABLE, _ASKED, _NULL, _WARNED))}
