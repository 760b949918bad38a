"""Functions of texts and sets over whole arrays, without compiled kernels: the same values as those of ``kernels``."""

from __future__ import annotations

from collections.abc import Callable
from math import nan, sqrt
from typing import NamedTuple

import numpy as np

from skyband.operators.base import F64, I64, NULL, Ragged
from skyband.operators.set_index.functions import SIMILARITIES, Similarity


class Pattern(NamedTuple):
    """A text that is compared with others: its length, and for every code point the positions at which it stands, as bits."""

    length: int
    masks: dict[int, int]


def pattern_of(text: I64) -> Pattern:
    """Return the pattern of a text as code points. O(length)."""
    masks: dict[int, int] = {}
    for i, c in enumerate(text.tolist()):
        masks[c] = masks.get(c, 0) | 1 << i
    return Pattern(len(text), masks)


def distance(pattern: Pattern, text: I64, limit: int) -> int:
    """Return the edit distance of a pattern and a text as code points, ``NULL`` beyond a ``limit`` from 0 on.

    Myers' bit vectors: bit i of ``plus`` and ``minus`` says whether the distance rises or falls from position i to i + 1 of the pattern.
    """
    m, found = pattern.length, pattern.length
    if m == 0:
        found = len(text)
    ones, last = (1 << m) - 1, 1 << m >> 1
    plus, minus = ones, 0
    for c in text.tolist() if m else ():
        equal = pattern.masks.get(c, 0)
        falls = equal | minus
        across = (((equal & plus) + plus) ^ plus) | equal
        up, down = minus | (ones & ~(across | plus)), plus & across
        found += bool(up & last) - bool(down & last)
        up, down = (up << 1 | 1) & ones, down << 1 & ones
        plus, minus = down | (ones & ~(falls | up)), up & falls
    return NULL if 0 <= limit < found else found


def text_pattern(pool: I64, at: I64) -> Pattern | None:
    """Return the pattern of the text at an offset, ``at`` int64 (1,); None for null."""
    return None if at[0] == NULL else pattern_of(_values(pool, int(at[0])))


def edit_distance(pattern: Pattern | None, pool: I64, at: I64, limit: int) -> I64:
    """Return the distances of a pattern and the texts at offsets ``at``, ``NULL`` for null and beyond the limit."""
    found = np.full(len(at), NULL)
    if pattern is None:
        return found
    for i in np.flatnonzero(at != NULL):
        found[i] = distance(pattern, _values(pool, int(at[i])), limit)
    return found


def set_similarity(function: int, pool: I64, x: I64, y: I64) -> F64:
    """Return the similarities of the sets at offsets ``x`` and ``y``, of which one may have length 1; NaN for null."""
    similarity = _SIMILARITIES[SIMILARITIES[function]]
    x, y = np.broadcast_arrays(x, y)
    found = np.full(len(x), nan)
    for i in np.flatnonzero((x != NULL) & (y != NULL)):
        a, b = _values(pool, int(x[i])), _values(pool, int(y[i]))
        found[i] = similarity(len(np.intersect1d(a, b, assume_unique=True)), len(a), len(b))
    return found


def _values(pool: I64, at: int) -> I64:
    return pool[at + 1 : at + 1 + int(pool[at])]


_SIMILARITIES: dict[Similarity, Callable[[int, int, int], float]] = {
    "jaccard": lambda common, a, b: common / (a + b - common),
    "cosine": lambda common, a, b: sqrt(common * common / (a * b)),
    "dice": lambda common, a, b: 2 * common / (a + b),
    "overlap": lambda common, a, b: float(common),
}


def edit_distances(x: Ragged, y: Ragged, limit: int, out: I64) -> None:
    """See ``kernels.edit_distance``: set ``out`` (n,) to the distances of the texts of x and y; x may have 1 row."""
    pattern = None
    for i in range(len(out)):
        if i == 0 or len(x.start) > 2:
            own = _row(x, i)
            pattern = None if own is None else pattern_of(own)
        other = _row(y, i)
        out[i] = NULL if pattern is None or other is None else distance(pattern, other, limit)


def _row(rows: Ragged, i: int) -> I64 | None:
    text = rows.values[rows.start[i] : rows.start[i + 1]]
    return None if len(text) == 1 and text[0] == NULL else text
