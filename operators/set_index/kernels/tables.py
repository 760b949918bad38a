"""The tables of the inverted index of sets: NamedTuples of int64 arrays, and the layout of their rows.

The *log* holds the sets of all keys in order of arrival. Each is a record of ``HEADER`` integers and the slots of its tokens. A *slot*
stands for a token of a group of sets (those of one key, or of one side of a key). It is a row of the slot table, found by a hash table,
and has a list of the records that contain the token, oldest first, in the arena of *postings*. Nothing is removed one by one: when an array
is full, ``rebuild`` makes the index again from the sets that are alive.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from skyband.operators.base import F64, I64
from skyband.operators.jit import jit

SEQ, SIZE, LOW, HIGH, STAMP, KEY, GROUP, PREVIOUS, HEADER = range(9)
"""Fields of a record of the log: seq and number of tokens of the set; its signature (two words of ``WORD_BITS``, each token sets one bit);
the clock of the last arrival that met it; its key and group; the record of the previous set of the group, or -1. Slots follow."""

WORD_BITS = 63

OF_GROUP, CODE, START, CAPACITY, LENGTH, LAST, SLOT_COLUMNS = range(7)
"""Columns of the slot table: the group, the host's code of the token; the region of its list, the list's length, and its last posting."""

LOG_END, SLOTS, POSTINGS_END, CLOCK, SCALARS = range(5)
"""Elements of ``Index.scalars``: the ends of the log, the slot table and the postings; and a clock that counts arrivals."""

NO_SLOT = -1

SEQ_BITS = 31
SEQ_MASK = (1 << SEQ_BITS) - 1
"""A posting is the position of a record and, in the low bits, the low bits of its seq. So most outdated postings are recognized without
reading the record; one that is at least 2^31 objects old is not."""


class Index(NamedTuple):
    """The sets of a bucket's windows, and for every token the list of the sets that contain it. All int64 except ``table``."""

    log: I64
    """(words,): the records."""
    slots: I64
    """(slots, SLOT_COLUMNS)."""
    marks: I64
    """(slots,): the clock of the last arrival that was compared with the slot's group and has the token."""
    table: npt.NDArray[np.int32]
    """int32 (a power of two,): slots by hash, or ``NO_SLOT``; linear probing, at most half full."""
    postings: I64
    """(size,): postings, a region per slot, ascending."""
    newest: I64
    """(groups,): the newest record of each group, or -1."""
    scalars: I64
    """(SCALARS,)."""


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
    """The slots of one arrival's tokens. Arrays have room for the largest set."""

    own_slots: I64
    """int64: each token's slot in the arrival's own group, or ``NO_SLOT``."""
    lists: I64
    """int64: (length of the list, slot) of each token in the group to compare with, packed by ``SLOT_BITS``; the shortest list first."""
    signature: I64
    """int64 (2,): the arrival's signature."""
    condition: F64
    """float64 (1,): output of the pair's condition: NaN if it is not met."""


SLOT_BITS = 31
SLOT_MASK = (1 << SLOT_BITS) - 1


class Staircase(NamedTuple):
    """The largest score with which a pair can enter the skyband, by its older object: the older, the smaller."""

    below: I64
    """int64 (size,): step s is for objects with below[s + 1] <= seq < below[s]; descending."""
    limit: F64
    """float64 (size,): the largest score of the step; strictly descending."""


@jit
def new_lookup(largest: int) -> TokenLookup:
    """Return a lookup with room for sets of ``largest`` tokens."""
    return TokenLookup(np.empty(largest, np.int64), np.empty(largest, np.int64), np.zeros(2, np.int64), np.zeros(1, np.float64))


@jit
def new_staircase(size: int) -> Staircase:
    """Return a staircase with room for ``size`` steps."""
    return Staircase(np.empty(size, np.int64), np.empty(size, np.float64))


@jit
def new_index(words: int, slots: int, postings: int, groups: int) -> Index:
    """Return an empty index with room for a log of ``words``, and so many slots, postings and groups."""
    width = 64
    while width < 2 * slots:
        width *= 2
    return Index(
        np.empty(words, np.int64), np.empty((slots, SLOT_COLUMNS), np.int64), np.zeros(slots, np.int64),
        np.full(width, NO_SLOT, np.int32),
        np.empty(postings, np.int64), np.full(groups, -1, np.int64), np.zeros(SCALARS, np.int64),
    )  # fmt: skip
