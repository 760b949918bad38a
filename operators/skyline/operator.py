"""The operator of skylines and K-skybands: a configuration that builds its logic."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from skyband.operators.base import State
from skyband.operators.skyline.configuration import Dimension, SkylineConfiguration, SkylineQuery

if TYPE_CHECKING:
    from skyband.operators.skyline.logic import SkylineLogic

__all__ = ["Dimension", "Skyline", "SkylineQuery"]


@dataclass(frozen=True)
class Skyline(SkylineConfiguration):
    """One shared state and the queries it answers: see ``SkylineConfiguration``."""

    def build(self, state: State | None) -> SkylineLogic:
        """Return a logic that continues ``state`` bit for bit, or starts empty."""
        from skyband.operators.skyline.logic import SkylineLogic

        return SkylineLogic(self, state)
