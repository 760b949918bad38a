"""Threshold queries over one scoring function: the result is every alive object whose score passes.

State: the objects that pass some query and are alive. There is no dominance, so deletions need no further state.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from skyband.operators.base import State
from skyband.operators.threshold.one_function_configuration import ThresholdConfiguration, ThresholdQuery

if TYPE_CHECKING:
    from skyband.operators.threshold.one_function_logic import ThresholdLogic

__all__ = ["Threshold", "ThresholdQuery"]


class Threshold(ThresholdConfiguration):
    """One scoring function and its queries. Fields, and errors raised: the base class's."""

    def build(self, state: State | None) -> ThresholdLogic:
        """Return a logic that continues ``state`` bit for bit, or starts empty."""
        from skyband.operators.threshold.one_function_logic import ThresholdLogic

        return ThresholdLogic(self, state)
