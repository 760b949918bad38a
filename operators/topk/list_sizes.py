"""How long the candidate lists of top-k queries are."""

from __future__ import annotations

import numpy as np

from skyband.operators.base import I64


def list_sizes(k: I64) -> I64:
    """Return how many candidates a query's list is filled with: enough that chance alone hardly ever empties it to below k."""
    return (k + 4.0 * np.sqrt(k) + 8.0).astype(np.int64)
