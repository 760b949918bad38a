"""The configuration of top-k pairs with a cap per object."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from skyband.operators.topk_pairs.configuration import TopKPairsConfiguration


@dataclass(frozen=True)
class CappedTopKPairsConfiguration(TopKPairsConfiguration):
    """A ``TopKPairsConfiguration`` whose results hold an object at most ``max_per_object`` times.

    A result is what a walk through the window's pairs in rank order takes: every pair that has no object in ``max_per_object`` taken pairs,
    until there are k. Raises ValueError for a cap below 1 or above ``keep_k``, too.
    """

    max_per_object: int = 1

    state_format: ClassVar[str] = "CappedTopKPairs"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 1 <= self.max_per_object <= self.keep_k:
            raise ValueError(f"max_per_object = {self.max_per_object}: from 1 to {self.keep_k}")
