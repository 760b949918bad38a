"""Second stage: from the values of groups after each event to the changes of one query and the points of its members."""

from __future__ import annotations

import math
from typing import Final, NamedTuple

from skyband.operators.base import ARRIVAL, BOUNDARY, DELETE, DISPLACED, EXPIRY, F64, I64, NEVER, PROMOTED, AnyArray
from skyband.operators.groups.kernels.carried import carries_another, note_traced, show_carried, shows_former
from skyband.operators.groups.kernels.heaps import (
    LAST_DIRTY,
    MEMBERS,
    NOT_DIRTY,
    NOWHERE,
    OTHERS,
    Board,
    better,
    lift,
    mark_dirty,
    move,
    push,
    refresh,
    remove,
)
from skyband.operators.groups.kernels.tables import DELETED, EXPIRED
from skyband.operators.jit import inner, inner_inlined, jit
from skyband.operators.prefetch import prefetch

# Results that include all groups whose value equals that of the k-th: members are the heap of k and the groups *tied* with its last one.
#
# The tied groups of a key follow its heap of members in ``Board.heap``, in no order; all have the value of the last member. So which of the
# groups with that value are in the heap does not matter, and a value that changes moves few groups that stay in the result. The bound of a
# member is its value.


@inner
def bound_of(board: Board, group: int) -> float:
    """Return the bound of a group."""
    return float(board.groups[group]["bound"])


@inner
def is_tied(board: Board, key: int, group: int) -> bool:
    """Return True if a member is not in the heap."""
    return bool(board.groups[group]["place"] >> 1 >= board.size[MEMBERS, key])


@inner
def change_with_ties(board: Board, key: int, group: int, value: float, rows: int) -> bool:
    """Take over the new value of a group; return True if a heap or the tied groups were touched."""
    g = board.groups[group]
    place, known, before = g["place"], value == value, g["value"]
    g["value"], g["rows"] = value, rows
    if value == before or not (known or before == before):
        return False
    if place == NOWHERE:
        g["bound"] = value
        push(board, OTHERS, key, group)
    elif place & 1 == MEMBERS:
        mark_dirty(board, key, group)
        if is_tied(board, key, group):
            change_tied(board, key, group)
        elif known:
            g["bound"] = value
            move(board, MEMBERS, board.start[key], board.size[MEMBERS, key], place >> 1, group)
        else:
            remove_member(board, key, group)
    elif known and value > g["bound"]:
        g["bound"] = value
        move(board, OTHERS, board.start[key], board.size[OTHERS, key], place >> 1, group)
    else:
        return False
    return True


@inner
def change_tied(board: Board, key: int, group: int) -> None:
    """Take over the new value of a tied group: if it is another, the group is among the others until it is settled."""
    g = board.groups[group]
    value = g["value"]
    if value == g["bound"]:
        return
    i, start = g["place"] >> 1, board.start[key]
    board.tied[key] -= 1
    last = board.heap[MEMBERS, start + board.size[MEMBERS, key] + board.tied[key]]
    board.heap[MEMBERS, start + i] = last
    board.groups[last]["place"] = 2 * i + MEMBERS
    g["place"] = NOWHERE
    if value == value:
        g["bound"] = value
        push(board, OTHERS, key, group)


@inner
def remove_member(board: Board, key: int, group: int) -> None:
    """Remove a group from the heap of members; a tied one takes its place."""
    remove(board, MEMBERS, key, group)
    if board.tied[key] > 0:
        last = board.heap[MEMBERS, board.start[key] + board.size[MEMBERS, key] + board.tied[key]]
        board.tied[key] -= 1
        push(board, MEMBERS, key, last)


@inner
def add_tied(board: Board, key: int, group: int) -> None:
    """Add a group, which is nowhere, to the tied ones."""
    i = board.size[MEMBERS, key] + board.tied[key]
    board.heap[MEMBERS, board.start[key] + i] = group
    board.groups[group]["place"] = 2 * i + MEMBERS
    board.tied[key] += 1


