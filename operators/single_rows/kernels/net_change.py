"""The net change of a top-k list: of one event, and of one boundary of a query with ``every``."""

from __future__ import annotations

from typing import NamedTuple

from skyband.operators.base import ARRIVAL, BOUNDARY, DELETE, DISPLACED, EXPIRY, F64, I64, PROMOTED
from skyband.operators.jit import inner
from skyband.operators.single_rows.kernels.emit import ChangeRows, Event, put
from skyband.operators.single_rows.kernels.ranked_list import RankedList


class Shown(NamedTuple):
    """Room for what one query with boundaries has shown of one key, in rank order; how many is counted by its user.

    ``score`` float64 (k,), ``seq`` int64 (k,), ``time`` int64 (k,), ``deleted`` int64 (k,): 1 if the object was deleted since.
    """

    score: F64
    seq: I64
    time: I64
    deleted: I64


class AppliedEvent(NamedTuple):
    """An event that was applied to a list: its ``row`` (the first of the block not before it) and instant ``at``, how many members were
    ``shown`` before it, how many of them ``left`` and for which ``cause``, and the ``place`` of the object that arrived (-1: not on the
    list)."""

    row: int
    at: int
    shown: int
    left: int
    cause: int
    place: int


@inner
def changed(k: int, applied: AppliedEvent, size: int) -> bool:
    """Return True if an event changed the first k of a list that has ``size`` members now."""
    kept, now = applied.shown - applied.left, min(k, size)
    if applied.left > 0 or (0 <= applied.place <= kept and applied.place < now):
        return True
    return now > kept + (1 if 0 <= applied.place <= kept else 0)


@inner
def write_event(changes: ChangeRows, row: int, event: Event, k: int, applied: AppliedEvent, ranked: RankedList, size: int) -> int:
    """Write the net change of one event from change ``row`` on and return the row after it. Sizes as in ``changed``. O(changes)."""
    score, seq, place = ranked.score, ranked.seq, applied.place
    kept = applied.shown - applied.left
    now = min(k, size)
    entered = 0 <= place <= kept
    pos = 0
    for i in range(applied.left):
        row = put(changes, row, event, pos, -1, applied.cause, ranked.left_seq[i], ranked.left_score[i])
        pos += 1
    if entered and kept + 1 > k and place < k:
        row = put(changes, row, event, pos, -1, DISPLACED, seq[k], score[k])
        pos += 1
    if entered and place < now and place < kept:
        row = put(changes, row, event, pos, 1, ARRIVAL, seq[place], score[place])
        pos += 1
    for i in range(kept + (1 if entered and place < kept else 0), now):
        row = put(changes, row, event, pos, 1, ARRIVAL if i == place else PROMOTED, seq[i], score[i])
        pos += 1
    return row


@inner
def write_boundary(
    changes: ChangeRows, row: int, event: Event, ranked: RankedList, now: int, shown: Shown, was: int, min_seq: int, min_time: int
) -> int:
    """Write the net change from the ``was`` shown members to the first ``now`` of the list, then show the latter. O(k).

    A shown member that is gone was deleted, has expired (seq < ``min_seq`` or time < ``min_time``), or was displaced.
    """
    score, seq, time = ranked.score, ranked.seq, ranked.time
    pos = 0
    j = 0
    for i in range(was):
        while j < now and (score[j] > shown.score[i] or (score[j] == shown.score[i] and seq[j] > shown.seq[i])):
            j += 1
        if j < now and seq[j] == shown.seq[i]:
            continue
        expired = shown.seq[i] < min_seq or shown.time[i] < min_time
        cause = DELETE if shown.deleted[i] else (EXPIRY if expired else DISPLACED)
        row = put(changes, row, event, pos, -1, cause, shown.seq[i], shown.score[i])
        pos += 1
    j = 0
    for i in range(now):
        while j < was and (shown.score[j] > score[i] or (shown.score[j] == score[i] and shown.seq[j] > seq[i])):
            j += 1
        if j < was and shown.seq[j] == seq[i]:
            continue
        row = put(changes, row, event, pos, 1, BOUNDARY, seq[i], score[i])
        pos += 1
    for i in range(now):
        shown.score[i], shown.seq[i], shown.time[i], shown.deleted[i] = score[i], seq[i], time[i], 0
    return row
