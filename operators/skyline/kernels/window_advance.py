"""Advance a bucket of skylines with deletions in one call: arrivals, deletions and time events of every key, for every query."""

from __future__ import annotations

import numpy as np

from skyband.operators.base import ARRIVAL, DELETE, DISPLACED, EXPIRY, NEVER, PROMOTED, AnyArray
from skyband.operators.jit import inner, jit, maker
from skyband.operators.skyline.kernels.events import Event, finish, put, put_difference
from skyband.operators.skyline.kernels.state import (
    COUNT,
    DELETED,
    HEAD,
    MICROS,
    NEXT_BOUNDARY,
    POSITION,
    SEQ,
    STEP,
    TIME,
    ChangeRows,
    empty_changes,
    ensure_capacity,
)
from skyband.operators.skyline.kernels.tables import carry_over_starts, find, load_shown, store_queries, upper_bounds
from skyband.operators.skyline.kernels.window_state import (
    AFTER,
    BEFORE,
    CHUNK,
    END,
    EVENT,
    FIRST,
    KEYS,
    LAST,
    NEXT_EVENT,
    TESTS,
    TRACKED,
    WindowBlock,
    WindowObjects,
    WindowSettings,
    WindowShown,
    WindowTable,
    new_objects,
)
from skyband.operators.windows import UNBOUNDED

# Find and link the witnesses of objects: alive objects that dominate them (``window_state``).


@inner
def dominates(rows: AnyArray, left: int, right: int, settings: WindowSettings) -> bool:
    """Return True if position ``left`` dominates ``right``; ``rows`` (c, 2 + D). O(D)."""
    better = False
    for j in range(settings.ordered):
        if rows[left, KEYS + j] > rows[right, KEYS + j]:
            return False
        better |= rows[left, KEYS + j] < rows[right, KEYS + j]
        if better and (settings.level_ends >> j) & 1:
            break
    better |= settings.distinct and left > right
    for j in range(KEYS + settings.ordered, rows.shape[1]):
        if rows[left, j] != rows[right, j]:
            return False
    return better


@inner
def compare_chunk(
    columns: AnyArray, row: AnyArray, first: int, end: int, settings: WindowSettings, better: bool, hits: AnyArray
) -> bool:  # fmt: skip
    """Set which of the objects [first, end) are in every dimension as good as ``row`` (2 + D,) or better; or worse if not ``better``.

    Of dimensions with an order only those of the first level are compared: objects that dominate others are as good in each of these.
    Return True if there is one. ``columns`` (D, c), ``hits`` (64,). O(D), branch free in the objects.
    """
    for i in range(end - first):
        hits[i] = 1
    for j in range(columns.shape[0]):
        column, value = columns[j, first:end], row[KEYS + j]
        if settings.first_level <= j < settings.ordered:
            continue
        if j >= settings.ordered:
            for i in range(len(column)):
                hits[i] &= np.int64(column[i] == value)
        elif better:
            for i in range(len(column)):
                hits[i] &= np.int64(column[i] <= value)
        else:
            for i in range(len(column)):
                hits[i] &= np.int64(column[i] >= value)
    found = 0
    for i in range(end - first):
        found |= hits[i]
    return found > 0


