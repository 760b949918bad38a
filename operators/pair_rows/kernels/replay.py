"""Replay a sub-batch for one query: find the events that change its list of the best k pairs, and write change rows.

Only arrivals with a candidate that reaches the list, expiries of list members and boundaries are visited: nothing else can change it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skyband.operators.base import NEVER
from skyband.operators.jit import inner
from skyband.operators.pair_rows.kernels.arena import alive_from, first_after
from skyband.operators.pair_rows.kernels.boundaries import note_due, show, shown_list
from skyband.operators.pair_rows.kernels.changes import Event, difference
from skyband.operators.pair_rows.kernels.lists import arrive, copy_pairs, drop_expired, oldest, select
from skyband.operators.pair_rows.kernels.tables import (
    REFILLS,
    SHORT,
    ChangeRows,
    History,
    Pairs,
    Progress,
    Replay,
    SubBatch,
    part,
)
from skyband.operators.windows import UNBOUNDED


class Moment(NamedTuple):
    """The next event of one query's list."""

    next_in: int
    """int64: the index of the next arrival that changes the list, or the batch's size."""
    at: int
    """int64: the event's instant, or the batch's limit if there is none."""
    expires: bool
    """Whether the event is an expiry by time; otherwise it is the arrival."""


@inner
def next_arrival(batch: SubBatch, arrived: int, bar: float, first_out: int, count: int) -> int:
    """Return the index of the next arrival that changes a list, or the batch's size.

    Such an arrival has a candidate of score <= ``bar``, or makes the object of seq ``first_out`` leave a window of ``count``."""
    best, start = batch.best, batch.first_seq + 1 - count
    i = arrived
    while i < batch.size and not (best[i] <= bar or start + i > first_out):
        i += 1
    return i


@inner
def next_moment(batch: SubBatch, history: History, arrived: int, bar: float, first_out: int, count: int, micros: int) -> Moment:
    """Return the next event; ``first_out`` is the oldest member's older seq, or ``NEVER``. The others as in ``next_arrival``."""
    times, first_stored = history.times, history.first_stored
    next_in = next_arrival(batch, arrived, bar, first_out, count)
    at = times[batch.first_seq + next_in - first_stored] if next_in < batch.size else batch.limit
    expiry = np.int64(NEVER)
    if micros < UNBOUNDED and first_out < NEVER:
        expiry = times[first_out - first_stored] + micros
    expires = expiry < at or (expiry == at and (next_in < batch.size or not batch.last))
    return Moment(next_in, int(expiry if expires else at), bool(expires))


@inner
def arrived_by(batch: SubBatch, history: History, arrived: int, moment: Moment) -> int:
    """Return how many arrivals have been processed after the event at ``moment``, of which ``arrived`` were before."""
    if not moment.expires:
        return moment.next_in + 1
    first = batch.first_seq - history.first_stored
    return max(arrived, first_after(history.times, first + arrived, first + batch.size, moment.at - 1) - first)


@inner
def report(query: int, key: int, every: int, at: int, written: int, end: int, progress: Progress) -> int:
    """Count change rows [``written``, ``end``) as a step, or mark the next boundary as due; return the next free row."""
    if end == written:
        return written
    if every > 0:
        note_due(query, key, every, at, progress)
        return written
    progress.step[query, key] += 1
    return end


@inner
def write_boundary(replay: Replay, query: int, best: Pairs, length: int, rows: ChangeRows, written: int) -> int:
    """Process the query's due boundary: write the changes since the list last shown, and store the list. Return the next free row.

    ``best`` has the first ``length`` pairs of the query's result; ``rows`` have room for 2k more. O(k).
    """
    key, queries, history, progress, batch = replay.key, replay.queries, replay.history, replay.progress, replay.sources.batch
    edge = progress.due[query, key]
    progress.due[query, key] = NEVER
    first_stored, newest = history.first_stored, batch.first_seq + batch.size
    upto = first_after(history.times, 0, newest - first_stored, edge) + first_stored
    first_alive = alive_from(history, upto, edge, queries.window_count[query], queries.window_micros[query])
    shown = shown_list(query, key, queries, progress)
    event = Event(query, key, edge, progress.step[query, key] + 1, first_alive, -1, True, -1)
    end = difference(rows, written, event, shown, progress.shown[query, key], best, length)
    show(event, best, length, end > written, shown, progress)
    return end


@inner
def replay_query(replay: Replay, query: int, arrived: int, rows: ChangeRows, written: int) -> tuple[int, int, bool]:
    """Process the sub-batch's events for one query, the first ``arrived`` arrivals being processed already.

    Return how many arrivals are processed now, how many change rows are written, and whether that is all. If not, ``rows`` needs room
    for 2k more. Expiries and boundaries: those before ``batch.limit`` if this is the last sub-batch; else expiries up to it and boundaries
    before it. Visited events cost O(k), refills O(skyband).
    """
    key, queries, history, sources, lists, progress = (
        replay.key, replay.queries, replay.history, replay.sources, replay.lists, replay.progress,
    )  # fmt: skip
    k, every = queries.k[query], queries.every[query]
    count, micros = queries.window_count[query], queries.window_micros[query]
    worst, start, room = queries.worst[query], queries.list_start[query], queries.list_room[query]
    best, before = part(lists.best, start, room), part(lists.before, start, k)
    length, whole = lists.length[query], lists.whole[query] == 1
    batch = sources.batch
    done = False
    while written + 2 * k <= len(rows.score):
        first_out = oldest(best.older, min(length, k))
        bar = worst if whole else best.score[length - 1]
        moment = next_moment(batch, history, arrived, bar, first_out, count, micros)
        next_in, at = moment.next_in, moment.at
        if every > 0 and progress.due[query, key] < at:
            written = write_boundary(replay, query, best, min(length, k), rows, written)
            continue
        if next_in == batch.size and not moment.expires:
            done = True
            break
        arrived = arrived_by(batch, history, arrived, moment)
        arriving = -1 if moment.expires else batch.first_seq + next_in
        first_alive = alive_from(history, batch.first_seq + arrived, at, count, micros)
        if arriving >= 0 and length >= k and first_alive <= first_out and not batch.best[next_in] <= best.score[k - 1]:
            length = arrive(best, length, whole, worst, first_alive, next_in, sources)  # only behind the result
            whole = whole and length < room
            continue
        length_before = min(length, k)
        copy_pairs(best, length_before, before)
        length = drop_expired(best, length, first_alive)
        if length < k and not whole:
            replay.work[REFILLS] += 1
            length = select(best, worst, first_alive, arrived, sources)
            whole = True
        elif arriving >= 0:
            length = arrive(best, length, whole, worst, first_alive, next_in, sources)
        replay.work[SHORT] += length < k and queries.partial[query] == 1
        whole = whole and length < room
        event = Event(query, key, at, progress.step[query, key] + 1, first_alive, arriving, False, -1)
        end = difference(rows, written, event, before, length_before, best, min(length, k))
        written = report(query, key, every, at, written, end, progress)
    lists.length[query], lists.whole[query] = length, 1 if whole else 0
    return arrived, written, done
