"""Top-k by several sort keys, with rows that tie, rows without a value, and a chosen order of equal rows.

The rank order is lexicographic: the sort keys in turn, then the columns of ``tie_break``, then age. ``ties`` says which of the rows that
are equal by all sort keys a result has. The state is what can still enter a result (``kernels.ordered.keep_rows``): for exactly k rows the
K-skyband, about K (1 + ln(N/K)) rows. With deletions every row can come back, so ``OrderedTopKDeletes`` keeps the whole window.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from skyband.operators.base import State
from skyband.operators.topk.ordered_configuration import MAX_KEYS, SCORE, OrderedConfiguration, SortKey, Ties, text_column

if TYPE_CHECKING:
    from skyband.operators.topk.ordered_logic import OrderedLogic

__all__ = ["MAX_KEYS", "SCORE", "OrderedTopK", "OrderedTopKDeletes", "SortKey", "Ties", "text_column"]


class OrderedTopK(OrderedConfiguration):
    """The sort keys and their queries; see ``OrderedTopKDeletes`` for streams with deletions. Fields, errors raised: the base class's."""

    def build(self, state: State | None) -> OrderedLogic:
        """Return a logic that continues ``state`` bit for bit, or starts empty."""
        from skyband.operators.topk.ordered_logic import OrderedLogic

        return OrderedLogic(self, state)


class OrderedTopKDeletes(OrderedTopK):
    """The same for a stream with deletions: the whole window is kept, since any row can come back (docs/semantics 10)."""

    state_format: ClassVar[str] = "OrderedTopKDeletes"
    keeps: ClassVar[Literal["window", "retained", "none"]] = "window"
    deletes: ClassVar[bool] = True
