"""Thresholds of many linear functions: replay of what a block does to the lists it concerns, first in first out.

Only lists that get a candidate, lose a member or reach a boundary are visited. A result set has no k, so nothing is ever refilled.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from skyband.operators.base import ARRIVAL, BOUNDARY, DELETE, EXPIRY, F64, I64, NEVER, NULL
from skyband.operators.jit import inner, inner_inlined, jit
from skyband.operators.single_rows.blocks import Block
from skyband.operators.single_rows.kernels.arrays import lower_bound
from skyband.operators.single_rows.kernels.emit import ChangeRows, Event, change_rows, more_rows, put
from skyband.operators.single_rows.kernels.heap import Heap, heap_push, heap_to_order
from skyband.operators.threshold.kernels.many_lists import (
    AT,
    DEAD,
    DUE,
    HEAD,
    HI,
    KEY,
    LISTS,
    LIVE,
    LO,
    NEWEST,
    NEXT,
    QUERY,
    ROOM,
    SHOWN,
    STEP,
    ListTable,
    Members,
    make_room,
    next_change,
    spot,
)
from skyband.operators.windows import UNBOUNDED


class Windows(NamedTuple):
    """The queries' windows, each ``UNBOUNDED`` for no such end, and boundaries.

    int64 (Q,): ``counts``, ``micros``, ``every`` microseconds (0: changes per event).
    """

    counts: I64
    micros: I64
    every: I64


class BlockEvents(NamedTuple):
    """The events of a block by query, ascending within one: query q's entries are those from begin[q] to begin[q + 1].

    int64 (Q + 1,): ``begin``, ``deletion_begin``, ``due_begin``. ``row`` int64 and ``score`` float64: the rows that pass;
    ``deletion`` int64: deletions of rows that passed; ``due`` int64: keys of the block at which its list changes by itself.
    """

    begin: I64
    row: I64
    score: F64
    deletion_begin: I64
    deletion: I64
    due_begin: I64
    due: I64


class _Query(NamedTuple):
    """One query: ``number``, the window's count ``newest`` and duration ``micros``, and boundaries ``every``, as in ``Windows``."""

    number: int
    newest: int
    micros: int
    every: int


class _Part(NamedTuple):
    """One key's part of a block: rows [``begin``, ``end``), the first with seq ``first_seq``. Events before ``until`` are taken; of the
    query's deletions those before ``deletions_end``."""

    key: int
    begin: int
    end: int
    first_seq: int
    deletions_end: int
    until: int


_FRONT, _HEAD, _COMING, _LAST, _DELETION, _OUT, _NEED = range(7)
"""Where a visit of a list stands: places in the pool of its first member, of the first that has not left, of the next to arrive, and of the
end; the next deletion; the next change to write, and how many changes need room."""

_NOTHING, _EXPIRES, _DELETED, _ARRIVES, _LEAVES = range(5)
"""Kinds of the next event: none, expiry by time, deletion, arrival, arrival that makes the oldest expire by count."""


@inner
def _group_of(ends: I64, row: int) -> int:
    """Return the first group whose end lies behind ``row``. O(log)."""
    lo, hi = 0, len(ends) - 1
    while lo < hi:
        mid = (lo + hi) >> 1
        if ends[mid] > row:
            hi = mid
        else:
            lo = mid + 1
    return lo


@inner
def _was_shown(i: int, members: Members, boundary: int, newest: int, query: _Query) -> bool:
    """Return True if member ``i`` was in the result as of ``boundary`` (NULL: nothing was shown yet), when ``newest`` was the last seq."""
    if boundary == NULL or members.seq[i] > newest or members.seq[i] <= newest - query.newest:
        return False
    in_time = query.micros >= UNBOUNDED or members.time[i] > boundary - query.micros
    return bool(in_time and (len(members.deleted) == 0 or members.deleted[i] > boundary))


