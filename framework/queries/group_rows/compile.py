"""Entries to operators: one for all of the same groups (group, score, having, direction, ``where``) and the same window.

Which query asks how (k, ``ties``, above, below, ``every``, ``carry``) does not matter to the state.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, cast

from pydantic import Field

from skyband.framework.base.decimals import decimal_digits
from skyband.framework.base.items import SCORE, SCORE_VALUE, ItemColumn, ItemShape, Part, RankTerm, TimeVarying
from skyband.framework.base.units import Text
from skyband.framework.plan.drafts import Context, OperatorDraft, QueryEntry, predicate, predicate_key, share, texts_of
from skyband.framework.queries.models import Columns, QueryModel
from skyband.operators.base import Kind, Operator, Window
from skyband.operators.expressions.aggregates import Aggregate, AggregateExpression, parse_aggregates
from skyband.operators.expressions.ast import Attr, Binary, In, IsNull, Node
from skyband.operators.expressions.canonical import children

# Entries about groups: what makes a group, and the expressions over its rows.

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


# Decimal columns in aggregates: as whole numbers of their smallest units, so that sums and comparisons are exact.

MOST_DIGITS: Final = 18
"""Digits of a decimal that fit in 64 bits."""
_ADDS: Final = frozenset({"sum", "mean", "var_pop", "var_samp", "stddev_pop", "stddev_samp"})


def scales(types: Mapping[str, str | None]) -> dict[str, int]:
    """Return the digits after the point of the decimal columns that aggregates read exactly."""
    found = ((name, decimal_digits(type_)) for name, type_ in types.items())
    return {name: digits[1] for name, digits in found if digits is not None and digits[0] <= MOST_DIGITS}


def mistake(aggregate: Aggregate, types: Mapping[str, str | None]) -> tuple[str, str] | None:
    """Return what is wrong with decimals in an aggregate, and a hint; None if nothing is."""
    function, x = aggregate.function, aggregate.argument
    if x is None or function == "count" or aggregate.scale is not None:
        return None
    for name in _values(x):
        digits = decimal_digits(types.get(name))
        if digits is None:
            continue
        if isinstance(x, Attr):
            fewer = f"decimal({MOST_DIGITS},{min(digits[1], MOST_DIGITS)})"
            hint = f"derive one with fewer digits: {{sql: cast({name} as {fewer}), type: '{fewer}'}}"
            return f"{function} takes decimals of at most {MOST_DIGITS} digits, and '{name}' is {types[name]}", hint
        if function in _ADDS:
            message = f"{function} adds decimals exactly as they are, and calculates with doubles: '{name}' is {types[name]}"
            return message, f"derive the decimal in a transform, with its type, and write {function} of that column"
    return None


def _values(x: Node) -> list[str]:
    """Return the columns whose values are part of the value of ``x``: not those of conditions."""
    if isinstance(x, Attr):
        return [x.name]
    if isinstance(x, IsNull | In) or (isinstance(x, Binary) and x.type == "bool"):
        return []
    return [name for child in children(x) for name in _values(child)]


_WHY = "aggregates of every group, and heaps of the groups in and out of each result"


@dataclass(frozen=True, slots=True)
class _Key:
    """What queries must have in common to share a state."""

    group: tuple[str, ...]
    score: str
    having: str | None
    direction: Literal["min", "max"]
    where: str | None
    window: Window


def compile_groups(context: Context, entries: Sequence[QueryEntry]) -> Iterable[OperatorDraft]:
    """Return drafts of ``Groups`` operators."""

    def key(m: QueryEntry) -> _Key:
        q = cast(GroupRows, m.query)
        having = None if q.having is None else parse_aggregates(q.having, context.kinds, "predicate").spelling
        score = parse_aggregates(q.score, context.kinds, "score").spelling
        return _Key(q.groups, score, having, _direction(q), predicate_key(context, q.where), m.window)

    for _, group in share(entries, key):
        yield _draft(context, group)


def _direction(query: GroupRows) -> Literal["min", "max"]:
    return cast(Literal["min", "max"], getattr(query, "direction", "max"))


def _draft(context: Context, group: tuple[QueryEntry, ...]) -> OperatorDraft:
    first = cast(GroupRows, group[0].query)
    exact = scales({f.name: f.type for f in context.fields})
    score = parse_aggregates(first.score, context.kinds, "score", exact)
    having = None if first.having is None else parse_aggregates(first.having, context.kinds, "predicate", exact)
    where = predicate(context, first.where)

    def build(texts: tuple[str, ...]) -> Operator:
        from skyband.operators.groups import Groups, GroupsQuery, decimals
        from skyband.operators.groups.configuration import units_of

        units = units_of(score)

        def bound(m: QueryEntry, name: str) -> float | None:
            """Return a bound with more digits than those of a double only where they decide, so that other jobs keep their fingerprint."""
            written: float | None = getattr(m.query, name, None)
            if written is None or units is None:
                return None if written is None else float(written)
            up, near = name == "below", float(written)
            return near if decimals.bound(written, units, up) == decimals.bound(near, units, up) else written

        def asked(m: QueryEntry) -> GroupsQuery:
            k, above, below = getattr(m.query, "k", None), bound(m, "above"), bound(m, "below")
            traces = tuple(c.name for text in m.query.carry if (c := carried(text)) is not None)
            return GroupsQuery(k, above, below, m.query.every, getattr(m.query, "ties", "name") == "include", tuple(dict.fromkeys(traces)))

        made = Groups(
            group=first.groups, score=score, having=having, direction=_direction(first), where=where, window=group[0].window,
            queries=tuple(map(asked, group)), texts=texts, deletes=context.deletes,
            carry=_carry(context, group),
        )  # fmt: skip
        return cast(Operator, made)

    largest = max(getattr(m.query, "k", 1) for m in group)
    nodes = [*_nodes(score), *_nodes(having), where]
    return OperatorDraft(group, largest, group[0].window, _direction(first), texts_of(*nodes), build, _WHY, skyband=False)


def _carry(context: Context, group: tuple[QueryEntry, ...]) -> tuple[tuple[str, Aggregate], ...]:
    """Return what any of the queries carries."""
    exact = scales({f.name: f.type for f in context.fields})
    found = [carried(text) for m in group for text in m.query.carry]
    return tuple({c.name: c.aggregate(context.kinds, exact) for c in found if c is not None}.items())


def _nodes(expression: AggregateExpression | None) -> list[Node]:
    if expression is None:
        return []
    return [expression.node, *(a.argument for a in expression.aggregates if a.argument is not None)]
