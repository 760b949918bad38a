"""Entries about groups: what makes a group, and the expressions over its rows."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from pydantic import Field

from skyband.framework.base.items import SCORE, SCORE_VALUE, ItemColumn, ItemShape, Part, RankTerm, TimeVarying
from skyband.framework.base.units import Text
from skyband.framework.queries.models import Columns, QueryModel
from skyband.operators.base import Kind
from skyband.operators.expressions.aggregates import Aggregate
from skyband.operators.expressions.ast import Attr

# Aggregates that the tables of groups carry: ``carry: [last(region), count()]`` gives the columns ``last_region`` and ``count``.

TYPES: Final[Mapping[str, str | None]] = {
    "count": "bigint", "distinct": "bigint", "sum": "double", "mean": "double", "min": None, "max": None, "first": None, "last": None,
}  # fmt: skip
"""Aggregates that can be carried, with the type of their values; None: that of the column."""
OF_NUMBERS: Final = frozenset({"sum", "mean", "min", "max"})
_CALL: Final = re.compile(r"\s*(\w+)\s*\(\s*(\w*)\s*\)\s*")


@dataclass(frozen=True, slots=True)
class Carried:
    """An aggregate ``function`` of a ``column`` ("" for ``count()``)."""

    function: str
    column: str

    @property
    def name(self) -> str:
        """The name of its column in the tables."""
        return f"{self.function}_{self.column}" if self.column else self.function

    @property
    def item_column(self) -> ItemColumn:
        """Its column in the tables."""
        said = f"{self.function}({self.column}) of the group's rows in the window, as of the same event as score"
        return ItemColumn(self.name, self.column, 0, "carry", TYPES[self.function], said)

    def aggregate(self, kinds: Mapping[str, Kind], scales: Mapping[str, int]) -> Aggregate:
        """Return the aggregate of columns of these kinds; ``scales``: digits after the point of decimal columns."""
        if not self.column:
            return Aggregate(self.function, None)
        kind, scale = kinds[self.column], scales.get(self.column)
        assert kind != "list"
        return Aggregate(self.function, Attr(side="", name=self.column, type=kind if scale is None else "units"), scale=scale)


def carried(text: str) -> Carried | None:
    """Return the aggregate that ``text`` names; None if it names none that can be carried."""
    found = _CALL.fullmatch(text)
    if found is None or found[1].lower() not in TYPES or (not found[2] and found[1].lower() != "count"):
        return None
    return Carried(found[1].lower(), found[2])


def item_columns(texts: Iterable[str]) -> tuple[ItemColumn, ...]:
    """Return the columns of the tables for the aggregates in ``texts``."""
    return tuple(c.item_column for text in texts if (c := carried(text)) is not None)


class GroupRows(QueryModel):
    """Groups of the window's rows, by an expression over aggregates."""

    group: Columns = Field(description="Column(s) that name the group of a row.", json_schema_extra={"type": ["string", "array"]})
    score: Text = Field(
        description="A number over aggregates, such as sum(bytes) / count(): count, sum, mean, min, max, distinct, first, last, quantile, "
        "variance, stddev, var_pop, stddev_pop."
    )
    having: Text | None = Field(default=None, description="Only groups for which this holds take part, such as count() >= 20.")

    carry: tuple[Text, ...] = Field(
        default=(), description="Aggregates to carry into the result, such as last(region) or count(): columns last_region and count."
    )

    @property
    def groups(self) -> tuple[str, ...]:
        """The columns that name the group."""
        return (self.group,) if isinstance(self.group, str) else tuple(self.group)


def scored_group(columns: tuple[str, ...], carry: tuple[str, ...], closes: bool) -> ItemShape:
    """Return the group that ``columns`` name: by its score, of equal ones by name.

    ``carry``: the aggregates that it carries. ``closes``: in tumbling windows.
    """
    rank, varying = (RankTerm((SCORE,), "query"), *(RankTerm((c,), "asc") for c in columns)), TimeVarying(SCORE, None)
    parts = (Part("", "the group", columns),)
    return ItemShape(parts, rank, (SCORE_VALUE,), time_varying=varying, carried=item_columns(carry), closes=closes)
