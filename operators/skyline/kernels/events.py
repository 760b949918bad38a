"""Find the objects that leave and enter the result of a key and query when a window's head moves or an object arrives.

Membership is pure sequence arithmetic. With ``head`` the first seq alive in the query's window, and the *critical dominator* of an object
its (K - newer dominators)-th newest older dominator (seq -1 if there are fewer, ``GONE`` once K newer ones arrived), an object is in the
K-skyband iff ``critical < head <= seq`` (docs/algorithms D4, interval theorem). So an event compares the critical dominators before it
(``CRITICAL``) and after it (``CRITICAL_NEXT``); between events both are the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from skyband.operators.base import ARRIVAL, BOUNDARY, DELETE, DISPLACED, EXPIRY, NEVER, PROMOTED, AnyArray
from skyband.operators.jit import HAVE_NUMBA, inner, jit
from skyband.operators.skyline.kernels.state import (
    CHILD,
    COUNT,
    CRITICAL,
    CRITICAL_NEXT,
    DELETED,
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
    ensure_capacity,
)
from skyband.operators.windows import UNBOUNDED

if TYPE_CHECKING:
    from skyband.operators.skyline.kernels.tables import AnyShown


# Borrow arrays without reference counts, so that kernels pass named tuples of arrays free of charge.
#
# Numba counts references to an array atomically wherever it is bound to a name, and a named tuple of ten arrays is ten arrays: in a loop
# over arrivals that costs more than the work. A borrowed array has no owner to count for, so the compiler drops all of it.

borrowed: Any
"""``borrowed(x)``: the same array, or the same named tuple (of named tuples) with arrays, without owners. The caller must hold ``x`` as
long as the borrowed arrays are in use, and must not return them. A function that is compiled by itself borrows its arguments once more:
the compiler cannot know that they have no owner. Without Numba ``x`` itself. O(1)."""

if HAVE_NUMBA:
    from llvmlite import ir
    from numba.core import types
    from numba.extending import intrinsic

    def _without_owner(context: Any, builder: Any, kind: Any, value: Any) -> Any:
        if isinstance(kind, types.BaseTuple):
            members: Any = kind
            parts = [_without_owner(context, builder, member, builder.extract_value(value, i)) for i, member in enumerate(members)]
            return context.make_tuple(builder, kind, parts)
        if isinstance(kind, types.Array):
            array = context.make_array(kind)(context, builder, value)
            array.meminfo = ir.Constant(array.meminfo.type, None)
            array.parent = ir.Constant(array.parent.type, None)
            return array._getvalue()
        return value

    @intrinsic
    def _borrowed(typingctx: Any, arrays: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return _without_owner(context, builder, signature.args[0], args[0])

        return arrays(arrays), generate

    borrowed = _borrowed
else:

    def _same(arrays: Any) -> Any:
        return arrays

    borrowed = _same


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
    count = changes.size[0]
    row = changes.rows[count]
    row[0], row[1] = event.query, event.key
    row[2], row[3] = event.at, event.step
    row[4], row[5] = count - event.first, sign
    row[6], row[7] = cause, seq
    changes.size[0] = count + 1


@jit(inline="always")
def finish(query: AnyArray, event: Event, changes: ChangeRows) -> None:
    """Count the step of a query (8,) if there are changes, or put these off until its next boundary."""
    if changes.size[0] > event.first:
        if query[EVERY] > 0:
            changes.size[0] = event.first
            query[NEXT_BOUNDARY] = min(query[NEXT_BOUNDARY], -((-event.at) // query[EVERY]) * query[EVERY])
        else:
            query[STEP] = event.step


@jit
def settle_front(query: AnyArray, rows: AnyArray, slots: AnyArray, end: int) -> None:
    """Skip removed objects at the query's first position; (8,), (c, 3 + K + D), (c + 64,) int64."""
    position = query[POSITION]
    while position < end and slots[position] < 0:
        position += 1
    query[POSITION] = position
    query[FRONT] = rows[slots[position], SEQ] if position < end else NEVER


