"""What the index of sets consists of: NamedTuples of int64 arrays, and the places of integers in them.

The *log* holds the sets of all keys, in the order they came, a record of ``HEADER`` integers and the numbers of its tokens each. A token
of a group of sets (those of one key, or of one side of it) is a *slot*: a row of the slot table, found by a hash table, with a list of the
records that hold it, oldest first, in the arena of *postings*. Nothing is taken out one by one: when an array is full, the index is made
anew of the sets that are alive (``rebuilt``), and tokens without a set are gone.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from skyband.operators.base import F64, I64
from skyband.operators.jit import jit

SEQ, SIZE, LOW, HIGH, STAMP, KEY, GROUP, PREVIOUS, HEADER = range(9)
"""Places in a record of the log: seq and number of tokens of the set; its signature, two words of ``WORD_BITS``, a bit of them for every
token; the clock when an arrival last looked at it; its key and group; the record of the group's set before it, or -1. Slots follow."""

WORD_BITS = 63

OF_GROUP, CODE, START, CAPACITY, LENGTH, LAST, SLOT_COLUMNS = range(7)
"""Columns of the slot table: the group, the host's code of the token; its region of the postings, how many there are, and the last one."""

LOG_END, SLOTS, POSTINGS_END, CLOCK, SCALARS = range(5)
"""Places of ``Index.scalars``: ends of the log, the slot table and the postings; and a clock that counts arrivals."""

NO_SLOT = -1

SEQ_BITS = 31
SEQ_MASK = (1 << SEQ_BITS) - 1
"""A posting is the place of a record, and below it the low bits of its seq: so an old one is mostly told without a look at the record.
Only one 2^31 objects old or older looks like a new one."""


class Index(NamedTuple):
    """The sets of a bucket's windows and the lists of those that hold a token. All int64 but for ``table``."""

    log: I64
    """(words,): the records."""
    slots: I64
    """(slots, SLOT_COLUMNS)."""
    marks: I64
    """(slots,): the clock when an arrival last had the token."""
    table: npt.NDArray[np.int32]
    """int32 (a power of two,): slots by hash, or ``NO_SLOT``; linear probing, at most half full."""
    postings: I64
    """(size,): postings, a region per slot, ascending."""
    newest: I64
    """(groups,): the newest record of each group, or -1."""
    scalars: I64
    """(SCALARS,)."""


class Tokens(NamedTuple):
    """Token rows, as ``Ragged``."""

    start: I64
    """int64 (rows + 1,)."""
    values: I64
    """int64."""


class Looked(NamedTuple):
    """One arrival's tokens, looked up. Room for the largest set."""

    own: I64
    """int64: each token's slot in the arrival's own group, or ``NO_SLOT``."""
    lists: I64
    """int64: the slots of the group it is compared with, the shortest list first, each below its list's length (``SLOT_BITS``)."""
    signature: I64
    """int64 (2,): its signature."""
    test: F64
    """float64 (1,): what the pair's condition said."""


SLOT_BITS = 31
SLOT_MASK = (1 << SLOT_BITS) - 1


class Steps(NamedTuple):
    """What a pair must reach to matter, by its older object: a staircase whose steps get lower the older the object is."""

    below: I64
    """int64 (size,): step s is for objects of a seq < below[s] (and not < below[s + 1]); descending."""
    limit: F64
    """float64 (size,): the largest score that matters; strictly descending."""


@jit
def new_looked(most: int) -> Looked:
    """Room for sets of ``most`` tokens."""
    return Looked(np.empty(most, np.int64), np.empty(most, np.int64), np.zeros(2, np.int64), np.zeros(1, np.float64))


@jit
def new_steps(size: int) -> Steps:
    """Room for ``size`` steps."""
    return Steps(np.empty(size, np.int64), np.empty(size, np.float64))


@jit
def new_index(words: int, slots: int, postings: int, groups: int) -> Index:
    """An empty index with room for so much."""
    width = 64
    while width < 2 * slots:
        width *= 2
    return Index(
        np.empty(words, np.int64), np.empty((slots, SLOT_COLUMNS), np.int64), np.zeros(slots, np.int64),
        np.full(width, NO_SLOT, np.int32),
        np.empty(postings, np.int64), np.full(groups, -1, np.int64), np.zeros(SCALARS, np.int64),
    )  # fmt: skip