@inner
def _write_boundary(query: _Query, slot: I64, members: Members, at: I64, newest: int, changes: ChangeRows, best: Heap) -> None:
    """Write the net change of the boundary that is due, with ``newest`` the last seq by then. O(changes), O(members) after deletions."""
    score, seq, deleted = members.score, members.seq, members.deleted
    due, was, until, head, coming, out = slot[DUE], slot[SHOWN], slot[NEWEST], at[_HEAD], at[_COMING], at[_OUT]
    event, pos, found = Event(slot[QUERY], slot[KEY], due, slot[STEP] + 1), 0, 0
    for i in range(at[_FRONT], coming if slot[DEAD] > was else head):  # members that left are in front, unless deleted
        if (i < head or deleted[i] < NEVER) and _was_shown(i, members, was, until, query):
            found = heap_push(best, found, score[i], i)
    heap_to_order(best, found)
    for i in range(found):
        cause = DELETE if len(deleted) > 0 and deleted[best.place[i]] <= due else EXPIRY
        out = put(changes, out, event, pos, -1, cause, seq[best.place[i]], best.score[i])
        pos += 1
    found, i = 0, coming
    while i > head and seq[i - 1] > until:  # new members are at the end
        i -= 1
        if len(deleted) == 0 or deleted[i] == NEVER:
            found = heap_push(best, found, score[i], i)
    heap_to_order(best, found)
    for i in range(found):
        out = put(changes, out, event, pos, 1, BOUNDARY, seq[best.place[i]], best.score[i])
        pos += 1
    slot[STEP] += 1 if pos > 0 else 0
    slot[DUE], slot[SHOWN], slot[NEWEST] = NEVER, due, newest
    at[_OUT] = out


@inner
def _next_moment(query: _Query, part: _Part, block: Block, deletions: I64, members: Members, at: I64) -> tuple[int, int, int]:
    """Return the next event of a list: what happens, its row and its instant."""
    head, coming, row, kind = at[_HEAD], at[_COMING], part.end, _ARRIVES
    expiry: Any = np.int64(NEVER)
    if coming < at[_LAST]:
        row = part.begin + (members.seq[coming] - part.first_seq)
    if head < coming:
        if query.micros < UNBOUNDED:
            expiry = members.time[head] + query.micros
        leaves = part.begin + (members.seq[head] + query.newest - part.first_seq)
        if leaves <= row and leaves < part.end:
            row, kind = leaves, _LEAVES
    now = block.time[row] if row < part.end else part.until
    if at[_DELETION] < part.deletions_end and block.deletion_row[deletions[at[_DELETION]]] <= row:
        kind, now = _DELETED, block.deletion_time[deletions[at[_DELETION]]]
    if expiry < now or (expiry == now and (kind == _DELETED or row < part.end)):
        return _EXPIRES, row, expiry
    if kind != _DELETED and row == part.end:
        kind = _NOTHING
    return kind, row, now