@jit(inline="always")
def gather_orphans(query: AnyArray, head: int, retained: Retained) -> tuple[int, int]:
    """Return the query's first position from seq ``head`` on, and how many objects have their critical dominator before it.

    Write the slots of the first ``ORPHANS`` of these to ``retained.orphans``, newest first. O(leaving + their children).
    """
    rows, links, slots = retained.rows, retained.links, retained.slot
    orphans, end = retained.orphans, retained.marks[END]
    position = query[POSITION]
    count = 0
    while position < end and (slots[position] < 0 or rows[slots[position], SEQ] < head):
        if slots[position] >= 0:
            slot = links[slots[position], CHILD]
            while slot >= 0:
                if count < ORPHANS:
                    index = count
                    while index > 0 and rows[orphans[index - 1], SEQ] < rows[slot, SEQ]:
                        orphans[index] = orphans[index - 1]
                        index -= 1
                    orphans[index] = slot
                count += 1
                slot = links[slot, NEXT]
        position += 1
    return position, count


@jit(inline="always")
def put_promoted(event: Event, old_head: int, head: int, position: int, orphans: int, retained: Retained, changes: ChangeRows) -> None:
    """Write the objects that enter as the head moves from ``old_head`` to ``head``: among ``orphans``, or all objects if those are many."""
    rows, links, slots = retained.rows, retained.links, retained.slot
    if orphans <= ORPHANS:
        for i in range(orphans):
            slot = retained.orphans[i]
            if rows[slot, SEQ] >= head and old_head <= links[slot, CRITICAL] < head and links[slot, CRITICAL_NEXT] < head:
                put(changes, event, 1, PROMOTED, rows[slot, SEQ])
    else:
        for place in range(retained.marks[END] - 1, position - 1, -1):
            slot = slots[place]
            if slot >= 0 and old_head <= links[slot, CRITICAL] < head and links[slot, CRITICAL_NEXT] < head:
                put(changes, event, 1, PROMOTED, rows[slot, SEQ])


@jit
def move_head(
    query: AnyArray, index: int, key: int, at: int, head: int, fresh: int, dominated: int, retained: Retained, changes: ChangeRows
) -> None:
    """Process one event of a query (8,): its head moves to ``head``, slot ``fresh`` (-1: none) arrives and dominates ``dominated`` objects.

    Write the net change in rank order; there must be room. The objects that may be promoted when a slot leaves are those it is the critical
    dominator of: its list ``CHILD``, ``NEXT`` ... O(dominated + leaving + their children), or O(retained) for many children.
    """
    query, retained, changes = borrowed(query), borrowed(retained), borrowed(changes)
    rows, links = retained.rows, retained.links
    slots, end = retained.slot, retained.marks[END]
    old_head = query[HEAD]
    event = Event(index, key, at, query[STEP] + 1, changes.size[0])
    for j in range(dominated):
        slot = retained.dominated[j, 0]
        if rows[slot, SEQ] >= head and links[slot, CRITICAL] < old_head and links[slot, CRITICAL_NEXT] >= head:
            put(changes, event, -1, DISPLACED, rows[slot, SEQ])
    position, orphans = gather_orphans(query, head, retained)
    for place in range(position - 1, query[POSITION] - 1, -1):
        slot = slots[place]
        if slot >= 0 and links[slot, CRITICAL] < old_head:
            put(changes, event, -1, EXPIRY, rows[slot, SEQ])
    if fresh >= 0 and links[fresh, CRITICAL_NEXT] < head:
        put(changes, event, 1, ARRIVAL, rows[fresh, SEQ])
    put_promoted(event, old_head, head, position, orphans, retained, changes)
    query[HEAD] = head
    if position > query[POSITION] or query[FRONT] < head:
        query[POSITION] = position
        settle_front(query, rows, slots, end)
    finish(query, event, changes)


@jit
def list_members(query: AnyArray, retained: Retained, members: AnyArray) -> int:
    """Write (seq, time) of the objects in the query's result, newest first; return how many there are. O(retained)."""
    rows, links, slots = retained.rows, retained.links, retained.slot
    count = 0
    for position in range(retained.marks[END] - 1, query[POSITION] - 1, -1):
        slot = slots[position]
        if slot >= 0 and links[slot, CRITICAL] < query[HEAD]:
            members[count, SEQ] = rows[slot, SEQ]
            members[count, TIME] = rows[slot, TIME]
            count += 1
    return count


