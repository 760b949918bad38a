"""The operators of ranked skylines: a configuration that builds its logic, without and with deletions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from skyband.operators.base import Column, State
from skyband.operators.single_rows.blocks import DELETION_COLUMN
from skyband.operators.skyline.operator import Skyline, SkylineDeletes
from skyband.operators.skyline.ranked_configuration import RankedConfiguration, RankedSkylineQuery
from skyband.operators.state_keys import Group, Started, StateKeys

if TYPE_CHECKING:
    from skyband.operators.skyline.ranked_logic import RankedSkylineLogic

__all__ = ["RankedSkyline", "RankedSkylineDeletes", "RankedSkylineQuery"]

_MEMBERS = Group(Started("member_start", "last"), {"member_seq": 0, "member_score": 0})


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
