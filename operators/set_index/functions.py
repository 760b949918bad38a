"""The similarity functions, listed once: their names as specs have them, their kernels' numbers, which of them are distances.

Their formulas stand in ``kernels/similarity.py``, and for ``verify`` once more in ``framework/queries/set_pairs/brute_force.py``.
"""

from __future__ import annotations

from typing import Final, Literal, TypeAlias, get_args

Similarity: TypeAlias = Literal["jaccard", "cosine", "dice", "overlap", "hamming"]

SIMILARITIES: Final[tuple[Similarity, ...]] = get_args(Similarity)
"""In the order of the kernels' numbers."""

JACCARD, COSINE, DICE, OVERLAP, HAMMING = range(len(SIMILARITIES))

DISTANCES: Final[frozenset[Similarity]] = frozenset({"hamming"})
"""Functions of which the smallest values rank first."""

AT_MOST_ONE: Final[frozenset[Similarity]] = frozenset({"jaccard", "cosine", "dice"})
"""Functions of which no value is larger than 1."""
