"""Events of one key and query: who leaves and who enters the result when a window's head moves or an object arrives.

Membership is pure sequence arithmetic. With ``head`` the first seq alive in the query's window, and the *critical dominator* of an object
its (K - newer dominators)-th newest older dominator (seq -1 if there are fewer, ``GONE`` once K newer ones arrived), an object is in the
K-skyband iff ``critical < head <= seq`` (docs/algorithms D4, interval theorem). So an event compares the critical dominators before it
(``CRITICAL``) and after it (``CRITICAL_NEXT``); between events both are the same.
"""

from __future__ import annotations

from typing import NamedTuple

from skyband.operators.base import ARRIVAL, BOUNDARY, DISPLACED, EXPIRY, NEVER, PROMOTED, AnyArray
from skyband.operators.jit import jit
from skyband.operators.skyline.kernels.borrowed import borrowed
from skyband.operators.skyline.kernels.state import (
    CHILD,
    COUNT,
    CRITICAL,
    CRITICAL_NEXT,
    END,
    EVERY,
    FRONT,
    HEAD,
    LAST,
    MICROS,
    NEXT,
    NEXT_BOUNDARY,
    ORPHANS,
    POSITION,
    SEQ,
    STEP,
    TIME,
    ChangeRows,
    Retained,
    Shown,
    with_room,
)
from skyband.operators.windows import UNBOUNDED


class Event(NamedTuple):
    """One event of a query of a key (int64 each)."""

    query: int
    """Index of the query."""
    key: int
    """Dense number of the key."""
    at: int
    """Instant, microseconds."""
    step: int
    """The step it is if something changes."""
    first: int
    """Number of change rows before it."""


@jit
def put(changes: ChangeRows, event: Event, sign: int, cause: int, seq: int) -> None:
    """Write one change; there must be room."""
    n = changes.size[0]
    row = changes.rows[n]
    row[0], row[1], row[2], row[3] = event.query, event.key, event.at, event.step
    row[4], row[5], row[6], row[7] = n - event.first, sign, cause, seq
    changes.size[0] = n + 1


@jit
def settle_front(query: AnyArray, rows: AnyArray, slot: AnyArray, end: int) -> None:
    """Skip removed objects at the query's first position; (8,), (c, 3 + K + D), (c + 64,) int64."""
    p = query[POSITION]
    while p < end and slot[p] < 0:
        p += 1
    query[POSITION] = p
    query[FRONT] = rows[slot[p], SEQ] if p < end else NEVER


@jit(inline="always")
def gather_orphans(query: AnyArray, head: int, retained: Retained) -> tuple[int, int]:
    """The query's first position from seq ``head`` on, and how many objects have their critical dominator before it.

    The slots of the first ``ORPHANS`` of these stand in ``retained.orphans``, newest first. O(leaving + their children).
    """
    rows, links, slot, orphans, end = retained.rows, retained.links, retained.slot, retained.orphans, retained.marks[END]
    position = query[POSITION]
    count = 0
    while position < end and (slot[position] < 0 or rows[slot[position], SEQ] < head):
        if slot[position] >= 0:
            s = links[slot[position], CHILD]
            while s >= 0:
                if count < ORPHANS:
                    i = count
                    while i > 0 and rows[orphans[i - 1], SEQ] < rows[s, SEQ]:
                        orphans[i] = orphans[i - 1]
                        i -= 1
                    orphans[i] = s
                count += 1
                s = links[s, NEXT]
        position += 1
    return position, count


@jit(inline="always")
def put_promoted(event: Event, was: int, head: int, position: int, orphans: int, retained: Retained, changes: ChangeRows) -> None:
    """Write who enters because the head moves from ``was`` to ``head``: some of the ``orphans``, or of all objects if those are many."""
    rows, links, slot = retained.rows, retained.links, retained.slot
    if orphans <= ORPHANS:
        for i in range(orphans):
            s = retained.orphans[i]
            if rows[s, SEQ] >= head and was <= links[s, CRITICAL] < head and links[s, CRITICAL_NEXT] < head:
                put(changes, event, 1, PROMOTED, rows[s, SEQ])
    else:
        for p in range(retained.marks[END] - 1, position - 1, -1):
            s = slot[p]
            if s >= 0 and was <= links[s, CRITICAL] < head and links[s, CRITICAL_NEXT] < head:
                put(changes, event, 1, PROMOTED, rows[s, SEQ])


