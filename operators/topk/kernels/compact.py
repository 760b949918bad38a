"""The state of a top-k with deletions: all alive candidates of every key, in seq order, brought up to date once per block."""

from __future__ import annotations

import numpy as np

from skyband.operators.base import F64, I64, NEVER, AnyArray
from skyband.operators.jit import HAVE_NUMBA, jit, maker
from skyband.operators.single_rows.blocks import Block
from skyband.operators.single_rows.kernels.arrays import lower_bound
from skyband.operators.single_rows.kernels.list_moves import alive_from
from skyband.operators.topk.kernels.state import Ends, Keys, Members, Queries


@jit
def _alive_nb(scores: F64, ended_by: AnyArray, lo: int, hi: int, out: AnyArray) -> int:
    count = 0
    for i in range(lo, hi):
        if scores[i] >= -np.inf and ended_by[i] == NEVER:
            out[count] = i
            count += 1
    return count


def _alive_np(scores: F64, ended_by: AnyArray, lo: int, hi: int, out: AnyArray) -> int:
    rows = lo + np.flatnonzero((scores[lo:hi] >= -np.inf) & (ended_by[lo:hi] == NEVER))
    out[: len(rows)] = rows
    return len(rows)


_alive = _alive_nb if HAVE_NUMBA else _alive_np
"""The places of [lo, hi) with a score that no deletion has ended, into ``out``; returns their number."""


@maker
def compact(queries: Queries, block: Block, scores: F64, keys: Keys, members: Members, ends: Ends, until: int) -> Members:
    """Return the members alive after the block, one key after the other; ``keys`` says where (in place). O(rows + members).

    The members must be packed so before. ``keys.next_seq`` is that after the block.
    """
    room = len(members.score) + len(scores)
    score, seq, time = np.empty(room, np.float64), np.empty(room, np.int64), np.empty(room, np.int64)
    out = np.empty(room, np.int64)
    since = alive_from(until - 1, queries.keep_micros)
    size, group = 0, 0
    for key in range(len(keys.next_seq)):
        begin, end = keys.start[key], keys.start[key] + keys.length[key]
        oldest_seq = keys.next_seq[key] - queries.keep_count
        first = max(lower_bound(members.seq, begin, end, oldest_seq), lower_bound(members.time, begin, end, since))
        keys.start[key] = size
        for a in range(_alive(members.score, ends.member, first, end, out)):
            i = out[a]
            score[size], seq[size], time[size] = members.score[i], members.seq[i], members.time[i]
            size += 1
        if group < len(block.keys) and block.keys[group] == key:
            begin, end, first_seq = block.begin[group], block.end[group], block.first_seq[group]
            first = lower_bound(block.time, max(begin, min(end, begin + (oldest_seq - first_seq))), end, since)
            for a in range(_alive(scores, ends.row, first, end, out)):
                i = out[a]
                score[size], seq[size], time[size] = scores[i], first_seq + i - begin, block.time[i]
                size += 1
            group += 1
        keys.length[key] = size - keys.start[key]
    return Members(score[:size].copy(), seq[:size].copy(), time[:size].copy(), members.dominators)


@jit
def mark_deleted(block: Block, keys: Keys, seqs: I64, ends: Ends) -> None:
    """Note in ``ends`` which deletion ends which row or member; ``seqs`` int64 (members,): the members' seqs. O(deletions log members)."""
    for group in range(len(block.keys)):
        key, first_seq = block.keys[group], block.first_seq[group]
        begin, end = keys.start[key], keys.start[key] + keys.length[key]
        for deletion in range(block.deletion_begin[group], block.deletion_end[group]):
            target = block.deletion_seq[deletion]
            if target >= first_seq:
                row = block.begin[group] + (target - first_seq)
                if row < block.end[group]:
                    ends.row[row] = min(ends.row[row], deletion)
            else:
                place = lower_bound(seqs, begin, end, target)
                if place < end and seqs[place] == target:
                    ends.member[place] = min(ends.member[place], deletion)
