"""What shards of all operators with a K-skyband share: which arrivals are theirs, and the pairs that they found of them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skyband.operators.base import F64, I64
from skyband.operators.jit import inner, maker
from skyband.operators.pair_rows.kernels.arena import alive_from
from skyband.operators.pair_rows.kernels.tables import FIRST_ALIVE, NEXT_SEQ, Candidates, History, Settings, SubBatch, own_scores


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
