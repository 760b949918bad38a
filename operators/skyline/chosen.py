"""The operators of skylines of which some members are chosen, without and with deletions: a configuration that builds its logic."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from skyband.operators.base import Column, State
from skyband.operators.single_rows.blocks import DELETION_COLUMN
from skyband.operators.skyline.chosen_configuration import (
    RankedConfiguration,
    RankedSkylineQuery,
    SizedConfiguration,
    SizedSkylineQuery,
)
from skyband.operators.skyline.operator import Skyline, SkylineDeletes
from skyband.operators.state_keys import Group, Started, StateKeys

if TYPE_CHECKING:
    from skyband.operators.skyline.chosen_logic import RankedSkylineLogic, SizedSkylineLogic

__all__ = ["RankedSkyline", "RankedSkylineDeletes", "RankedSkylineQuery", "SizedSkyline", "SizedSkylineDeletes", "SizedSkylineQuery"]

_RANKED = Group(Started("member_start", "last"), {"member_seq": 0, "member_score": 0})
_SIZED = Group(Started("member_start", "last"), {"member_seq": 0, "member_shown": 0, "member_values": 0})


@dataclass(frozen=True)
class RankedSkyline(RankedConfiguration):
    """One shared state and the queries it answers: see ``RankedConfiguration``."""

    state_format: ClassVar[str] = "RankedSkyline"
    state_keys: ClassVar[StateKeys] = StateKeys(
        each={**Skyline.state_keys.each, "ranked_step": 0},
        groups=(
            Group(Started("start", "last"), {"rows": 0, "row_score": 0}),
            *Skyline.state_keys.groups[1:],
            _RANKED,
        ),
    )

    def build(self, state: State | None) -> RankedSkylineLogic:
        """Return a logic that continues ``state`` bit for bit, or starts empty."""
        from skyband.operators.skyline.chosen_logic import RankedSkylineLogic

        return RankedSkylineLogic(self, self.skyline(deletes=False), state)


@dataclass(frozen=True)
class RankedSkylineDeletes(RankedConfiguration):
    """A ranked skyline of rows that can be deleted: see ``SkylineDeletes``."""

    state_format: ClassVar[str] = "RankedSkylineDeletes"
    keeps: ClassVar[Literal["window", "retained", "none"]] = "window"
    state_keys: ClassVar[StateKeys] = StateKeys(
        each={**SkylineDeletes.state_keys.each, "ranked_step": 0}, groups=(*SkylineDeletes.state_keys.groups, _RANKED)
    )

    @property
    def columns(self) -> tuple[Column, ...]:
        """Return the columns of ``RankedConfiguration``, and the deletions' targets."""
        return (*super().columns, DELETION_COLUMN)

    def build(self, state: State | None) -> RankedSkylineLogic:
        """Return a logic that continues ``state`` bit for bit, or starts empty."""
        from skyband.operators.skyline.chosen_logic import RankedSkylineLogic

        return RankedSkylineLogic(self, self.skyline(deletes=True), state)


@dataclass(frozen=True)
class SizedSkyline(SizedConfiguration):
    """One shared state and the queries it answers: see ``SizedConfiguration``."""

    state_format: ClassVar[str] = "SizedSkyline"
    state_keys: ClassVar[StateKeys] = StateKeys(
        each={**Skyline.state_keys.each, "sized_step": 0},
        groups=(
            Group(Started("start", "last"), {"rows": 0, "row_values": 0}),
            *Skyline.state_keys.groups[1:],
            _SIZED,
        ),
    )

    def build(self, state: State | None) -> SizedSkylineLogic:
        """Return a logic that continues ``state`` bit for bit, or starts empty."""
        from skyband.operators.skyline.chosen_logic import SizedSkylineLogic

        return SizedSkylineLogic(self, self.skyline(deletes=False), state)


@dataclass(frozen=True)
class SizedSkylineDeletes(SizedConfiguration):
    """A skyline of a chosen size of rows that can be deleted: see ``SkylineDeletes``."""

    state_format: ClassVar[str] = "SizedSkylineDeletes"
    keeps: ClassVar[Literal["window", "retained", "none"]] = "window"
    state_keys: ClassVar[StateKeys] = StateKeys(
        each={**SkylineDeletes.state_keys.each, "sized_step": 0}, groups=(*SkylineDeletes.state_keys.groups, _SIZED)
    )

    @property
    def columns(self) -> tuple[Column, ...]:
        """Return the dimensions, the other columns of ``where``, and the deletions' targets."""
        return (*super().columns, DELETION_COLUMN)

    def build(self, state: State | None) -> SizedSkylineLogic:
        """Return a logic that continues ``state`` bit for bit, or starts empty."""
        from skyband.operators.skyline.chosen_logic import SizedSkylineLogic

        return SizedSkylineLogic(self, self.skyline(deletes=True), state)
