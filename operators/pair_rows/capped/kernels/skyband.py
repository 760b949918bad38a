"""One pass that turns a state and a sub-batch's candidates into the next state and its staircase, under a cap per object.

See docs/algorithms Theorem D. As the pass of Theorem C, older objects are visited from the newest on, so that what was kept
before and ranks before a pair also ends no earlier. A pair stays unless that is enough of its objects' pairs, or of pairs that share few.
"""

from __future__ import annotations

import numpy as np

from skyband.operators.base import F64, I64
from skyband.operators.jit import inner, maker
from skyband.operators.pair_rows.capped.kernels.tables import Buffers
from skyband.operators.pair_rows.capped.limits import Limits
from skyband.operators.pair_rows.kernels.skyband import below, push, sift, store
from skyband.operators.pair_rows.kernels.tables import (
    FIRST_ALIVE,
    FIRST_STORED,
    ORDER_MASK,
    Candidates,
    Pairs,
    Skyband,
    Sources,
    SubBatch,
)


@inner
def bar_of(limits: Limits, mark: int, bars: F64) -> float:
    """Return the score from which on the object with ``mark`` has enough pairs."""
    return float(bars[(-1 - mark) * limits.of_object]) if mark < 0 else np.inf


@inner
def admit(limits: Limits, bar: float, score: float, newer: int, ranked: int, first_stored: int, buffers: Buffers) -> int:
    """Put a pair into ``buffers.ranked_score`` and ``ranked_newer`` by rank unless it reaches ``bar`` or its newer object has enough pairs;
    returns how many there are."""
    if not (score < bar or (bar == np.inf and score == score)):
        return ranked
    mark = buffers.marks[(newer >> 1) - first_stored]
    if mark < 0 and score >= bar_of(limits, mark, buffers.bars):
        return ranked
    sift(buffers.ranked_score, buffers.ranked_newer, ranked, score, newer)
    return ranked + 1


@inner
def rank_group(
    limits: Limits, older: int, bar: float, at: int, seen: int, first_stored: int, batch: SubBatch, candidates: Candidates,
    skyband: Skyband, buffers: Buffers,
) -> tuple[int, int, int]:  # fmt: skip
    """Collect the pairs of one older object that are admitted.

    Return how many, and the next places of the skyband and of the candidates.
    """
    ranked = 0
    if older >= batch.first_seq:
        arrival = older - batch.first_seq
        for i in range(arrival + 1, batch.size):
            ranked = admit(limits, bar, batch.scores[i, arrival], batch.newer[i], ranked, first_stored, buffers)
        return ranked, at, seen
    while at < len(skyband.older) and skyband.older[at] == older:
        ranked = admit(limits, bar, skyband.score[at], skyband.newer[at], ranked, first_stored, buffers)
        at += 1
    while seen < candidates.found:
        x = candidates.order[seen] & ORDER_MASK
        if candidates.older[x] != older:
            break
        ranked = admit(limits, bar, candidates.score[x], batch.newer[candidates.arrival[x]], ranked, first_stored, buffers)
        seen += 1
    return ranked, at, seen


@inner
def choose(limits: Limits, chosen: Pairs, count: int, score: float, older: int, newer: int) -> tuple[int, int]:
    """Offer a pair to those chosen (no object in more than ``limits.each``), which only get better; return how many they are, and 1 if it
    is one of them.

    O(chosen). Its older object is in fewer than ``limits.each``.
    """
    scores, olders, newers = chosen.score, chosen.older, chosen.newer
    of_newer, last, y = 0, 0, newer >> 1
    for i in range(count):
        if olders[i] == y or newers[i] >> 1 == y:
            of_newer += 1
            last = i
    if of_newer == limits.each:
        if scores[last] <= score:
            return count, 0
        i = last
    elif count == limits.chosen:
        if scores[count - 1] <= score:
            return count, 0
        i = count - 1
    else:
        i = count
        count += 1
    while i > 0 and scores[i - 1] > score:
        scores[i], olders[i], newers[i] = scores[i - 1], olders[i - 1], newers[i - 1]
        i -= 1
    scores[i], olders[i], newers[i] = score, older, newer
    return count, 1


