"""Top-k of a stream by one scoring function, for any number of queries that share it (docs/algorithms D1, replaces TMA and SMA).

The shared state is the K-skyband of the largest window: about K (1 + ln(N/K)) objects, whatever the window's size. With deletions
dominated objects can come back, so ``TopKDeletes`` keeps the scores of the whole window.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from skyband.operators.base import State
from skyband.operators.topk.one_function_configuration import TopKConfiguration, TopKQuery

if TYPE_CHECKING:
    from skyband.operators.topk.one_function_logic import TopKLogic

__all__ = ["TopK", "TopKDeletes", "TopKQuery"]


class TopK(TopKConfiguration):
    """One scoring function and its queries; see ``TopKDeletes`` for streams with deletions. Fields, and errors raised: the base class's."""

    def build(self, state: State | None) -> TopKLogic:
        """Return a logic that continues ``state`` bit for bit, or starts empty."""
        from skyband.operators.topk.one_function_logic import TopKLogic

        return TopKLogic(self, state)


class TopKDeletes(TopK):
    """Top-k of a stream with deletions: the whole window is kept, since a dominated object can come back (docs/semantics 10)."""

    state_format: ClassVar[str] = "TopKDeletes"
    keeps: ClassVar[Literal["window", "retained", "none"]] = "window"
    deletes: ClassVar[bool] = True