@jit
def move_head(
    query: AnyArray, index: int, key: int, at: int, head: int, fresh: int, dominated: int, retained: Retained, changes: ChangeRows
) -> None:
    """One event of a query (8,): its head moves to ``head``, slot ``fresh`` arrives (-1: none) and dominates ``dominated`` objects.

    Writes the net change in rank order; there must be room. The objects whose critical dominator is slot s are the list ``CHILD``,
    ``NEXT`` ...: who may be promoted when s leaves. O(dominated + leaving + their children), or O(retained) for many children.
    """
    query, retained, changes = borrowed(query), borrowed(retained), borrowed(changes)
    rows, links, slot, end = retained.rows, retained.links, retained.slot, retained.marks[END]
    was = query[HEAD]
    event = Event(index, key, at, query[STEP] + 1, changes.size[0])
    for j in range(dominated):
        s = retained.dominated[j, 0]
        if rows[s, SEQ] >= head and links[s, CRITICAL] < was and links[s, CRITICAL_NEXT] >= head:
            put(changes, event, -1, DISPLACED, rows[s, SEQ])
    position, orphans = gather_orphans(query, head, retained)
    for p in range(position - 1, query[POSITION] - 1, -1):
        s = slot[p]
        if s >= 0 and links[s, CRITICAL] < was:
            put(changes, event, -1, EXPIRY, rows[s, SEQ])
    if fresh >= 0 and links[fresh, CRITICAL_NEXT] < head:
        put(changes, event, 1, ARRIVAL, rows[fresh, SEQ])
    put_promoted(event, was, head, position, orphans, retained, changes)
    query[HEAD] = head
    if position > query[POSITION] or query[FRONT] < head:
        query[POSITION] = position
        settle_front(query, rows, slot, end)
    if changes.size[0] > event.first:
        if query[EVERY] > 0:
            changes.size[0] = event.first
            query[NEXT_BOUNDARY] = min(query[NEXT_BOUNDARY], -((-at) // query[EVERY]) * query[EVERY])
        else:
            query[STEP] = event.step


@jit
def list_members(query: AnyArray, retained: Retained, members: AnyArray) -> int:
    """Write (seq, time) of the objects in the query's result, newest first; returns how many. O(retained)."""
    rows, links, slot = retained.rows, retained.links, retained.slot
    n = 0
    for p in range(retained.marks[END] - 1, query[POSITION] - 1, -1):
        s = slot[p]
        if s >= 0 and links[s, CRITICAL] < query[HEAD]:
            members[n, 0] = rows[s, SEQ]
            members[n, 1] = rows[s, TIME]
            n += 1
    return n


@jit
def cross_boundary(query: AnyArray, index: int, key: int, at: int, retained: Retained, shown: Shown, changes: ChangeRows) -> None:
    """Net change of a query (8,) with boundaries since its last one; there must be room. O(retained)."""
    event = Event(index, key, at, query[STEP] + 1, changes.size[0])
    last = retained.marks[LAST]
    members, listed = shown.members, shown.lists[index]
    now, had = list_members(query, retained, members), shown.length[index]
    j = 0
    for i in range(had):
        seq = listed[i, 0]
        while j < now and members[j, 0] > seq:
            j += 1
        if j == now or members[j, 0] != seq:
            dead = seq <= last - query[COUNT] or (query[MICROS] < UNBOUNDED and listed[i, 1] + query[MICROS] <= at)
            put(changes, event, -1, EXPIRY if dead else DISPLACED, seq)
    j = 0
    for i in range(now):
        seq = members[i, 0]
        while j < had and listed[j, 0] > seq:
            j += 1
        if j == had or listed[j, 0] != seq:
            put(changes, event, 1, BOUNDARY, seq)
    for i in range(now):
        listed[i, 0] = members[i, 0]
        listed[i, 1] = members[i, 1]
    shown.length[index] = now
    query[NEXT_BOUNDARY] = NEVER
    if changes.size[0] > event.first:
        query[STEP] = event.step


@jit(inline="always")
def next_expiry(query: AnyArray, rows: AnyArray, slot: AnyArray, end: int) -> int:
    """When the oldest retained object of a query (8,) leaves by time, or NEVER; (c, 3 + K + D), (c + 64,) int64. O(1)."""
    instant = NEVER
    if query[MICROS] < UNBOUNDED and query[POSITION] < end:
        settle_front(query, rows, slot, end)
        if query[POSITION] < end:
            instant = rows[slot[query[POSITION]], TIME] + query[MICROS]
    return instant


@jit(inline="always")
def head_after(query: AnyArray, at: int, retained: Retained) -> int:
    """The query's first seq alive after the expiries at the instant ``at``."""
    rows, slot = retained.rows, retained.slot
    head: int = query[HEAD]
    for p in range(query[POSITION], retained.marks[END]):
        s = slot[p]
        if s >= 0:
            if rows[s, TIME] + query[MICROS] > at:
                break
            head = rows[s, SEQ] + 1
    return head


@jit(inline="always")
def elapse(
    query: AnyArray, index: int, key: int, before: int, boundaries_before: int, retained: Retained, shown: Shown, changes: ChangeRows
) -> tuple[ChangeRows, int]:
    """Take the expiries of a query (8,) at instants < ``before`` and its boundaries < ``boundaries_before``, in order.

    All that expires at an instant leaves in one event; a boundary comes after the expiries at its instant.
    Returns the changes, with more room if need be, and the query's next instant.
    """
    end = retained.marks[END]
    while True:
        expiry = next_expiry(query, retained.rows, retained.slot, end)
        boundary = query[NEXT_BOUNDARY]
        if expiry <= boundary:
            if expiry >= before:
                break
            head = head_after(query, expiry, retained)
            changes = with_room(changes, end - query[POSITION] + 1)
            move_head(query, index, key, expiry, head, -1, 0, retained, changes)
        else:
            if boundary >= boundaries_before:
                break
            changes = with_room(changes, end - query[POSITION] + shown.length[index] + 1)
            cross_boundary(query, index, key, boundary, retained, shown, changes)
    return changes, min(expiry, boundary)
