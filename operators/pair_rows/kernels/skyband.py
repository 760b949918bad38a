"""One pass that turns a skyband and a sub-batch's candidates into the next skyband and its staircase (docs/algorithms D2, Theorem C)."""

from __future__ import annotations

import numpy as np

from skyband.operators.base import F64, I64
from skyband.operators.jit import inner, jit, maker
from skyband.operators.pair_rows.kernels.tables import (
    ORDER_MASK,
    SKYBAND_CAPACITY,
    SKYBAND_LENGTH,
    SKYBAND_START,
    Candidates,
    Scratch,
    Skyband,
    SubBatch,
    new_skyband,
    own_scores,
)


@inner
def below(bar: float) -> float:
    """Return the inclusive bound of "score < ``bar``"."""
    return np.nan if bar == -np.inf else np.nextafter(bar, -np.inf)


@inner
def push(heap: F64, size: int, k: int, score: float) -> int:
    """Put ``score`` into the max-heap of the ``k`` smallest (the caller knows it belongs there); returns its size. O(log k)."""
    if size < k:
        i = size
        while i > 0:
            up = (i - 1) >> 1
            if heap[up] >= score:
                break
            heap[i] = heap[up]
            i = up
        heap[i] = score
        return size + 1
    i = 0
    while True:
        child = 2 * i + 1
        if child >= k:
            break
        if child + 1 < k and heap[child + 1] > heap[child]:
            child += 1
        if heap[child] <= score:
            break
        heap[i] = heap[child]
        i = child
    heap[i] = score
    return size


@inner
def sift(scores: F64, newers: I64, length: int, score: float, newer: int) -> None:
    """Insert (score, newer) into the first ``length`` of a buffer kept by (score ascending, newer descending)."""
    i = length
    while i > 0 and (scores[i - 1] > score or (scores[i - 1] == score and newers[i - 1] < newer)):
        scores[i], newers[i] = scores[i - 1], newers[i - 1]
        i -= 1
    scores[i], newers[i] = score, newer


@inner
def merge(k: int, first_alive: int, batch: SubBatch, candidates: Candidates, skyband: Skyband, merged: Skyband, scratch: Scratch) -> int:
    """Write the new skyband of pairs with older seq >= ``first_alive`` and its staircase to ``merged``; returns its length.

    Older objects are visited from the newest on: first the arrivals, then those of the skyband and of candidates. Of each one's pairs,
    those stay that fewer than ``k`` pairs visited before dominate. O((candidates + skyband) log k).
    """
    heap, ranked_score, ranked_newer = scratch.heap, scratch.ranked_score, scratch.ranked_newer
    length, heaped, bar = 0, 0, np.inf  # bar: the k-th best score so far
    arrival, at, seen = own_scores(batch) - 1, 0, 0
    while True:
        ranked = 0
        if arrival >= 0:
            older = batch.first_seq + arrival
            if older < first_alive:
                break
            for i in range(arrival + 1, batch.size):
                score = batch.scores[i, arrival]
                if score < bar or (heaped < k and score == score):
                    sift(ranked_score, ranked_newer, ranked, score, batch.newer[i])
                    ranked += 1
            arrival -= 1
        else:
            older = -1
            if at < len(skyband.older):
                older = skyband.older[at]
            if seen < candidates.found:
                older = max(older, candidates.older[candidates.order[seen] & ORDER_MASK])
            if older < first_alive or older < 0:
                break
            while at < len(skyband.older) and skyband.older[at] == older:
                if heaped < k or skyband.score[at] < bar:
                    sift(ranked_score, ranked_newer, ranked, skyband.score[at], skyband.newer[at])
                    ranked += 1
                at += 1
            while seen < candidates.found:
                x = candidates.order[seen] & ORDER_MASK
                if candidates.older[x] != older:
                    break
                if heaped < k or candidates.score[x] < bar:
                    sift(ranked_score, ranked_newer, ranked, candidates.score[x], batch.newer[candidates.arrival[x]])
                    ranked += 1
                seen += 1
        for i in range(ranked):
            score = ranked_score[i]
            if heaped == k and score >= bar:
                break
            heaped = push(heap, heaped, k, score)
            if heaped == k:
                bar = heap[0]
            merged.score[length], merged.older[length], merged.newer[length] = score, older, ranked_newer[i]
            merged.stair[length] = below(bar) if heaped == k else np.inf
            length += 1
    return length


@jit(_nrt=False)  # as ``inner``, but called from Python, too
def stairs(k: int, keys: I64, scores: F64, heap: F64, out: F64) -> None:
    """Write the staircase of every key's skyband (a state read back) to ``out``, beside ``scores``. O(skyband log k).

    ``scores`` and ``out`` float64 (size,), arenas as ``Skyband.score`` and ``stair``; ``heap`` float64 (k,).
    """
    for key in range(len(keys)):
        size = 0
        start = keys[key, SKYBAND_START]
        for i in range(start, start + keys[key, SKYBAND_LENGTH]):
            if size < k or scores[i] < heap[0]:
                size = push(heap, size, k, scores[i])
            out[i] = below(heap[0]) if size == k else np.inf


@inner
def copy_skyband(source: Skyband, first: int, length: int, target: Skyband, to: int) -> None:
    """Copy ``length`` pairs from place ``first`` to place ``to`` of another arena."""
    for i in range(length):
        target.score[to + i], target.older[to + i] = source.score[first + i], source.older[first + i]
        target.newer[to + i], target.stair[to + i] = source.newer[first + i], source.stair[first + i]


@maker
def compact(keys: I64, skyband: Skyband, more: int) -> tuple[Skyband, int]:
    """Return an arena of all keys' skybands without garbage, and its end; there is room for ``more`` behind it. O(arena)."""
    total = more
    for key in range(len(keys)):
        total += keys[key, SKYBAND_LENGTH] + keys[key, SKYBAND_LENGTH] // 2
    target = new_skyband(2 * total + 64)
    end = 0
    for key in range(len(keys)):
        length = keys[key, SKYBAND_LENGTH]
        copy_skyband(skyband, keys[key, SKYBAND_START], length, target, end)
        keys[key, SKYBAND_START], keys[key, SKYBAND_CAPACITY] = end, length + length // 2
        end += length + length // 2
    return target, end


@maker
def store(keys: I64, key: int, merged: Skyband, length: int, skyband: Skyband, end: int) -> tuple[Skyband, int]:
    """Make the first ``length`` of ``merged`` the key's skyband; return the (perhaps new) arena and its end. Amortised O(length)."""
    if length > keys[key, SKYBAND_CAPACITY]:
        capacity = 2 * length + 8
        keys[key, SKYBAND_LENGTH] = 0
        if end + capacity > len(skyband.score):
            skyband, end = compact(keys, skyband, capacity)
        keys[key, SKYBAND_START], keys[key, SKYBAND_CAPACITY] = end, capacity
        end += capacity
    copy_skyband(merged, 0, length, skyband, keys[key, SKYBAND_START])
    keys[key, SKYBAND_LENGTH] = length
    return skyband, end
