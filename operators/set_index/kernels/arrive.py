"""Groups of arriving sets, and rebuilding the index from rows after a restore."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skyband.operators.base import I64
from skyband.operators.jit import inner, jit, maker
from skyband.operators.pair_rows.kernels.arena import first_after, side_of
from skyband.operators.pair_rows.kernels.tables import (
    FIRST_ALIVE,
    FIRST_STORED,
    IS_NEITHER,
    NEXT_SEQ,
    REGION_START,
    Advance,
    Objects,
    Settings,
)
from skyband.operators.set_index.kernels.index import ask_ahead, insert, lacks_room, look_up_own, rebuild
from skyband.operators.set_index.kernels.tables import ArrivingSets, Index, TokenLookup, Tokens, new_lookup


@inner
def group_of(settings: Settings, key: int, side: int) -> int:
    """Return the group of the objects of ``key`` on ``side``."""
    return 2 * key + side


@inner
def other_group(settings: Settings, group: int) -> int:
    """Return the group that sets of ``group`` are compared with: the other side's, or itself without sides."""
    return group if settings.side_row < 0 else group ^ 1


@jit
def first_alive_of(settings: Settings, keys: I64, times: I64, instant: int) -> I64:
    """Return for each key a lower bound of the first seq alive after ``instant``.

    It is close enough to keep the index small.
    """
    first = np.empty(len(keys), np.int64)
    for key in range(len(keys)):
        low, high = max(keys[key, FIRST_ALIVE], keys[key, FIRST_STORED]), keys[key, NEXT_SEQ]
        first[key] = low
        if low < high:
            offset = keys[key, REGION_START] - keys[key, FIRST_STORED]
            first[key] = first_after(times, low + offset, high + offset, instant - settings.window_micros) - offset
    return first


class StoredSets(NamedTuple):
    """The sets of arrivals, which are in the windows' arena already, and what an index of them reads."""

    settings: Settings
    keys: I64
    """int64 (keys, KEY_COLUMNS): the key table."""
    objects: Objects
    """The windows' arena."""
    tokens: Tokens
    """The arrivals' tokens."""
    instant: int
    """int64: events up to this instant are taken."""


@maker
def rebuild_index(sets: StoredSets, index: Index, more: int) -> Index:
    """Return an index of the sets that are alive, with room for one of ``more`` tokens."""
    first_alive = first_alive_of(sets.settings, sets.keys, sets.objects.times, sets.instant)
    return rebuild(index, first_alive, more, len(index.newest))


@maker
def put(sets: StoredSets, index: Index, group: int, seq: int, first_alive: int, codes: I64, lookup: TokenLookup) -> Index:
    """Put a set into the index without a search; return the (perhaps new) index. O(tokens).

    ``first_alive``: as ``insert``.
    """
    if lacks_room(index, len(codes), look_up_own(index, group, codes, lookup)):
        index = rebuild_index(sets, index, len(codes))
        look_up_own(index, group, codes, lookup)
    insert(index, group, seq, first_alive, codes, lookup)
    return index


@maker
def put_range(sets: StoredSets, key: int, first: int, stop: int, row: int, index: Index, lookup: TokenLookup) -> Index:
    """Put the sets of the objects [``first``, ``stop``) of a key into the index, without a search; return the (perhaps new) index.

    ``row``: the first one's row of ``tokens``. O(tokens).
    """
    settings, keys, objects, tokens = sets.settings, sets.keys, sets.objects, sets.tokens
    offset, first_alive = keys[key, REGION_START] - keys[key, FIRST_STORED], keys[key, FIRST_ALIVE]
    for seq in range(first, stop):
        own = row + seq - first
        codes, side = tokens.values[tokens.start[own] : tokens.start[own + 1]], side_of(settings, objects, seq + offset)
        if len(codes) == 0 or side == IS_NEITHER:
            continue
        group = group_of(settings, key, side)
        if seq + 1 < stop:
            ask_ahead(index, group, tokens.values[tokens.start[own + 1] : tokens.start[own + 2]])
        index = put(sets, index, group, seq, first_alive, codes, lookup)
    return index


@jit
def index_rows(settings: Settings, keys: I64, objects: Objects, rows: Advance, sets: ArrivingSets, index: Index) -> Index:
    """Put the sets of ``rows.keys`` from ``rows.first_new`` on into the index, without a search. O(tokens).

    The objects are in the windows' arena already. Returns the (perhaps new) index.
    """
    stored, lookup = StoredSets(settings, keys, objects, sets.tokens, rows.since - 1), new_lookup(sets.largest)
    for g in range(len(rows.keys)):
        key = rows.keys[g]
        first, stop = rows.first_new[g], keys[key, NEXT_SEQ]
        index = put_range(stored, key, first, stop, sets.first_row[g], index, lookup)
    return index
