"""Find the objects that leave and enter the result of a key and window when its head moves, an object arrives, or one is deleted.

An object is in the result of a window iff ``critical < head <= seq`` (``window_state.BEFORE``). For an object that is not tracked,
``critical`` is too old or exact, and not older than the head of any window that the object is in, so the rule holds for it too.
"""

from __future__ import annotations

from skyband.operators.base import ARRIVAL, DELETE, DISPLACED, EXPIRY, PROMOTED, AnyArray
from skyband.operators.jit import inner
from skyband.operators.skyline.kernels.events import Event, finish, put, put_difference
from skyband.operators.skyline.kernels.state import DELETED, HEAD, POSITION, SEQ, STEP, TIME, ChangeRows
from skyband.operators.skyline.kernels.window_state import (
    AFTER,
    BEFORE,
    END,
    EVENT,
    LAST,
    TRACKED,
    WindowObjects,
    WindowSettings,
    WindowShown,
)
from skyband.operators.skyline.kernels.witnesses import make_exact, track


@inner
def finish_window(query: AnyArray, event: Event, settings: WindowSettings, changes: ChangeRows) -> None:
    """Finish the event of a query's window (8,); drop the changes of the state's own window, which belongs to no query."""
    if event.query >= settings.queries:
        changes.size[0] = event.first
    else:
        finish(query, event, changes)


@inner
def settle(query: AnyArray, objects: WindowObjects) -> int:
    """Skip deleted objects at the first position of a window (8,); return that position."""
    position, end = query[POSITION], objects.marks[END]
    while position < end and objects.dead[position]:
        position += 1
    query[POSITION] = position
    return int(position)


@inner
def touch(objects: WindowObjects, position: int, head: int, count: int) -> int:
    """Append to ``touched`` the objects from seq ``head`` on that ``position`` is a witness of; return their number. O(these)."""
    band = objects.witness.shape[1]
    node = objects.node[position]
    while node >= 0:
        other = node // band
        if objects.rows[other, SEQ] >= head and objects.seen[other] != objects.marks[EVENT]:
            objects.seen[other] = objects.marks[EVENT]
            objects.touched[count] = other
            count += 1
        node = objects.next[node]
    return count


@inner
def sift(positions: AnyArray, place: int, count: int) -> None:
    """Restore the heap of the first ``count`` positions, the oldest on top, below ``place``. O(log count)."""
    position = positions[place]
    while 2 * place + 1 < count:
        child = 2 * place + 1
        if child + 1 < count and positions[child + 1] < positions[child]:
            child += 1
        if positions[child] >= position:
            break
        positions[place] = positions[child]
        place = child
    positions[place] = position


