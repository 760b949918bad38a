"""The tables of the inverted index of sets: NamedTuples of flat arrays, and the layout of their rows.

The table of *sets* holds the sets of all keys in order of arrival: a row of ``SET_COLUMNS`` integers each. Its tokens are in the table of
*tokens*, as slots. A *slot* stands for a token of a group of sets (those of one key, or of one side of a key). It is a row of the slot
table, found by a hash table, and has a list of the sets that contain the token, oldest first, in the arena of *postings*. Nothing is
removed one by one: when an array is full, ``rebuild`` makes the index again from the sets that are alive.

Tables are flat, and masks show the compiler that positions are not negative: so reading a column is one instruction.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from skyband.operators.base import F64, I64
from skyband.operators.jit import jit

I32 = npt.NDArray[np.int32]
U32 = npt.NDArray[np.uint32]

SEQ, LOW, HIGH, MET, GROUP, PREVIOUS, FIRST, SET_COLUMNS = *range(7), 8
"""Columns of the table of sets: the set's seq; its signature (two words of ``WORD_BITS``, each token sets one bit); the clock of the last
arrival that met it and, in the low ``SIZE_BITS``, its number of tokens; its group (twice its key, plus its side); the row of the previous
set of the group, or -1; where its tokens start. A search reads only the first four, which share a cache line, of most sets."""

WORD_BITS = 63

SIZE_BITS = 31
SIZE_MASK = (1 << SIZE_BITS) - 1

LANES = 8
"""The tokens of a set are padded with ``NO_SLOT`` to a multiple of this, so that they are counted without a remainder."""

CODE, OF_GROUP, START, ROOM, SLOT_COLUMNS = range(5)
"""Columns of the slot table: the host's code of the token; the group; the start of the region of its list; the region's capacity and, in
the low ``LENGTH_BITS``, the list's length."""

LENGTH_BITS = 31
LENGTH_MASK = (1 << LENGTH_BITS) - 1

SETS_END, TOKENS_END, SLOTS, POSTINGS_END, CLOCK, SCALARS = range(6)
"""Elements of ``Index.scalars``: the ends of the tables; and a clock that counts arrivals since the last rebuild."""

LAST_CLOCK = (1 << 31) - (1 << 20)
"""The clock at which the index is rebuilt: ``marks`` hold 31 bits, and a single arrival may move the clock on more than once."""

NO_SLOT = 0
"""The first slot stands for no token; its mark is never set."""

SEQ_BITS = 31
SEQ_MASK = (1 << SEQ_BITS) - 1
POSITION_MASK = (1 << 33) - 1
"""A posting is the position of a set's row and, in the low bits, the low bits of its seq. So most outdated postings are recognized without
reading the row; one that is at least 2^31 objects old is not."""


class Index(NamedTuple):
    """The sets of a bucket's windows, and for every token the list of the sets that contain it."""

    sets: I64
    """int64 (size,): rows of ``SET_COLUMNS``."""
    tokens: U32
    """uint32 (size,): the slots of each set's tokens."""
    slots: I64
    """int64 (size,): rows of ``SLOT_COLUMNS``."""
    marks: I32
    """int32 (slots,): the clock of the last arrival that was compared with the slot's group and has the token."""
    table: U32
    """uint32 (a power of two,): slots by hash, or ``NO_SLOT``; linear probing, at most half full."""
    postings: I64
    """int64 (size,): postings, a region per slot, ascending."""
    newest: I64
    """int64 (groups,): the newest set of each group, or -1."""
    scalars: I64
    """int64 (SCALARS,)."""


class Tokens(NamedTuple):
    """Rows of token codes, as ``Ragged``."""

    start: I64
    """int64 (rows + 1,)."""
    values: I64
    """int64."""


class ArrivingSets(NamedTuple):
    """The sets of the arrivals of an ``Advance``."""

    tokens: Tokens
    first_row: I64
    """int64 (m,): for each of ``Advance.keys``, the row of ``tokens`` of its first arrival."""
    largest: int
    """int64: the number of tokens of the largest set."""


class TokenLookup(NamedTuple):
    """The slots of one arrival's tokens, and buffers of its search. Arrays have room for the largest set, or are as long as noted."""

    own_slots: I64
    """int64: each token's slot in the arrival's own group, or ``NO_SLOT``."""
    lists: I64
    """int64: (length of the list, slot) of each token in the group to compare with, packed by ``SLOT_BITS``; tokens without a list first,
    as negative numbers, then the shortest list."""
    unsorted: I64
    """int64: ``lists`` in the order of the tokens."""
    signature: I64
    """int64 (2,): the arrival's signature."""
    near: I64
    """int64 (AT_ONCE + 1,): positions of sets that may be partners by size and signature."""
    near_step: I64
    """int64 (AT_ONCE + 1,): the step of the staircase of each."""
    condition: F64
    """float64 (1,): output of the pair's condition: NaN if it is not met."""


SLOT_BITS = 31
SLOT_MASK = (1 << SLOT_BITS) - 1

AT_ONCE = 64
"""List entries that are compared by size and signature before the first one's common tokens are counted."""


class Staircase(NamedTuple):
    """The largest score with which a pair can enter the skyband, by its older object: the older, the smaller."""

    below: I64
    """int64 (size,): step s is for objects with below[s + 1] <= seq < below[s]; descending."""
    limit: F64
    """float64 (size,): the largest score of the step; strictly descending."""


@jit
def new_lookup(largest: int) -> TokenLookup:
    """Return a lookup with room for sets of ``largest`` tokens."""
    return TokenLookup(
        np.empty(largest, np.int64), np.empty(largest, np.int64), np.empty(largest, np.int64), np.zeros(2, np.int64),
        np.empty(AT_ONCE + 1, np.int64), np.empty(AT_ONCE + 1, np.int64), np.zeros(1, np.float64),
    )  # fmt: skip


@jit
def new_staircase(size: int) -> Staircase:
    """Return a staircase with room for ``size`` steps."""
    return Staircase(np.empty(size, np.int64), np.empty(size, np.float64))


@jit
def new_index(sets: int, tokens: int, slots: int, postings: int, groups: int) -> Index:
    """Return an empty index with room for so many sets, (padded) tokens, slots, postings and groups."""
    width = 64
    while width < 2 * slots:
        width *= 2
    scalars = np.zeros(SCALARS, np.int64)
    scalars[SLOTS] = NO_SLOT + 1
    return Index(
        np.empty(sets * SET_COLUMNS, np.int64), np.empty(tokens, np.uint32), np.empty((slots + 1) * SLOT_COLUMNS, np.int64),
        np.zeros(slots + 1, np.int32), np.zeros(width, np.uint32),
        np.empty(postings, np.int64), np.full(groups, -1, np.int64), scalars,
    )  # fmt: skip