@inner
def dismiss(board: Board, key: int, group: int) -> None:
    """Move a group, which is nowhere, to the others."""
    push(board, OTHERS, key, group)
    mark_dirty(board, key, group)


@inner
def dismiss_tied(board: Board, key: int) -> None:
    """Move all tied groups to the others."""
    first, tied = board.start[key] + board.size[MEMBERS, key], board.tied[key]
    board.tied[key] = 0
    for i in range(tied):
        dismiss(board, key, board.heap[MEMBERS, first + i])


@inner
def settle_tied(board: Board, key: int) -> None:
    """Make the tied groups equal to the last member again, after values of members have changed."""
    start = board.start[key]
    if board.tied[key] == 0:
        return
    value = bound_of(board, board.heap[MEMBERS, start + board.size[MEMBERS, key]])
    while board.tied[key] > 0 and bound_of(board, board.heap[MEMBERS, start]) < value:
        worst = board.heap[MEMBERS, start]
        remove_member(board, key, worst)
        dismiss(board, key, worst)
    if bound_of(board, board.heap[MEMBERS, start]) > value:
        dismiss_tied(board, key)


@inner
def settle_with_ties(board: Board, k: int, key: int) -> None:
    """Move groups until the members are the first k and all groups that equal the last of them."""
    settle_tied(board, key)
    start = board.start[key]
    while board.size[OTHERS, key] > 0:
        best = board.heap[OTHERS, start]
        full = board.size[MEMBERS, key] >= k
        worst = board.heap[MEMBERS, start] if full else NOWHERE
        if full and bound_of(board, best) < bound_of(board, worst):
            return
        value = board.groups[best]["value"]
        if value != value:
            remove(board, OTHERS, key, best)
        elif bound_of(board, best) != value:
            refresh(board, OTHERS, key, best)
        else:
            remove(board, OTHERS, key, best)
            mark_dirty(board, key, best)
            if full and bound_of(board, best) == bound_of(board, worst):
                add_tied(board, key, best)
            elif full:
                replace_last(board, key, worst, best)
            else:
                push(board, MEMBERS, key, best)


@inner
def replace_last(board: Board, key: int, worst: int, best: int) -> None:
    """Put a better group in the place of the last member, which stays, with all that equal it, while it equals the new last one."""
    remove(board, MEMBERS, key, worst)
    push(board, MEMBERS, key, best)
    if bound_of(board, board.heap[MEMBERS, board.start[key]]) == bound_of(board, worst):
        add_tied(board, key, worst)
    else:
        dismiss(board, key, worst)
        dismiss_tied(board, key)


CHANGES, POINTS, FINALS, UNSORTED, JOB, EVENT, FIRST_RECORD, FIRST_CHANGE = COUNTS = range(8)
"""``Output.counts``."""
AHEAD: Final = 16
"""Distance in records of the group that is prefetched."""
SORTED: Final = 32
"""So many changes of a step, and points of an instant, are sorted as they are written."""


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

    ``carried`` (carried, records): what groups carry.
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
    """Columns of the changes and points of all queries, one query after the other; ``value`` is internal.

    Changes: ``key`` to ``group``, and ``carried`` (carried, changes); points: ``point_key`` to ``point_carried`` (carried, points), which
    has no rows if no query traces carried values; members as rows expire, in no order: ``final_key`` to ``final_carried``. ``members``:
    room for all groups. ``counts``: changes, points and finals so far; 1 if a step or an instant has more than ``SORTED`` rows, which are
    in no order; and where to continue: the job, the event, and where the records and changes of its instant begin.
    """

    key: I64
    at: I64
    step: I64
    pos: AnyArray
    sign: AnyArray
    cause: AnyArray
    value: F64
    group: I64
    carried: I64
    point_key: I64
    point_at: I64
    point_group: I64
    point_value: F64
    point_carried: I64
    final_key: I64
    final_at: I64
    final_group: I64
    final_value: F64
    final_carried: I64
    members: I64
    counts: I64


