"""The pairs that shards find (``shards``), which arrivals carry (``base``)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

I64 = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class FoundPairs:
    """Pairs that shards found, arrays of shape (m,), by key and newer seq in any order.

    ``query``: the operator's query that the pair is for, 0 where all share one search. ``newer`` is twice the seq of the pair's newer
    object, plus 1 if that one is its ``a`` (``pair_rows.kernels.tables``). ``score`` is internal: smaller is better.
    """

    query: I64
    key: I64
    older: I64
    newer: I64
    score: npt.NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.score)

    @classmethod
    def none(cls) -> FoundPairs:
        """Return no pairs."""
        i64 = np.empty(0, np.int64)
        return cls(i64, i64, i64, i64, np.empty(0))
