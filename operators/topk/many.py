"""Top-k of thousands of functions of one form over one window (paper 2's setting), as one state and one spec entry.

Rows are stored once. An influence grid finds the few queries that an arrival can reach. Each query keeps a sorted list slightly
longer than k, so it rarely searches the window. No Python code loops over queries.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from skyband.operators.base import State
from skyband.operators.topk.many_configuration import ManyTopKConfiguration

if TYPE_CHECKING:
    from skyband.operators.topk.many_logic import ManyTopKLogic


class ManyTopK(ManyTopKConfiguration):
    """Q queries over ``attributes``: the configuration's fields, and the logic that answers them."""

    def build(self, state: State | None) -> ManyTopKLogic:
        """Return a logic that continues ``state`` bit for bit, or starts empty."""
        from skyband.operators.topk.many_logic import ManyTopKLogic

        return ManyTopKLogic(self, state)