@inner
def sort_newest_first(positions: AnyArray, count: int) -> None:
    """Sort the first ``count`` positions, the newest first, in place. O(count log count)."""
    for place in range(count // 2 - 1, -1, -1):
        sift(positions, place, count)
    for end in range(count - 1, 0, -1):
        positions[0], positions[end] = positions[end], positions[0]
        sift(positions, 0, end)


@inner
def put_promoted(event: Event, old_head: int, head: int, count: int, objects: WindowObjects, changes: ChangeRows) -> None:
    """Write those of ``count`` touched objects that enter as the head moves from ``old_head`` to ``head``, newest first; track them."""
    critical, entering = objects.critical, 0
    for i in range(count):
        position = objects.touched[i]
        if objects.rows[position, SEQ] >= head and critical[position, BEFORE] >= old_head and critical[position, AFTER] < head:
            objects.touched[i], objects.touched[entering] = objects.touched[entering], position
            entering += 1
    sort_newest_first(objects.touched, entering)
    for i in range(entering):
        put(changes, event, 1, PROMOTED, objects.rows[objects.touched[i], SEQ])
        track(objects, objects.touched[i])


@inner
def move_head(
    query: AnyArray, index: int, key: int, at: int, head: int, fresh: int, dominated: int, settings: WindowSettings,
    objects: WindowObjects, changes: ChangeRows,
) -> None:  # fmt: skip
    """Process one event of a window (8,): its head moves to ``head``, and position ``fresh`` (-1: none) arrives.

    The arrival dominates ``dominated`` tracked objects. Write the net change in rank order; there must be room for all objects twice.
    O(dominated + leaving), and a search for new witnesses for each object that a leaving one was a witness of.
    """
    rows, critical, marks = objects.rows, objects.critical, objects.marks
    old_head, first = query[HEAD], query[POSITION]
    event = Event(index, key, at, query[STEP] + 1, changes.size[0])
    for j in range(dominated):
        position = objects.dominated[j]
        if rows[position, SEQ] >= head and critical[position, BEFORE] < old_head and critical[position, AFTER] >= head:
            put(changes, event, -1, DISPLACED, rows[position, SEQ])
    marks[EVENT] += 1
    if fresh >= 0:
        objects.seen[fresh] = marks[EVENT]  # an arrival is not promoted
    end, count = first, 0
    while end < marks[END] and rows[end, SEQ] < head:
        count = touch(objects, end, head, count)
        end += 1
    for position in range(end - 1, first - 1, -1):
        if objects.dead[position] == 0 and critical[position, BEFORE] < old_head:
            put(changes, event, -1, EXPIRY, rows[position, SEQ])
    if fresh >= 0 and critical[fresh, AFTER] < head:
        put(changes, event, 1, ARRIVAL, rows[fresh, SEQ])
    for i in range(count):
        make_exact(objects, objects.touched[i], settings)
    put_promoted(event, old_head, head, count, objects, changes)
    query[HEAD], query[POSITION] = head, end
    finish_window(query, event, settings, changes)


@inner
def delete(
    query: AnyArray, index: int, key: int, at: int, gone: int, count: int, settings: WindowSettings, objects: WindowObjects,
    changes: ChangeRows,
) -> None:  # fmt: skip
    """Process for a window (8,) the deletion of position ``gone``, which was a witness of ``count`` objects, all touched and exact now."""
    event = Event(index, key, at, query[STEP] + 1, changes.size[0])
    head = query[HEAD]
    if objects.rows[gone, SEQ] >= head and objects.critical[gone, BEFORE] < head:
        put(changes, event, -1, DELETE, objects.rows[gone, SEQ])
    put_promoted(event, head, head, count, objects, changes)
    finish_window(query, event, settings, changes)


@inner
def list_members(query: AnyArray, objects: WindowObjects, shown: WindowShown) -> int:
    """Write the objects in a window's result to ``shown.members``, newest first; return how many there are. O(tracked log)."""
    positions, members, count = shown.positions, shown.members, 0
    for place in range(objects.marks[TRACKED]):
        position = objects.tracked[place]
        if objects.rows[position, SEQ] >= query[HEAD] and objects.critical[position, AFTER] < query[HEAD]:
            positions[count] = position
            count += 1
    sort_newest_first(positions, count)
    for i in range(count):
        members[i, SEQ], members[i, TIME] = objects.rows[positions[i], SEQ], objects.rows[positions[i], TIME]
        members[i, DELETED] = 0
    return count


@inner
def cross_boundary(query: AnyArray, index: int, key: int, at: int, objects: WindowObjects, shown: WindowShown, changes: ChangeRows) -> None:
    """Write the net change of a window (8,) with boundaries since its last one; there must be room. O(tracked log)."""
    event = Event(index, key, at, query[STEP] + 1, changes.size[0])
    count = list_members(query, objects, shown)
    put_difference(query, event, objects.marks[LAST], count, shown, changes)


@inner
def mark_deleted(shown: WindowShown, seq: int) -> None:
    """Note in the shown lists that ``seq`` was deleted. O(Q log shown)."""
    for index in range(shown.length.shape[0]):
        listed, low, high = shown.lists[index], 0, shown.length[index]
        while low < high:
            middle = (low + high) >> 1
            if listed[middle, SEQ] > seq:
                low = middle + 1
            else:
                high = middle
        if low < shown.length[index] and listed[low, SEQ] == seq:
            listed[low, DELETED] = 1