@inner
def _mark_due(slot: I64, now: int, every: int) -> None:
    """Note that the next boundary has changes to report."""
    if slot[DUE] == NEVER:
        slot[DUE] = -((-now) // every) * every


@inner
def _delete(query: _Query, slot: I64, block: Block, deletion: int, members: Members, at: I64, changes: ChangeRows) -> None:
    """Let a deletion take a member, if it is one; one that has left already only has another cause at the boundary. O(log members)."""
    target, now = block.deletion_seq[deletion], block.deletion_time[deletion]
    i = lower_bound(members.seq, at[_FRONT], at[_COMING], target)
    if i == at[_COMING] or members.seq[i] != target or members.deleted[i] < NEVER:
        return
    members.deleted[i] = slot[DEAD] = now
    if i < at[_HEAD]:
        return
    if query.every > 0:
        _mark_due(slot, now, query.every)
        return
    slot[STEP] += 1
    event = Event(query.number, slot[KEY], now, slot[STEP])
    at[_OUT] = put(changes, at[_OUT], event, 0, -1, DELETE, members.seq[i], members.score[i])


@inner
def _write_event(slot: I64, now: int, left: int, came: bool, members: Members, at: I64, changes: ChangeRows, best: Heap) -> None:
    """Write the members that left from place ``left`` on, in rank order, and the one that came. O(changes log changes)."""
    found, out = 0, at[_OUT]
    for i in range(left, at[_HEAD]):
        if len(members.deleted) == 0 or members.deleted[i] == NEVER:
            found = heap_push(best, found, members.score[i], i)
    heap_to_order(best, found)
    slot[STEP] += 1
    event = Event(slot[QUERY], slot[KEY], now, slot[STEP])
    for i in range(found):
        out = put(changes, out, event, i, -1, EXPIRY, members.seq[best.place[i]], best.score[i])
    if came:
        last = at[_COMING] - 1
        out = put(changes, out, event, found, 1, ARRIVAL, members.seq[last], members.score[last])
    at[_OUT] = out


@inner_inlined
def _visit(
    query: _Query, part: _Part, block: Block, deletions: I64, slot: I64, members: Members, at: I64, changes: ChangeRows, best: Heap
) -> bool:
    """Take a list's events from ``at`` on. False if there must first be room for ``at[_NEED]`` more changes. O(changes)."""
    every, deletes, room = query.every, len(members.deleted) > 0, len(changes.score)
    while True:
        while deletes and at[_HEAD] < at[_COMING] and members.deleted[at[_HEAD]] < NEVER:
            at[_HEAD] += 1
        kind, row, now = _next_moment(query, part, block, deletions, members, at)
        if kind == _NOTHING and (every == 0 or slot[DUE] >= part.until):
            return True
        if every > 0 and slot[DUE] < now:
            at[_NEED] = 2 * (at[_LAST] - at[_FRONT]) + 8
            if at[_OUT] + at[_NEED] > room:
                return False
            newest = part.first_seq + (lower_bound(block.time, part.begin, part.end, slot[DUE] + 1) - part.begin) - 1
            _write_boundary(query, slot, members, at, newest, changes, best)
            at[_FRONT] = max(at[_FRONT], min(at[_HEAD], at[_COMING]))
            continue
        left, came = at[_HEAD], False
        head, coming = left, at[_COMING]
        if kind == _EXPIRES:
            while head < coming and members.time[head] + query.micros <= now:
                head += 1
        elif kind != _DELETED:
            head += 1 if kind == _LEAVES else 0
            came = coming < at[_LAST] and part.begin + (members.seq[coming] - part.first_seq) == row
        at[_NEED] = head - left + 8
        if at[_OUT] + at[_NEED] > room:
            return False
        at[_HEAD], at[_COMING] = head, coming + (1 if came else 0)
        if kind == _DELETED:
            _delete(query, slot, block, deletions[at[_DELETION]], members, at, changes)
            at[_DELETION] += 1
        elif every > 0:
            _mark_due(slot, now, every)
        else:
            _write_event(slot, now, left, came, members, at, changes, best)


@inner_inlined
def _slot_of(lists: ListTable, key: int, query: int, new: bool) -> int:
    """Return the slot of a query's list of a key; if there is none, a ``new`` one or -1."""
    slots, place = lists.slots, spot(lists.hashed, lists.slots, key, query)
    if lists.hashed[place] >= 0 or not new:
        return int(lists.hashed[place])
    s = lists.totals[LISTS]
    lists.totals[LISTS] += 1
    lists.hashed[place] = s
    slot = slots[s]
    slot[:] = 0
    slot[KEY], slot[QUERY], slot[DUE], slot[SHOWN], slot[NEWEST], slot[DEAD] = key, query, NEVER, NULL, -1, NULL
    slot[NEXT] = lists.first[key]
    lists.first[key] = s
    return int(s)


@inner_inlined
def _begin_visit(
    part: _Part, block: Block, events: BlockEvents, first: int, last: int, deletion: int, slot: I64, members: Members, at: I64
) -> None:
    """Put the rows that entries [``first``, ``last``) of ``events`` name behind a slot's members, which has room, and set ``at`` up."""
    begin = slot[AT]
    at[_FRONT], at[_HEAD], at[_COMING], at[_DELETION] = begin + slot[LO], begin + slot[HEAD], begin + slot[HI], deletion
    end = at[_COMING]
    for i in range(first, last):
        row = events.row[i]
        members.score[end], members.seq[end] = events.score[i], part.first_seq + (row - part.begin)
        if len(members.time) > 0:
            members.time[end] = block.time[row]
        if len(members.deleted) > 0:
            members.deleted[end] = NEVER
        end += 1
    at[_LAST] = end


@inner_inlined
def _end_visit(query: _Query, lists: ListTable, slot: I64, members: Members, at: I64) -> None:
    """Remove the members whose leaving has been reported, and note when the list changes next."""
    begin, front, key = slot[AT], at[_FRONT], slot[KEY]
    if query.every == 0:
        front = at[_HEAD]
    else:
        while front < at[_HEAD] and not _was_shown(front, members, slot[SHOWN], slot[NEWEST], query):
            front += 1
    lists.totals[LIVE] -= front - (begin + slot[LO])
    slot[LO], slot[HEAD], slot[HI] = front - begin, at[_HEAD] - begin, at[_LAST] - begin
    wake, leave = next_change(slot, query.newest, query.micros, members)
    lists.wake[key], lists.leave[key] = min(lists.wake[key], wake), min(lists.leave[key], leave)


@jit
def replay_lists(
    windows: Windows, block: Block, events: BlockEvents, lists: ListTable, members: Members, until: int
) -> tuple[ChangeRows, int, Members]:  # fmt: skip
    """Replay a block for every list it concerns: change rows and their number, and the pool, which may have moved.

    ``lists`` has room for a slot per candidate. O(changes) plus O(log) per visited list.
    """
    changes, at = change_rows(1024), np.zeros(7, np.int64)
    best = Heap(np.empty(64, np.float64), np.empty(64, np.int64))
    groups = len(block.keys)
    for q in range(len(windows.counts)):
        query = _Query(q, windows.counts[q], windows.micros[q], windows.every[q])
        last, deletions_end, u = events.begin[q], events.deletion_begin[q], events.due_begin[q]
        end, deletions, dues = events.begin[q + 1], events.deletion_begin[q + 1], events.due_begin[q + 1]
        while last < end or deletions_end < deletions or u < dues:
            g = _group_of(block.end, events.row[last]) if last < end else groups
            if deletions_end < deletions:
                g = min(g, _group_of(block.deletion_end, events.deletion[deletions_end]))
            if u < dues:
                g = min(g, events.due[u])
                u += 1 if events.due[u] == g else 0
            first, deletion = last, deletions_end
            while last < end and events.row[last] < block.end[g]:
                last += 1
            while deletions_end < deletions and events.deletion[deletions_end] < block.deletion_end[g]:
                deletions_end += 1
            s = _slot_of(lists, block.keys[g], q, last > first)
            if s < 0:
                continue
            slot = lists.slots[s]
            if slot[HI] + (last - first) > slot[ROOM]:
                members = make_room(slot, last - first, members, lists.totals)
            part = _Part(block.keys[g], block.begin[g], block.end[g], block.first_seq[g], deletions_end, until)
            _begin_visit(part, block, events, first, last, deletion, slot, members, at)
            lists.totals[LIVE] += last - first
            if len(best.score) < at[_LAST] - at[_FRONT]:
                room = 2 * (at[_LAST] - at[_FRONT])
                best = Heap(np.empty(room, np.float64), np.empty(room, np.int64))
            while not _visit(query, part, block, events.deletion, slot, members, at, changes, best):
                changes = more_rows(changes, 2 * len(changes.score) + at[_NEED])
            _end_visit(query, lists, slot, members, at)
    return changes, at[_OUT], members