@inner
def link(objects: WindowObjects, node: int, witness: int) -> None:
    """Let ``node`` name the position ``witness``. O(1)."""
    band = objects.witness.shape[1]
    objects.witness[node // band, node % band] = witness
    first = objects.node[witness]
    objects.next[node], objects.previous[node] = first, -1
    if first >= 0:
        objects.previous[first] = node
    objects.node[witness] = node


@inner
def unlink(objects: WindowObjects, node: int) -> None:
    """Let ``node`` name nothing. O(1)."""
    band = objects.witness.shape[1]
    witness = objects.witness[node // band, node % band]
    if witness < 0:
        return
    after, before = objects.next[node], objects.previous[node]
    if after >= 0:
        objects.previous[after] = before
    if before >= 0:
        objects.next[before] = after
    else:
        objects.node[witness] = after
    objects.witness[node // band, node % band] = -1


@inner
def critical_of(objects: WindowObjects, position: int) -> int:
    """Return the seq of the oldest of the K witnesses, or -1 if there are fewer. O(K)."""
    oldest = objects.marks[END]
    for j in range(objects.witness.shape[1]):
        oldest = min(oldest, objects.witness[position, j])
    critical: int = objects.rows[oldest, SEQ] if oldest >= 0 else -1
    return critical


@inner
def find_witnesses(objects: WindowObjects, position: int, settings: WindowSettings) -> None:
    """Make the K newest dominators of an object its witnesses; set what is critical after the event. O(objects newer than the last)."""
    dead, marks, hits = objects.dead, objects.marks, objects.hits
    node = position * settings.band
    last_node = node + settings.band
    for old in range(node, last_node):
        unlink(objects, old)
    end = marks[END]
    while end > marks[FIRST] and node < last_node:
        first = max(marks[FIRST], end - CHUNK)
        marks[TESTS] += end - first
        if compare_chunk(objects.columns, objects.rows[position], first, end, settings, True, hits):
            for other in range(end - 1, first - 1, -1):
                if hits[other - first] and node < last_node and not dead[other] and dominates(objects.rows, other, position, settings):
                    link(objects, node, other)
                    node += 1
        end = first
    objects.critical[position, AFTER] = critical_of(objects, position)


@inner
def add_witness(objects: WindowObjects, position: int, witness: int, band: int) -> None:
    """Add the newest dominator of a tracked object to its witnesses, in place of the oldest. O(K)."""
    oldest = position * band
    for node in range(oldest + 1, oldest + band):
        if objects.witness[position, node % band] < objects.witness[position, oldest % band]:
            oldest = node
    unlink(objects, oldest)
    link(objects, oldest, witness)
    objects.critical[position, AFTER] = critical_of(objects, position)


@inner
def track(objects: WindowObjects, position: int) -> None:
    """Track an object, whose witnesses are its newest dominators. O(1)."""
    if objects.place[position] < 0:
        objects.place[position] = objects.marks[TRACKED]
        objects.tracked[objects.marks[TRACKED]] = position
        for j in range(objects.columns.shape[0]):
            objects.tracked_columns[j, objects.marks[TRACKED]] = objects.columns[j, position]
        objects.marks[TRACKED] += 1


@inner
def stop_tracking(objects: WindowObjects, position: int) -> None:
    """Track an object no longer. O(1)."""
    place, marks = objects.place[position], objects.marks
    if place >= 0:
        marks[TRACKED] -= 1
        last = objects.tracked[marks[TRACKED]]
        objects.tracked[place] = last
        for j in range(objects.columns.shape[0]):
            objects.tracked_columns[j, place] = objects.columns[j, last]
        objects.place[last] = place
        objects.place[position] = -1


@inner
def make_exact(objects: WindowObjects, position: int, settings: WindowSettings) -> None:
    """Find the newest dominators of an object unless it is tracked, and known so."""
    if objects.place[position] < 0:
        find_witnesses(objects, position, settings)
        objects.critical[position, BEFORE] = objects.critical[position, AFTER]


@inner
def drop(objects: WindowObjects, position: int) -> None:
    """Remove an object that left the state's window, the oldest one. O(K + objects it is a witness of).

    These are tracked (for others it would have been replaced as it left), so it was the oldest dominator that they had.
    """
    band = objects.witness.shape[1]
    for node in range(position * band, position * band + band):
        unlink(objects, node)
    while objects.node[position] >= 0:
        node = objects.node[position]
        unlink(objects, node)
        objects.critical[node // band, BEFORE] = objects.critical[node // band, AFTER] = -1
    stop_tracking(objects, position)


# Move the state of a key of skylines with deletions: copy it while the key is not active, unpack it for its events, and pack it again.


@maker
def new_table(table: WindowTable, rows: int) -> WindowTable:
    """Return space for the state after the arrivals: ``rows`` objects. Arrays changed in place are shared with ``table``."""
    boundaries = table.shown_start.shape[0] > 1
    shown = table.shown.shape[0] + (table.queries.shape[1] * rows if boundaries else 0)
    return WindowTable(
        np.zeros(table.start.shape[0], np.int64),
        np.empty((rows, table.rows.shape[1]), np.int64),
        np.empty((rows, table.witness.shape[1]), np.int64),
        np.empty(rows, np.int64),
        np.empty(rows, np.uint8),
        table.last,
        table.due,
        table.queries,
        np.zeros(table.shown_start.shape[0], np.int64),
        np.empty((shown, 3), np.int64),
    )


@maker
def new_shown(table: WindowTable, longest: int) -> WindowShown:
    """Return space for the shown lists of a key, of at most ``longest`` objects."""
    windows = table.queries.shape[1]
    return WindowShown(
        np.empty((windows, longest, 3), np.int64),
        np.zeros(windows, np.int64),
        np.empty(longest, np.int64),
        np.empty((longest, 3), np.int64),
    )


@maker
def trimmed(table: WindowTable) -> WindowTable:
    """Return the state without unused space."""
    rows, shown = table.start[-1], table.shown_start[-1]
    return WindowTable(
        table.start, table.rows[:rows], table.witness[:rows], table.critical[:rows], table.tracked[:rows], table.last, table.due,
        table.queries, table.shown_start, table.shown[:shown],
    )  # fmt: skip


@maker
def load_key(key: int, table: WindowTable, objects: WindowObjects, shown: WindowShown) -> None:
    """Unpack a key's objects, the first positions of its windows, and its shown lists. O(objects K)."""
    marks, queries, band = objects.marks, table.queries, objects.witness.shape[1]
    start = table.start[key]
    size: int = table.start[key + 1] - start
    marks[FIRST], marks[END], marks[TRACKED], marks[EVENT] = 0, size, 0, 0
    marks[LAST], marks[NEXT_EVENT] = table.last[key], table.due[key]
    objects.rows[:size] = table.rows[start : start + size]
    objects.columns[:, :size] = table.rows[start : start + size, KEYS:].T
    objects.dead[:size] = 0
    objects.seen[:size] = 0
    objects.node[:size] = -1
    objects.place[:size] = -1
    for position in range(size):
        for j in range(band):
            witness = table.witness[start + position, j]
            objects.witness[position, j] = -1
            if witness >= 0:
                link(objects, position * band + j, witness)
        objects.critical[position, BEFORE] = objects.critical[position, AFTER] = table.critical[start + position]
        if table.tracked[start + position]:
            track(objects, position)
    for index in range(queries.shape[1]):
        position = 0
        while position < size and objects.rows[position, SEQ] < queries[key, index, HEAD]:
            position += 1
        queries[key, index, POSITION] = position
    load_shown(key, table, shown)


@maker
def store_key(key: int, objects: WindowObjects, shown: WindowShown, new: WindowTable) -> None:
    """Pack a key's objects behind those of the keys before it, with the heads and shown lists. O(objects K)."""
    marks, band = objects.marks, objects.witness.shape[1]
    start = target = new.start[key]
    moved = objects.seen  # the new place of every position: no event is at work any more
    for position in range(marks[FIRST], marks[END]):
        moved[position] = target - start
        target += 0 if objects.dead[position] else 1
    for position in range(marks[FIRST], marks[END]):
        if objects.dead[position] == 0:
            row = start + moved[position]
            new.rows[row] = objects.rows[position]
            for j in range(band):
                witness = objects.witness[position, j]
                new.witness[row, j] = moved[witness] if witness >= 0 else -1
            new.critical[row] = objects.critical[position, AFTER]
            new.tracked[row] = objects.place[position] >= 0
    new.start[key + 1] = target
    new.last[key], new.due[key] = marks[LAST], marks[NEXT_EVENT]
    store_queries(key, marks[LAST], shown, new)


@maker
def carry_over(key: int, active: AnyArray, table: WindowTable, new: WindowTable) -> int:
    """Copy the inactive keys (keys,) from ``key`` to the next active one; return that one. O(their rows)."""
    end = carry_over_starts(key, active, table, new)
    moved = new.start[key] - table.start[key]
    first, last = table.start[key], table.start[end]
    new.rows[first + moved : last + moved] = table.rows[first:last]
    new.witness[first + moved : last + moved] = table.witness[first:last]
    new.critical[first + moved : last + moved] = table.critical[first:last]
    new.tracked[first + moved : last + moved] = table.tracked[first:last]
    return end


# Find the objects that leave and enter the result of a key and window when its head moves, an object arrives, or one is deleted.
#
# An object is in the result of a window iff ``critical < head <= seq`` (``window_state.BEFORE``). For an object that is not tracked,
# ``critical`` is too old or exact, and not older than the head of any window that the object is in, so the rule holds for it too.


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


@inner
def next_expiry(query: AnyArray, objects: WindowObjects) -> int:
    """Return when the oldest object of a window (8,) leaves by time, or NEVER."""
    if query[MICROS] >= UNBOUNDED:
        return NEVER
    position = settle(query, objects)
    return int(objects.rows[position, TIME] + query[MICROS]) if position < objects.marks[END] else NEVER


@maker
def elapse(
    query: AnyArray, index: int, key: int, before: int, boundaries_before: int, settings: WindowSettings, objects: WindowObjects,
    shown: WindowShown, changes: ChangeRows,
) -> ChangeRows:  # fmt: skip
    """Process the expiries of a window (8,) at instants < ``before`` and its boundaries < ``boundaries_before``, in order."""
    marks = objects.marks
    while True:
        expiry, boundary = next_expiry(query, objects), query[NEXT_BOUNDARY]
        if expiry <= boundary:
            if expiry >= before:
                break
            last = query[POSITION]
            while last + 1 < marks[END] and objects.rows[last + 1, TIME] + query[MICROS] <= expiry:
                last += 1
            changes = ensure_capacity(changes, 2 * (marks[END] - marks[FIRST]) + 2)
            move_head(query, index, key, expiry, objects.rows[last, SEQ] + 1, -1, 0, settings, objects, changes)
        else:
            if boundary >= boundaries_before:
                break
            changes = ensure_capacity(changes, marks[END] - marks[FIRST] + shown.length[index] + 1)
            cross_boundary(query, index, key, boundary, objects, shown, changes)
    return changes


@inner
def drop_old(queries: AnyArray, settings: WindowSettings, objects: WindowObjects) -> None:
    """Remove the objects that have left the state's window; ``queries`` (Q, 8)."""
    marks = objects.marks
    while marks[FIRST] < queries[settings.largest, POSITION]:
        if objects.dead[marks[FIRST]] == 0:
            drop(objects, marks[FIRST])
        marks[FIRST] += 1


@inner
def set_next_event(queries: AnyArray, objects: WindowObjects) -> None:
    """Find the next instant at which something happens without an arrival; ``queries`` (Q, 8). O(Q)."""
    first = NEVER
    for index in range(queries.shape[0]):
        first = min(first, next_expiry(queries[index], objects), queries[index, NEXT_BOUNDARY])
    objects.marks[NEXT_EVENT] = first


@maker
def pass_time(
    key: int, before: int, boundaries_before: int, settings: WindowSettings, queries: AnyArray, objects: WindowObjects,
    shown: WindowShown, changes: ChangeRows,
) -> ChangeRows:  # fmt: skip
    """Process a key's expiries before ``before`` and boundaries before ``boundaries_before``; ``queries`` (Q, 8). Return the changes."""
    for index in range(queries.shape[0]):
        changes = elapse(queries[index], index, key, before, boundaries_before, settings, objects, shown, changes)
    drop_old(queries, settings, objects)
    set_next_event(queries, objects)
    return changes


@inner
def append_object(row: int, settings: WindowSettings, block: WindowBlock, objects: WindowObjects) -> int:
    """Append the arrival of ``row`` with its witnesses; return its position."""
    rows, fresh = objects.rows, objects.marks[END]
    rows[fresh, SEQ], rows[fresh, TIME] = block.seq[row], block.time[row]
    for j in range(block.keys.shape[0]):
        rows[fresh, KEYS + j] = objects.columns[j, fresh] = block.keys[j, row]
    objects.node[fresh] = objects.place[fresh] = -1
    objects.dead[fresh] = objects.seen[fresh] = 0
    for j in range(settings.band):
        objects.witness[fresh, j] = -1
    objects.marks[END] = fresh + 1
    find_witnesses(objects, fresh, settings)
    objects.critical[fresh, BEFORE] = objects.critical[fresh, AFTER]
    return int(fresh)


@inner
def find_dominated(fresh: int, settings: WindowSettings, objects: WindowObjects) -> int:
    """Make the arrival a witness of the tracked objects it dominates; return how many these are. O(tracked)."""
    count, marks = 0, objects.marks
    for first in range(0, marks[TRACKED], CHUNK):
        end = min(first + CHUNK, marks[TRACKED])
        if compare_chunk(objects.tracked_columns, objects.rows[fresh], first, end, settings, False, objects.hits):
            for place in range(first, end):
                if objects.hits[place - first] and dominates(objects.rows, fresh, objects.tracked[place], settings):
                    objects.dominated[count] = objects.tracked[place]
                    count += 1
    marks[TESTS] += marks[TRACKED]
    sort_newest_first(objects.dominated, count)
    for j in range(count):
        add_witness(objects, objects.dominated[j], fresh, settings.band)
    return count


@inner
def is_member(queries: AnyArray, objects: WindowObjects, position: int) -> bool:
    """Return True if an object is in the result of a window; ``queries`` (Q, 8). O(Q)."""
    seq, critical, found = objects.rows[position, SEQ], objects.critical[position, AFTER], False
    for index in range(queries.shape[0]):
        found |= critical < queries[index, HEAD] <= seq
    return found


@maker
def take_arrival(
    row: int, key: int, settings: WindowSettings, block: WindowBlock, queries: AnyArray, objects: WindowObjects, changes: ChangeRows
) -> ChangeRows:
    """Process arrival ``row`` of a key; ``queries`` (Q, 8). Return the changes. O(tracked + searches for witnesses)."""
    marks, seq = objects.marks, block.seq[row]
    marks[LAST] = seq
    fresh, dominated = -1, 0
    if block.usable[row]:
        fresh = append_object(row, settings, block, objects)
        dominated = find_dominated(fresh, settings, objects)
    for index in range(queries.shape[0]):
        query = queries[index]
        head = max(query[HEAD], seq - query[COUNT] + 1)
        leaves = query[POSITION] < marks[END] and objects.rows[query[POSITION], SEQ] < head
        if leaves or dominated > 0 or (fresh >= 0 and objects.critical[fresh, AFTER] < head):
            changes = ensure_capacity(changes, 2 * (marks[END] - marks[FIRST]) + 2)
            move_head(query, index, key, block.time[row], head, fresh, dominated, settings, objects, changes)
            marks[NEXT_EVENT] = min(marks[NEXT_EVENT], query[NEXT_BOUNDARY])
        else:
            query[HEAD] = head
        if fresh >= 0 and query[MICROS] < UNBOUNDED:
            marks[NEXT_EVENT] = min(marks[NEXT_EVENT], block.time[row] + query[MICROS])
    for j in range(dominated):
        position = objects.dominated[j]
        objects.critical[position, BEFORE] = objects.critical[position, AFTER]
        if not is_member(queries, objects, position):
            stop_tracking(objects, position)
    if fresh >= 0 and is_member(queries, objects, fresh):
        track(objects, fresh)
    drop_old(queries, settings, objects)
    return changes


@maker
def take_deletion(
    row: int, key: int, settings: WindowSettings, block: WindowBlock, queries: AnyArray, objects: WindowObjects, shown: WindowShown,
    changes: ChangeRows,
) -> ChangeRows:  # fmt: skip
    """Process the deletion ``row`` of a key; ``queries`` (Q, 8). Return the changes.

    Every object that the deleted one was a witness of searches for another: O(these searches).
    """
    marks = objects.marks
    mark_deleted(shown, block.target[row])
    gone = find(objects.rows, marks[FIRST], marks[END], block.target[row])
    if gone < 0 or objects.dead[gone]:
        return changes
    objects.dead[gone] = 1
    marks[EVENT] += 1
    count = touch(objects, gone, 0, 0)
    for i in range(count):
        find_witnesses(objects, objects.touched[i], settings)
    for node in range(gone * settings.band, (gone + 1) * settings.band):
        unlink(objects, node)
    stop_tracking(objects, gone)
    for index in range(queries.shape[0]):
        changes = ensure_capacity(changes, marks[END] - marks[FIRST] + 2)
        delete(queries[index], index, key, block.time[row], gone, count, settings, objects, changes)
        marks[NEXT_EVENT] = min(marks[NEXT_EVENT], queries[index, NEXT_BOUNDARY])
    for i in range(count):
        objects.critical[objects.touched[i], BEFORE] = objects.critical[objects.touched[i], AFTER]
    return changes


@maker
def advance_key(
    key: int, settings: WindowSettings, block: WindowBlock, queries: AnyArray, until: int, objects: WindowObjects, shown: WindowShown,
    changes: ChangeRows,
) -> ChangeRows:  # fmt: skip
    """Process every event < ``until`` of the key at work; ``queries`` (Q, 8) are its own. Return the changes."""
    marks = objects.marks
    for row in range(block.first[key], block.end[key]):
        if settings.timed and marks[NEXT_EVENT] <= block.time[row]:
            changes = pass_time(key, block.time[row] + 1, block.time[row], settings, queries, objects, shown, changes)
        if block.seq[row] >= 0:
            changes = take_arrival(row, key, settings, block, queries, objects, changes)
        else:
            changes = take_deletion(row, key, settings, block, queries, objects, shown, changes)
    if settings.timed and marks[NEXT_EVENT] < until:
        changes = pass_time(key, until, until, settings, queries, objects, shown, changes)
    set_next_event(queries, objects)
    return changes


@jit
def advance_windows(
    settings: WindowSettings, block: WindowBlock, table: WindowTable, active: AnyArray, until: int, counters: AnyArray
) -> tuple[AnyArray, WindowTable]:
    """Process every event < ``until`` of the keys with ``active`` (keys,), bool; copy the others.

    Return change rows (m, 8) as in ``ChangeRows``, and the new table, which shares with ``table`` the arrays changed in place. Add the
    dominance tests to ``counters`` (1,), int64.
    """
    room, rows, longest = upper_bounds(table, block, active)
    objects = new_objects(room, settings.band, table.rows.shape[1])
    shown, new = new_shown(table, longest), new_table(table, rows)
    changes = empty_changes()
    key = 0
    while key < len(active):
        if active[key]:
            load_key(key, table, objects, shown)
            changes = advance_key(key, settings, block, table.queries[key], until, objects, shown, changes)
            store_key(key, objects, shown, new)
            key += 1
        else:
            key = carry_over(key, active, table, new)
    counters[0] += objects.marks[TESTS]
    return changes.rows[: changes.size[0]], trimmed(new)


@jit
def rebuild(settings: WindowSettings, table: WindowTable) -> None:
    """Find the witnesses of all objects of a table without shown lists; write all but object rows in place. O(searches)."""
    largest = 1
    for key in range(table.last.shape[0]):
        largest = max(largest, table.start[key + 1] - table.start[key])
    objects, shown = new_objects(largest, settings.band, table.rows.shape[1]), new_shown(table, 0)
    for key in range(table.last.shape[0]):
        load_key(key, table, objects, shown)
        for position in range(objects.marks[END]):
            find_witnesses(objects, position, settings)
            if is_member(table.queries[key], objects, position):
                track(objects, position)
        set_next_event(table.queries[key], objects)
        store_key(key, objects, shown, table)


@jit
def snapshot_of(rows: AnyArray, band: int, settings: WindowSettings) -> AnyArray:
    """Return which of the object rows (n, 2 + D), in seq order, fewer than ``band`` others dominate: (n,) uint8. O(n searches)."""
    found = np.zeros(rows.shape[0], np.uint8)
    for position in range(rows.shape[0]):
        count, other = 0, rows.shape[0] - 1
        while other >= 0 and count < band:
            if other != position and dominates(rows, other, position, settings):
                count += 1
            other -= 1
        found[position] = count < band
    return found