@inner
def put_difference(query: AnyArray, event: Event, last_seq: int, count: int, shown: AnyShown, changes: ChangeRows) -> None:
    """Write the net change of a query (8,) from its shown list to its ``count`` members, and show these; there must be room."""
    members, listed = shown.members, shown.lists[event.query]
    old_count = shown.length[event.query]
    j = 0
    for i in range(old_count):
        seq = listed[i, SEQ]
        while j < count and members[j, SEQ] > seq:
            j += 1
        if j == count or members[j, SEQ] != seq:
            expired = seq <= last_seq - query[COUNT] or (query[MICROS] < UNBOUNDED and listed[i, TIME] + query[MICROS] <= event.at)
            cause = EXPIRY if expired else DISPLACED
            if listed.shape[1] > DELETED and listed[i, DELETED]:
                cause = DELETE
            put(changes, event, -1, cause, seq)
    j = 0
    for i in range(count):
        seq = members[i, SEQ]
        while j < old_count and listed[j, SEQ] > seq:
            j += 1
        if j == old_count or listed[j, SEQ] != seq:
            put(changes, event, 1, BOUNDARY, seq)
    for i in range(count):
        for column in range(listed.shape[1]):
            listed[i, column] = members[i, column]
    shown.length[event.query] = count
    query[NEXT_BOUNDARY] = NEVER
    if changes.size[0] > event.first:
        query[STEP] = event.step


@jit
def cross_boundary(query: AnyArray, index: int, key: int, at: int, retained: Retained, shown: Shown, changes: ChangeRows) -> None:
    """Write the net change of a query (8,) with boundaries since its last one; there must be room. O(retained)."""
    event = Event(index, key, at, query[STEP] + 1, changes.size[0])
    count = list_members(query, retained, shown.members)
    put_difference(query, event, retained.marks[LAST], count, shown, changes)


@jit(inline="always")
def next_expiry(query: AnyArray, rows: AnyArray, slots: AnyArray, end: int) -> int:
    """Return when the oldest retained object of a query (8,) leaves by time, or NEVER; (c, 3 + K + D), (c + 64,) int64. O(1)."""
    instant = NEVER
    if query[MICROS] < UNBOUNDED and query[POSITION] < end:
        settle_front(query, rows, slots, end)
        if query[POSITION] < end:
            instant = rows[slots[query[POSITION]], TIME] + query[MICROS]
    return instant


@jit(inline="always")
def head_after(query: AnyArray, at: int, retained: Retained) -> int:
    """Return the query's first seq alive after the expiries at the instant ``at``."""
    rows, slots = retained.rows, retained.slot
    head: int = query[HEAD]
    for position in range(query[POSITION], retained.marks[END]):
        slot = slots[position]
        if slot >= 0:
            if rows[slot, TIME] + query[MICROS] > at:
                break
            head = rows[slot, SEQ] + 1
    return head


@jit(inline="always")
def elapse(
    query: AnyArray, index: int, key: int, before: int, boundaries_before: int, retained: Retained, shown: Shown, changes: ChangeRows
) -> tuple[ChangeRows, int]:
    """Process the expiries of a query (8,) at instants < ``before`` and its boundaries < ``boundaries_before``, in order.

    All objects that expire at an instant leave in one event; a boundary comes after the expiries at its instant. Return the changes and the
    query's next instant.
    """
    end = retained.marks[END]
    while True:
        expiry = next_expiry(query, retained.rows, retained.slot, end)
        boundary = query[NEXT_BOUNDARY]
        if expiry <= boundary:
            if expiry >= before:
                break
            head = head_after(query, expiry, retained)
            changes = ensure_capacity(changes, end - query[POSITION] + 1)
            move_head(query, index, key, expiry, head, -1, 0, retained, changes)
        else:
            if boundary >= boundaries_before:
                break
            changes = ensure_capacity(changes, end - query[POSITION] + shown.length[index] + 1)
            cross_boundary(query, index, key, boundary, retained, shown, changes)
    return changes, min(expiry, boundary)
