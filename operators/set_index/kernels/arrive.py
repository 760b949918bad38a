"""Arrivals and the index: which sets are alive when it is made anew, and rows that come back with the state."""

from __future__ import annotations

import numpy as np

from skyband.operators.base import I64
from skyband.operators.jit import inner, jit
from skyband.operators.pair_rows.kernels.arena import first_after
from skyband.operators.pair_rows.kernels.tables import (
    FIRST_ALIVE,
    FIRST_HELD,
    IS_A,
    IS_B,
    IS_NEITHER,
    NEXT_SEQ,
    REGION_START,
    Advance,
    Objects,
    Settings,
)
from skyband.operators.set_index.kernels.index import insert, lacks_room, look_up, rebuilt
from skyband.operators.set_index.kernels.tables import Index, Tokens, new_looked


@inner
def side_of(settings: Settings, objects: Objects, position: int) -> int:
    """The side of the object at a position of the arena: IS_B if there are none."""
    if settings.side_row < 0:
        return IS_B
    code = objects.integers[settings.side_row, position]
    return IS_B if code == settings.code_b else (IS_A if code == settings.code_a else IS_NEITHER)


@inner
def group_of(settings: Settings, key: int, side: int) -> int:
    """The group of a key's objects of a side."""
    return 2 * key + side


@inner
def other_group(settings: Settings, group: int) -> int:
    """The group its sets are compared with: the other side's, if there are sides."""
    return group if settings.side_row < 0 else group ^ 1


@jit
def first_alive_of(settings: Settings, keys: I64, times: I64, instant: int) -> I64:
    """By key, the first seq that may still be alive; what came at ``instant`` or before is done. Exact enough to keep the index small."""
    first = np.empty(len(keys), np.int64)
    for key in range(len(keys)):
        low, high = max(keys[key, FIRST_ALIVE], keys[key, FIRST_HELD]), keys[key, NEXT_SEQ]
        first[key] = low
        if low < high:
            offset = keys[key, REGION_START] - keys[key, FIRST_HELD]
            first[key] = first_after(times, low + offset, high + offset, instant - settings.window_micros) - offset
    return first


@jit
def index_rows(settings: Settings, keys: I64, objects: Objects, rows: Advance, row: I64, tokens: Tokens, most: int, index: Index) -> Index:
    """Put rows into the index, nobody being compared with them: those of ``rows.keys`` from ``rows.first_new`` on, in the windows already.

    ``row`` int64 (m,): the row of ``tokens`` of each key's first; sets have ``most`` tokens at most. O(tokens).
    """
    looked = new_looked(most)
    for g in range(len(rows.keys)):
        key = rows.keys[g]
        offset = keys[key, REGION_START] - keys[key, FIRST_HELD]
        for seq in range(rows.first_new[g], keys[key, NEXT_SEQ]):
            at = row[g] + seq - rows.first_new[g]
            mine = tokens.values[tokens.start[at] : tokens.start[at + 1]]
            side = side_of(settings, objects, seq + offset)
            if len(mine) == 0 or side == IS_NEITHER:
                continue
            group = group_of(settings, key, side)
            needed = look_up(index, group, group, mine, looked)
            if lacks_room(index, len(mine), needed):
                index = rebuilt(index, first_alive_of(settings, keys, objects.times, rows.since - 1), len(mine), len(index.newest))
                look_up(index, group, group, mine, looked)
            insert(index, key, group, seq, 0, mine, looked)
    return index
