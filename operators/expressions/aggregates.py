"""Expressions over aggregates of a group's rows: ``sum(bytes) / count()``, ``max(delay) - min(delay) > 60``.

An aggregate takes an expression over one row. Outside of aggregates there are no columns: a tree has an attribute of type float for every
aggregate, named by its canonical spelling. Null arguments are ignored, as in SQL::

    count()  count(*)   rows of the group                    sum(x)  mean(x)  avg(x)    the exact result, rounded once
    count(x)            rows in which x is not null          min(x)  max(x)             of the rows in the window
    distinct(x)         different values of x                first(x)  last(x)          in order of arrival
    quantile(x, 0.95)   the nearest rank: the least value of the rows that at least 95 % of the values do not exceed
    var_pop(x)  var_samp(x)  stddev_pop(x)  stddev_samp(x)   from exact sums; variance, stddev and std are those of a sample
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from skyband.operators.expressions.ast import Attr, Node, Span
from skyband.operators.expressions.canonical import canonical, name, walk
from skyband.operators.expressions.errors import ExpressionError
from skyband.operators.expressions.parser import _Parser, _Stop, parsed
from skyband.operators.expressions.tokens import Token
from skyband.operators.expressions.typed import AGGREGATIONS, NUMBERS, Builder
from skyband.operators.expressions.vectors import AttributeKind
from skyband.operators.spelling import closest

AGGREGATES: Final[Mapping[str, str]] = {
    "count": "count", "sum": "sum", "mean": "mean", "avg": "mean", "min": "min", "max": "max", "distinct": "distinct", "first": "first",
    "last": "last", "quantile": "quantile", "var_pop": "var_pop", "var_samp": "var_samp", "variance": "var_samp",
    "stddev_pop": "stddev_pop", "stddev_samp": "stddev_samp", "stddev": "stddev_samp", "std": "stddev_samp",
}  # fmt: skip
"""Name of an aggregate in an expression -> its canonical name."""

_KNOWN: Final = ", ".join(a for a in AGGREGATES if a not in ("avg", "std"))
_SHARE: Final = 11
"""Characters of the share of a quantile."""
_ANY_TYPE: Final = frozenset({"count", "distinct"})


@dataclass(frozen=True, slots=True)
class Aggregate:
    """``function`` of the values of ``argument`` over a group's rows; the argument is None for ``count()``. ``share``: of a quantile.

    ``scale``: digits after the point, if the argument is a decimal column: an attribute of type ``units``.
    """

    function: str
    argument: Node | None
    share: float | None = None
    scale: int | None = None

    @property
    def spelling(self) -> str:
        """Return the canonical spelling, which names its attribute."""
        share = "" if self.share is None else f", {self.share!r}"
        return f"{self.function}({'' if self.argument is None else canonical(self.argument)}{share})"


@dataclass(frozen=True, slots=True)
class AggregateExpression:
    """``node``: a tree over attributes named like ``aggregates``, each of which it reads."""

    node: Node
    aggregates: tuple[Aggregate, ...]

    @property
    def spelling(self) -> str:
        """Return the canonical spelling of the whole, which parses back to an equal expression."""
        text = canonical(self.node)
        for aggregate in self.aggregates:
            text = text.replace(name(aggregate.spelling), aggregate.spelling)
        return text


def parse_aggregates(
    text: str, schema: Mapping[str, AttributeKind], want: Literal["score", "predicate"], scales: Mapping[str, int] | None = None
) -> AggregateExpression:
    """Parse and type ``text`` over aggregates of rows with the columns of ``schema``. Raises ``ExpressionErrors`` as ``parse`` does.

    ``scales``: digits after the point of decimal columns, whose aggregates are exact.
    """
    errors: list[ExpressionError] = []
    rows = _RowBuilder(schema, ("",), errors.append)
    found: dict[str, Aggregate] = {}

    def parser(text: str, tokens: list[Token], build: Builder) -> _Parser:
        return _AggregateParser(text, tokens, build, rows, found, scales or {})

    node = parsed(text, parser, _GroupBuilder(schema, ("",), errors.append), errors, want)
    used = {n.name for n in walk(node) if isinstance(n, Attr)}
    return AggregateExpression(node, tuple(a for a in found.values() if a.spelling in used))


class _RowBuilder(Builder):
    """Builds the arguments of aggregates."""

    def aggregation(self, fn: str, span: Span) -> None:
        """Report an aggregate within an aggregate."""
        self.error(f"{fn} is within an aggregate, and aggregates do not nest: an argument is an expression over one row", span)


class _GroupBuilder(Builder):
    """Builds what stands around aggregates."""

    def attribute(self, side: str | None, name: str, span: Span) -> Node | None:
        """Report a column outside of an aggregate."""
        if side is not None and f"{side}.{name}" in self.schema:
            side, name = None, f"{side}.{name}"
        if side is None and name in self.schema:
            hint = f"say which of them counts, such as sum({name}), max({name}) or last({name})"
            self.error(f"{name} has a value in every row of a group", span, hint=hint)
        elif side is None:
            near = closest(name, self.schema)
            self.error(
                f"unknown attribute {name}: an expression over groups consists of aggregates",
                span,
                None if near is None else f"sum({near})",
            )
        else:
            super().attribute(side, name, span)
        return None

    def aggregation(self, fn: str, span: Span) -> None:
        """Report an aggregate that is not known."""
        self.error(f"the aggregate {fn} is not offered (known: {_KNOWN})", span, closest(fn.lower(), AGGREGATES))

    def aggregate(self, aggregate: Aggregate, span: Span) -> Node | None:
        """Return the attribute of an aggregate, or report an argument of a wrong type."""
        x = aggregate.argument
        if x is not None and aggregate.function in _ANY_TYPE:
            if not isinstance(x, Attr) and x.type not in NUMBERS:
                hint: str | None = "to count the rows that satisfy a condition, write sum(where(condition, 1, 0))"
                self.error(f"{aggregate.function} takes a column, or an expression that gives a number", x.span, hint=hint)
                return None
        elif x is not None and x.type not in ("float", "int", "duration", "units"):
            hint = "to add up a condition, write where(condition, 1, 0)" if x.type == "bool" else None
            self.error(f"{aggregate.function} takes numbers", x.span, hint=hint)
            return None
        return self._keep(Attr(side="", name=aggregate.spelling, type="float", span=span))


class _AggregateParser(_Parser):
    def __init__(
        self, text: str, tokens: list[Token], build: Builder, rows: Builder, found: dict[str, Aggregate], scales: Mapping[str, int]
    ) -> None:
        super().__init__(text, tokens, build)
        self.rows, self.found, self.scales = rows, found, scales

    def name(self, token: Token) -> Node | None:
        function = token.value.lower() if token.kind == "name" and self.has("(") else ""
        if function not in AGGREGATES or (function in ("min", "max") and self._arguments() > 1):
            if function in AGGREGATIONS:
                self.aggregation(token)
                return None
            return super().name(token)
        self.take()
        argument = self._argument(token) if not self.has(")") else None
        share = self._share() if function == "quantile" else None
        self.expect(")", f"to close {token.value}(")
        span = self.span(token.span.start)
        if argument is None:
            if function != "count" and self.tokens[self.at - 2].value == "(":
                self.build.error(f"{function} takes an argument, such as {function}(x)", span)
            if function != "count" or self.tokens[self.at - 2].value not in ("(", "*"):
                return None
        scale = self.scales.get(argument.name) if isinstance(argument, Attr) else None
        if isinstance(argument, Attr) and scale is not None:
            argument = Attr(side="", name=argument.name, type="units", span=argument.span)
        aggregate = Aggregate(AGGREGATES[function], argument, share, scale)
        self.found.setdefault(aggregate.spelling, aggregate)
        build = self.build
        assert isinstance(build, _GroupBuilder)
        return build.aggregate(aggregate, span)

    def _argument(self, token: Token) -> Node | None:
        """Return the argument, an expression over one row; None for ``*`` and after a mistake."""
        if token.value.lower() == "count" and self.has("*"):
            self.take()
            return None
        if token.value.lower() == "count" and self.next.value.lower() == "distinct":
            self.build.error("the number of different values is written distinct(x)", self.next.span, "distinct(x)")
            raise _Stop
        row = _Parser(self.text, self.tokens, self.rows)
        row.at, row.depth = self.at, self.depth
        node = row.expression(0)
        self.at = row.at
        if self.has(",") and token.value.lower() != "quantile":
            self.build.error(f"{token.value} takes one argument", self.next.span)
            raise _Stop
        return node

    def _share(self) -> float:
        """Return the second argument of a quantile."""
        self.expect(",", "and a share, such as quantile(x, 0.95)")
        token = self.take()
        share = float(token.value) if token.kind == "number" else 0.0
        if not 0 < share <= 1 or len(token.value) > _SHARE:
            self.build.error("the share of a quantile is a number above 0 and at most 1, of up to 9 decimals", token.span)
            raise _Stop
        return share

    def _arguments(self) -> int:
        """Return the number of arguments of the call that opens at the next token."""
        depth, commas = 0, 0
        for token in self.tokens[self.at :]:
            if token.kind == "op":
                depth += (token.value == "(") - (token.value == ")")
                commas += depth == 1 and token.value == ","
            if depth == 0:
                break
        return 1 + commas
