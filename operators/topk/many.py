"""Top-k of thousands of linear functions over one window (paper 2's setting), as one state and one spec entry.

Rows are stored once. An influence grid finds the few queries an arrival can concern; each query keeps a sorted list a little longer than
k, so that it hardly ever has to search the window. Nothing loops over queries in Python.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from skyband.operators.base import State
from skyband.operators.topk.many_configuration import ManyTopKConfiguration

if TYPE_CHECKING:
    from skyband.operators.topk.many_logic import ManyTopKLogic


class ManyTopK(ManyTopKConfiguration):
    """Q linear queries over ``attributes``: the configuration's fields, and the logic that answers them."""

    def build(self, state: State | None) -> ManyTopKLogic:
        """Return a logic that continues ``state`` bit for bit, or starts empty."""
        from skyband.operators.topk.many_logic import ManyTopKLogic

        return ManyTopKLogic(self, state)
