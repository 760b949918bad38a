"""Entries about groups: what makes a group, and the expressions over its rows."""

from __future__ import annotations

from pydantic import Field

from skyband.framework.base.items import SCORE, SCORE_VALUE, ItemShape, Part, RankTerm, TimeVarying
from skyband.framework.base.units import Text
from skyband.framework.queries.group_rows.carry import item_columns
from skyband.framework.queries.loyalty_rows.model import Columns
from skyband.framework.queries.models import QueryModel


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
