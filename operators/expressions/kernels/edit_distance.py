"""The edit distance (Levenshtein) of texts as code points: Myers' bit-parallel algorithm, 64 code points of one text at a time.

G. Myers, A fast bit-vector algorithm for approximate string matching based on dynamic programming, J. ACM 46(3), 1999; in words as of
H. Hyyroe, A bit-vector algorithm for computing Levenshtein and Damerau edit distances, 2003.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from skyband.operators.base import I64, NULL
from skyband.operators.jit import inner, jit, maker

U64 = npt.NDArray[np.uint64]

NOTHING = np.uint64(0)
ONE = np.uint64(1)
HIGHEST = np.uint64(63)

NO_TEXT = -1
"""The length of a text that is null."""


class Pattern(NamedTuple):
    """A text that is compared with others."""

    length: int
    """int64: its code points, or ``NO_TEXT``."""
    characters: I64
    """int64 (a power of two,): its different code points by hash, or -1; linear probing, at most half full."""
    rows: I64
    """int64, likewise: the row of ``masks`` of each."""
    masks: U64
    """uint64 (different code points + 1, words): bit i of word w is set where the code point is that at 64 w + i. Row 0: no bit."""
    plus: U64
    """uint64 (words,), a buffer: bit i is set where the distance rises by one from code point i of the pattern to the next."""
    minus: U64
    """uint64 (words,), a buffer: likewise where it falls."""


@inner
def slot_of(characters: I64, character: int) -> int:
    """Return the slot that a code point has, or would have."""
    last = len(characters) - 1
    slot = character & last
    while characters[slot] != character and characters[slot] >= 0:
        slot = (slot + 1) & last
    return slot


@maker
def pattern_of(values: I64, first: int, length: int) -> Pattern:
    """Return the pattern of the text ``values[first : first + length]``; ``length`` may be ``NO_TEXT``. O(length)."""
    size = 128
    while size < 2 * length:
        size *= 2
    characters, rows, different = np.full(size, -1, np.int64), np.zeros(size, np.int64), 0
    for i in range(first, first + length):
        slot = slot_of(characters, values[i])
        if characters[slot] < 0:
            different += 1
            characters[slot], rows[slot] = values[i], different
    words = (max(length, 0) + 63) >> 6
    masks = np.zeros((different + 1, words), np.uint64)
    for i in range(length):
        masks[rows[slot_of(characters, values[first + i])], i >> 6] |= ONE << np.uint64(i & 63)
    return Pattern(length, characters, rows, masks, np.empty(words, np.uint64), np.empty(words, np.uint64))


@inner
def bit(word: np.uint64, place: np.uint64) -> int:
    """Return one bit of a word. Numba has no integer for the difference of an int64 and a uint64."""
    return int(np.int64((word >> place) & ONE))


@inner
def distance(pattern: Pattern, values: I64, first: int, length: int, limit: int) -> int:
    """Return the distance of a pattern and the text ``values[first : first + length]``, ``NULL`` if it is above a ``limit`` from 0 on.

    O(length * words).
    """
    if limit >= 0 and abs(pattern.length - length) > limit:
        return NULL
    if pattern.length == 0:
        return length
    if len(pattern.plus) == 1:
        return short_distance(pattern, values, first, length, limit)
    return long_distance(pattern, values, first, length, limit)


@inner
def short_distance(pattern: Pattern, values: I64, first: int, length: int, limit: int) -> int:
    """Return ``distance`` for a pattern of 1 to 64 code points."""
    characters, rows, masks = pattern.characters, pattern.rows, pattern.masks
    last, found = np.uint64(pattern.length - 1), pattern.length
    rises, falls = ~NOTHING, NOTHING
    for i in range(length):
        equal = masks[rows[slot_of(characters, values[first + i])], 0]
        ends = equal | falls
        across = (((equal & rises) + rises) ^ rises) | equal
        up, down = falls | ~(across | rises), rises & across
        found += bit(up, last) - bit(down, last)
        up, down = (up << ONE) | ONE, down << ONE
        rises, falls = down | ~(ends | up), up & ends
        if limit >= 0 and found - (length - 1 - i) > limit:  # every code point still to come takes away one at most
            return NULL
    return found


@inner
def long_distance(pattern: Pattern, values: I64, first: int, length: int, limit: int) -> int:
    """Return ``distance`` for a pattern of any length from 1 on, word by word."""
    own, plus, minus = pattern.length, pattern.plus, pattern.minus
    words = len(plus)
    for w in range(words):
        plus[w], minus[w] = ~NOTHING, NOTHING
    last, found = np.uint64((own - 1) & 63), own
    for i in range(first, first + length):
        slot = slot_of(pattern.characters, values[i])
        row = pattern.masks[pattern.rows[slot]]
        up_before, down_before = ONE, NOTHING
        for w in range(words):
            rises, falls = plus[w], minus[w]
            equal = row[w]
            ends = equal | falls
            equal |= down_before
            across = (((equal & rises) + rises) ^ rises) | equal
            up, down = falls | ~(across | rises), rises & across
            if w == words - 1:
                found += bit(up, last) - bit(down, last)
            up_after, down_after = up >> HIGHEST, down >> HIGHEST
            up, down = (up << ONE) | up_before, (down << ONE) | down_before
            plus[w], minus[w] = down | ~(ends | up), up & ends
            up_before, down_before = up_after, down_after
        if limit >= 0 and found - (first + length - 1 - i) > limit:
            return NULL
    return found


@maker
def text_pattern(pool: I64, at: int) -> Pattern:
    """Return the pattern of the text at an offset of the pool, which may be ``NULL``."""
    return pattern_of(pool, 0, NO_TEXT) if at == NULL else pattern_of(pool, at + 1, pool[at])


@inner
def edit_distance(pattern: Pattern, pool: I64, at: int, limit: int) -> int:
    """Return the distance of a pattern and the text at an offset, ``NULL`` for null and beyond the limit."""
    if pattern.length == NO_TEXT or at == NULL:
        return NULL
    return distance(pattern, pool, at + 1, pool[at], limit)


@jit
def edit_distances(x_start: I64, x_values: I64, y_start: I64, y_values: I64, limit: int, out: I64) -> None:
    """Set ``out`` (n,) to the distances of the texts of x and y, ``Ragged`` of n rows, or of x of 1 row. O(characters * words)."""
    constant = len(x_start) == 2
    pattern = pattern_of(x_values, 0, 0)
    for i in range(len(out)):
        if i == 0 or not constant:
            first, stop = x_start[i], x_start[i + 1]
            null = stop == first + 1 and x_values[first] == NULL
            pattern = pattern_of(x_values, first, NO_TEXT if null else stop - first)
        first, stop = y_start[i], y_start[i + 1]
        null = pattern.length == NO_TEXT or (stop == first + 1 and y_values[first] == NULL)
        out[i] = NULL if null else distance(pattern, y_values, first, stop - first, limit)
