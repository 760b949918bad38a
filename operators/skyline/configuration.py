"""Skylines and K-skybands of sliding windows as exact change streams (docs/algorithms D4; replaces Lazy and Eager, paper 3).

An object is in the K-skyband of a window iff fewer than K objects alive in the window dominate it. Dominance is strict (<= in every
dimension, < in one), so equal objects coexist; with ``distinct`` a newer equal object counts as one dominator of the older. Objects
with a null or NaN in a dimension, and objects the predicate ``where`` does not hold for, occupy the window and do nothing else.

With ``levels`` the ordered dimensions have priorities: the first level in which two objects differ decides, and there one dominates the
other by that level's dimensions (the prioritised composition of Pareto preferences: Kiessling, VLDB 2002, section 3). It is transitive and
irreflexive as dominance is, which is all that the operators rely on.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Literal

import numpy as np

from skyband.operators.base import Column, Window
from skyband.operators.expressions import Node, read_columns
from skyband.operators.state_keys import Group, Started, StateKeys
from skyband.operators.windows import check_window

MAX_BAND: int = 4096

MAX_PRIORITIES: int = 62
"""The most ordered dimensions of a skyline with levels: kernels know where levels end by the bits of an integer."""


@dataclass(frozen=True, slots=True)
class SkylineQuery:
    """The K-skyband of ``window``; ``every_micros``: net changes at its multiples since 1970 only."""

    name: str
    window: Window
    every_micros: int | None = None


@dataclass(frozen=True, slots=True)
class Dimension:
    """An attribute and its better end; ``equal``: objects are compared only within the same value."""

    column: Column
    direction: Literal["min", "max", "equal"]


@dataclass(frozen=True)
class SkylineConfiguration:
    """One shared state (dimensions, band K, ``distinct``, ``where``) and the windows n <= N it answers.

    ``window`` is the largest window N; a query's window has ends of the same kinds or fewer, and those it lacks are the state's. Raises
    ValueError for no ordered dimension, an ordered text dimension, a column used twice, K < 1, or a window larger than N.

    ``levels``: how many of the ordered dimensions, in their order, belong to each level, the first decides first; None for one level.
    """

    dimensions: tuple[Dimension, ...]
    queries: tuple[SkylineQuery, ...]
    window: Window
    band: int = 1
    distinct: bool = False
    where: Node | None = None
    texts: tuple[str, ...] = ()
    levels: tuple[int, ...] | None = None

    state_format: ClassVar[str] = "Skyline"
    query_types: ClassVar[frozenset[str]] = frozenset({"skyline"})
    keeps: ClassVar[Literal["window", "retained", "none"]] = "retained"
    state_keys: ClassVar[StateKeys] = StateKeys(
        each={"last": 0, "due": 0, "head": 0, "boundary": 0, "step": 0},
        groups=(Group(Started("start", "last"), {"rows": 0}), Group(Started("shown_start", "last"), {"shown": 0})),
    )

    def __post_init__(self) -> None:
        check_window(self.window, self.window, "skyline")
        if not self.queries:
            raise ValueError("a skyline state needs at least one query")
        if len({q.name for q in self.queries}) < len(self.queries):
            raise ValueError("two queries of one name")
        for q in self.queries:
            check_window(q.window, self.window, q.name)
            if q.every_micros is not None and q.every_micros < 1:
                raise ValueError(f"{q.name}: every must be at least 1 microsecond")
        if not 1 <= self.band <= MAX_BAND:
            raise ValueError(f"band must be between 1 and {MAX_BAND}, not {self.band}")
        if all(d.direction == "equal" for d in self.dimensions):
            raise ValueError("a skyline needs at least one dimension with direction min or max")
        if len({d.column.name for d in self.dimensions}) < len(self.dimensions):
            raise ValueError("a column is used as two dimensions")
        for d in self.dimensions:
            if d.direction not in ("min", "max", "equal"):
                raise ValueError(f"{d.column.name}: direction is {d.direction!r}, not 'min', 'max' or 'equal'")
            if d.column.kind == "text" and d.direction != "equal":
                raise ValueError(f"{d.column.name}: text has no order here; use direction 'equal'")
        if self.levels is not None:
            if len(self.levels) < 2 or min(self.levels) < 1 or sum(self.levels) != self.ordered:
                raise ValueError(f"levels {self.levels} do not divide {self.ordered} ordered dimensions")
            if self.ordered > MAX_PRIORITIES:
                raise ValueError(f"levels take at most {MAX_PRIORITIES} ordered dimensions, not {self.ordered}")

    @property
    def ordered(self) -> int:
        """Return how many dimensions have an order."""
        return sum(d.direction != "equal" for d in self.dimensions)

    @property
    def level_ends(self) -> int:
        """Return an integer with bit j set if ordered dimension j is the last of its level; 0 without levels."""
        ends = np.cumsum(self.levels or ()) - 1
        return sum(1 << int(end) for end in ends)

    @property
    def roles(self) -> tuple[str, ...]:
        """Return the role of single objects."""
        return ("",)

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        """Return the dimensions, then the other columns of ``where``."""
        found = {d.column.name: d.column for d in self.dimensions}
        for c in () if self.where is None else read_columns(self.where):
            found.setdefault(c.name, c)
        return tuple(found.values())
