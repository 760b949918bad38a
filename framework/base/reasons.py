"""Why a row is not processed: the one list of reasons, as table ``rejected`` spells them, and their classes in ``runs``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

REASON: Final = "__reason"
"""Column of the intake's rows: null for a row that is accepted so far."""

FILTERED: Final = "filtered"
"""A reason that rejects nothing: the spec's filters drop the row, which is counted."""
CONTROL: Final = "control"
"""A reason that rejects nothing: the row is Spark's (a finish), not the source's."""

STOPS: Final = "stops:"
"""Begins the reason of a row for which the run stops: it breaks rules of severity ``fail``, whose names follow, separated by commas."""

PARSE: Final = "parse"
RULE: Final = "rule:"
"""Begins the reason of a row that breaks rules; their names follow, separated by commas."""
LATE: Final = "late"
DUPLICATE_ID: Final = "duplicate_id"
NO_TARGET: Final = "no_target"
NULL_ID: Final = "null_id"
NULL_TIME: Final = "null_time"
NULL_KEY: Final = "null_key"
TIME_RANGE: Final = "time_range"
INT_RANGE: Final = "int_range"
"""A column that queries read holds the whole number or instant that stands for null in 64 bits, or a date that no instant reaches."""
EMPTY_SET: Final = "empty_set:"
"""Begins the reason of a row with too few tokens; the name of the tokens follows."""
LARGE_SET: Final = "large_set:"
"""Begins the reason of a row with too many tokens; the name of the tokens follows."""
NULL_OBJECT: Final = "null_object:"
"""Begins the reason of a row that reports on no object; the column that is null follows."""
NO_UPDATE: Final = "no_update:"
"""Begins the reason of a row that says neither on nor off; the column that should follows."""
BAD_FILE: Final = "bad_file"
"""A whole file that cannot be read: it counts as one row."""


def count_of(reason: str) -> str:
    """The name under which rows with ``reason`` are counted."""
    if reason.startswith((EMPTY_SET, LARGE_SET)):
        return "rejected_tokens"
    if reason.startswith((NULL_OBJECT, NO_UPDATE)):
        return reason.partition(":")[0]
    if reason.startswith(STOPS):
        return "stopping"
    return "rejected_rule" if reason.startswith(RULE) else reason


@dataclass(frozen=True, slots=True)
class ReasonClass:
    """Reasons that are one column, ``rejected_<name>``, of ``runs``; ``meaning`` in words."""

    name: str
    reasons: tuple[str, ...]
    meaning: str

    @property
    def counts(self) -> tuple[str, ...]:
        """The names of its counts."""
        return tuple(dict.fromkeys(count_of(r) for r in self.reasons))


REASONS: Final = (
    ReasonClass("parse", (PARSE,), "not parsable"),
    ReasonClass("rule", (f"{RULE}<name>",), "a row rule failed"),
    ReasonClass("late", (LATE,), "late"),
    ReasonClass("duplicate_id", (DUPLICATE_ID,), "duplicate_id"),
    ReasonClass("no_target", (NO_TARGET,), "a deletion of no live row"),
    ReasonClass("null", (NULL_ID, NULL_TIME, NULL_KEY, f"{NULL_OBJECT}<column>"), "id, event time, key or object is null"),
    ReasonClass("tokens", (f"{EMPTY_SET}<name>", f"{LARGE_SET}<name>"), "too few or too many tokens"),
    ReasonClass("bad_file", (BAD_FILE,), "a file that cannot be read, as one row"),
    ReasonClass("other", (TIME_RANGE, INT_RANGE, f"{NO_UPDATE}<column>"), "another reason"),
)
