"""Every change of one key by definition: what a query type that covers all of them returns, and what the tables are compared with."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

Item = tuple[Any, ...]
"""Values of the identity columns of an item."""


@dataclass(frozen=True, slots=True)
class ChangeRow:
    """A row of a change stream. ``cause``: None if the query type decides it (items that are not rows).

    ``score``: the score, or a time-varying value, which changes by ``slope``. ``carried``: the values of ``ItemShape.carried``.
    """

    change: str
    cause: str | None
    item: tuple[Any, ...]
    score: float
    slope: int | None = None
    carried: tuple[Any, ...] = ()


class ItemPoint(NamedTuple):
    """The value of an item from ``at`` (microseconds) on, and what a point of its trajectory carries."""

    at: int
    value: float
    carried: tuple[Any, ...] = ()


class FinalRow(NamedTuple):
    """A row of a final result."""

    item: Item
    score: float
    carried: tuple[Any, ...]


@dataclass(slots=True)
class History:
    """All changes of a query for one key up to an instant, by definition.

    ``steps``: by instant, the steps in order. ``points``: by item, the points of its trajectory in order. ``finals``: by the end of a
    window its members in rank order. ``until``: the instant up to which all of these are complete.
    """

    steps: dict[int, list[list[ChangeRow]]] = field(default_factory=dict)
    points: dict[Item, list[ItemPoint]] = field(default_factory=dict)
    finals: dict[int, list[FinalRow]] = field(default_factory=dict)
    until: int = -(2**62)
