"""Thresholds of thousands of functions of one form over one window, as one state and one spec entry.

An influence grid finds the few queries an arrival passes; each query and key keeps its members first in, first out; only lists that
change cost time. No Python code loops over queries.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from skyband.operators.base import State
from skyband.operators.threshold.many_configuration import ManyThresholdConfiguration

if TYPE_CHECKING:
    from skyband.operators.threshold.many_logic import ManyThresholdLogic


class ManyThreshold(ManyThresholdConfiguration):
    """Q queries over ``attributes``: the configuration's fields, and the logic that answers them."""

    def build(self, state: State | None) -> ManyThresholdLogic:
        """Return a logic that continues ``state`` bit for bit, or starts empty."""
        from skyband.operators.threshold.many_logic import ManyThresholdLogic

        return ManyThresholdLogic(self, state)
