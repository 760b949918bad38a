"""The configuration of the k best members of a skyline by a score: a skyline, and an order of its members (docs/semantics 11)."""

from __future__ import annotations

from dataclasses import dataclass, field

from skyband.operators.base import Column
from skyband.operators.expressions import read_columns
from skyband.operators.expressions.ast import Node
from skyband.operators.single_rows.scores import Direction, Linear
from skyband.operators.skyline.configuration import SkylineConfiguration, SkylineQuery
from skyband.operators.skyline.operator import Skyline, SkylineDeletes


@dataclass(frozen=True, slots=True)
class RankedSkylineQuery(SkylineQuery):
    """The ``k`` best members of a ``SkylineQuery``."""

    k: int = 1


@dataclass(frozen=True)
class RankedConfiguration(SkylineConfiguration):
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

    def skyline(self, deletes: bool) -> Skyline | SkylineDeletes:
        """Return the operator of the skyline alone."""
        queries = tuple(SkylineQuery(q.name, q.window, q.every_micros) for q in self.queries)
        kind = SkylineDeletes if deletes else Skyline
        return kind(self.dimensions, queries, self.window, self.band, self.distinct, self.where, self.texts, self.levels)
