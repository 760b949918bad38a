"""The skybands of many keys in one pool, updated once per block: a slab per key, in rank order, with every member's number of dominators.

A dominator is newer and ranks before. It expires later, so the numbers only grow, and a member leaves with its K-th (docs/algorithms D1;
the counters are SMA's, paper 2).
"""

from __future__ import annotations

import numpy as np

from skyband.operators.base import F64
from skyband.operators.jit import HAVE_NUMBA, inner, maker
from skyband.operators.single_rows.blocks import Block
from skyband.operators.single_rows.kernels.arrays import lower_bound
from skyband.operators.single_rows.kernels.heap import Heap, heap_push, heap_to_order
from skyband.operators.single_rows.kernels.list_moves import Alive, alive_from
from skyband.operators.topk.kernels.scan import band
from skyband.operators.topk.kernels.state import Keys, Members, Queries, Scratch
from skyband.operators.windows import UNBOUNDED

FEW = 24


@inner
def _rank_nb(score: F64, size: int, ranked: Heap) -> None:
    scores, places = ranked.score, ranked.place
    if size <= FEW:
        for j in range(size):
            s = score[j]
            p = j
            while p > 0 and scores[p - 1] < s:
                scores[p], places[p] = scores[p - 1], places[p - 1]
                p -= 1
            scores[p], places[p] = s, j
    else:
        count = 0
        for j in range(size):
            count = heap_push(ranked, count, score[j], -j)
        heap_to_order(ranked, count)
        for j in range(size):
            places[j] = -places[j]


def _rank_np(score: F64, size: int, ranked: Heap) -> None:
    ranked.place[:size] = np.argsort(-score[:size], kind="stable")
    ranked.score[:size] = score[ranked.place[:size]]


_rank = _rank_nb if HAVE_NUMBA else _rank_np
"""Sort: ``ranked.score`` = the first ``size`` scores, largest first, of equal ones the first first; ``ranked.place`` = where they were."""


@maker
def new_members(room: int) -> Members:
    """Return room for members of skybands."""
    return Members(np.empty(room, np.float64), np.empty(room, np.int64), np.empty(room, np.int64), np.empty(room, np.int64))


@inner
def copy_members(source: Members, begin: int, count: int, target: Members, to: int) -> None:
    """Copy ``count`` members from place ``begin`` of one pool to place ``to`` of another."""
    for i in range(count):
        target.score[to + i], target.seq[to + i] = source.score[begin + i], source.seq[begin + i]
        target.time[to + i], target.dominators[to + i] = source.time[begin + i], source.dominators[begin + i]


@maker
def packed(keys: Keys, members: Members, more: int) -> tuple[Members, int]:
    """Return a pool with ``more`` places at its end, without free places, and its end. O(keys + members)."""
    owned = more
    for key in range(len(keys.start)):
        owned += keys.room[key]
    pool = new_members(owned + owned // 2)
    end = 0
    for key in range(len(keys.start)):
        copy_members(members, keys.start[key], keys.length[key], pool, end)
        keys.start[key] = end
        end += keys.room[key]
    return pool, end


@inner
def newcomers(
    block: Block, group: int, scores: F64, k: int, count: int, micros: int, since: int, best: F64, scratch: Scratch
) -> tuple[int, Alive, int]:
    """Write the band of a key's new rows to ``scratch``; return the key, the bounds of the alive, and its size (-1: no rows)."""
    begin, end, first_seq = block.begin[group], block.end[group], block.first_seq[group]
    alive = Alive(first_seq + (end - begin) - count, since)
    if begin == end:
        return block.keys[group], alive, -1
    first = max(begin, min(end, begin + (alive.seq - first_seq)))
    if micros < UNBOUNDED:
        first = lower_bound(block.time, first, end, since)
    return block.keys[group], alive, band(scores, first, end, best, k, scratch.row, scratch.score, scratch.dominators)


@inner
def merge(
    block: Block, group: int, k: int, alive: Alive, newer: Heap, new: int, scratch: Scratch, keys: Keys, members: Members, merged: Members
) -> int:
    """Merge a key's band with the band of its new rows into ``merged``; returns its size. O(band).

    ``scratch`` holds the ``new`` ones (row, score, number of dominators), newest first; ``newer`` is room to put them in rank order.
    """
    _rank(scratch.score, new, newer)
    begin, first_seq, key = block.begin[group], block.first_seq[group], block.keys[group]
    old, end = keys.start[key], keys.start[key] + keys.length[key]
    score, seq, time, dominators = members.score, members.seq, members.time, members.dominators
    taken, size = 0, 0
    while taken < new or old < end:
        if old == end or (taken < new and newer.score[taken] >= score[old]):  # equal: the newer one first
            entry = newer.place[taken]
            row = scratch.row[entry]
            merged.score[size], merged.seq[size] = newer.score[taken], first_seq + (row - begin)
            merged.time[size], merged.dominators[size] = block.time[row], scratch.dominators[entry]
            taken += 1
            size += 1
        else:
            if dominators[old] + taken < k and seq[old] >= alive.seq and time[old] >= alive.time:
                merged.score[size], merged.seq[size] = score[old], seq[old]
                merged.time[size], merged.dominators[size] = time[old], dominators[old] + taken
                size += 1
            old += 1
    return size


@maker
def absorb(
    queries: Queries, block: Block, scores: F64, keys: Keys, members: Members, end: int, until: int, scratch: Scratch
) -> tuple[Members, int]:
    """Bring the skybands of the keys with rows up to date: the pool, which may have moved, and its end. Other keys are not touched.

    O(rows + their keys' members + kept log k).
    """
    k, count, micros = queries.keep_k, queries.keep_count, queries.keep_micros
    since = alive_from(until - 1, micros)
    start, length, owned = keys.start, keys.length, keys.room
    room = 0
    newer, merged = Heap(scratch.score, scratch.row), members  # replaced before the first use
    best = np.empty(k, np.float64)
    for group in range(len(block.keys)):
        key, alive, new = newcomers(block, group, scores, k, count, micros, since, best, scratch)
        if new < 0:
            continue
        if room < new + length[key]:
            room = 2 * (new + length[key])
            newer, merged = Heap(np.empty(room, np.float64), np.empty(room, np.int64)), new_members(room)
        size = merge(block, group, k, alive, newer, new, scratch, keys, members, merged)
        if size > owned[key]:
            length[key] = owned[key] = 0
            most = size + size // 2 + 2
            if end + most > len(members.score):
                members, end = packed(keys, members, most)
            start[key], owned[key] = end, most
            end += most
        copy_members(merged, 0, size, members, start[key])
        length[key] = size
    return members, end
