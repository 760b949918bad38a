"""Typed syntax tree of the spec's expression language (architecture: "Expressions"). Frozen, picklable, hashable.

Equality ignores positions, so two spellings of one expression that parse alike are one shared state.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final, Literal, Self, TypeAlias

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
"""Where times begin."""

Type: TypeAlias = Literal["float", "int", "text", "bool", "time", "duration", "null", "units", "tokens", "characters", "vector"]
"""``units``: a decimal as the whole number of its smallest units, which only aggregates read. ``tokens``: a set. ``characters``: the code
points of a text, which stand in no tree. A ``vector`` is only ever an attribute."""


class Written(float):
    """A number with more digits than a float64 has, whose ``repr`` is the text as written.

    Comparisons of decimals count all digits. To everything else it is the nearest float64.
    """

    def __new__(cls, text: str | float) -> Self:
        """Return the number that ``text`` writes."""
        literal = super().__new__(cls, text)
        literal.text = str(text)
        return literal

    text: str

    def __repr__(self) -> str:
        return self.text

    def __neg__(self) -> Written:
        return Written(self.text[1:] if self.text.startswith("-") else f"-{self.text}")


@dataclass(frozen=True, slots=True)
class Span:
    """Where in the expression's text: ``start`` <= offset < ``end`` (characters)."""

    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """``type`` is what the node evaluates to."""

    type: Type
    span: Span = field(default=Span(0, 0), compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Literal_(Node):
    """A number, text, truth value, null, duration (``value`` then int microseconds) or time (int microseconds since 1970, UTC)."""

    value: int | float | str | bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Attr(Node):
    """An attribute of an object: ``side`` is "a", "b", or "" in expressions over one object. ``dimension``: of a vector."""

    side: str
    name: str
    dimension: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Unary(Node):
    """``op``: "-" or "not"."""

    op: str
    x: Node


@dataclass(frozen=True, slots=True, kw_only=True)
class Binary(Node):
    """``op``: + - * /  = <> < <= > >=  and or."""

    op: str
    x: Node
    y: Node


@dataclass(frozen=True, slots=True, kw_only=True)
class Call(Node):
    """``fn``: a function of ``typed.FUNCTIONS`` but ``coalesce``, which like ``case`` is written with ``where``."""

    fn: str
    args: tuple[Node, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class IsNull(Node):
    """``x is [not] null``."""

    x: Node
    negated: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class In(Node):
    """``x [not] in (literal, ...)``."""

    x: Node
    options: tuple[Literal_, ...]
    negated: bool
