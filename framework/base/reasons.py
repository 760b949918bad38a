"""The reasons for which rows are not processed, as table ``rejected`` spells them, and their classes in ``runs``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

REASON: Final = "__reason"
"""Column of the intake's rows: null for a row that is accepted so far."""

FILTERED: Final = "filtered"
"""Not a rejection: the spec's filters drop the row, and the row is counted."""
CONTROL: Final = "control"
"""Not a rejection: a control row (a finish), which is not of the source."""

STOPS: Final = "stops:"
"""Prefix of the reason of a row that stops the run: names of the broken rules of severity ``fail`` follow, comma-separated."""

PARSE: Final = "parse"
NO_MATCH: Final = "no_match:"
"""Prefix of the reason of a row that has no row in a look-up with ``missing: reject``; the name of the look-up follows."""
RULE: Final = "rule:"
"""Prefix of the reason of a row that breaks rules; their names follow, comma-separated."""
LATE: Final = "late"
DUPLICATE_ID: Final = "duplicate_id"
NO_TARGET: Final = "no_target"
BAD_OP: Final = "bad_op"
"""The column of ``source.op`` is null or holds a value that it does not list."""
NULL_ID: Final = "null_id"
NULL_TIME: Final = "null_time"
NULL_KEY: Final = "null_key"
TIME_RANGE: Final = "time_range"
TOO_FAR_AHEAD: Final = "too_far_ahead"
"""The event time is further ahead of the clock at which the row's batch was planned than the spec allows."""
INT_RANGE: Final = "int_range"
"""A column that queries read holds the 64-bit value that is reserved for null, or a date beyond the range of instants."""
YEAR_RANGE: Final = "year_range:"
"""Prefix of the reason of a row with a date or an instant outside of the years 1 to 9999, which readers cannot show; the column follows."""
EMPTY_SET: Final = "empty_set:"
"""Prefix of the reason of a row with too few tokens; the name of the tokens follows."""
LARGE_SET: Final = "large_set:"
"""Prefix of the reason of a row with too many tokens; the name of the tokens follows."""
BAD_VECTOR: Final = "bad_vector:"
"""Prefix of the reason of a row whose vector has a wrong dimension, or an element that is null or not finite; the column follows."""
NULL_OBJECT: Final = "null_object:"
"""Prefix of the reason of a row without an object; the column that is null follows."""
NO_UPDATE: Final = "no_update:"
"""Prefix of the reason of a row that says neither on nor off; the column that should say it follows."""
BAD_FILE: Final = "bad_file"
"""A file that cannot be read. It counts as one row."""


def count_name(reason: str) -> str:
    """Return the name of the count of rows with ``reason``."""
    if reason.startswith((EMPTY_SET, LARGE_SET)):
        return "rejected_tokens"
    if reason.startswith((BAD_VECTOR, NULL_OBJECT, NO_UPDATE, NO_MATCH, YEAR_RANGE)):
        return reason.partition(":")[0]
    if reason.startswith(STOPS):
        return "stopping"
    return "rejected_rule" if reason.startswith(RULE) else reason


@dataclass(frozen=True, slots=True)
class ReasonClass:
    """Reasons that share the column ``rejected_<name>`` of ``runs``; ``meaning`` in words."""

    name: str
    reasons: tuple[str, ...]
    meaning: str

    @property
    def counts(self) -> tuple[str, ...]:
        """Return the names of its counts."""
        return tuple(dict.fromkeys(count_name(r) for r in self.reasons))


REASONS: Final = (
    ReasonClass("parse", (PARSE,), "not parsable"),
    ReasonClass("rule", (f"{RULE}<name>",), "a row rule failed"),
    ReasonClass("late", (LATE,), "late"),
    ReasonClass("duplicate_id", (DUPLICATE_ID,), "duplicate_id"),
    ReasonClass("no_target", (NO_TARGET,), "a deletion of no live row"),
    ReasonClass("null", (NULL_ID, NULL_TIME, NULL_KEY, f"{NULL_OBJECT}<column>"), "id, event time, key or object is null"),
    ReasonClass("tokens", (f"{EMPTY_SET}<name>", f"{LARGE_SET}<name>"), "too few or too many tokens"),
    ReasonClass("bad_file", (BAD_FILE,), "a file that cannot be read, as one row"),
    ReasonClass(
        "other",
        (
            TIME_RANGE, TOO_FAR_AHEAD, INT_RANGE, f"{YEAR_RANGE}<column>", BAD_OP, f"{BAD_VECTOR}<column>", f"{NO_UPDATE}<column>",
            f"{NO_MATCH}<name>",
        ),
        "another reason",
    ),
)  # fmt: skip