@inner
def count_pair(limits: Limits, place: int, first_stored: int, merged: Skyband, length: int, marks: I64, bars: F64, heaps: int) -> int:
    """Note that the last of the first ``length`` pairs of ``merged`` has the object at ``place`` of the history; return how many heaps.

    ``marks``: how many pairs an object has, and from ``of_object`` on -1 - the number of its heap. O(log D), once O(length).
    """
    most = limits.of_object
    mark = marks[place]
    if mark < 0:
        heap = bars[(-1 - mark) * most : -mark * most]
        push(heap, most, most, merged.score[length - 1])
    elif mark + 1 < most:
        marks[place] = mark + 1
    else:
        heap, held = bars[heaps * most : (heaps + 1) * most], 0
        for i in range(length):
            if merged.older[i] - first_stored == place or (merged.newer[i] >> 1) - first_stored == place:
                held = push(heap, held, most, merged.score[i])
        marks[place] = -1 - heaps
        heaps += 1
    return heaps


@inner
def merge(
    limits: Limits, first_alive: int, first_stored: int, batch: SubBatch, candidates: Candidates, skyband: Skyband, buffers: Buffers
) -> int:
    """Write the new state of pairs with older seq >= ``first_alive`` and its staircase to ``buffers.merged``; returns its length."""
    merged, marks, bars, chosen = buffers.merged, buffers.marks, buffers.bars, buffers.chosen
    ranked_score, ranked_newer = buffers.ranked_score, buffers.ranked_newer
    length, heaps, count, bar = 0, 0, 0, np.inf  # bar: the score from which on there are enough chosen pairs
    arrival, at, seen = batch.size - 1, 0, 0
    while True:
        if arrival >= 0:
            older = batch.first_seq + arrival
            arrival -= 1
        else:
            older = -1
            if at < len(skyband.older):
                older = skyband.older[at]
            if seen < candidates.found:
                older = max(older, candidates.older[candidates.order[seen] & ORDER_MASK])
        if older < first_alive or older < 0:
            break
        limit = bar if count == limits.chosen else np.inf
        ranked, at, seen = rank_group(limits, older, limit, at, seen, first_stored, batch, candidates, skyband, buffers)
        x, of_older = older - first_stored, 0
        for i in range(ranked):
            score, newer = ranked_score[i], ranked_newer[i]
            y = (newer >> 1) - first_stored
            if (count == limits.chosen and score >= bar) or (marks[x] < 0 and score >= bar_of(limits, marks[x], bars)):
                break
            if of_older < limits.each:  # those of the older object rank before this pair, and so stay
                count, entered = choose(limits, chosen, count, score, older, newer)
                of_older += entered
            if count == limits.chosen:
                bar = chosen.score[count - 1]
            merged.score[length], merged.older[length], merged.newer[length] = score, older, newer
            merged.stair[length] = below(bar) if count == limits.chosen else np.inf
            length += 1
            heaps = count_pair(limits, x, first_stored, merged, length, marks, bars, heaps)
            heaps = count_pair(limits, y, first_stored, merged, length, marks, bars, heaps)
    for i in range(length):
        marks[merged.older[i] - first_stored] = 0
        marks[(merged.newer[i] >> 1) - first_stored] = 0
    return length


@maker
def pairs_of(sources: Sources) -> int:
    """Return an upper bound of the pairs in ``sources``."""
    size = sources.batch.size
    return int(len(sources.skyband.score) + sources.candidates.found + size * (size - 1) // 2)


@maker
def merge_sub_batch(
    limits: Limits, keys: I64, key: int, first_alive: int, sources: Sources, skyband: Skyband, end: int, buffers: Buffers
) -> tuple[Skyband, int]:
    """Make the sub-batch part of the key's state; ``first_alive`` after its last arrival. Return the states' arena and its end."""
    keys[key, FIRST_ALIVE] = first_alive
    length = merge(limits, first_alive, keys[key, FIRST_STORED], sources.batch, sources.candidates, sources.skyband, buffers)
    return store(keys, key, buffers.merged, length, skyband, end)
