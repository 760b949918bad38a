"""Which pairs of a sub-batch a shard sends on: those that fewer than K of its pairs dominate at their own arrival (docs/algorithms D6).

The staircase of a sub-batch's start lets more pass: pairs that those of the same sub-batch dominate. Here its arrivals are taken one by
one, with the pass of Theorem C over the pairs of near objects; those of farther ones are compared with the K-th best of the near ones.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skyband.operators.base import F64, I64
from skyband.operators.jit import inner, maker
from skyband.operators.pair_rows.kernels.share import ShardRows, with_room
from skyband.operators.pair_rows.kernels.skyband import push
from skyband.operators.pair_rows.kernels.tables import ORDER_MASK, Candidates, Skyband, SubBatch, own_scores


class Near(NamedTuple):
    """The pairs of near objects that fewer than K dominate so far, by older seq descending and by rank; and the next ones."""

    score: F64
    """float64 (size,)."""
    older: I64
    """int64 (size,)."""
    next_score: F64
    """float64 (size,)."""
    next_older: I64
    """int64 (size,)."""
    heap: F64
    """float64 (K,): a max-heap of the K smallest scores."""


@maker
def new_near(k: int, size: int) -> Near:
    """Return room for ``size`` pairs."""
    return Near(np.empty(size, np.float64), np.empty(size, np.int64), np.empty(size, np.float64), np.empty(size, np.int64), np.empty(k))


@inner
def group_by_arrival(batch: SubBatch, candidates: Candidates) -> None:
    """Fill ``batch.start`` and ``candidates.grouped``, the candidates of an arrival by older seq descending. O(arrivals + candidates)."""
    start, arrival = batch.start, candidates.arrival
    for i in range(batch.size + 1):
        start[i] = 0
    for c in range(candidates.found):
        start[arrival[c]] += 1
    for i in range(1, batch.size + 1):
        start[i] += start[i - 1]
    for at in range(candidates.found - 1, -1, -1):
        c = candidates.order[at] & ORDER_MASK
        start[arrival[c]] -= 1
        candidates.grouped[start[arrival[c]]] = c


@inner
def copy_near(skyband: Skyband, first_near: int, near: Near) -> int:
    """Put the skyband's pairs with older objects from ``first_near`` on into ``near``; return how many they are."""
    length = 0
    while length < len(skyband.older) and skyband.older[length] >= first_near:
        near.score[length], near.older[length] = skyband.score[length], skyband.older[length]
        length += 1
    return length


@inner
def send(key: int, score: float, older: int, newer: int, rows: ShardRows, written: int) -> int:
    """Write a pair to ``rows``; return the next free row."""
    rows.key[written], rows.older[written], rows.newer[written], rows.score[written] = key, older, newer, score
    return written + 1


@inner
def keep_before(near: Near, at: int, length: int, older: int, score: float, kept: int, heaped: int) -> tuple[int, int, int]:
    """Visit the near pairs from place ``at`` on that come before a newer one of ``older`` and ``score``. Return the place of the first one
    behind it, how many are kept, and the heap's size."""
    k = len(near.heap)
    while at < length and (near.older[at] > older or (near.older[at] == older and near.score[at] < score)):
        if heaped < k or near.score[at] < near.heap[0]:
            near.next_score[kept], near.next_older[kept] = near.score[at], near.older[at]
            kept, heaped = kept + 1, push(near.heap, heaped, k, near.score[at])
        at += 1
    return at, kept, heaped


@inner
def send_of_arrival(
    key: int, i: int, first_near: int, batch: SubBatch, candidates: Candidates, near: Near, length: int, rows: ShardRows, written: int
) -> tuple[int, int]:  # fmt: skip
    """Send the pairs of arrival ``i``, and make them near ones; return how many near ones and how many rows there are."""
    k, at, kept, heaped, newer = len(near.heap), 0, 0, 0, batch.newer[i]
    own, seen, stop = i - 1 if own_scores(batch) > 0 else -1, batch.start[i], batch.start[i + 1]
    while own >= 0 or seen < stop:
        if own >= 0:
            score, older = batch.scores[i, own], batch.first_seq + own
            own -= 1
            if score != score:
                continue
        else:
            c = candidates.grouped[seen]
            score, older = candidates.score[c], candidates.older[c]
            seen += 1
        at, kept, heaped = keep_before(near, at, length, max(older, first_near - 1), score, kept, heaped)
        if heaped < k or score < near.heap[0]:
            written = send(key, score, older, newer, rows, written)
            if older >= first_near:
                near.next_score[kept], near.next_older[kept] = score, older
                kept, heaped = kept + 1, push(near.heap, heaped, k, score)
    at, kept, heaped = keep_before(near, at, length, -1, np.inf, kept, heaped)
    for x in range(kept):
        near.score[x], near.older[x] = near.next_score[x], near.next_older[x]
    return kept, written


@inner
def send_all(
    key: int, first_near: int, batch: SubBatch, candidates: Candidates, skyband: Skyband, near: Near, rows: ShardRows, written: int
) -> int:  # fmt: skip
    """Send the pairs of all arrivals; return how many rows there are."""
    group_by_arrival(batch, candidates)
    length = copy_near(skyband, first_near, near)
    for i in range(batch.size):
        if batch.best[i] == batch.best[i]:
            length, written = send_of_arrival(key, i, first_near, batch, candidates, near, length, rows, written)
    return written


@maker
def send_fresh(
    key: int, first_near: int, batch: SubBatch, candidates: Candidates, skyband: Skyband, near: Near, rows: ShardRows, written: int
) -> tuple[Near, ShardRows, int]:
    """Add the sub-batch's pairs that the shard sends on to the ``written`` rows; return buffers, rows (perhaps new ones) and their number.

    ``skyband``: the key's before the sub-batch. Objects from seq ``first_near`` on are near. O(near pairs log K) per arrival.
    """
    most = candidates.found + own_scores(batch) * (own_scores(batch) - 1) // 2
    if len(skyband.score) + most > len(near.score):
        near = new_near(len(near.heap), 2 * (len(skyband.score) + most))
    rows = with_room(rows, written, most)
    return near, rows, send_all(key, first_near, batch, candidates, skyband, near, rows, written)
