"""Top-k of many functions of one form over one window: the driver that replays a block for every query and key.

Candidates come from an influence grid (``many_probe``) where there is one, else from scoring the block for each query.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from skyband.operators.base import ARRIVAL, DISPLACED, EXPIRY, F64, I64, NEVER, PROMOTED
from skyband.operators.jit import HAVE_NUMBA, inner, inner_inlined, jit, maker
from skyband.operators.single_rows.blocks import Block
from skyband.operators.single_rows.kernels.arrays import grown, shift
from skyband.operators.single_rows.kernels.emit import ChangeRows, Event, change_rows, more_rows, put
from skyband.operators.single_rows.kernels.heap import Heap, heap_push, sift_down
from skyband.operators.single_rows.kernels.ranked_list import RankedList, alive_from, oldest, place_of
from skyband.operators.single_rows.kernels.replay import next_capacity, replay_on
from skyband.operators.single_rows.kernels.replay_state import (
    AT,
    BASE,
    BEFORE,
    CUT,
    DELETION,
    DONE,
    FULL,
    LEFT,
    LIMIT,
    NEXT,
    OUT,
    PENDING,
    PLACE,
    PLACES,
    REFILL,
    ROOM,
    ROW,
    SEEN,
    SIZE,
    VISITS,
    Candidates,
    Progress,
    Query,
    Records,
    Span,
    next_list_size,
    set_cutoff,
)
from skyband.operators.single_rows.kernels.score_programs import bound_boxes_by_steps, has_steps
from skyband.operators.single_rows.kernels.select import Below, into_rank_order, select
from skyband.operators.single_rows.score_programs import TILE
from skyband.operators.topk.kernels.many_probe import BOUNDS, UNKNOWN, BlockCandidates, InfluenceGrid
from skyband.operators.topk.kernels.many_tables import (
    LEAF,
    NO_SEQ,
    REFILLS,
    ROWS_READ,
    QueryLists,
    QueryTable,
    TableQuery,
    WindowPool,
    bound_leaves,
    corners_pay,
    find_corners,
    first_place_from,
    moved_list,
    query_of,
    score_rows,
)
from skyband.operators.topk.kernels.scan import gather
from skyband.operators.windows import UNBOUNDED

# Forget the lists of cells that queries reach since their cutoffs are lower (see ``many_grid``).


@maker
def _forget_sums(queries: I64, weights: F64, cutoffs: F64, grid: InfluenceGrid) -> None:
    """As ``forget``, for weighted sums: axis by axis, pruned by the best rest."""
    g, low, step, pad = grid.cells, grid.low, grid.step, grid.pad
    d = weights.shape[1]
    half = (g + 1) // 2
    part, rest = np.empty((d, g), np.float64), np.zeros(d + 1, np.float64)
    at, cell, up = np.zeros(d, np.int64), np.zeros(d + 1, np.int64), np.zeros(d + 1, np.int64)
    prefix = np.zeros(d + 1, np.float64)
    for q in queries:
        for t in range(d - 1, -1, -1):
            best = -np.inf
            for o in range(g):
                u, v = weights[q, t] * (low[t] + o * step[t] - pad[t]), weights[q, t] * (low[t] + (o + 1) * step[t] + pad[t])
                part[t, o] = u if u > v else v
                best = max(best, part[t, o])
            rest[t] = rest[t + 1] + best
        level = 0
        at[0] = -1
        while level >= 0:
            at[level] += 1
            o = at[level]
            if o == g:
                level -= 1
                continue
            p = prefix[level] + part[level, o]
            if p + rest[level + 1] + 1e-9 * (abs(p) + abs(rest[level + 1])) < cutoffs[q]:
                continue
            c, u = cell[level] * g + o, up[level] * half + o // 2
            if level == d - 1:
                grid.counters[BOUNDS] += 1
                grid.fine[c] = grid.coarse[u] = UNKNOWN
                grid.bits[c >> 5] |= np.uint32(1) << np.uint32(c & 31)
                continue
            level += 1
            prefix[level], cell[level], up[level], at[level] = p, c, u, -1


@inner
def _forget_coarse(corner: I64, grid: InfluenceGrid) -> None:
    """Mark the coarse cell at ``corner`` int64 (d,) and its fine cells unknown."""
    g, d = grid.cells, len(corner)
    half, up = (g + 1) // 2, 0
    for t in range(d):
        up = up * half + corner[t]
    grid.coarse[up] = UNKNOWN
    for h in range(1 << d):
        cell, inside = 0, True
        for t in range(d):
            o = 2 * corner[t] + ((h >> (d - 1 - t)) & 1)
            inside = inside and o < g
            cell = cell * g + o
        if inside:
            grid.fine[cell] = UNKNOWN
            grid.bits[cell >> 5] |= np.uint32(1) << np.uint32(cell & 31)


@inner
def _halve(boxes: I64, at: int, box: I64) -> None:
    """Write the two halves of ``box`` (2 d,), cut across its longest axis, to rows ``at`` and ``at`` + 1 of ``boxes``."""
    d, longest = len(box) // 2, 0
    for t in range(d):
        if box[d + t] - box[t] > box[d + longest] - box[longest]:
            longest = t
    for t in range(2 * d):
        boxes[at, t] = boxes[at + 1, t] = box[t]
    boxes[at, d + longest] = boxes[at + 1, longest] = (box[longest] + box[d + longest]) // 2


@maker
def _forget_by_steps(queries: I64, table: QueryTable, cutoffs: F64, grid: InfluenceGrid) -> None:
    """As ``forget``, for a program: boxes of coarse cells are halved as long as the query reaches them."""
    low, step, pad = grid.low, grid.step, grid.pad
    d, half = len(low), (grid.cells + 1) // 2
    boxes, some = np.empty((half**d + 2, 2 * d), np.int64), np.empty((TILE, 2 * d), np.int64)
    least, most, bound = np.empty((d, TILE), np.float64), np.empty((d, TILE), np.float64), np.empty(TILE, np.float64)
    for q in queries:
        boxes[0, :d], boxes[0, d:] = 0, half
        left = 1
        while left > 0:
            n = min(TILE, left)
            left -= n
            for i in range(n):
                for t in range(d):
                    a, b = boxes[left + i, t], boxes[left + i, d + t]
                    some[i, t], some[i, d + t] = a, b
                    least[t, i], most[t, i] = low[t] + 2 * a * step[t] - pad[t], low[t] + 2 * b * step[t] + pad[t]
            grid.counters[BOUNDS] += n
            bound_boxes_by_steps(table.program, table.weights[q], least, most, 0, n, bound)
            for i in range(n):
                if bound[i] < cutoffs[q]:
                    continue
                cells = 1
                for t in range(d):
                    cells *= some[i, d + t] - some[i, t]
                if cells == 1:
                    _forget_coarse(some[i, :d], grid)
                else:
                    _halve(boxes, left, some[i])
                    left += 2


@jit
def forget(queries: I64, table: QueryTable, cutoffs: F64, grid: InfluenceGrid) -> None:
    """Mark every cell unknown that ``queries`` int64, whose cutoffs are lower now, reach. O(cells that one of them reaches) each."""
    if has_steps(table.program):
        _forget_by_steps(queries, table, cutoffs, grid)
    else:
        _forget_sums(queries, table.weights, cutoffs, grid)


# Search the window of one key: refill a list that ran short, and rescan the rest of a block with a lower cutoff.
#
# The search visits leaves with corners best first, so drifting data cost a few leaves.


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


# Replay a block for one key and a query with a count window only: the common and fast case of ``many.replay_queries``.
#
# The list is as in ``replay_on``, but an expired member after the first k leaves only when it would be promoted. ``Progress`` is used as in
# ``replay_on``, except for ``AT``, the oldest seq of the first k (``NO_SEQ`` if there is none), and ``SEEN`` and ``cutoff[1]``, seq and
# score of the member that expired.


@inner
def _least(seqs: I64, size: int) -> int:
    """Return the oldest of the first ``size`` seqs, or NO_SEQ. O(size)."""
    least = np.int64(NO_SEQ)
    for i in range(size):
        least = min(least, seqs[i])
    return int(least)


@inner
def _take_out(ranked: RankedList, size: int, place: int) -> int:
    """Take the member at ``place`` out of a list of ``size``; return its new size."""
    shift(ranked.score, place + 1, size, -1)
    shift(ranked.seq, place + 1, size, -1)
    return size - 1


@inner
def _put_in(ranked: RankedList, size: int, score: float, seq: int) -> int:
    """Put an arrival into a list of ``size``; return its place."""
    place = place_of(ranked.score, size, score)
    shift(ranked.score, place, size, 1)
    shift(ranked.seq, place, size, 1)
    ranked.score[place], ranked.seq[place] = score, seq
    return int(place)


@inner
def _alive(ranked: RankedList, size: int, last_expired: int) -> int:
    """Keep the members with a seq after ``last_expired``; return their number."""
    score, seq = ranked.score, ranked.seq
    kept = 0
    for i in range(size):
        score[kept], seq[kept] = score[i], seq[i]
        kept += 1 if seq[i] > last_expired else 0
    return kept


class _Reported(NamedTuple):
    """What an event changed in the result, so far as it is known before the list has k members again.

    ``row`` of the event; ``kept``: how many of the first k stayed; ``expired``: whether one left, and then ``expired_seq`` and
    ``expired_score``; ``place``: the arrival's place in the list, or -1.
    """

    row: int
    kept: int
    expired: bool
    expired_seq: int
    expired_score: float
    place: int


@inner
def _write(changes: ChangeRows, out: int, event: Event, k: int, found: _Reported, ranked: RankedList, size: int) -> int:
    """Write the net change of an event from change ``out`` on; return the next change to write. O(changes)."""
    score, seq = ranked.score, ranked.seq
    kept, place = found.kept, found.place
    entered, pos = 0 <= place < k, 0
    if found.expired:
        out = put(changes, out, event, pos, -1, EXPIRY, found.expired_seq, found.expired_score)
        pos += 1
    if entered and kept == k:
        out = put(changes, out, event, pos, -1, DISPLACED, seq[k], score[k])
        pos += 1
    if entered and place < kept:
        out = put(changes, out, event, pos, 1, ARRIVAL, seq[place], score[place])
        pos += 1
        kept += 1
    for i in range(kept, min(k, size)):
        out = put(changes, out, event, pos, 1, ARRIVAL if i == place else PROMOTED, seq[i], score[i])
        pos += 1
    return out


@inner
def _suspend(progress: Progress, found: _Reported) -> None:
    """Save an event that waits for a refill."""
    places = progress.places
    places[PENDING], places[ROW], places[PLACE] = 1, found.row + 1, found.place
    places[BEFORE], places[LEFT], places[SEEN] = found.kept, 1 if found.expired else 0, found.expired_seq
    progress.cutoff[1] = found.expired_score


@inner
def _resume(progress: Progress, size: int, seq_of_row_0: int, ranked: RankedList) -> _Reported:
    """Return the event that ``_suspend`` saved; the refill may have brought its arrival into the list. O(list)."""
    places = progress.places
    row, place = places[ROW] - 1, places[PLACE]
    if place < 0:
        for i in range(size):
            if ranked.seq[i] == row + seq_of_row_0:
                place = i
    return _Reported(row, places[BEFORE], places[LEFT] == 1, places[SEEN], progress.cutoff[1], place)


@inner
def _place_of_seq(ranked: RankedList, seq: int) -> int:
    """Return the place of a member of the list. O(list)."""
    place = 0
    while ranked.seq[place] != seq:
        place += 1
    return place


@inner
def _expire(ranked: RankedList, size: int, k: int, place: int, last_expired: int) -> int:
    """Take the expired member at ``place`` out, and members after the first k that would be promoted although they have expired, too:
    those up to seq ``last_expired``. Return the list's size."""
    size = _take_out(ranked, size, place)
    while size >= k and ranked.seq[k - 1] <= last_expired:
        size = _take_out(ranked, size, k - 1)
    return size


