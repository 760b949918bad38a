"""Top-k of one scoring function, a block at a time: the kernels Python calls.

Groups of arrays come as plain tuples, in the order of the fields of the NamedTuple they become here: for a call from Python a NamedTuple
costs about 0.6 microseconds more than a tuple, which blocks of few rows would feel.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from skyband.operators.base import F64, I64, NEVER, AnyArray
from skyband.operators.jit import HAVE_NUMBA, inner, jit, maker
from skyband.operators.single_rows.blocks import Block
from skyband.operators.single_rows.kernels.arrays import lower_bound
from skyband.operators.single_rows.kernels.emit import ChangeRows, more_rows
from skyband.operators.single_rows.kernels.heap import Heap, heap_push, heap_to_order
from skyband.operators.single_rows.kernels.ranked_list import FAR_FUTURE, Alive, alive_from
from skyband.operators.single_rows.kernels.replay import next_capacity, next_wake, replay_on, stamp
from skyband.operators.single_rows.kernels.replay_state import (
    AHEAD,
    AT,
    BASE,
    CUT,
    DELETION,
    DONE,
    FOUND,
    KNOWN,
    LIMIT,
    NEXT,
    OUT,
    PENDING,
    PLACES,
    REFILL,
    REFILLS,
    ROOM,
    ROW,
    SIZE,
    START,
    VISITS,
    WIDER,
    Candidates,
    Progress,
    Query,
    Records,
    next_list_size,
    set_cutoff,
)
from skyband.operators.single_rows.kernels.select import Below, into_rank_order, select
from skyband.operators.topk.kernels.scan import band, gather
from skyband.operators.topk.kernels.state import (
    Ends,
    Keys,
    Lists,
    Members,
    Queries,
    Scratch,
    Source,
    Task,
    new_lists,
    query_of,
    source_of,
    span_of,
    wider_lists,
)
from skyband.operators.windows import UNBOUNDED

# Where rows can be deleted: all alive candidates of every key, in seq order, brought up to date once per block.


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


# Top-k of one scoring function: the driver that replays a block for every query and key (docs/algorithms D1).
#
# Scores of the whole block are known; lists are filled from the members of the last block and the rows of this one. Only ``replay_block``
# makes arrays: the others stop when there is too little room, and go on.

# Filling a list of one scoring function's top-k: from the members of the last block and the rows of this one.


class FillRequest(NamedTuple):
    """Which candidates to append to a list: at most ``need`` that rank after (``score``, ``seq``), have a score of at least ``floor`` and
    are ``alive`` after the rows before ``arrived`` and the deletions before ``now``."""

    need: int
    score: float
    seq: int
    floor: float
    alive: Alive
    arrived: int
    now: int


@inner
def first_alive(source: Source, request: FillRequest) -> int:
    """Return the first row of the span that is alive, at most ``request.arrived``. O(log rows)."""
    span = source.span
    row = max(span.begin, min(request.arrived, span.begin + (request.alive.seq - span.first_seq)))
    return int(lower_bound(source.block.time, row, request.arrived, request.alive.time))


@inner
def append_from_window(source: Source, request: FillRequest, lists: Lists, size: int) -> int:
    """Append to the list of ``size`` from members in seq order and the rows so far; return how many there were.

    O(rows + members + need log need).
    """
    members, ends, begin, end, span, block = source.members, source.ends, source.begin, source.end, source.span, source.block
    ranked, best, need, floor = lists.ranked, lists.best, request.need, request.floor
    below = Below(request.score, span.begin + (request.seq - span.first_seq), floor)
    row = first_alive(source, request)
    count = select(source.scores, ends.row, request.now, row, request.arrived, end - span.begin, below, best, 0, need)
    member = max(lower_bound(members.seq, begin, end, request.alive.seq), lower_bound(members.time, begin, end, request.alive.time))
    if member < end:
        below = Below(request.score, lower_bound(members.seq, begin, end, request.seq), floor)
        count = select(members.score, ends.member, request.now, member, end, 0, below, best, count, need)
    into_rank_order(best, count)
    for i in range(count):
        place = best.place[i]
        ranked.score[size + i] = best.score[i]
        if place < end:
            ranked.seq[size + i], ranked.time[size + i] = members.seq[place], members.time[place]
        else:
            row = place - end + span.begin
            ranked.seq[size + i], ranked.time[size + i] = span.first_seq + row - span.begin, block.time[row]
    return int(count)


@inner
def first_after(members: Members, begin: int, end: int, score: float, seq: int) -> int:
    """Return the first of members [begin, end), in rank order, that ranks after (score, seq). O(log members)."""
    while begin < end:
        middle = (begin + end) >> 1
        if members.score[middle] > score or (members.score[middle] == score and members.seq[middle] >= seq):
            begin = middle + 1
        else:
            end = middle
    return begin


@inner
def append_from_band(source: Source, request: FillRequest, lists: Lists, size: int) -> int:
    """Do as ``append_from_window``, from members in rank order: a merge. O(rows + need log need + log members)."""
    members, begin, end, span, block = source.members, source.begin, source.end, source.span, source.block
    ranked, best, alive = lists.ranked, lists.best, request.alive
    score, seq, time = members.score, members.seq, members.time
    count, taken, filled = 0, 0, size
    if request.arrived > span.begin:
        below = Below(request.score, span.begin + (request.seq - span.first_seq), request.floor)
        count = select(source.scores, source.ends.row, 0, first_alive(source, request), request.arrived, 0, below, best, 0, request.need)
        into_rank_order(best, count)
    old = first_after(members, begin, end, request.score, request.seq) if size > 0 else begin
    while filled < size + request.need:
        while old < end and (seq[old] < alive.seq or time[old] < alive.time):
            old += 1
        some = old < end and score[old] >= request.floor
        if taken < count and (not some or best.score[taken] >= score[old]):  # equal: the newer one first
            row = best.place[taken]
            ranked.score[filled] = best.score[taken]
            ranked.seq[filled], ranked.time[filled] = span.first_seq + row - span.begin, block.time[row]
            taken += 1
        elif some:
            ranked.score[filled], ranked.seq[filled], ranked.time[filled] = score[old], seq[old], time[old]
            old += 1
        else:
            break
        filled += 1
    return filled - size


@inner
def append(source: Source, request: FillRequest, lists: Lists, size: int) -> int:
    """Append the candidates that ``request`` allows to the list of ``size``; return their number."""
    if source.ends.deletes:
        return int(append_from_window(source, request, lists, size))
    return int(append_from_band(source, request, lists, size))


@inner
def start(task: Task, query: Query, source: Source, deletion: int, lists: Lists, progress: Progress) -> None:
    """Fill a key's list as of the instant before ``task.since``; ``deletion``: the key's first."""
    span, places, number = source.span, progress.places, query.number
    need, floor = task.queries.limit_at_first[number], task.queries.floor[number]
    alive = Alive(span.first_seq - query.count, alive_from(task.since - 1, query.micros))
    size = append(source, FillRequest(need, np.inf, FAR_FUTURE, floor, alive, span.begin, deletion), lists, 0)
    places[PENDING], places[ROW], places[DELETION], places[SIZE] = 0, span.begin, deletion, size
    places[LIMIT], places[BASE], places[VISITS] = task.queries.limit[number], task.queries.limit[number], 0
    places[KNOWN], places[AHEAD] = span.begin, task.piece
    set_cutoff(progress, lists.ranked, size < need, floor)


@inner
def lengthen(query: Query, source: Source, progress: Progress) -> None:
    """Choose what a list that ran short is filled with: more if refills have become too frequent."""
    places, size = progress.places, progress.places[SIZE]
    cost = (source.end - source.begin + places[ROW] - source.span.begin) // 256
    places[LIMIT] = max(size + 1, next_list_size(places[LIMIT], max(8 * query.k + 64, cost), places[VISITS], cost))


@inner
def refill(task: Task, query: Query, source: Source, lists: Lists, progress: Progress) -> None:
    """Refill a short list; the scan for candidates goes on with its new cutoff."""
    span, places, floor = source.span, progress.places, task.queries.floor[query.number]
    row, size, limit = places[ROW], places[SIZE], places[LIMIT]
    alive = Alive(span.first_seq + (row - span.begin) - query.count, alive_from(places[AT], query.micros))
    request = FillRequest(limit - size, progress.cutoff[0], places[CUT], floor, alive, row, places[DELETION])
    found = append(source, request, lists, size)
    places[SIZE], places[VISITS], places[KNOWN], places[AHEAD] = size + found, 0, row, task.piece
    set_cutoff(progress, lists.ranked, found < limit - size, floor)
    places[REFILLS] += 1


@inner
def look_ahead(task: Task, source: Source, progress: Progress) -> None:
    """Find the candidates of the next piece of the block."""
    places = progress.places
    row = places[KNOWN]
    places[KNOWN] = min(source.span.end, row + places[AHEAD])
    places[AHEAD] *= 2
    places[FOUND] = gather(source.scores, row, places[KNOWN], 0, progress.cutoff[0], task.candidates.row, task.candidates.score)
    places[NEXT] = 0


@inner
def replay_key(task: Task, query: Query, group: int, lists: Lists, progress: Progress, changes: ChangeRows, stop: int) -> int:
    """Replay one key's part of a block for one query to its end (DONE), or until the lists (WIDER) or the changes (ROOM) need more room.

    ``stop``: START, or what it stopped for the last time.
    """
    block, places, records = task.block, progress.places, task.records
    span = span_of(block, group, query, task.until)
    source = source_of(task, span)
    if stop == START:
        start(task, query, source, block.deletion_begin[group], lists, progress)
    begin = places[OUT]
    while True:
        if stop == REFILL:
            lengthen(query, source, progress)
            if len(lists.ranked.score) < 2 * places[LIMIT] + 1:
                return WIDER
        if stop in (REFILL, WIDER):
            refill(task, query, source, lists, progress)
        if stop != ROOM:
            look_ahead(task, source, progress)
        stop = replay_on(query, span, block, task.candidates, places[FOUND], places[KNOWN], lists.ranked, progress, records, changes)
        if not span.timed:
            stamp(changes, begin, places[OUT], block.time)
            begin = places[OUT]
        if stop == ROOM:
            return ROOM
        if stop == DONE:
            expiry = next_wake(lists.ranked, min(query.k, places[SIZE]), query.micros)
            records.wake[query.number, span.key] = min(expiry, records.due[query.number, span.key])
            return DONE


@inner
def replay_keys(task: Task, query: Query, group: int, lists: Lists, progress: Progress, changes: ChangeRows, stop: int) -> tuple[int, int]:
    """Call ``replay_key`` for the keys of a block from ``group`` on. Return the group it stopped at, and why: DONE, WIDER or ROOM."""
    block, wake = task.block, task.records.wake
    while group < len(block.keys):
        idle = block.begin[group] == block.end[group] and block.deletion_begin[group] == block.deletion_end[group]
        if not (idle and wake[query.number, block.keys[group]] >= task.until):
            stop = replay_key(task, query, group, lists, progress, changes, stop)
            if stop != DONE:
                return group, stop
            stop = START
        group += 1
    return group, DONE


class Span(NamedTuple):
    """The time of a block's events. All int64."""

    since: int
    """Microseconds, the first instant."""
    until: int
    """Microseconds, the first instant that is later."""
    piece: int
    """How many rows the scan for candidates looks ahead at first."""


