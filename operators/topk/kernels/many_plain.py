"""Replay of a block for a query with a count window alone, over one key: the common case of ``many.replay_queries``, with less to look at.

The list is as in ``replay_on``; an expired member beyond the first k is dropped when it would be promoted. ``Progress`` is used as in
``replay_on``, but for ``AT``: the oldest seq of the first k (``NO_SEQ`` for none), ``SEEN`` and ``cutoff[1]``: seq and score of who left.
"""

from __future__ import annotations

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
    """The oldest of the first ``size`` seqs, or NO_SEQ. O(size)."""
    least = np.int64(NO_SEQ)
    for i in range(size):
        least = min(least, seqs[i])
    return int(least)


@inner
def _take_out(ranked: RankedList, size: int, place: int) -> int:
    """Take the member at ``place`` out of a list of ``size``; returns its new size."""
    shift(ranked.score, place + 1, size, -1)
    shift(ranked.seq, place + 1, size, -1)
    return size - 1


@inner
def _put_in(ranked: RankedList, size: int, score: float, seq: int) -> int:
    """Put an arrival into a list of ``size``; returns its place."""
    place = place_of(ranked.score, size, score)
    shift(ranked.score, place, size, 1)
    shift(ranked.seq, place, size, 1)
    ranked.score[place], ranked.seq[place] = score, seq
    return int(place)


@inner
def _alive(ranked: RankedList, size: int, last_gone: int) -> int:
    """Keep the members of seqs after ``last_gone``; returns their number."""
    score, seq = ranked.score, ranked.seq
    kept = 0
    for i in range(size):
        score[kept], seq[kept] = score[i], seq[i]
        kept += 1 if seq[i] > last_gone else 0
    return kept


@inner
def _write(
    changes: ChangeRows, row: int, event: Event, k: int, kept: int, left: bool, gone: int, gone_score: float, place: int,
    ranked: RankedList, size: int,
) -> int:  # fmt: skip
    """Write the net change of an event from change ``row`` on: of the first k ``kept`` stayed, ``gone`` left (if ``left``), and the
    arrival stands at ``place`` (or -1) in the list of ``size``. O(changes)."""
    score, seq = ranked.score, ranked.seq
    entered, pos = 0 <= place < k, 0
    if left:
        row = put(changes, row, event, pos, -1, EXPIRY, gone, gone_score)
        pos += 1
    if entered and kept == k:
        row = put(changes, row, event, pos, -1, DISPLACED, seq[k], score[k])
        pos += 1
    if entered and place < kept:
        row = put(changes, row, event, pos, 1, ARRIVAL, seq[place], score[place])
        pos += 1
        kept += 1
    for i in range(kept, min(k, size)):
        row = put(changes, row, event, pos, 1, ARRIVAL if i == place else PROMOTED, seq[i], score[i])
        pos += 1
    return row


@inner
def _resume(progress: Progress, size: int, ahead: int, k: int, ranked: RankedList) -> int:
    """Bring the state of an event that a refill interrupted up to date; returns the oldest seq of the first k. O(list)."""
    st = progress.places
    if st[PLACE] < 0:  # the arrival itself may have come with the refill
        for i in range(size):
            if ranked.seq[i] == st[ROW] - 1 + ahead:
                st[PLACE] = i
    return int(_least(ranked.seq, min(k, size)))


@inner
def replay_plain(
    query: Query, span: Span, time: I64, candidates: Candidates, found: int, ranked: RankedList, progress: Progress, steps: I64,
    changes: ChangeRows,
) -> int:  # fmt: skip
    """Go on from ``progress`` to the end of the block (DONE), to the next refill (REFILL) or until changes need more room (ROOM).

    ``time`` int64 (rows,) of the block; ``candidates`` are ``found`` rows of the span, in order; ``steps`` int64 (keys,) of the query.
    O(k) per visited event.
    """
    st, cutoff = progress.places, progress.cutoff
    k, end, ahead, count = query.k, span.end, span.first_seq - span.begin, query.count  # row i has seq i + ahead
    rows, scores, seqs = candidates.row, candidates.score, ranked.seq
    size, out, c, limit, visits = st[SIZE], st[OUT], st[NEXT], st[LIMIT], st[VISITS]
    full, oldest, least, stop = st[FULL] == 1, st[AT], cutoff[0], DONE
    pending, row, left, place, kept, gone, gone_score = st[PENDING] == 1, end, False, -1, 0, 0, 0.0
    if pending:
        oldest = _resume(progress, size, ahead, k, ranked)
        row, kept, left, place, gone, gone_score = st[ROW] - 1, st[BEFORE], st[LEFT] == 1, st[PLACE], st[SEEN], cutoff[1]
    while True:
        if not pending:
            while c < found and not scores[c] >= least:
                c += 1
            row = rows[c] if c < found else end
            leaves = oldest + count - ahead
            left = leaves <= row and leaves < end
            if left:
                row = leaves
            if row == end:
                break
            if out + 4 * k + 4 > len(changes.score):
                stop = ROOM
                break
            kept, place = min(k, size), -1
            if left:
                kept -= 1
                i = 0
                while seqs[i] != oldest:
                    i += 1
                gone, gone_score = oldest, ranked.score[i]
                size = _take_out(ranked, size, i)
                while size >= k and seqs[k - 1] <= row + ahead - count:  # expired unseen: not to be promoted
                    size = _take_out(ranked, size, k - 1)
                oldest = _least(seqs, min(k, size))
            if c < found and rows[c] == row:
                place = _put_in(ranked, size, scores[c], row + ahead)
                size += 1
                c += 1
                if place < k:
                    oldest = min(oldest, row + ahead)
                    if size > k and seqs[k] == oldest:
                        oldest = _least(seqs, k)
            visits += 1
            if size < k and not full:
                st[ROW], st[BEFORE], st[LEFT], st[PLACE], st[SEEN], cutoff[1] = row + 1, kept, 1 if left else 0, place, gone, gone_score
                stop = REFILL
                break
        pending = False
        if left or 0 <= place < k or min(k, size) > kept:
            steps[span.key] += 1
            event = Event(query.number, span.key, time[row], steps[span.key])
            out = _write(changes, out, event, k, kept, left, gone, gone_score, place, ranked, size)
        if size >= 2 * limit:
            size = _alive(ranked, size, row + ahead - count)
            if size >= 2 * limit:  # as in ``replay_on``
                limit = max(limit // 2, st[BASE])
                size, full = limit, False
                least, st[CUT] = ranked.score[size - 1], seqs[size - 1]
    st[PENDING], st[SIZE], st[OUT], st[NEXT], st[LIMIT], st[VISITS] = 1 if stop == REFILL else 0, size, out, c, limit, visits
    st[FULL], st[AT], cutoff[0] = 1 if full else 0, oldest, least
    return stop
