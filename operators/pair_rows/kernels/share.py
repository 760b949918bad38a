"""What shards of all operators with a K-skyband share: which arrivals are theirs, and which pairs of these they send on.

A shard may send all candidates of a sub-batch. The staircase of its start lets more of them pass than results need: pairs that those of the
same sub-batch dominate. So usually only those are sent that fewer than K of its pairs dominate at their own arrival (docs/algorithms D6):
arrivals are taken one by one, with the pass of Theorem C over the pairs of near objects, and those of farther ones are compared with the
K-th best of the near ones.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skyband.operators.base import F64, I64
from skyband.operators.jit import inner, maker
from skyband.operators.pair_rows.kernels.arena import alive_from
from skyband.operators.pair_rows.kernels.skyband import push
from skyband.operators.pair_rows.kernels.tables import (
    FIRST_ALIVE,
    NEXT_SEQ,
    ORDER_MASK,
    Candidates,
    History,
    Settings,
    Skyband,
    Sources,
    SubBatch,
    own_scores,
)


class OwnBlocks(NamedTuple):
    """The arrivals that a shard searches for, as ``shards.Share``. All int64."""

    number: int
    """The shard's number."""
    of: int
    """How many shards there are."""
    block: int
    """Arrivals of a key in a row that one shard searches for."""


class ShardRows(NamedTuple):
    """Pairs found, in room for more; how many there are is kept elsewhere."""

    key: I64
    """int64 (size,)."""
    older: I64
    """int64 (size,)."""
    newer: I64
    """int64 (size,): as of a pair."""
    score: F64
    """float64 (size,)."""


@maker
def new_shard_rows(size: int) -> ShardRows:
    """Return room for ``size`` pairs."""
    return ShardRows(np.empty(size, np.int64), np.empty(size, np.int64), np.empty(size, np.int64), np.empty(size, np.float64))


@inner
def next_own(own: OwnBlocks, key: int, seq: int) -> int:
    """Return the first seq from ``seq`` on that is the shard's."""
    block = seq // own.block
    ahead = (own.number - key - block) % own.of
    return seq if ahead == 0 else (block + ahead) * own.block


@inner
def end_of_block(own: OwnBlocks, seq: int) -> int:
    """Return the seq behind the block of ``seq``."""
    return (seq // own.block + 1) * own.block


@inner
def copy_found(key: int, batch: SubBatch, candidates: Candidates, rows: ShardRows, written: int) -> int:
    """Write the candidates of a sub-batch and the pairs among its arrivals to ``rows``, which have room; return the next free row."""
    for c in range(candidates.found):
        rows.key[written], rows.older[written], rows.score[written] = key, candidates.older[c], candidates.score[c]
        rows.newer[written] = batch.newer[candidates.arrival[c]]
        written += 1
    for i in range(own_scores(batch)):
        for j in range(i):
            score = batch.scores[i, j]
            if score == score:
                rows.key[written], rows.older[written], rows.score[written] = key, batch.first_seq + j, score
                rows.newer[written] = batch.newer[i]
                written += 1
    return written


@maker
def with_room(rows: ShardRows, written: int, more: int) -> ShardRows:
    """Return the ``written`` rows in arrays, perhaps new ones, with room for ``more``."""
    if written + more <= len(rows.score):
        return rows
    larger = new_shard_rows(2 * (written + more))
    for i in range(written):
        larger.key[i], larger.older[i], larger.newer[i], larger.score[i] = rows.key[i], rows.older[i], rows.newer[i], rows.score[i]
    return larger


@maker
def add_found(key: int, batch: SubBatch, candidates: Candidates, rows: ShardRows, written: int) -> tuple[ShardRows, int]:
    """Add what a sub-batch has found to the ``written`` rows; return the (perhaps new) arrays and how many rows there are."""
    rows = with_room(rows, written, candidates.found + own_scores(batch) * (own_scores(batch) - 1) // 2)
    return rows, copy_found(key, batch, candidates, rows, written)


@inner
def pass_over(settings: Settings, keys: I64, key: int, history: History) -> None:
    """Note the first object alive after the last arrival of a key, whoever searches for it."""
    upto = keys[key, NEXT_SEQ]
    instant = history.times[upto - 1 - history.first_stored]
    first = alive_from(history, upto, instant, settings.window_count, settings.window_micros)
    keys[key, FIRST_ALIVE] = max(keys[key, FIRST_ALIVE], first)


# Which pairs of a sub-batch fewer than K of the shard's pairs dominate at their own arrival.


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


class Outbox(NamedTuple):
    """The pairs that a shard sends on."""

    rows: ShardRows
    """Room for more."""
    written: int
    """int64: how many there are."""
    near: Near
    only_fresh: bool
    """Whether only pairs are sent that fewer than K dominate at their own arrival, and not all candidates."""


@maker
def new_outbox(settings: Settings, only_fresh: bool) -> Outbox:
    """Return an outbox without pairs."""
    return Outbox(new_shard_rows(1024), 0, new_near(settings.keep_k, 1024), only_fresh)


@maker
def send_pairs(outbox: Outbox, own: OwnBlocks, key: int, sources: Sources) -> Outbox:
    """Add the pairs of a sub-batch that is the shard's to the outbox."""
    batch, candidates, near = sources.batch, sources.candidates, outbox.near
    if outbox.only_fresh:
        first_near = batch.first_seq - (own.of - 1) * own.block
        near, rows, written = send_fresh(key, first_near, batch, candidates, sources.skyband, near, outbox.rows, outbox.written)
    else:
        rows, written = add_found(key, batch, candidates, outbox.rows, outbox.written)
    return Outbox(rows, written, near, outbox.only_fresh)
