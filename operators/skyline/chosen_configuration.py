"""The configurations of skylines of which some are chosen (docs/semantics 11): the k best by a score, or so many near weights."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Final

from skyband.operators.base import Column
from skyband.operators.expressions import read_columns
from skyband.operators.expressions.ast import Node
from skyband.operators.single_rows.scores import Direction, Linear
from skyband.operators.skyline.configuration import SkylineConfiguration, SkylineQuery
from skyband.operators.skyline.operator import Skyline, SkylineDeletes

MAX_DIMENSIONS: Final = 6
"""The most dimensions with an order: a distance takes a time in proportion to 2 to the power of their number."""


class ChosenConfiguration(SkylineConfiguration):
    """A skyline, and a rule that chooses members of it."""

    def skyline(self, deletes: bool) -> Skyline | SkylineDeletes:
        """Return the operator of the skyline alone."""
        queries = tuple(SkylineQuery(q.name, q.window, q.every_micros) for q in self.queries)
        kind = SkylineDeletes if deletes else Skyline
        return kind(self.dimensions, queries, self.window, self.band, self.distinct, self.where, self.texts, self.levels)


@dataclass(frozen=True, slots=True)
class RankedSkylineQuery(SkylineQuery):
    """The ``k`` best members of a ``SkylineQuery``."""

    k: int = 1


@dataclass(frozen=True)
class RankedConfiguration(ChosenConfiguration):
    """A skyline, and a score that ranks its members: ``direction`` first, then newest first. ``queries`` are ``RankedSkylineQuery``.

    Objects without a score (null or NaN) dominate others, and are in no result. Raises ValueError also for k < 1.
    """

    scoring: Linear | Node = field(kw_only=True)
    direction: Direction = field(kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        for q in self.queries:
            if not isinstance(q, RankedSkylineQuery) or q.k < 1:
                raise ValueError(f"{q.name}: k must be at least 1")
        if self.direction not in ("min", "max"):
            raise ValueError(f"direction is {self.direction!r}, not 'min' or 'max'")

    @property
    def most(self) -> tuple[int, ...]:
        """Return each query's k."""
        return tuple(q.k for q in self.queries if isinstance(q, RankedSkylineQuery))

    @property
    def columns(self) -> tuple[Column, ...]:
        """Return the dimensions, then the other columns of ``where`` and of the score."""
        found = {c.name: c for c in super().columns}
        for c in self._score_columns():
            found.setdefault(c.name, c)
        return tuple(found.values())

    def _score_columns(self) -> tuple[Column, ...]:
        if isinstance(self.scoring, Linear):
            return tuple(Column(name, "int" if name in self.scoring.ints else "float") for name, _ in self.scoring.weights)
        return read_columns(self.scoring)


@dataclass(frozen=True, slots=True)
class SizedSkylineQuery(SkylineQuery):
    """The ``size`` members of a ``SkylineQuery`` with the smallest radii."""

    size: int = 1

    @property
    def k(self) -> int:
        """Return the size: ``snapshot`` returns the query's own result with this k."""
        return self.size


@dataclass(frozen=True)
class SizedConfiguration(ChosenConfiguration):
    """A skyline, and a weight for each of its dimensions in order, at least 0, with the sum 1. ``queries`` are ``SizedSkylineQuery``.

    Raises ValueError also for a size < 1, other weights, levels, a dimension with direction ``equal``, and more than 6 dimensions.
    """

    weights: tuple[float, ...] = field(kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        for q in self.queries:
            if not isinstance(q, SizedSkylineQuery) or q.size < 1:
                raise ValueError(f"{q.name}: size must be at least 1")
        if self.levels is not None or self.ordered < len(self.dimensions):
            raise ValueError("weights go neither with levels nor with dimensions with direction 'equal'")
        if self.ordered > MAX_DIMENSIONS:
            raise ValueError(f"weights take at most {MAX_DIMENSIONS} dimensions, not {self.ordered}")
        if len(self.weights) != self.ordered or not all(0 <= w <= 1 for w in self.weights) or not math.isclose(sum(self.weights), 1):
            raise ValueError(f"weights {self.weights} are not one for each of {self.ordered} dimensions, at least 0 with the sum 1")

    @property
    def sizes(self) -> tuple[int, ...]:
        """Return each query's size."""
        return tuple(q.size for q in self.queries if isinstance(q, SizedSkylineQuery))
