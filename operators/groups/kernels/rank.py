"""Second stage: from the values of groups after each event to the changes of one query and the points of its members."""

from __future__ import annotations

import math
from typing import NamedTuple

from skyband.operators.base import ARRIVAL, BOUNDARY, DELETE, DISPLACED, EXPIRY, F64, I64, NEVER, PROMOTED
from skyband.operators.groups.kernels.heaps import (
    LAST_DIRTY,
    MEMBERS,
    NOT_DIRTY,
    NOWHERE,
    OTHERS,
    Board,
    better,
    lower,
    move,
    push,
    remove,
    soil,
)
from skyband.operators.groups.kernels.tables import DELETED, EXPIRED
from skyband.operators.groups.kernels.ties import change_tied, is_tied, remove_member, settle_with_ties
from skyband.operators.jit import inner, inner_inlined, jit

CHANGE_COLUMNS, POINT_COLUMNS = 6, 3
"""key, at, step, sign, cause, group of a change; key, at, group of a point, and of a member of a final result."""


class Query(NamedTuple):
    """``k`` groups; or, with k = 0, those above ``above``, which stay while they are not below ``below``. ``every``: 0 without.

    ``closes``: 1 if the members are wanted whenever rows expire. ``ties``: 1 if groups that equal the k-th are in the result; ``room``: the
    number of free changes and points that an event then needs.
    """

    k: int
    above: float
    below: float
    every: int
    closes: int
    until: int
    ties: int
    room: int


class Values(NamedTuple):
    """The records of a call (see ``tables.Events``), with the ``value`` of each group after the event; jobs as in ``tables.Feed``.

    ``carried`` (carried, records): what changes carry.
    """

    job: I64
    first_of_key: I64
    at: I64
    arrived: I64
    record: I64
    group: I64
    alive: I64
    value: F64
    carried: I64


class Output(NamedTuple):
    """Changes and points with their values, and ``carried`` (carried, changes).

    ``counts``: of changes, points, groups in ``traced`` since the last point in time, finished keys and events, and finals.
    ``waiting``: those groups; ``is_waiting``: 1 for them. ``finals``: members as rows expire, with their values and ``final_carried``.
    """

    changes: I64
    change_value: F64
    points: I64
    point_value: F64
    waiting: I64
    is_waiting: I64
    finals: I64
    final_value: F64
    final_carried: I64
    counts: I64
    carried: I64


