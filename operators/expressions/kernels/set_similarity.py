"""Similarities of two sets of tokens in the pool, as users know them: the larger, the more similar."""

from __future__ import annotations

import math

import numpy as np

from skyband.operators.base import I64, NULL
from skyband.operators.jit import inner
from skyband.operators.set_index.functions import COSINE
from skyband.operators.set_index.kernels.similarity import score_of


@inner
def set_similarity(function: int, pool: I64, x: int, y: int) -> float:
    """Return the similarity of the sets at offsets ``x`` and ``y`` (codes ascending), NaN for ``NULL``. O(tokens)."""
    if NULL in (x, y):
        return np.nan
    i, j = x + 1, y + 1
    stop_i, stop_j = i + pool[x], j + pool[y]
    common = 0
    while i < stop_i and j < stop_j:
        v, w = pool[i], pool[j]
        common += v == w
        i += v <= w
        j += w <= v
    similarity = -score_of(function, common, pool[x], pool[y]) + 0.0
    return math.sqrt(similarity) if function == COSINE else similarity
