"""The configuration of ``Threshold``: one scoring function and its threshold queries."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Literal

import numpy as np

from skyband.operators.base import Column, Window
from skyband.operators.expressions.ast import Node
from skyband.operators.single_rows.blocks import DELETION_COLUMN
from skyband.operators.single_rows.scores import Direction, Linear, Scorer, scorer
from skyband.operators.state_keys import Group, Named, StateKeys
from skyband.operators.windows import check_window


@dataclass(frozen=True, slots=True)
class ThresholdQuery:
    """Objects of ``window`` with a score ``above``/``at_least`` and ``below``/``at_most`` the given bounds (at least one of them)."""

    name: str
    window: Window
    above: float | None = None
    at_least: float | None = None
    below: float | None = None
    at_most: float | None = None
    every_micros: int | None = None

    def interval(self) -> tuple[float, float]:
        """Return the closed interval of scores that pass; empty is (inf, -inf). -0.0 counts as 0.0."""
        low, high = -np.inf, np.inf
        if self.above is not None:
            if self.above == np.inf:
                return np.inf, -np.inf
            low = float(np.nextafter(self.above + 0.0, np.inf))
        if self.below is not None:
            if self.below == -np.inf:
                return np.inf, -np.inf
            high = float(np.nextafter(self.below + 0.0, -np.inf))
        low = low if self.at_least is None else max(low, self.at_least + 0.0)
        high = high if self.at_most is None else min(high, self.at_most + 0.0)
        return (low, high) if low <= high else (np.inf, -np.inf)


@dataclass(frozen=True)
class ThresholdConfiguration:
    """One scoring function and its threshold queries (one or thousands). ``direction`` decides rank only. ``deletes``: rows may be
    deletions.

    Raises ValueError for a query without bounds, a bound that is NaN, a window larger than the state's, or names used twice.
    """

    scoring: Linear | Node
    direction: Direction
    where: Node | None
    queries: tuple[ThresholdQuery, ...]
    window: Window
    texts: tuple[str, ...] = ()
    deletes: bool = False

    state_format: ClassVar[str] = "Threshold"
    query_types: ClassVar[frozenset[str]] = frozenset({"threshold"})
    keeps: ClassVar[Literal["window", "retained", "none"]] = "retained"
    state_keys: ClassVar[StateKeys] = StateKeys(
        each={"next_seq": 0, "step": 1, "wake_at": 1, "due": 1, "shown_at": 1, "shown_seq": 1},
        groups=(Group(Named("tomb_key"), {"tomb_seq": 0, "tomb_time": 0}),),
    )

    def __post_init__(self) -> None:
        check_window(self.window, self.window, "threshold")
        if self.direction not in ("min", "max"):
            raise ValueError(f"direction is {self.direction!r}, not 'min' or 'max'")
        if not self.queries:
            raise ValueError("a threshold state needs at least one query")
        if len({q.name for q in self.queries}) < len(self.queries):
            raise ValueError("two queries of one name")
        for q in self.queries:
            bounds = [b for b in (q.above, q.at_least, q.below, q.at_most) if b is not None]
            if not bounds:
                raise ValueError(f"{q.name}: a threshold query needs above, at_least, below or at_most")
            if any(np.isnan(b) for b in bounds):
                raise ValueError(f"{q.name}: a threshold is not a number")
            if q.every_micros is not None and q.every_micros < 1:
                raise ValueError(f"{q.name}: every must be at least 1 microsecond")
            check_window(q.window, self.window, q.name)

    @property
    def roles(self) -> tuple[str, ...]:
        """Return the roles of an item's objects: an item is a single object."""
        return ("",)

    @cached_property
    def scores(self) -> Scorer:
        """Return internal scores of a block of objects."""
        return scorer(self.scoring, self.where, self.direction, self.texts)

    @property
    def columns(self) -> tuple[Column, ...]:
        """Return the attributes of the scoring function and the predicate, and the deletions' targets."""
        return self.scores.columns + ((DELETION_COLUMN,) if self.deletes else ())

    def __getstate__(self) -> dict[str, object]:
        return {k: v for k, v in self.__dict__.items() if k != "scores"}