@jit
def rank(board: Board, query: Query, values: Values, out: Output) -> bool:
    """Process the events of a call for one query from where ``out.counts`` says; return False if ``out`` has too little room for that."""
    for j in range(out.counts[3], len(values.job)):
        key = values.job[j]
        first, end = max(values.first_of_key[j], out.counts[4]), values.first_of_key[j + 1]
        for e in range(first, end):
            if query.ties > 0 and not has_room(out, query.room, j, e):
                return False
            at = values.at[e]
            if board.next[key] < at:
                show_boundary(board, query, key, out)
            if query.closes > 0 and values.arrived[e] == EXPIRED:
                close(board, values, e, key, out)
            for r in range(values.record[e], values.record[e + 1]):
                group, value = values.group[r], values.value[r]
                board.rows[group] = values.alive[r]
                for c in range(len(values.carried)):
                    board.carried[c, group] = values.carried[c, r]
                if value == value or board.value[group] == board.value[group]:
                    change(board, query, key, group, value)
            if query.ties > 0:
                settle_with_ties(board, query.k, key)
            elif query.k > 0:
                settle(board, query, key)
            if query.every > 0:
                if board.first_dirty[key] != LAST_DIRTY and board.next[key] == NEVER:
                    board.next[key] = -(-at // query.every) * query.every
                continue
            show(board, query, key, at, values.arrived[e], out)
            if e + 1 == end or values.at[e + 1] != at:
                trace(board, key, at, out)
        if board.next[key] < query.until:
            if query.ties > 0 and not has_room(out, query.room, j, end):
                return False
            show_boundary(board, query, key, out)
    return True


@inner
def has_room(out: Output, room: int, job: int, event: int) -> bool:
    """Return True if so many changes and points fit; note where to continue."""
    out.counts[3], out.counts[4] = job, event
    return bool(min(len(out.change_value) - out.counts[0], len(out.point_value) - out.counts[1]) >= room)


@inner
def close(board: Board, values: Values, event: int, key: int, out: Output) -> None:
    """Write the members whose rows expire in an event, as they are before it."""
    for r in range(values.record[event], values.record[event + 1]):
        group = values.group[r]
        if is_member(board, group):
            n = out.counts[5]
            out.counts[5] = n + 1
            row = out.finals[n]
            row[0], row[1], row[2] = key, values.at[event], group
            out.final_value[n] = board.value[group]
            for c in range(len(out.final_carried)):
                out.final_carried[c, n] = board.carried[c, group]


@jit
def place_all(board: Board, query: Query, key_of: I64) -> None:
    """Build the result from the values of all groups; nothing counts as changed. Membership above a bound is kept in ``place``."""
    if query.k > 0:
        for group in range(len(key_of)):
            board.bound[group] = board.value[group]
            if board.value[group] == board.value[group]:
                push(board, OTHERS, key_of[group], group)
        for key in range(len(board.start)):
            if query.ties > 0:
                settle_with_ties(board, query.k, key)
            else:
                settle(board, query, key)
    for group in range(len(key_of)):
        board.dirty[group] = NOT_DIRTY
        board.traced[group] = board.shown_value[group] if board.shown[group] else math.nan
    for key in range(len(board.start)):
        board.first_dirty[key] = LAST_DIRTY
    for group in range(len(key_of)):
        member = is_member(board, group)
        if member != (board.shown[group] != 0) or (member and board.shown_value[group] != board.value[group]):
            soil(board, key_of[group], group)


@inner_inlined
def is_member(board: Board, group: int) -> bool:
    """Return True if the group is in the present result."""
    place = board.place[group]
    return bool(place != NOWHERE and place & 1 == MEMBERS)


@inner_inlined
def change(board: Board, query: Query, key: int, group: int, value: float) -> None:
    """Take over the new value of a group."""
    place, known = board.place[group], value == value
    board.value[group] = value
    if query.k == 0:
        inside = known and (value > query.above or (place != NOWHERE and value >= query.below))
        if inside or place != NOWHERE:
            soil(board, key, group)
        board.place[group] = MEMBERS if inside else NOWHERE
    elif place == NOWHERE:
        if known:
            board.bound[group] = value
            push(board, OTHERS, key, group)
    elif place & 1 == MEMBERS:
        soil(board, key, group)
        if query.ties > 0 and is_tied(board, key, group):
            change_tied(board, key, group)
        elif known:
            board.bound[group] = value
            move(board, MEMBERS, board.start[key], board.size[MEMBERS, key], place >> 1, group)
        elif query.ties > 0:
            remove_member(board, key, group)
        else:
            remove(board, MEMBERS, key, group)
    elif known and value > board.bound[group]:
        board.bound[group] = value
        move(board, OTHERS, board.start[key], board.size[OTHERS, key], place >> 1, group)


@inner_inlined
def settle(board: Board, query: Query, key: int) -> None:
    """Move groups between members and others until the members are the first k."""
    start = board.start[key]
    while board.size[OTHERS, key] > 0:
        best = board.heap[OTHERS, start]
        full = board.size[MEMBERS, key] >= query.k
        worst = board.heap[MEMBERS, start] if full else NOWHERE
        if full and not better(board, best, worst):
            return
        if board.value[best] != board.value[best]:
            remove(board, OTHERS, key, best)
        elif board.bound[best] != board.value[best]:
            board.bound[best] = board.value[best]
            lower(board, OTHERS, start, board.size[OTHERS, key], 0, best)
        else:
            remove(board, OTHERS, key, best)
            if full:
                remove(board, MEMBERS, key, worst)
                push(board, OTHERS, key, worst)
                soil(board, key, worst)
            push(board, MEMBERS, key, best)
            soil(board, key, best)


@inner
def show_boundary(board: Board, query: Query, key: int, out: Output) -> None:
    """Show at its boundary what has changed."""
    at = board.next[key]
    board.next[key] = NEVER
    show(board, query, key, at, NOWHERE, out)
    trace(board, key, at, out)


@inner_inlined
def show(board: Board, query: Query, key: int, at: int, arrived: int, out: Output) -> None:
    """Write the changes since the last event or boundary, in no order, and forget them."""
    group, step = board.first_dirty[key], 0
    board.first_dirty[key] = LAST_DIRTY
    while group != LAST_DIRTY:
        following = board.dirty[group]
        board.dirty[group] = NOT_DIRTY
        member, shown = is_member(board, group), board.shown[group] != 0
        if member != shown:
            if step == 0:
                step = board.step[key] + 1
                board.step[key] = step
            n = out.counts[0]
            out.counts[0] = n + 1
            row = out.changes[n]
            row[0], row[1], row[2], row[3], row[5] = key, at, step, 1 if member else -1, group
            if not member:
                row[4] = EXPIRY if board.rows[group] == 0 else DELETE if board.rows[group] == DELETED else DISPLACED
            elif query.every > 0:
                row[4] = BOUNDARY
            else:
                row[4] = ARRIVAL if arrived == group else PROMOTED
            out.change_value[n] = board.value[group] if member else board.shown_value[group]
            for c in range(len(out.carried)):
                out.carried[c, n] = board.carried[c, group]
            board.shown[group] = 1 if member else 0
            board.traced[group] = math.nan
        if member:
            board.shown_value[group] = board.value[group]
            if out.is_waiting[group] == 0:
                out.is_waiting[group] = 1
                out.waiting[out.counts[2]] = group
                out.counts[2] += 1
        group = following


@inner_inlined
def trace(board: Board, key: int, at: int, out: Output) -> None:
    """Write a point of every member whose value differs from that of its last point, after all events of an instant."""
    for i in range(out.counts[2]):
        group = out.waiting[i]
        out.is_waiting[group] = 0
        if board.shown[group] != 0 and board.traced[group] != board.shown_value[group]:
            n = out.counts[1]
            out.counts[1] = n + 1
            row = out.points[n]
            row[0], row[1], row[2] = key, at, group
            board.traced[group] = board.shown_value[group]
            out.point_value[n] = board.shown_value[group]
    out.counts[2] = 0