@maker
def replay_block(
    queries: Queries, block: Block, scores: F64, keys: Keys, members: Members, ends: Ends, records: Records, scratch: Scratch, span: Span
) -> tuple[ChangeRows, int, int]:  # fmt: skip
    """Replay the events of a span for every query and every key of the block, and bring ``keys.next_seq`` up to date. Return the
    changes (grouped by query, then key), their number and the number of refills.

    ``scores`` float64 (rows,): internal scores, NaN for no candidate.
    """
    candidates, changes = Candidates(scratch.row, scratch.score), ChangeRows(scratch.change_numbers, scratch.change_score)
    task = Task(queries, block, scores, keys, members, ends, records, candidates, span.since, span.until, span.piece)
    lists, progress = new_lists(64), Progress(np.zeros(PLACES, np.int64), np.zeros(2, np.float64))
    for number in range(len(queries.k)):
        query, group, stop = query_of(queries, number), 0, START
        room = 2 * queries.limit[number] + 1
        if len(lists.ranked.score) < room:
            lists = wider_lists(lists, room)
        while stop != DONE:
            group, stop = replay_keys(task, query, group, lists, progress, changes, stop)
            if stop == WIDER:
                lists = wider_lists(lists, 2 * progress.places[LIMIT] + 1)
            elif stop == ROOM:
                changes = more_rows(changes, next_capacity(changes, query.k))
    for group in range(len(block.keys)):
        keys.next_seq[block.keys[group]] = block.first_seq[group] + (block.end[group] - block.begin[group])
    return changes, progress.places[OUT], progress.places[REFILLS]


