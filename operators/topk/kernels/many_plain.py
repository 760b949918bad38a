"""Replay a block for one key and a query with a count window only: the common and fast case of ``many.replay_queries``.

The list is as in ``replay_on``, but an expired member after the first k leaves only when it would be promoted. ``Progress`` is used as in
``replay_on``, except for ``AT``, the oldest seq of the first k (``NO_SEQ`` if there is none), and ``SEEN`` and ``cutoff[1]``, seq and
score of the member that expired.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skyband.operators.base import ARRIVAL, DISPLACED, EXPIRY, I64, PROMOTED
from skyband.operators.jit import inner
from skyband.operators.single_rows.kernels.arrays import shift
from skyband.operators.single_rows.kernels.emit import ChangeRows, Event, put
from skyband.operators.single_rows.kernels.ranked_list import RankedList, place_of
from skyband.operators.single_rows.kernels.replay_state import (
    AT,
    BASE,
    BEFORE,
    CUT,
    DONE,
    FULL,
    LEFT,
    LIMIT,
    NEXT,
    OUT,
    PENDING,
    PLACE,
    REFILL,
    ROOM,
    ROW,
    SEEN,
    SIZE,
    VISITS,
    Candidates,
    Progress,
    Query,
    Span,
)
from skyband.operators.topk.kernels.many_lists import NO_SEQ


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
