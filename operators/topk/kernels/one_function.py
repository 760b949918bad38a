"""Top-k of one scoring function: the driver that replays a block for every query and key (docs/algorithms.md D1).

Scores of the whole block are known; lists are filled from the members of the last block and the rows of this one.
"""

from __future__ import annotations

import numpy as np

from skyband.operators.base import F64
from skyband.operators.jit import jit
from skyband.operators.single_rows.blocks import Block
from skyband.operators.single_rows.kernels.emit import ChangeRows
from skyband.operators.single_rows.kernels.expiry import FAR_FUTURE, alive_from
from skyband.operators.single_rows.kernels.list_moves import Alive
from skyband.operators.single_rows.kernels.replay import next_wake, replay, stamp
from skyband.operators.single_rows.kernels.replay_state import (
    AT,
    BASE,
    CUT,
    DELETION,
    DONE,
    LIMIT,
    NEXT,
    OUT,
    PENDING,
    PLACES,
    REFILL,
    ROW,
    SIZE,
    VISITS,
    Candidates,
    Progress,
    Query,
    Records,
    fitted,
    settle,
)
from skyband.operators.topk.kernels.refill import Wanted, append
from skyband.operators.topk.kernels.scan import gather
from skyband.operators.topk.kernels.state import (
    Ends,
    Keys,
    Lists,
    Members,
    Queries,
    Scratch,
    Source,
    candidates_of,
    changes_in,
    new_lists,
    query_of,
    span_of,
    wider_lists,
)


@jit
def begin(query: Query, queries: Queries, source: Source, deletion: int, lists: Lists, progress: Progress, out: int, since: int) -> None:
    """Fill a key's list as of its last event, the instant before ``since``; ``deletion`` and ``out``: its first deletion and change."""
    span, places, number = source.span, progress.places, query.number
    need, floor = queries.limit_at_first[number], queries.floor[number]
    alive = Alive(span.first_seq - query.count, alive_from(since - 1, query.micros))
    size = append(source, Wanted(need, np.inf, FAR_FUTURE, floor, alive, span.begin, deletion), lists, 0)
    places[PENDING], places[ROW], places[DELETION], places[SIZE], places[OUT] = 0, span.begin, deletion, size, out
    places[LIMIT], places[BASE], places[VISITS] = queries.limit[number], queries.limit[number], 0
    settle(progress, lists.ranked, size < need, floor)


@jit
def refill(query: Query, floor: float, source: Source, lists: Lists, progress: Progress) -> Lists:
    """Fill a list that ran short, a longer one if refills have become too frequent. Returns the lists, which may have moved."""
    span, places = source.span, progress.places
    row, size, limit = places[ROW], places[SIZE], places[LIMIT]
    cost = (source.end - source.begin + row - span.begin) // 256
    limit = max(size + 1, fitted(limit, max(8 * query.k + 64, cost), places[VISITS], cost))
    places[LIMIT], places[VISITS] = limit, 0
    if len(lists.ranked.score) < 2 * limit + 1:
        lists = wider_lists(lists, 2 * limit + 1)
    alive = Alive(span.first_seq + (row - span.begin) - query.count, alive_from(places[AT], query.micros))
    wanted = Wanted(limit - size, progress.cutoff[0], places[CUT], floor, alive, row, places[DELETION])
    found = append(source, wanted, lists, size)
    places[SIZE] = size + found
    settle(progress, lists.ranked, found < limit - size, floor)
    return lists


@jit
def replay_key(
    query: Query, floor: float, source: Source, candidates: Candidates, lists: Lists, progress: Progress, records: Records,
    changes: ChangeRows, piece: int,
) -> tuple[ChangeRows, Lists, int]:  # fmt: skip
    """Replay one key's part of a block for one query, from ``progress`` on. Returns changes and lists, which may have moved, and how often
    the list was filled again. Candidates are sought ``piece`` rows ahead at first."""
    span, places = source.span, progress.places
    known, ahead, refills = span.begin, piece, 0
    while True:
        row = known
        known = min(span.end, row + ahead)
        ahead *= 2
        found = gather(source.scores, row, known, 0, progress.cutoff[0], candidates.row, candidates.score)
        places[NEXT] = 0
        changes, stop = replay(query, span, source.block, candidates, found, known, lists.ranked, progress, records, changes)
        if stop == DONE:
            return changes, lists, refills
        if stop == REFILL:
            known, ahead = places[ROW], piece
            lists = refill(query, floor, source, lists, progress)
            refills += 1


@jit
def replay_block(
    queries: Queries, block: Block, scores: F64, keys: Keys, members: Members, ends: Ends, records: Records, scratch: Scratch,
    since: int, until: int, piece: int,
) -> tuple[ChangeRows, int, int]:  # fmt: skip
    """Replay the events of [since, until) for every query and every key of the block, and bring ``keys.next_seq`` up to date. Returns the
    changes (grouped by query, then key), their number and the number of refills.

    ``scores`` float64 (rows,): internal scores, NaN for no candidate. Candidates are sought ``piece`` rows ahead at first.
    """
    candidates, changes = candidates_of(scratch), changes_in(scratch)
    lists, progress = new_lists(64), Progress(np.zeros(PLACES, np.int64), np.zeros(2, np.float64))
    out, refills = 0, 0
    for number in range(len(queries.k)):
        query, floor, room = query_of(queries, number), queries.floor[number], 2 * queries.limit[number] + 1
        if len(lists.ranked.score) < room:
            lists = wider_lists(lists, room)
        for group in range(len(block.keys)):
            key, deletion = block.keys[group], block.deletion_begin[group]
            idle = block.begin[group] == block.end[group] and deletion == block.deletion_end[group]
            if idle and records.wake[number, key] >= until:
                continue
            span = span_of(block, group, query, until)
            source = Source(span, block, scores, members, keys.start[key], keys.start[key] + keys.length[key], ends)
            begin(query, queries, source, deletion, lists, progress, out, since)
            changes, lists, more = replay_key(query, floor, source, candidates, lists, progress, records, changes, piece)
            refills += more
            if not span.timed:
                stamp(changes, out, progress.places[OUT], block.time)
            out = progress.places[OUT]
            expiry = next_wake(lists.ranked, min(query.k, progress.places[SIZE]), query.micros)
            records.wake[number, key] = min(expiry, records.due[number, key])
    for group in range(len(block.keys)):
        keys.next_seq[block.keys[group]] = block.first_seq[group] + (block.end[group] - block.begin[group])
    return changes, out, refills
