"""Top-k of one scoring function: the driver that replays a block for every query and key (docs/algorithms D1).

Scores of the whole block are known; lists are filled from the members of the last block and the rows of this one. Only ``replay_block``
makes arrays: the others stop when there is too little room, and go on.
"""

from __future__ import annotations

import numpy as np

from skyband.operators.base import F64
from skyband.operators.jit import inner, maker
from skyband.operators.single_rows.blocks import Block
from skyband.operators.single_rows.kernels.emit import ChangeRows, more_rows
from skyband.operators.single_rows.kernels.list_moves import FAR_FUTURE, Alive, alive_from
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
from skyband.operators.topk.kernels.refill import FillRequest, append
from skyband.operators.topk.kernels.scan import gather
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


@maker
def replay_block(
    queries: Queries, block: Block, scores: F64, keys: Keys, members: Members, ends: Ends, records: Records, scratch: Scratch,
    since: int, until: int, piece: int,
) -> tuple[ChangeRows, int, int]:  # fmt: skip
    """Replay the events of [since, until) for every query and every key of the block, and bring ``keys.next_seq`` up to date. Return the
    changes (grouped by query, then key), their number and the number of refills.

    ``scores`` float64 (rows,): internal scores, NaN for no candidate. The scan for candidates looks ``piece`` rows ahead at first.
    """
    candidates, changes = Candidates(scratch.row, scratch.score), ChangeRows(scratch.change_numbers, scratch.change_score)
    task = Task(queries, block, scores, keys, members, ends, records, candidates, since, until, piece)
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
