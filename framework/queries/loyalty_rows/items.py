"""What an item is: an object that many rows report on, with values that move."""

from __future__ import annotations

from typing import Final

from skyband.framework.base.items import ItemShape, Part, RankTerm, TimeVaryingValue, Value

LOYALTY: Final = "loyalty_seconds"
SLOPE: Final = "slope"

_VALUES: Final = (
    Value(LOYALTY, "double", "for how many seconds of the window's time before {when} the object satisfied the criterion"),
    Value(SLOPE, "int", "how that moves from {when} on, in seconds a second: 1, 0 or -1"),
)


def loyal_object(columns: tuple[str, ...], trace_all: bool) -> ItemShape:
    """The object that ``columns`` name: the more loyal first, of equal ones the rising, then by name."""
    rank = (RankTerm((LOYALTY,), "desc"), RankTerm((SLOPE,), "desc"), *(RankTerm((c,), "asc") for c in columns))
    return ItemShape((Part("", "the object", columns),), rank, _VALUES, time_varying=TimeVaryingValue(LOYALTY, SLOPE, trace_all))
