"""The operators of the k best members of a skyline by a score: a skyline, and an order of its members (docs/semantics 11)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Literal

from skyband.operators.base import Column, State
from skyband.operators.expressions import read_columns
from skyband.operators.expressions.ast import Node
from skyband.operators.single_rows.blocks import DELETION_COLUMN
from skyband.operators.single_rows.scores import Direction, Linear
from skyband.operators.skyline.configuration import SkylineConfiguration, SkylineQuery
from skyband.operators.skyline.operator import Skyline, SkylineDeletes
from skyband.operators.state_keys import Group, Started, StateKeys

if TYPE_CHECKING:
    from skyband.operators.skyline.ranked_logic import RankedSkylineLogic

_MEMBERS = Group(Started("member_start", "last"), {"member_seq": 0, "member_score": 0})


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


@dataclass(frozen=True)
class RankedSkyline(RankedConfiguration):
    """One shared state and the queries it answers: see ``RankedConfiguration``."""

    state_format: ClassVar[str] = "RankedSkyline"
    state_keys: ClassVar[StateKeys] = StateKeys(
        each={**Skyline.state_keys.each, "ranked_step": 0},
        groups=(
            Group(Started("start", "last"), {"rows": 0, "row_score": 0}),
            *Skyline.state_keys.groups[1:],
            _MEMBERS,
        ),
    )

    def build(self, state: State | None) -> RankedSkylineLogic:
        """Return a logic that continues ``state`` bit for bit, or starts empty."""
        from skyband.operators.skyline.ranked_logic import RankedSkylineLogic

        return RankedSkylineLogic(self, self.skyline(deletes=False), state)


@dataclass(frozen=True)
class RankedSkylineDeletes(RankedConfiguration):
    """A ranked skyline of rows that can be deleted: see ``SkylineDeletes``."""

    state_format: ClassVar[str] = "RankedSkylineDeletes"
    keeps: ClassVar[Literal["window", "retained", "none"]] = "window"
    state_keys: ClassVar[StateKeys] = StateKeys(
        each={**SkylineDeletes.state_keys.each, "ranked_step": 0}, groups=(*SkylineDeletes.state_keys.groups, _MEMBERS)
    )

    @property
    def columns(self) -> tuple[Column, ...]:
        """Return the columns of ``RankedConfiguration``, and the deletions' targets."""
        return (*super().columns, DELETION_COLUMN)

    def build(self, state: State | None) -> RankedSkylineLogic:
        """Return a logic that continues ``state`` bit for bit, or starts empty."""
        from skyband.operators.skyline.ranked_logic import RankedSkylineLogic

        return RankedSkylineLogic(self, self.skyline(deletes=True), state)
