"""Groups of arriving sets, and rebuilding the index from rows after a restore."""

from __future__ import annotations

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


@maker
def put(
    settings: Settings, keys: I64, times: I64, instant: int, index: Index, group: int, seq: int, first_alive: int, codes: I64,
    lookup: TokenLookup,
) -> Index:  # fmt: skip
    """Put a set into the index without a search; return the (perhaps new) index. O(tokens).

    Events up to ``instant`` are taken; ``first_alive``: as ``insert``.
    """
    if lacks_room(index, len(codes), look_up_own(index, group, codes, lookup)):
        index = rebuild(index, first_alive_of(settings, keys, times, instant), len(codes), len(index.newest))
        look_up_own(index, group, codes, lookup)
    insert(index, group, seq, first_alive, codes, lookup)
    return index


@maker
def put_range(
    settings: Settings, keys: I64, objects: Objects, key: int, first: int, stop: int, row: int, tokens: Tokens, instant: int, index: Index,
    lookup: TokenLookup,
) -> Index:  # fmt: skip
    """Put the sets of the objects [``first``, ``stop``) of a key into the index, without a search; return the (perhaps new) index.

    ``row``: the first one's row of ``tokens``. Events up to ``instant`` are taken. O(tokens).
    """
    offset, first_alive = keys[key, REGION_START] - keys[key, FIRST_STORED], keys[key, FIRST_ALIVE]
    for seq in range(first, stop):
        at = row + seq - first
        codes, side = tokens.values[tokens.start[at] : tokens.start[at + 1]], side_of(settings, objects, seq + offset)
        if len(codes) == 0 or side == IS_NEITHER:
            continue
        group = group_of(settings, key, side)
        if seq + 1 < stop:
            ask_ahead(index, group, tokens.values[tokens.start[at + 1] : tokens.start[at + 2]])
        index = put(settings, keys, objects.times, instant, index, group, seq, first_alive, codes, lookup)
    return index


@jit
def index_rows(settings: Settings, keys: I64, objects: Objects, rows: Advance, sets: ArrivingSets, index: Index) -> Index:
    """Put the sets of ``rows.keys`` from ``rows.first_new`` on into the index, without a search. O(tokens).

    The objects are in the windows' arena already. Returns the (perhaps new) index.
    """
    tokens, lookup = sets.tokens, new_lookup(sets.largest)
    for g in range(len(rows.keys)):
        key = rows.keys[g]
        first, stop = rows.first_new[g], keys[key, NEXT_SEQ]
        index = put_range(settings, keys, objects, key, first, stop, sets.first_row[g], tokens, rows.since - 1, index, lookup)
    return index
