"""The operators of skylines and K-skybands: a configuration that builds its logic, without and with deletions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from skyband.operators.base import Column, State
from skyband.operators.single_rows.blocks import DELETION_COLUMN
from skyband.operators.skyline.configuration import Dimension, SkylineConfiguration, SkylineQuery
from skyband.operators.state_keys import Group, Named, Started, StateKeys

if TYPE_CHECKING:
    from skyband.operators.skyline.logic import SkylineLogic
    from skyband.operators.skyline.window_logic import SkylineDeletesLogic

__all__ = ["Dimension", "Skyline", "SkylineDeletes", "SkylineQuery"]


@dataclass(frozen=True)
class Skyline(SkylineConfiguration):
    """One shared state and the queries it answers: see ``SkylineConfiguration``."""

    def build(self, state: State | None) -> SkylineLogic:
        """Return a logic that continues ``state`` bit for bit, or starts empty."""
        from skyband.operators.skyline.logic import SkylineLogic

        return SkylineLogic(self, state)


@dataclass(frozen=True)
class SkylineDeletes(SkylineConfiguration):
    """A skyline of rows that can be deleted: the whole window is kept, since a dominated object can come back (docs/semantics 10)."""

    state_format: ClassVar[str] = "SkylineDeletes"
    keeps: ClassVar[Literal["window", "retained", "none"]] = "window"
    state_keys: ClassVar[StateKeys] = StateKeys(
        each={"last": 0, "head": 0, "boundary": 0, "step": 0},
        groups=(Group(Named("tomb_key"), {"tomb_seq": 0, "tomb_time": 0}), Group(Started("shown_start", "last"), {"shown": 0})),
    )

    @property
    def columns(self) -> tuple[Column, ...]:
        """Return the dimensions, the other columns of ``where``, and the deletions' targets."""
        return (*super().columns, DELETION_COLUMN)

    def build(self, state: State | None) -> SkylineDeletesLogic:
        """Return a logic that continues ``state`` bit for bit, or starts empty."""
        from skyband.operators.skyline.window_logic import SkylineDeletesLogic

        return SkylineDeletesLogic(self, state)
