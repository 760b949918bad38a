"""The join of a whole window: its best pairs, for a list that deletions have left too short. O(window) searches in the index."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from skyband.operators.base import F64, I64, NEVER
from skyband.operators.jit import inner, maker
from skyband.operators.pair_rows.kernels.arena import copy_attributes
from skyband.operators.pair_rows.kernels.lists import enter
from skyband.operators.pair_rows.kernels.partners import FoundPartners
from skyband.operators.pair_rows.kernels.tables import FIRST_STORED, IS_A, NEXT_SEQ, REGION_START, Objects, Pairs, Settings
from skyband.operators.set_index.kernels.arrive import group_of, other_group
from skyband.operators.set_index.kernels.index import look_up
from skyband.operators.set_index.kernels.probe import PairCondition, ProbingSet, probe
from skyband.operators.set_index.kernels.tables import (
    CLOCK,
    CODE,
    FIRST,
    LAST_CLOCK,
    MET,
    PREVIOUS,
    SEQ,
    SET_COLUMNS,
    SETS_END,
    SIZE_MASK,
    SLOT_COLUMNS,
    Index,
    Staircase,
    TokenLookup,
    new_lookup,
    new_staircase,
)


class JoinedWindow(NamedTuple):
    """The objects of one key that may form pairs."""

    key: int
    """int64."""
    first: int
    """int64: the first seq."""
    newest: int
    """int64: the last seq."""
    worst: float
    """float64: the largest internal score."""


class JoinTables(NamedTuple):
    """What a search reads, and its buffers."""

    settings: Settings
    function: int
    """int64: the similarity function."""
    until_row: int
    """int64: the row of ``Objects.integers`` that is ``NEVER`` for objects that are not deleted."""
    keys: I64
    """int64 (keys, KEY_COLUMNS)."""
    objects: Objects
    lookup: TokenLookup
    staircase: Staircase
    found: FoundPartners
    """The partners of an arrival."""
    joined: FoundPartners
    """The partners of an object of a window that is joined."""
    codes: I64
    """int64: room for the tokens of the largest set."""
    own_floats: F64
    """float64 (float attributes,)."""
    own_integers: I64
    """int64 (other attributes,)."""


@maker
def new_join_tables(
    settings: Settings, function: int, until_row: int, keys: I64, objects: Objects, largest: int, queries: int
) -> JoinTables:
    """Return the tables of searches, with room for sets of ``largest`` tokens and the objects of the largest key."""
    stored = 2 * queries + 1
    for key in range(len(keys)):
        stored = max(stored, keys[key, NEXT_SEQ] - keys[key, FIRST_STORED])
    return JoinTables(
        settings, function, until_row, keys, objects, new_lookup(largest), new_staircase(2 * queries + 1),
        FoundPartners(np.empty(stored, np.float64), np.empty(stored, np.int64)),
        FoundPartners(np.empty(stored, np.float64), np.empty(stored, np.int64)), np.empty(largest, np.int64),
        np.empty(objects.floats.shape[0], np.float64), np.empty(objects.integers.shape[0], np.int64),
    )  # fmt: skip


@inner
def reset_clock(index: Index) -> None:
    """Let the clock of an index begin again. O(index)."""
    for at in range(0, index.scalars[SETS_END], SET_COLUMNS):
        index.sets[at + MET] &= SIZE_MASK
    for slot in range(len(index.marks)):
        index.marks[slot] = 0
    index.scalars[CLOCK] = 0


@inner
def condition_of(tables: JoinTables, offset: int, position: int) -> PairCondition:
    """Return the condition of pairs with the object at a position of the arena."""
    copy_attributes(tables.objects, position, tables.own_floats, tables.own_integers)
    objects = tables.objects
    return PairCondition(objects.floats, objects.integers, offset, tables.own_floats, tables.own_integers, objects.pool, True)


@inner
def limit_of(pairs: Pairs, length: int, older: int, worst: float) -> float:
    """Return the largest score with which a pair of the object ``older`` and a newer one can enter a list."""
    if length < len(pairs.score):
        return worst
    last = pairs.score[length - 1]
    return float(min(worst, last if older >= pairs.older[length - 1] else np.nextafter(last, -np.inf)))


@inner
def join(
    test_as_a: Callable[..., None], test_as_b: Callable[..., None], window: JoinedWindow, tables: JoinTables, index: Index, pairs: Pairs,
    counters: I64,
) -> int:  # fmt: skip
    """Fill ``pairs`` with the best pairs of a window, as many as it has room for, and return their number.

    Every object searches for its newer partners, the newest object first: of pairs with one score these rank first, so that the limit soon
    excludes the others. ``test_as_a`` and ``test_as_b`` evaluate the pairs' condition for an object that is a or b.
    """
    settings, sides, length = tables.settings, tables.settings.side_row >= 0, 0
    offset = tables.keys[window.key, REGION_START] - tables.keys[window.key, FIRST_STORED]
    if index.scalars[CLOCK] + index.scalars[SETS_END] // SET_COLUMNS >= LAST_CLOCK:
        reset_clock(index)
    for side in range(2 if sides else 1):
        group = group_of(settings, window.key, side)
        other, at = other_group(settings, group), index.newest[group]
        while at >= 0 and index.sets[at + SEQ] >= window.first:
            seq, size, first = index.sets[at + SEQ], index.sets[at + MET] & SIZE_MASK, index.sets[at + FIRST]
            at = index.sets[at + PREVIOUS]
            limit = limit_of(pairs, length, seq, window.worst)
            if tables.objects.integers[tables.until_row, seq + offset] != NEVER:
                continue
            for i in range(size):
                tables.codes[i] = index.slots[np.int64(index.tokens[first + i]) * SLOT_COLUMNS + CODE]
            look_up(index, group, other, tables.codes[:size], tables.lookup)
            tables.staircase.below[0], tables.staircase.limit[0] = NEVER, limit
            probing = ProbingSet(tables.function, size, seq + 1, window.newest, other, 1)
            # The object is the older one of its pairs, which is a unless sides say otherwise.
            test = test_as_a if side == IS_A or not sides else test_as_b
            condition = condition_of(tables, offset, seq + offset)
            count = probe(index, test, condition, probing, tables.lookup, tables.staircase, 0, tables.joined, 0, counters)
            newer_is_a = 1 if sides and side != IS_A else 0
            for i in range(count):
                length = enter(pairs, length, tables.joined.score[i], seq, 2 * tables.joined.older[i] + newer_is_a)
    return length


def join_window(
    test_as_a: Callable[..., None], test_as_b: Callable[..., None], settings: Settings, function: int, until_row: int, keys: I64,
    objects: Objects, window: JoinedWindow, largest: int, index: Index, pairs: Pairs, counters: I64,
) -> int:  # fmt: skip
    """Fill ``pairs`` as ``join`` does, for a caller in Python; ``largest``: the tokens of the largest set."""
    tables = new_join_tables(settings, function, until_row, keys, objects, largest, 0)
    return int(join(test_as_a, test_as_b, window, tables, index, pairs, counters))