@jit
def rank(board: Board, query: Query, values: Values, out: Output) -> bool:
    """Process the events of a call for one query from where ``out.counts`` says; return False if ``out`` has too little room for that."""
    last = len(values.group) - 1
    for j in range(out.counts[JOB], len(values.job)):
        key = values.job[j]
        first, end = values.first_of_key[j], values.first_of_key[j + 1]
        first_record, first_change = values.record[first], out.counts[CHANGES]
        if out.counts[EVENT] > first:
            first, first_record, first_change = out.counts[EVENT], out.counts[FIRST_RECORD], out.counts[FIRST_CHANGE]
        for e in range(first, end):
            if query.ties > 0 and not has_room(out, query.room, j, e, first_record, first_change):
                return False
            at, record, end_record = values.at[e], values.record[e], values.record[e + 1]
            if board.next[key] < at:
                show_boundary(board, query, key, out)
            if query.closes > 0 and values.arrived[e] == EXPIRED:
                close(board, values, e, key, out)
            moved = False
            for r in range(record, end_record):
                prefetch(board.groups, values.group[min(r + AHEAD, last)])
                value = values.value[r] if values.alive[r] > 0 else math.nan
                if query.every > 0 and is_member(board.groups[values.group[r]]["place"]):
                    mark_dirty(board, key, values.group[r])
                for c in range(len(values.carried)):
                    board.carried[c, values.group[r]] = values.carried[c, r]
                if query.ties > 0:
                    moved |= change_with_ties(board, key, values.group[r], value, values.alive[r])
                else:
                    moved |= change(board, query, key, values.group[r], value, values.alive[r])
            if moved and query.ties > 0:
                settle_with_ties(board, query.k, key)
            elif moved:
                settle(board, query, key)
            if query.every > 0:
                if board.first_dirty[key] != LAST_DIRTY and board.next[key] == NEVER:
                    board.next[key] = -(-at // query.every) * query.every
                continue
            if board.first_dirty[key] != LAST_DIRTY:
                show(board, query, key, at, values.arrived[e], out)
            for r in range(record, end_record):
                g = board.groups[values.group[r]]
                if g["shown"] != 0:
                    g["shown_value"] = g["value"]
                    show_carried(board, values.group[r])
            if e + 1 == end or values.at[e + 1] != at:
                first_point = out.counts[POINTS]
                trace(board, key, at, values.group, first_record, end_record, first_point, out)
                if out.counts[CHANGES] > first_change:
                    trace(board, key, at, out.group, first_change, out.counts[CHANGES], first_point, out)
                first_record, first_change = end_record, out.counts[CHANGES]
        if board.next[key] < query.until:
            if query.ties > 0 and not has_room(out, query.room, j, end, first_record, first_change):
                return False
            show_boundary(board, query, key, out)
    return True


@inner
def has_room(out: Output, room: int, job: int, event: int, record: int, change: int) -> bool:
    """Return True if so many changes and points fit; note where to continue."""
    counts = out.counts
    counts[JOB], counts[EVENT], counts[FIRST_RECORD], counts[FIRST_CHANGE] = job, event, record, change
    return bool(min(len(out.key) - counts[CHANGES], len(out.point_key) - counts[POINTS]) >= room)


@inner
def close(board: Board, values: Values, event: int, key: int, out: Output) -> None:
    """Write the members whose rows expire in an event, as they are before it."""
    for r in range(values.record[event], values.record[event + 1]):
        group = values.group[r]
        g = board.groups[group]
        if is_member(g["place"]):
            n = out.counts[FINALS]
            out.counts[FINALS] = n + 1
            out.final_key[n], out.final_at[n], out.final_group[n], out.final_value[n] = key, values.at[event], group, g["value"]
            for c in range(len(out.final_carried)):
                out.final_carried[c, n] = board.carried[c, group]


@jit
def place_all(board: Board, query: Query, key_of: I64) -> None:
    """Build the result from the values of all groups; nothing counts as changed. Membership above a bound is kept in ``place``."""
    if query.k > 0:
        for group in range(len(key_of)):
            g = board.groups[group]
            g["bound"] = g["value"]
            if g["value"] == g["value"]:
                push(board, OTHERS, key_of[group], group)
        for key in range(len(board.start)):
            if query.ties > 0:
                settle_with_ties(board, query.k, key)
            else:
                settle(board, query, key)
    for group in range(len(key_of)):
        g = board.groups[group]
        g["dirty"] = NOT_DIRTY
        g["traced"] = g["shown_value"] if g["shown"] else math.nan
        note_traced(board, group)
    for key in range(len(board.start)):
        board.first_dirty[key] = LAST_DIRTY
    for group in range(len(key_of)):
        g = board.groups[group]
        member = is_member(g["place"])
        if member != (g["shown"] != 0) or (member and (g["shown_value"] != g["value"] or shows_former(board, group))):
            mark_dirty(board, key_of[group], group)


@inner_inlined
def is_member(place: int) -> bool:
    """Return True if a group at this place is in the present result."""
    return bool(place != NOWHERE and place & 1 == MEMBERS)


@inner_inlined
def change(board: Board, query: Query, key: int, group: int, value: float, rows: int) -> bool:
    """Take over the new value of a group; return True if a heap was touched."""
    g = board.groups[group]
    place, known = g["place"], value == value
    g["value"], g["rows"] = value, rows
    if query.k == 0:
        inside = known and (value > query.above or (place != NOWHERE and value >= query.below))
        if inside != (place != NOWHERE):
            mark_dirty(board, key, group)
        g["place"] = MEMBERS if inside else NOWHERE
        return False
    if place == NOWHERE:
        if known:
            g["bound"] = value
            push(board, OTHERS, key, group)
        return known
    side = place & 1
    beyond = value < g["bound"] if side == MEMBERS else value > g["bound"]
    if beyond:
        g["bound"] = value
        lift(board, side, board.start[key], place >> 1, group)
    elif side == MEMBERS and not known:
        mark_dirty(board, key, group)
        remove(board, MEMBERS, key, group)
        return True
    return bool(beyond)


@inner
def settle(board: Board, query: Query, key: int) -> None:
    """Move groups between members and others until the members are the first k."""
    start = board.start[key]
    while board.size[OTHERS, key] > 0:
        best = board.heap[OTHERS, start]
        full = board.size[MEMBERS, key] >= query.k
        worst = board.heap[MEMBERS, start] if full else NOWHERE
        if full and not better(board, best, worst):
            return
        value = board.groups[best]["value"]
        if value != value:
            remove(board, OTHERS, key, best)
        elif board.groups[best]["bound"] != value:
            refresh(board, OTHERS, key, best)
        elif full and board.groups[worst]["bound"] != board.groups[worst]["value"]:
            refresh(board, MEMBERS, key, worst)
        else:
            remove(board, OTHERS, key, best)
            if full:
                remove(board, MEMBERS, key, worst)
                push(board, OTHERS, key, worst)
                mark_dirty(board, key, worst)
            push(board, MEMBERS, key, best)
            mark_dirty(board, key, best)


@inner
def show_boundary(board: Board, query: Query, key: int, out: Output) -> None:
    """Show at its boundary what has changed."""
    at = board.next[key]
    board.next[key] = NEVER
    end = show(board, query, key, at, NOWHERE, out)
    trace(board, key, at, out.members, 0, end, out.counts[POINTS], out)


@inner_inlined
def show(board: Board, query: Query, key: int, at: int, arrived: int, out: Output) -> int:
    """Write the changes since the last event or boundary, and forget them: first the groups that leave, then those that enter, by rank.

    The members among them go to ``out.members``; return their number.
    """
    group, first, members = board.first_dirty[key], out.counts[CHANGES], 0
    board.first_dirty[key] = LAST_DIRTY
    while group != LAST_DIRTY:
        g = board.groups[group]
        following = g["dirty"]
        g["dirty"] = NOT_DIRTY
        member = is_member(g["place"])
        if member != (g["shown"] != 0):
            if out.counts[CHANGES] == first:
                board.step[key] += 1
            if not member:
                cause = EXPIRY if g["rows"] == 0 else DELETE if g["rows"] == DELETED else DISPLACED
            elif query.every > 0:
                cause = BOUNDARY
            else:
                cause = ARRIVAL if arrived == group else PROMOTED
            write_change(board, out, first, key, at, 1 if member else -1, cause, g["value"] if member else g["shown_value"], group)
            g["shown"] = 1 if member else 0
            g["traced"] = math.nan
        if member:
            g["shown_value"] = g["value"]
            show_carried(board, group)
            out.members[members] = group
            members += 1
        group = following
    return members


@inner
def write_change(
    board: Board, out: Output, first: int, key: int, at: int, sign: int, cause: int, value: float, group: int
) -> None:  # fmt: skip
    """Write a change among those of its step, which begin at ``first``."""
    n = out.counts[CHANGES]
    out.counts[CHANGES] = n + 1
    out.key[n], out.at[n], out.step[n], out.pos[n] = key, at, board.step[key], n - first
    i = n
    if n - first >= SORTED:
        out.counts[UNSORTED] = 1
    else:
        name = board.groups[group]["name"]
        while i > first and goes_before(board, out, sign, value, name, i - 1):
            out.sign[i], out.cause[i], out.value[i], out.group[i] = out.sign[i - 1], out.cause[i - 1], out.value[i - 1], out.group[i - 1]
            for c in range(len(out.carried)):
                out.carried[c, i] = out.carried[c, i - 1]
            i -= 1
    out.sign[i], out.cause[i], out.value[i], out.group[i] = sign, cause, value, group
    for c in range(len(out.carried)):
        out.carried[c, i] = board.carried[c, group] if sign > 0 else board.shown_carried[c, group]


@inner
def goes_before(board: Board, out: Output, sign: int, value: float, name: int, i: int) -> bool:
    """Return True if a change belongs before the change ``i`` of its step."""
    if sign != out.sign[i]:
        return bool(sign < out.sign[i])
    if value != out.value[i]:
        return bool(value > out.value[i])
    return bool(name < board.groups[out.group[i]]["name"])


@inner_inlined
def trace(board: Board, key: int, at: int, groups: I64, start: int, end: int, first: int, out: Output) -> None:
    """Write a point of each of ``groups[start:end]`` that is shown with another value, or carried value, than its last point.

    They go among the points of the instant, which begin at ``first``, by name.
    """
    for i in range(start, end):
        group = groups[i]
        g = board.groups[group]
        if g["shown"] != 0 and (g["traced"] != g["shown_value"] or carries_another(board, group)):
            g["traced"] = g["shown_value"]
            note_traced(board, group)
            n = out.counts[POINTS]
            out.counts[POINTS] = n + 1
            out.point_key[n], out.point_at[n] = key, at
            if n - first >= SORTED:
                out.counts[UNSORTED] = 1
            else:
                while n > first and g["name"] < board.groups[out.point_group[n - 1]]["name"]:
                    out.point_group[n], out.point_value[n] = out.point_group[n - 1], out.point_value[n - 1]
                    for c in range(len(out.point_carried)):
                        out.point_carried[c, n] = out.point_carried[c, n - 1]
                    n -= 1
            out.point_group[n], out.point_value[n] = group, g["shown_value"]
            for c in range(len(out.point_carried)):
                out.point_carried[c, n] = board.shown_carried[c, group]