# The skybands of many keys in one pool, updated once per block: a slab per key, in rank order, with every member's number of dominators.
#
# A dominator is newer and ranks before. It expires later, so the numbers only grow, and a member leaves with its K-th (docs/algorithms D1;
# the counters are SMA's, paper 2).

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


Plain = tuple[Any, ...]


@jit
def advance_bands(
    queries: Plain, block: Plain, scores: F64, keys: Plain, members: Plain, end: int, records: Plain, scratch: Plain, span: Plain
) -> tuple[Plain, int, int, Plain, int]:  # fmt: skip
    """Run ``replay_block`` without deletions on skybands, then ``absorb``; return their results with groups as plain tuples."""
    table, rows, all_keys = Queries(*queries), Block(*block), Keys(*keys)
    bands, room = Members(*members), Scratch(*scratch)
    none, time = rows.deletion_row, Span(*span)
    found, changes, refills = replay_block(
        table, rows, scores, all_keys, bands, Ends(False, none, none), Records(*records), room, time
    )  # fmt: skip
    bands, end = absorb(table, rows, scores, all_keys, bands, end, time.until, room)
    moved = bands.score, bands.seq, bands.time, bands.dominators
    return (found.numbers, found.score), changes, refills, moved, end


@jit
def advance_windows(
    queries: Plain, block: Plain, scores: F64, keys: Plain, members: Plain, ends: Plain, records: Plain, scratch: Plain, span: Plain
) -> tuple[Plain, int, int, Plain]:  # fmt: skip
    """Run ``replay_block`` with deletions on all alive candidates, then ``compact``; return their results with groups as plain tuples."""
    table, rows, all_keys = Queries(*queries), Block(*block), Keys(*keys)
    kept, gone, time = Members(*members), Ends(*ends), Span(*span)
    found, changes, refills = replay_block(
        table, rows, scores, all_keys, kept, gone, Records(*records), Scratch(*scratch), time
    )  # fmt: skip
    kept = compact(table, rows, scores, all_keys, kept, gone, time.until)
    return (found.numbers, found.score), changes, refills, (kept.score, kept.seq, kept.time, kept.dominators)


