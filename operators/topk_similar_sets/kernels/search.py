"""Finding a sub-batch's candidate pairs in the index, against the staircase frozen at its start (docs/algorithms D3)."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from skyband.operators.base import I64, NEVER
from skyband.operators.jit import inner, inner_inlined, jit
from skyband.operators.pair_rows.kernels.tables import (
    FOUND,
    IS_A,
    IS_NEITHER,
    ORDER_BITS,
    Candidates,
    Objects,
    Settings,
    Skyband,
    SubBatch,
    new_candidates,
)
from skyband.operators.set_index.kernels.arrive import first_alive_of, group_of, other_group
from skyband.operators.set_index.kernels.index import insert, lacks_room, look_up, rebuilt
from skyband.operators.set_index.kernels.probe import Asked, Found, Tested, probe
from skyband.operators.set_index.kernels.similarity import HAMMING
from skyband.operators.set_index.kernels.tables import NO_SLOT, SLOT_BITS, Index, Looked, Steps, Tokens, new_steps


class Sought(NamedTuple):
    """What is fixed over a state's life, besides ``Settings``."""

    function: int
    """int64: the similarity function."""
    floor: float
    """float64: the largest internal score any query accepts."""
    tested: bool
    """Whether pairs must meet a condition."""


class Place(NamedTuple):
    """Where a sub-batch is."""

    key: int
    """int64."""
    row: int
    """int64: the row of the tokens of its first arrival."""
    offset: int
    """int64: the object of seq s is at position s + offset of the windows' arena."""
    instant: int
    """int64: everything up to this instant was done before this ``advance``."""


@inner
def fill_steps(skyband: Skyband, floor: float, steps: Steps) -> int:
    """The staircase of ``skyband`` under ``floor``, without steps that change nothing; returns how many there are."""
    older, stair = skyband.older, skyband.stair
    steps.below[0], steps.limit[0] = NEVER, floor
    count = 1
    for i in range(len(older)):
        if (i + 1 == len(older) or older[i + 1] != older[i]) and not stair[i] >= steps.limit[count - 1]:
            steps.below[count], steps.limit[count] = older[i], stair[i]
            count += 1
    return count


@inner_inlined
def most_partners(index: Index, batch: SubBatch, i: int, size: int, looked: Looked, everyone: bool) -> int:
    """No more partners than this can be found for arrival i, whose tokens are looked up."""
    alive = int(batch.first_seq + i - batch.first_partner[i])
    if everyone:
        return alive
    entries = 0
    for t in range(size):
        if looked.lists[t] != NO_SLOT:
            entries += int(looked.lists[t] >> SLOT_BITS)
    return min(alive, entries)


@inner_inlined
def search_one(
    test_as_a: Callable[..., None], test_as_b: Callable[..., None], sought: Sought, objects: Objects, place: Place, index: Index,
    batch: SubBatch, i: int, asked: Asked, looked: Looked, steps: Steps, candidates: Candidates, count: int, work: I64,
) -> int:  # fmt: skip
    """The candidates of arrival i: with older ones of its sub-batch in ``batch.scores``, the others behind the first ``count``; returns
    how many there are of these."""
    tested = Tested(objects.floats, objects.integers, place.offset, batch.floats[i], batch.integers[i], sought.tested)
    found = Found(candidates.score, candidates.older)
    test = test_as_a if batch.side[i] == IS_A else test_as_b
    stop = probe(index, test, tested, asked, looked, steps, 0, found, count, work)
    best = batch.best[i]
    for c in range(count, stop):
        score, older = candidates.score[c], candidates.older[c]
        if score < best or best != best:
            best = score
        if older >= batch.first_seq:
            batch.scores[i, older - batch.first_seq] = score
        else:
            candidates.score[count], candidates.older[count], candidates.arrival[count] = score, older, i
            candidates.order[count] = ((batch.first_seq - older) << ORDER_BITS) | count
            count += 1
    batch.best[i] = best
    return count


@jit
def grown(candidates: Candidates, count: int, size: int) -> Candidates:
    """A copy of the first ``count`` with room for ``size``."""
    new = new_candidates(size)
    for i in range(count):
        new.score[i], new.older[i] = candidates.score[i], candidates.older[i]
        new.arrival[i], new.order[i] = candidates.arrival[i], candidates.order[i]
    return new


@inner
def search_on(
    test_as_a: Callable[..., None], test_as_b: Callable[..., None], settings: Settings, sought: Sought, objects: Objects, place: Place,
    tokens: Tokens, batch: SubBatch, height: int, index: Index, looked: Looked, steps: Steps, candidates: Candidates, start: int,
    count: int, counts: I64,
) -> tuple[int, int, int]:  # fmt: skip
    """Take arrivals from number ``start`` on, ``count`` candidates having been found. Returns the number of the next one, the candidates
    found then, and the room for them that it takes: more than there is, or 0 if it is the index that lacks room, or all is done."""
    for i in range(start, batch.size):
        first = tokens.start[place.row + i]
        mine = tokens.values[first : tokens.start[place.row + i + 1]]
        batch.best[i] = np.nan
        for j in range(i):
            batch.scores[i, j] = np.nan
        if len(mine) == 0 or batch.side[i] == IS_NEITHER:
            continue
        group = group_of(settings, place.key, batch.side[i])
        other = other_group(settings, group)
        if lacks_room(index, len(mine), look_up(index, group, other, mine, looked)):
            return i, count, 0
        room = count + most_partners(index, batch, i, len(mine), looked, sought.function == HAMMING)
        if room > len(candidates.score):
            return i, count, room
        asked = Asked(sought.function, len(mine), batch.first_partner[i], batch.first_seq + i - 1, other, height)
        count = search_one(
            test_as_a, test_as_b, sought, objects, place, index, batch, i, asked, looked, steps, candidates, count, counts
        )  # fmt: skip
        insert(index, place.key, group, batch.first_seq + i, batch.first_partner[0], mine, looked)
    return batch.size, count, 0


@jit()
def search(
    test_as_a: Callable[..., None], test_as_b: Callable[..., None], settings: Settings, sought: Sought, keys: I64, objects: Objects,
    place: Place, tokens: Tokens, batch: SubBatch, skyband: Skyband, index: Index, looked: Looked, steps: Steps, candidates: Candidates,
    work: I64, counts: I64,
) -> tuple[Index, Steps, Candidates]:  # fmt: skip
    """Find the sub-batch's candidates, those among its arrivals (``batch.scores``) and the others (returned), and put its sets into the
    index. What is returned may be new, larger arrays."""
    if len(skyband.older) + 1 > len(steps.below):
        steps = new_steps(2 * len(skyband.older) + 1)
    height = fill_steps(skyband, sought.floor, steps)
    i, count = 0, 0
    while True:
        i, count, room = search_on(
            test_as_a, test_as_b, settings, sought, objects, place, tokens, batch, height, index, looked, steps, candidates, i, count,
            counts,
        )  # fmt: skip
        if i == batch.size:
            break
        if room > 0:
            candidates = grown(candidates, count, 2 * room)
        else:
            first_alive = first_alive_of(settings, keys, objects.times, place.instant)
            size = tokens.start[place.row + i + 1] - tokens.start[place.row + i]
            index = rebuilt(index, first_alive, size, len(index.newest))
    if count > 1:
        candidates.order[:count].sort()
    work[FOUND] += count
    return index, steps, Candidates(candidates.score, candidates.older, candidates.arrival, candidates.order, candidates.grouped, count)