@inner
def replay_plain(
    query: Query, span: Span, time: I64, candidates: Candidates, found: int, ranked: RankedList, progress: Progress, steps: I64,
    changes: ChangeRows,
) -> int:  # fmt: skip
    """Go on from ``progress`` to the end of the block (DONE), to the next refill (REFILL) or until changes need more room (ROOM).

    ``time`` int64 (rows,) of the block; ``candidates`` are ``found`` rows of the span, in order; ``steps`` int64 (keys,) of the query.
    O(k) per visited event.
    """
    places = progress.places
    k, count = query.k, query.count
    seq_of_row_0 = span.first_seq - span.begin
    size, limit, visits = places[SIZE], places[LIMIT], places[VISITS]
    full, oldest, cutoff = places[FULL] == 1, places[AT], progress.cutoff[0]
    candidate, out = places[NEXT], places[OUT]
    stop = DONE
    event = _Reported(span.end, 0, False, 0, 0.0, -1)
    pending = places[PENDING] == 1
    if pending:
        event = _resume(progress, size, seq_of_row_0, ranked)
        oldest = _least(ranked.seq, min(k, size))
    while True:
        if not pending:
            while candidate < found and not candidates.score[candidate] >= cutoff:
                candidate += 1
            row = candidates.row[candidate] if candidate < found else span.end
            expiry = oldest + count - seq_of_row_0  # the row that pushes the oldest of the first k out
            expires = expiry <= row and expiry < span.end
            if expires:
                row = expiry
            if row == span.end:
                break
            if out + 4 * k + 4 > len(changes.score):
                stop = ROOM
                break
            seq, place, kept = row + seq_of_row_0, -1, min(k, size)
            expired_seq, expired_score = 0, 0.0
            if expires:
                kept -= 1
                at = _place_of_seq(ranked, oldest)
                expired_seq, expired_score = oldest, ranked.score[at]
                size = _expire(ranked, size, k, at, seq - count)
                oldest = _least(ranked.seq, min(k, size))
            if candidate < found and candidates.row[candidate] == row:
                place = _put_in(ranked, size, candidates.score[candidate], seq)
                size += 1
                candidate += 1
                if place < k:
                    oldest = min(oldest, seq)
                    if size > k and ranked.seq[k] == oldest:
                        oldest = _least(ranked.seq, k)
            event = _Reported(row, kept, expires, expired_seq, expired_score, place)
            visits += 1
            if size < k and not full:
                stop = REFILL
                break
        pending = False
        if event.expired or 0 <= event.place < k or min(k, size) > event.kept:
            steps[span.key] += 1
            out = _write(changes, out, Event(query.number, span.key, time[event.row], steps[span.key]), k, event, ranked, size)
        if size >= 2 * limit:
            size = _alive(ranked, size, event.row + seq_of_row_0 - count)
            if size >= 2 * limit:  # as in ``replay_on``
                limit = max(limit // 2, places[BASE])
                size, full = limit, False
                cutoff, places[CUT] = ranked.score[size - 1], ranked.seq[size - 1]
    places[SIZE], places[LIMIT], places[VISITS] = size, limit, visits
    places[FULL], places[AT], progress.cutoff[0] = 1 if full else 0, oldest, cutoff
    places[NEXT], places[OUT], places[PENDING] = candidate, out, 0
    if stop == REFILL:
        _suspend(progress, event)
    return stop


CHUNK = 1024


class _Job(NamedTuple):
    """What all replays of a block share: the queries, the block, the window with its rows, their candidates, the records of the
    queries, and the instant before which to process events."""

    table: QueryTable
    block: Block
    pool: WindowPool
    candidates: BlockCandidates
    records: Records
    until: int


class _Space(NamedTuple):
    """Space that the replays of one block share.

    ``progress``: of the replay at hand, and the number of changes so far; ``candidates``: room for all rows of the longest span;
    ``search``: for refills, as long as the longest list; ``left_score`` float64, ``left_seq`` int64 (members of the longest list,).
    """

    progress: Progress
    candidates: Candidates
    search: SearchSpace
    left_score: F64
    left_seq: I64


@maker
def _space_for(block: Block, leaves: int, work: I64) -> _Space:
    """Return scratch space for a block's replays of lists of up to 64 members, over a window of ``leaves``."""
    longest = 1
    for g in range(len(block.keys)):
        longest = max(longest, block.end[g] - block.begin[g])
    return _Space(
        Progress(np.zeros(PLACES, np.int64), np.zeros(2, np.float64)),
        Candidates(np.empty(longest, np.int64), np.empty(longest, np.float64)),
        SearchSpace(
            np.empty(CHUNK, np.float64), Heap(np.empty(64, np.float64), np.empty(64, np.int64)), np.empty(leaves, np.float64),
            np.empty(leaves, np.int64), work,
        ),
        np.empty(64, np.float64), np.empty(64, np.int64),
    )  # fmt: skip


@maker
def _space_for_lists(space: _Space, members: int) -> _Space:
    """Return scratch space for lists of ``members`` members."""
    search = space.search
    heap = Heap(grown(search.best.score, members), grown(search.best.place, members))
    return _Space(
        space.progress, space.candidates, SearchSpace(search.chunk, heap, search.bound, search.leaf, search.work),
        grown(space.left_score, members), grown(space.left_seq, members),
    )  # fmt: skip


@jit(inline="always")
def _span_of(job: _Job, query: Query, group: int) -> Span:
    """Return the part of the block that a query's replay for one key goes over."""
    block = job.block
    timed = query.micros < UNBOUNDED or query.every > 0 or len(job.pool.ended_by) > 0
    return Span(
        block.keys[group], block.begin[group], block.end[group], block.first_seq[group], block.deletion_end[group], job.until, timed
    )  # fmt: skip


@inner
def _score_span(query: TableQuery, pool: WindowPool, span: Span, cutoff: float, candidates: Candidates, chunk: F64) -> int:
    """Return the span's rows that reach the cutoff, and their number."""
    ahead, found, begin = pool.tail[span.key] - span.end, 0, span.begin
    while begin < span.end:
        place = begin + ahead
        row = place if place < pool.wrap else place - pool.wrap
        end = min(span.end, begin + CHUNK, begin + pool.wrap - row)
        score_rows(query, pool, row, row + end - begin, chunk)
        found += gather(chunk, 0, end - begin, begin, cutoff, candidates.row[found:], candidates.score[found:])
        begin = end
    return found


@inner_inlined
def _find_candidates(job: _Job, query: TableQuery, group: int, lists: QueryLists, space: _Space) -> int:
    """Return how many candidates a query has in one key's part of the block, or -1 if nothing happens to its list."""
    q, block, known = query.base.number, job.block, job.candidates.begin
    span = _span_of(job, query.base, group)
    if len(known) > 0:
        found = known[q + 1] - known[q]
    else:
        found = _score_span(query, job.pool, span, lists.cutoff[q, span.key], space.candidates, space.search.chunk)
    leaves = lists.oldest[q, span.key] + query.base.count < span.first_seq + (span.end - span.begin)
    if found > 0 or leaves or block.deletion_begin[group] < span.deletions_end or job.records.wake[q, span.key] < job.until:
        return int(found)
    return -1


@inner_inlined
def _room_for(query: int, key: int, found: int, lists: QueryLists) -> int:
    """Return the room a list must have, or 0 if it has it."""
    limit, size = lists.limit[query, key], lists.size[query, key]
    room = min(2 * limit, size + found) + 2 if lists.full[query, key] == 1 else 2 * limit + 2
    return min(2 * room, 2 * limit + 2) if room > lists.room[query, key] else 0


@inner_inlined
def _begin_replay(job: _Job, query: TableQuery, group: int, lists: QueryLists, progress: Progress) -> None:
    """Set ``progress`` up for a query's list of one key."""
    q, key, st = query.base.number, job.block.keys[group], progress.places
    st[PENDING], st[ROW], st[DELETION], st[NEXT], st[VISITS] = 0, job.block.begin[group], job.block.deletion_begin[group], 0, 0
    st[SIZE], st[LIMIT], st[BASE], st[FULL] = lists.size[q, key], lists.limit[q, key], query.list_size, lists.full[q, key]
    progress.cutoff[0], st[CUT], st[AT] = lists.cutoff[q, key], lists.cut[q, key], lists.oldest[q, key]


@jit(inline="always")
def _list_at(lists: QueryLists, query: int, key: int, space: _Space) -> RankedList:
    """Return a view of one list in the pool."""
    begin = lists.begin[query, key]
    end = begin + lists.room[query, key]
    return RankedList(lists.score[begin:end], lists.seq[begin:end], lists.time[begin:end], space.left_score, space.left_seq)


@jit(inline="always")
def _candidates_of(job: _Job, query: int, refilled: bool, space: _Space) -> Candidates:
    """Return a query's candidates in the only key's part of the block, or those last found by scores."""
    known = job.candidates.begin
    if len(known) == 0 or refilled:
        return space.candidates
    return Candidates(job.candidates.rows[known[query] : known[query + 1]], job.candidates.scores[known[query] : known[query + 1]])


@inner_inlined
def _replay_list(
    job: _Job, query: TableQuery, group: int, found: int, refilled: bool, lists: QueryLists, space: _Space, changes: ChangeRows
) -> int:  # fmt: skip
    """Go on with the replay of a query's list of one key; return why it stopped."""
    q, span, progress, records = query.base.number, _span_of(job, query.base, group), space.progress, job.records
    ranked, candidates = _list_at(lists, q, span.key, space), _candidates_of(job, q, refilled, space)
    if span.timed:
        return int(replay_on(query.base, span, job.block, candidates, found, span.end, ranked, progress, records, changes))
    return int(replay_plain(query.base, span, job.block.time, candidates, found, ranked, progress, records.step[q], changes))


@inner
def _next_limit(k: int, read: int, progress: Progress) -> int:
    """Return the size to refill a short list to: larger if refills, which read ``read`` rows and leaves, are too frequent."""
    st, cost = progress.places, read // 64
    limit = max(st[SIZE] + 1, next_list_size(st[LIMIT], max(8 * k + 64, cost), st[VISITS], cost))
    st[LIMIT], st[VISITS] = limit, 0
    return int(limit)


@inner
def _known_leaves(query: TableQuery, pool: WindowPool, key: int, begin: int, end: int, cutoff: float, space: F64) -> int:
    """Return the place before which full leaves have corners. Compute corners up to ``end`` if bounds pay in the rows before ``begin``.
    ``space`` float64 (at least 1,) is scratch space."""
    known = (max(pool.leaves_end[key], pool.head[key]) + LEAF - 1) // LEAF * LEAF
    if corners_pay(query, pool, known, begin, cutoff, space):
        while known + LEAF <= end:
            find_corners(pool, known if known < pool.wrap else known - pool.wrap)
            known += LEAF
            pool.leaves_end[key] = known
    return int(known)


@inner_inlined
def _refill(job: _Job, query: TableQuery, group: int, lists: QueryLists, space: _Space) -> int:
    """Fill a list that ran short up to its limit out of the window before the replay's row; return how many candidates the rest of the
    span holds now that the cutoff is lower."""
    st, cutoff, base, pool, search = space.progress.places, space.progress.cutoff, query.base, job.pool, space.search
    span = _span_of(job, base, group)
    key, ahead, size = span.key, pool.tail[span.key] - span.end, st[SIZE]
    ranked = _list_at(lists, base.number, key, space)
    arrived, end, need = st[ROW] + ahead, span.end + ahead, st[LIMIT] - size
    first_seq = span.first_seq - span.begin - ahead
    known = _known_leaves(query, pool, key, arrived, end, cutoff[0], search.chunk)
    request = RefillRequest(
        pool.head[key], arrived, first_seq, first_seq + arrived - base.count, alive_from(st[AT], base.micros), st[DELETION],
        Below(cutoff[0], st[CUT] - first_seq, query.floor), min(known, arrived // LEAF * LEAF), need,
    )  # fmt: skip
    got = refill_rows(query, pool, request, ranked, size, search)
    st[SIZE] = size + got
    set_cutoff(space.progress, ranked, got < need, query.floor)
    st[NEXT] = 0
    search.work[REFILLS] += 1
    return int(rescan_candidates(query, pool, arrived, end, ahead, cutoff[0], pool.head[key], known, space.candidates, search))


@inner_inlined
def _end_replay(job: _Job, query: TableQuery, group: int, lists: QueryLists, space: _Space) -> None:
    """Keep what the next block goes on from."""
    q, key, micros, st = query.base.number, job.block.keys[group], query.base.micros, space.progress.places
    size = st[SIZE]
    lists.size[q, key], lists.limit[q, key], lists.cutoff[q, key] = size, st[LIMIT], space.progress.cutoff[0]
    lists.cut[q, key], lists.full[q, key] = st[CUT], st[FULL]
    if not _span_of(job, query.base, group).timed:
        lists.oldest[q, key] = st[AT]
        return
    ranked = _list_at(lists, q, key, space)
    o = oldest(ranked.seq, min(query.base.k, size))
    lists.oldest[q, key] = ranked.seq[o] if o >= 0 else NO_SEQ
    expiry = ranked.time[o] + micros if o >= 0 and micros < UNBOUNDED else NEVER
    job.records.wake[q, key] = min(expiry, job.records.due[q, key])


@jit
def replay_queries(
    table: QueryTable, block: Block, pool: WindowPool, candidates: BlockCandidates, lists: QueryLists, records: Records, until: int,
    work: I64,
) -> tuple[ChangeRows, int, QueryLists]:  # fmt: skip
    """Replay a block, already in the window, for every query and key. Return change rows, their number, and the lists (the pool may move).

    Process events before ``until``; ``work``: see ``REFILLS``. O(1) per query and key without an event, O(k) per
    change; without candidates also O(d) per row and query.
    """
    changes, space = change_rows(1024), _space_for(block, pool.leaf_low.shape[1], work)
    job = _Job(table, block, pool, candidates, records, until)
    for q in range(len(table.k)):
        query = query_of(table, q)
        k = table.k[q]
        for group in range(len(block.keys)):
            key = block.keys[group]
            found = _find_candidates(job, query, group, lists, space)
            if found < 0:
                continue
            room = _room_for(q, key, found, lists)
            if room > 0:
                lists = moved_list(lists, q, key, lists.size[q, key], room)
            if 2 * lists.limit[q, key] >= len(space.left_seq):
                space = _space_for_lists(space, 2 * lists.limit[q, key] + 1)
            _begin_replay(job, query, group, lists, space.progress)
            refilled, read = False, work[ROWS_READ]
            while True:
                stop = _replay_list(job, query, group, found, refilled, lists, space, changes)
                if stop == DONE:
                    break
                if stop == ROOM:
                    changes = more_rows(changes, next_capacity(changes, k))
                    continue
                limit = _next_limit(k, work[ROWS_READ] - read + (pool.tail[key] - pool.head[key]) // LEAF, space.progress)
                if 2 * limit + 2 > lists.room[q, key]:
                    lists = moved_list(lists, q, key, space.progress.places[SIZE], 2 * limit + 2)
                if 2 * limit >= len(space.left_seq):
                    space = _space_for_lists(space, 2 * limit + 1)
                refilled, read = True, work[ROWS_READ]
                found = _refill(job, query, group, lists, space)
            _end_replay(job, query, group, lists, space)
    return changes, space.progress.places[OUT], lists