# Blocks of many keys without deletions in, columns of changes out: the NumPy ways (``cut``, ``changes_of``) in one pass.


@jit
def block_of(key: I64, seq: I64, time: I64, also: I64, next_seq: I64) -> Block:
    """Return the block of rows sorted by (key, seq), with the keys of ``also`` (sorted), those without rows empty. O(rows + keys)."""
    rows = len(key)
    most: Any = np.int64(len(also) + (1 if rows > 0 else 0))
    for i in range(1, rows):
        most += np.int64(key[i] != key[i - 1])
    keys, begin, end, first_seq = np.zeros(most, np.int64), np.zeros(most, np.int64), np.zeros(most, np.int64), np.zeros(most, np.int64)
    group, other, row = 0, 0, 0
    while row < rows or other < len(also):
        if other < len(also) and (row == rows or also[other] < key[row]):
            keys[group], first_seq[group] = also[other], next_seq[also[other]]
            other += 1
        else:
            if other < len(also) and also[other] == key[row]:
                other += 1
            keys[group], begin[group], first_seq[group] = key[row], row, seq[row]
            row += 1
            while row < rows and key[row] == key[row - 1]:
                row += 1
            end[group] = row
        group += 1
    zeros, none = np.zeros(group, np.int64), np.empty(0, np.int64)
    return Block(keys[:group], begin[:group], end[:group], zeros, zeros, first_seq[:group], time, none, none, none)


@jit
def publish(numbers: I64, internal: F64, rows: int, negate: bool) -> tuple[AnyArray, ...]:
    """Return the first ``rows`` changes (arrays of ``ChangeRows``) as the columns of ``Changes``, with external scores (-0.0 folded)."""
    query, key, at, step = np.empty(rows, np.int16), np.empty(rows, np.int64), np.empty(rows, np.int64), np.empty(rows, np.int64)
    pos, sign, cause = np.empty(rows, np.int32), np.empty(rows, np.int8), np.empty(rows, np.int8)
    score: F64 = np.empty(rows, np.float64)
    items = np.empty((rows, 1), np.int64)
    for i in range(rows):
        query[i], key[i], at[i], step[i] = numbers[i, 0], numbers[i, 1], numbers[i, 2], numbers[i, 3]
        pos[i], sign[i], cause[i], items[i, 0] = numbers[i, 4], numbers[i, 5], numbers[i, 6], numbers[i, 7]
        score[i] = (-internal[i] if negate else internal[i]) + 0.0
    return query, key, at, step, pos, sign, cause, score, items
