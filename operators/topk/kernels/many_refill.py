"""Search the window of one key: refill a list that ran short, and rescan the rest of a block with a lower cutoff.

The search visits leaves with corners best first, so drifting data cost a few leaves.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from skyband.operators.base import F64, I64
from skyband.operators.jit import HAVE_NUMBA, inner, jit
from skyband.operators.single_rows.kernels.heap import Heap, heap_push, sift_down
from skyband.operators.single_rows.kernels.ranked_list import RankedList
from skyband.operators.single_rows.kernels.replay_state import Candidates
from skyband.operators.single_rows.kernels.select import Below, into_rank_order, select
from skyband.operators.topk.kernels.many_queries import ROWS_READ, TableQuery
from skyband.operators.topk.kernels.many_scores import bound_leaves, score_rows
from skyband.operators.topk.kernels.scan import gather
from skyband.operators.topk.kernels.window_pool import LEAF, WindowPool, first_place_from


class RefillRequest(NamedTuple):
    """The rows that a refill may use: those of places [``begin``, ``end``), alive, that rank after the list's cutoff.

    ``first_seq``: the seq of place 0. Alive are rows of at least ``min_seq`` and ``min_time`` that no deletion before the block's
    ``deletion``-th deleted. ``below``: the cutoff, its row as a place, and the least score. Full leaves before place ``leaves_end`` have
    corners. ``need``: how many rows to find.
    """

    begin: int
    end: int
    first_seq: int
    min_seq: int
    min_time: int
    deletion: int
    below: Below
    leaves_end: int
    need: int


class SearchSpace(NamedTuple):
    """Scratch space for a search.

    ``chunk`` float64 (at least LEAF,): scores of a stretch of rows; ``best``: the heap of those found; ``bound`` float64, ``leaf`` int64
    (leaves of the window,): the heap of leaves still to be read; ``work``: counters, see ``REFILLS``.
    """

    chunk: F64
    best: Heap
    bound: F64
    leaf: I64
    work: I64


@inner
def _select_any_order(scores: F64, ended_by: I64, rows: int, base: int, request: RefillRequest, best: Heap, size: int) -> int:
    """Select from the first ``rows`` of ``scores``, at places from ``base`` on. Unlike ``select``, calls may be in any order."""
    need, deletion, cutoff, floor = request.need, request.deletion, request.below.score, request.below.floor
    cut, deletes = request.below.row - base, len(ended_by) > 0
    best_score, best_place = best.score, best.place
    if size == need:
        hits: Any = np.int64(0)
        for i in range(rows):
            hits += np.int64(scores[i] >= best_score[0])
        if hits == 0:
            return size
    for i in range(rows - 1, -1, -1):
        score = scores[i]
        if not score >= floor or score > cutoff or (score == cutoff and i >= cut) or (deletes and ended_by[i] < deletion):
            continue
        if size < need:
            size = heap_push(best, size, score, base + i)
        elif score > best_score[0] or (score == best_score[0] and base + i > best_place[0]):
            sift_down(best, size, score, base + i)
    return size


@inner
def _sink(bound: F64, leaf: I64, i: int, size: int) -> None:
    """Sift entry ``i`` down a heap with the largest bound on top."""
    b, v = bound[i], leaf[i]
    while True:
        j = 2 * i + 1
        if j >= size:
            break
        if j + 1 < size and bound[j + 1] > bound[j]:
            j += 1
        if not bound[j] > b:
            break
        bound[i], leaf[i] = bound[j], leaf[j]
        i = j
    bound[i], leaf[i] = b, v


@inner
def _select_best_leaves(
    query: TableQuery, pool: WindowPool, first: int, last: int, request: RefillRequest, space: SearchSpace, size: int
) -> int:  # fmt: skip
    """Select from leaves [first, last), all with corners, by falling bound until none can hold one of the best. Return the heap's size."""
    best, need, wrap = space.best, request.need, pool.wrap
    bounds, leaves = space.bound, space.leaf
    m = 0
    while first < last:
        place = first * LEAF
        leaf = (place if place < wrap else place - wrap) // LEAF
        n, at = min(last - first, wrap // LEAF - leaf), m
        bound_leaves(query, pool, leaf, leaf + n, bounds[at:])
        for i in range(n):
            bound = bounds[at + i]
            if not bound < request.below.floor and not (size == need and bound < best.score[0]):
                bounds[m], leaves[m] = bound if bound == bound else np.inf, first + i
                m += 1
        first += n
    for i in range(m // 2 - 1, -1, -1):
        _sink(bounds, leaves, i, m)
    while m > 0 and not (size == need and bounds[0] < best.score[0]):
        place = leaves[0] * LEAF
        row = place if place < wrap else place - wrap
        space.work[ROWS_READ] += LEAF
        score_rows(query, pool, row, row + LEAF, space.chunk)
        size = _select_any_order(space.chunk, pool.ended_by[row : row + LEAF], LEAF, place, request, best, size)
        m -= 1
        bounds[0], leaves[0] = bounds[m], leaves[m]
        _sink(bounds, leaves, 0, m)
    return size


@jit(_nrt=False)
def refill_rows(query: TableQuery, pool: WindowPool, request: RefillRequest, ranked: RankedList, size: int, space: SearchSpace) -> int:
    """Append the best rows that ``request`` allows to a list of ``size``; return their number. O(leaves + rows not left out)."""
    best, wrap, below = space.best, pool.wrap, request.below
    begin, end = max(request.begin, min(request.end, request.min_seq - request.first_seq)), request.end
    if len(pool.time):
        begin = first_place_from(pool, begin, end, request.min_time)
    found = 0
    known_begin, known_end = (begin + LEAF - 1) // LEAF, request.leaves_end // LEAF
    while end > begin:
        leaf = (end - 1) // LEAF
        if HAVE_NUMBA and known_begin <= leaf < known_end and end == leaf * LEAF + LEAF:
            found = _select_best_leaves(query, pool, known_begin, leaf + 1, request, space, found)
            end = known_begin * LEAF
            continue
        place = max(begin, leaf * LEAF)
        row, n = place if place < wrap else place - wrap, end - place
        space.work[ROWS_READ] += n
        score_rows(query, pool, row, row + n, space.chunk)
        ended_by = pool.ended_by[row : row + n]
        if not HAVE_NUMBA or known_begin >= known_end:  # newest first throughout
            rest = Below(below.score, below.row - place, below.floor)
            found = select(space.chunk, ended_by, request.deletion, 0, n, place, rest, best, found, request.need)
        else:
            found = _select_any_order(space.chunk, ended_by, n, place, request, best, found)
        end = place
    into_rank_order(best, found)
    for i in range(found):
        place = best.place[i]
        row = place if place < wrap else place - wrap
        ranked.score[size + i], ranked.seq[size + i] = best.score[i], request.first_seq + place
        ranked.time[size + i] = pool.time[row] if len(pool.time) else 0
    return found


@inner
def rescan_candidates(
    query: TableQuery, pool: WindowPool, begin: int, end: int, ahead: int, cutoff: float, leaves_begin: int, leaves_end: int,
    candidates: Candidates, space: SearchSpace,
) -> int:  # fmt: skip
    """Find one query's candidates in places [begin, end): rows (places less ``ahead``) and scores; return their number. Full leaves in
    [``leaves_begin``, ``leaves_end``) have corners."""
    found, bounds, first, bounded = 0, space.bound, begin, begin
    while begin < end:
        e = min(end, begin // LEAF * LEAF + LEAF)
        n, row = e - begin, begin if begin < pool.wrap else begin - pool.wrap
        whole = n == LEAF and begin >= leaves_begin and e <= leaves_end
        if whole and begin >= bounded:
            leaves = min((min(end, leaves_end) - begin) // LEAF, (pool.wrap - row) // LEAF)
            bound_leaves(query, pool, row // LEAF, row // LEAF + leaves, bounds)
            first, bounded = begin, begin + leaves * LEAF
        if not (whole and bounds[(begin - first) // LEAF] < cutoff):
            space.work[ROWS_READ] += n
            score_rows(query, pool, row, row + n, space.chunk)
            found += gather(space.chunk, 0, n, begin - ahead, cutoff, candidates.row[found:], candidates.score[found:])
        begin = e
    return found
