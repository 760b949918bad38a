"""Finding every arrival's partners on their own: all that are similar enough, or the best few, with sets older than itself in a window."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from skyband.operators.base import F64, I64, NEVER
from skyband.operators.jit import inner, jit
from skyband.operators.pair_rows.kernels.tables import (
    FIRST_ALIVE,
    FIRST_HELD,
    IS_A,
    IS_NEITHER,
    NEXT_SEQ,
    REGION_START,
    Advance,
    Objects,
    Settings,
)
from skyband.operators.set_index.kernels.arrive import first_alive_of, group_of, other_group, side_of
from skyband.operators.set_index.kernels.index import insert, lacks_room, look_up, rebuilt
from skyband.operators.set_index.kernels.probe import Asked, Found, Tested, probe, settle
from skyband.operators.set_index.kernels.tables import Index, Looked, Steps, Tokens, new_looked, new_steps

QUERY, KEY, NEWER, OLDER, PARTNER_COLUMNS = range(5)
"""Columns of the partners found: ``NEWER`` is twice the arrival's seq, plus 1 if it is on side a."""


class Wanted(NamedTuple):
    """What partners each query wants. All of shape (queries,)."""

    most: I64
    """int64: so many of the best, or 0: all."""
    window_count: I64
    """int64: objects of the window, or ``UNBOUNDED``."""
    window_micros: I64
    """int64: microseconds of the window, or ``UNBOUNDED``."""
    worst: F64
    """float64: the largest internal score."""


class Partners(NamedTuple):
    """Partners found, an arrival's one after the other, the best first if only the best were wanted."""

    fields: I64
    """int64 (size, PARTNER_COLUMNS)."""
    score: F64
    """float64 (size,)."""


@inner
def move_on(first: I64, wanted: Wanted, times: I64, offset: int, seq: int) -> None:
    """Let every query's window end with the object ``seq``: ``first`` (queries,) becomes the seq of its first."""
    now = times[seq + offset]
    for q in range(len(first)):
        low = max(first[q], seq + 1 - wanted.window_count[q])
        while low < seq and times[low + offset] <= now - wanted.window_micros[q]:
            low += 1
        first[q] = low


@inner
def best_first(found: Found, count: int) -> None:
    """Put a heap into rank order."""
    scores, olders = found.score, found.older
    for last in range(count - 1, 0, -1):
        score, older = scores[last], olders[last]
        scores[last], olders[last] = scores[0], olders[0]
        i = settle(found, last, score, older)
        scores[i], olders[i] = score, older


@inner
def partners_of(
    test_as_a: Callable[..., None], test_as_b: Callable[..., None], objects: Objects, position: int, seq: int, side: int, tested: bool,
    asked: Asked, most: int, index: Index, looked: Looked, steps: Steps, found: Found, own_floats: F64, own_integers: I64, counts: I64,
) -> int:  # fmt: skip
    """One arrival's partners for one query; returns how many there are."""
    for row in range(len(own_floats)):
        own_floats[row] = objects.floats[row, position]
    for row in range(len(own_integers)):
        own_integers[row] = objects.integers[row, position]
    how = Tested(objects.floats, objects.integers, position - seq, own_floats, own_integers, tested)
    count = probe(index, test_as_a if side == IS_A else test_as_b, how, asked, looked, steps, most, found, 0, counts)
    if most > 0:
        best_first(found, count)
    return count


@jit
def with_room(partners: Partners, written: int, more: int) -> Partners:
    """The first ``written`` with room for ``more``."""
    if written + more <= len(partners.score):
        return partners
    size = 2 * (written + more)
    new = Partners(np.empty((size, PARTNER_COLUMNS), np.int64), np.empty(size, np.float64))
    new.fields[:written] = partners.fields[:written]
    new.score[:written] = partners.score[:written]
    return new


def find_partners(
    test_as_a: Callable[..., None], test_as_b: Callable[..., None], settings: Settings, function: int, tested: bool, wanted: Wanted,
    keys: I64, objects: Objects, advance: Advance, row: I64, tokens: Tokens, most: int, index: Index, counts: I64,
) -> tuple[Partners, int, Index]:  # fmt: skip
    """The partners of all arrivals of ``advance``, for every query, and the index with the arrivals in it.

    The arrivals are in the windows' arena; ``row`` int64 (m,) is the row of ``tokens`` of the first of each of ``advance.keys``, ``most``
    the tokens of the largest set. Writes to the key table and to ``counts`` (int64 (PROBED,)).
    """
    partners, written = Partners(np.empty((256, PARTNER_COLUMNS), np.int64), np.empty(256, np.float64)), 0
    looked, steps, found = new_looked(most), new_steps(1), Found(np.empty(1024, np.float64), np.empty(1024, np.int64))
    queries = len(wanted.most)
    first, whole = np.empty(queries, np.int64), np.empty(1, np.int64)
    largest = Wanted(np.zeros(1, np.int64), np.full(1, settings.window_count), np.full(1, settings.window_micros), np.zeros(1))
    own_floats, own_integers = np.empty(objects.floats.shape[0], np.float64), np.empty(objects.integers.shape[0], np.int64)
    for g in range(len(advance.keys)):
        key = advance.keys[g]
        offset = keys[key, REGION_START] - keys[key, FIRST_HELD]
        first[:], whole[:] = keys[key, FIRST_ALIVE], keys[key, FIRST_ALIVE]
        for seq in range(advance.first_new[g], keys[key, NEXT_SEQ]):
            move_on(whole, largest, objects.times, offset, seq)
            move_on(first, wanted, objects.times, offset, seq)
            keys[key, FIRST_ALIVE] = whole[0]
            at, side = row[g] + seq - advance.first_new[g], side_of(settings, objects, seq + offset)
            mine = tokens.values[tokens.start[at] : tokens.start[at + 1]]
            if len(mine) == 0 or side == IS_NEITHER:
                continue
            group = group_of(settings, key, side)
            other = other_group(settings, group)
            needed = look_up(index, group, other, mine, looked)
            if lacks_room(index, len(mine), needed):
                index = rebuilt(index, first_alive_of(settings, keys, objects.times, advance.since - 1), len(mine), len(index.newest))
                look_up(index, group, other, mine, looked)
            for q in range(queries):
                if seq - first[q] > len(found.score):
                    found = Found(np.empty(2 * (seq - first[q]), np.float64), np.empty(2 * (seq - first[q]), np.int64))
                steps.below[0], steps.limit[0] = NEVER, wanted.worst[q]
                if q > 0:
                    look_up(index, group, other, mine, looked)  # for a clock of its own
                asked = Asked(function, len(mine), first[q], seq - 1, other, 1)
                count = partners_of(
                    test_as_a, test_as_b, objects, seq + offset, seq, side, tested, asked, wanted.most[q], index, looked, steps, found,
                    own_floats, own_integers, counts,
                )  # fmt: skip
                partners = with_room(partners, written, count)
                for i in range(count):
                    fields = partners.fields[written + i]
                    fields[QUERY], fields[KEY], fields[OLDER] = q, key, found.older[i]
                    fields[NEWER] = 2 * seq + (1 if side == IS_A else 0)
                    partners.score[written + i] = found.score[i]
                written += count
            insert(index, key, group, seq, whole[0], mine, looked)
    return partners, written, index
