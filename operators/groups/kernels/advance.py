"""First stage: the events of a call, and the aggregates of the groups that each event touched."""

from __future__ import annotations

import math
from typing import Final

from skyband.operators.base import I64, NEVER, NULL
from skyband.operators.groups.kernels.carried import cell_of, note_cells
from skyband.operators.groups.kernels.deletions import add_to_index, drop_from_index, find_row, unlink
from skyband.operators.groups.kernels.lists import enter_list, enter_set, leave_list, leave_set, leave_whole_list, unchain
from skyband.operators.groups.kernels.order import enter_order, leave_order, row_at
from skyband.operators.groups.kernels.sums import add_number, add_whole, clear, rounded
from skyband.operators.groups.kernels.tables import (
    COUNT,
    COUNT_ROWS,
    DELETED,
    DISTINCT,
    END,
    EXPIRED,
    MEAN,
    NEWEST,
    QUANTILE,
    TOTAL,
    TOTAL_LOW,
    TOTAL_MEAN,
    VAR_POP,
    Events,
    Feed,
    Keys,
    Rows,
    Sessions,
    State,
    Window,
)
from skyband.operators.groups.kernels.totals import change_moments, change_total, code_of_total, limb_of_total, mean_of_total, spread
from skyband.operators.jit import inner, inner_inlined, jit

# Sessions: the rows of each group in order, and the groups of each key in the order in which they fall silent.


@inner
def next_end(sessions: Sessions, key: int) -> int:
    """Return the instant at which the next session of a key ends, or ``NEVER``."""
    group = sessions.soonest[key]
    return int(sessions.deadline[group]) if group >= 0 else NEVER


@inner
def enter_session(sessions: Sessions, key: int, group: int, row: int, before: int, time: int) -> None:
    """Append a row to its group, after the row ``before`` of its key, and make the group the last of the queue."""
    sessions.before[row], sessions.following[row] = before, -1
    if sessions.first[group] < 0:
        sessions.first[group] = row
    else:
        sessions.following[sessions.last[group]] = row
        leave_queue(sessions, key, group)
    sessions.last[group], sessions.deadline[group] = row, time + sessions.silence[0]
    latest = sessions.latest[key]
    sessions.earlier[group], sessions.later[group] = latest, -1
    if latest >= 0:
        sessions.later[latest] = group
    else:
        sessions.soonest[key] = group
    sessions.latest[key] = group


@inner
def leave_session(sessions: Sessions, rows: Rows, keys: Keys, key: int, row: int) -> None:
    """Remove a row, the first of its group, from its key and group; a group without rows leaves the queue."""
    unchain(sessions.before, rows.after, keys.head, keys.tail, key, row)
    group = rows.group[row]
    sessions.first[group] = sessions.following[row]
    if sessions.following[row] < 0:
        leave_queue(sessions, key, group)


@inner
def leave_queue(sessions: Sessions, key: int, group: int) -> None:
    """Remove a group from the queue of its key."""
    unchain(sessions.earlier, sessions.later, sessions.soonest, sessions.latest, key, group)


KEY, ROW, EVENTS, RECORDS = range(4)
"""``Events.counts``."""

DONE, POOL, PLACES, MOMENTS = range(4)
"""Answers of ``advance``: all is done; too few rows in the pool of sums, places in the table of sets, rows in the pool of moments."""

NO_ROW: Final = -1


@jit
def advance(state: State, feed: Feed, window: Window, events: Events) -> int:
    """Process the keys of the job from where ``events.counts`` says; return why it stops."""
    counts = events.counts
    while counts[KEY] < len(feed.job):
        j = counts[KEY]
        if counts[ROW] < feed.first[j]:
            counts[ROW] = feed.first[j]
            events.first_of_key[j] = counts[EVENTS]
        why = advance_key(state, feed, window, events, feed.job[j], feed.end[j])
        if why != DONE:
            return why
        counts[KEY] += 1
        counts[ROW] = -1
    events.first_of_key[len(feed.job)] = counts[EVENTS]
    events.record[counts[EVENTS]] = counts[RECORDS]
    return DONE


@inner_inlined
def advance_key(state: State, feed: Feed, window: Window, events: Events, key: int, end: int) -> int:
    """Process the expiries and arrivals of one key, in order."""
    counts, rows = events.counts, state.rows
    while True:
        head, arriving = state.keys.head[key], counts[ROW]
        expiry = rows.expiry[head] if head >= 0 else NEVER
        if state.sessions.silence[0] > 0:
            expiry = min(expiry, next_end(state.sessions, key))
        arrives = expiry >= window.until or (arriving < end and expiry > feed.time[arriving])
        at, oldest, group, deleted = expiry, 0, EXPIRED, NO_ROW
        if arrives:
            if arriving >= end:
                return DONE
            why = lacking(state)
            if why != DONE:
                return why
            at = feed.time[arriving]
            counts[ROW] = arriving + 1
            if len(feed.target) > 0 and feed.target[arriving] != NULL:
                group, deleted = NO_ROW, find_row(state, key, feed.target[arriving])
                if deleted < 0:
                    continue
            else:
                oldest, group = feed.seq[arriving] - window.size + 1, feed.group[arriving]
                state.keys.next_seq[key] = feed.seq[arriving] + 1
        state.groups.clock[0] += 1
        touched = 0
        while head >= 0 and (rows.seq[head] < oldest if arrives else rows.expiry[head] == expiry):
            touched = touch(state, events, rows.group[head], touched)
            drop_head(state, key)
            head = state.keys.head[key]
        if state.sessions.silence[0] > 0 and not arrives:
            touched = end_sessions(state, events, key, expiry, touched)
        if group >= 0:
            touched = touch(state, events, group, touched)
            add_row(state, feed, arriving, key)
        if deleted >= 0:
            touched = touch(state, events, rows.group[deleted], touched)
            unlink(state, key, deleted)
            leave_group(state, deleted)
        if touched > 0:
            note(state, events, at, group, touched)
            last = counts[RECORDS] - 1
            if deleted >= 0 and events.alive[last] == 0:
                events.alive[last] = DELETED


@inner
def end_sessions(state: State, events: Events, key: int, at: int, touched: int) -> int:
    """Remove the rows of the groups of a key whose sessions end at an instant; return the number of touched groups."""
    sessions = state.sessions
    group = sessions.soonest[key]
    while group >= 0 and sessions.deadline[group] == at:
        touched = touch(state, events, group, touched)
        row = sessions.first[group]
        while row >= 0:
            following = sessions.following[row]
            drop_row(state, key, row)
            row = following
        group = sessions.soonest[key]
    return touched


@jit
def add_rows(state: State, feed: Feed, key_of: I64) -> int:
    """Add the rows of the feed from ``state.groups.clock[1]`` on, without events; return why it stops."""
    clock = state.groups.clock
    while clock[1] < len(feed.seq):
        why = lacking(state)
        if why != DONE:
            return why
        add_row(state, feed, clock[1], key_of[clock[1]])
        clock[1] += 1
    return DONE


@inner_inlined
def lacking(state: State) -> int:
    """Return what has too little room for another row, or ``DONE``."""
    if state.sums.spare[0] < len(state.layout.sum_of):
        return POOL
    if 2 * (state.sets.used[0] + len(state.layout.set_of)) > len(state.sets.owner):
        return PLACES
    return MOMENTS if state.moments.sums.spare[0] < 2 * len(state.layout.moments_of) else DONE


@jit
def look(state: State, events: Events) -> None:
    """Make a record of every group that has rows, as of one event."""
    touched = 0
    for group in range(len(state.groups.alive)):
        if state.groups.alive[group] > 0:
            events.touched[touched] = group
            touched += 1
    note(state, events, 0, NO_ROW, touched)


@inner_inlined
def touch(state: State, events: Events, group: int, touched: int) -> int:
    """Note that the event touches a group; return the number of groups."""
    if state.groups.mark[group] == state.groups.clock[0]:
        return touched
    state.groups.mark[group] = state.groups.clock[0]
    events.touched[touched] = group
    return touched + 1


@inner_inlined
def note(state: State, events: Events, at: int, arrived: int, touched: int) -> None:
    """End an event that touched groups: write its records."""
    counts, groups = events.counts, state.groups
    e, r = counts[EVENTS], counts[RECORDS]
    events.at[e], events.arrived[e], events.record[e] = at, arrived, r
    for i in range(touched):
        group = events.touched[i]
        events.group[r + i], events.alive[r + i] = group, groups.alive[group]
        for a in range(len(state.layout.code)):
            if state.layout.coded[a] != 0:
                events.codes[a, r + i] = whole_aggregate(state, a, group)
            else:
                events.values[a, r + i] = aggregate(state, a, group)
        note_cells(state, events, r + i, group)
    counts[EVENTS], counts[RECORDS] = e + 1, r + touched


@inner_inlined
def add_row(state: State, feed: Feed, arriving: int, key: int) -> None:
    """Add an arriving row to its key and group. There must be a free row."""
    layout, rows, groups, group = state.layout, state.rows, state.groups, feed.group[arriving]
    rows.spare[0] -= 1
    row = rows.free[rows.spare[0]]
    rows.expiry[row], rows.seq[row], rows.group[row], rows.after[row] = feed.expiry[arriving], feed.seq[arriving], group, -1
    for a in range(len(layout.whole)):
        rows.cells[a, row] = feed.cells[a, arriving]
    if state.sessions.silence[0] > 0:
        before = state.keys.tail[key] if state.keys.head[key] >= 0 else -1
        enter_session(state.sessions, key, group, row, before, feed.time[arriving])
    if state.keys.head[key] < 0:
        state.keys.head[key] = row
    else:
        rows.after[state.keys.tail[key]] = row
    add_to_index(state, key, row)
    state.keys.tail[key] = row
    groups.alive[group] += 1
    for a in range(len(layout.whole)):
        if is_known(state, a, row):
            groups.known[a, group] += 1
    for s in range(len(layout.sum_of)):
        if is_known(state, layout.sum_of[s], row):
            change_sum(state, s, group, row, 1)
    for s in range(len(layout.list_of)):
        a = layout.list_of[s]
        if is_known(state, a, row):
            enter_list(rows, groups, s, group, row, a, layout.whole[a], layout.rule[s])
    for s in range(len(layout.set_of)):
        if is_known(state, layout.set_of[s], row):
            owner = group * len(layout.set_of) + s
            groups.different[s, group] += enter_set(state.sets, owner, rows.cells[layout.set_of[s], row])
    for s in range(len(layout.order_of)):
        a = layout.order_of[s]
        if is_known(state, a, row):
            enter_order(state.order, rows, s, group, row, a, layout.whole[a])
    for s in range(len(layout.moments_of)):
        a = layout.moments_of[s]
        if is_known(state, a, row):
            change_moments(state.moments, s, group, rows.cells[a, row], layout.whole[a], 1)
    for s in range(len(layout.total_of)):
        a = layout.total_of[s]
        if is_known(state, a, row):
            change_total(state.totals, s, group, rows.cells[a, row], 1)


@inner_inlined
def drop_head(state: State, key: int) -> None:
    """Remove the first row of a key from the key and its group."""
    drop_row(state, key, state.keys.head[key])


@inner_inlined
def drop_row(state: State, key: int, row: int) -> None:
    """Remove a row from its key and group. Without sessions it is the first of the key, with them the first of its group."""
    if state.sessions.silence[0] > 0:
        leave_session(state.sessions, state.rows, state.keys, key, row)
    else:
        state.keys.head[key] = state.rows.after[row]
    drop_from_index(state, key, row)
    leave_group(state, row)


@inner_inlined
def leave_group(state: State, row: int) -> None:
    """Remove a row from its group: the oldest one, or any one where rows can be deleted. The row is free then."""
    layout, rows, groups = state.layout, state.rows, state.groups
    group = rows.group[row]
    groups.alive[group] -= 1
    for a in range(len(layout.whole)):
        if is_known(state, a, row):
            groups.known[a, group] -= 1
    for s in range(len(layout.sum_of)):
        if is_known(state, layout.sum_of[s], row):
            change_sum(state, s, group, row, -1)
            if groups.known[layout.sum_of[s], group] == 0:
                clear(state.sums, s, group)
    for s in range(len(layout.list_of)):
        if len(rows.before) == 0:
            leave_list(rows, groups, s, group, row)
        elif is_known(state, layout.list_of[s], row):
            leave_whole_list(rows, groups, s, group, row)
    for s in range(len(layout.set_of)):
        if is_known(state, layout.set_of[s], row):
            owner = group * len(layout.set_of) + s
            groups.different[s, group] -= leave_set(state.sets, owner, rows.cells[layout.set_of[s], row])
    for s in range(len(layout.order_of)):
        a = layout.order_of[s]
        if is_known(state, a, row):
            leave_order(state.order, rows, s, group, row, a, layout.whole[a])
    for s in range(len(layout.moments_of)):
        a = layout.moments_of[s]
        if is_known(state, a, row):
            change_moments(state.moments, s, group, rows.cells[a, row], layout.whole[a], -1)
            if groups.known[a, group] == 0:
                clear(state.moments.sums, 2 * s, group)
                clear(state.moments.sums, 2 * s + 1, group)
    for s in range(len(layout.total_of)):
        a = layout.total_of[s]
        if is_known(state, a, row):
            change_total(state.totals, s, group, rows.cells[a, row], -1)
    rows.free[rows.spare[0]] = row
    rows.spare[0] += 1


@inner_inlined
def is_known(state: State, argument: int, row: int) -> bool:
    """Return True if the row's value is not null."""
    if state.layout.whole[argument] != 0:
        return bool(state.rows.cells[argument, row] != NULL)
    return bool(state.rows.floats[argument, row] == state.rows.floats[argument, row])


@inner_inlined
def change_sum(state: State, slot: int, group: int, row: int, sign: int) -> None:
    """Add or subtract the value of a row."""
    argument = state.layout.sum_of[slot]
    if state.layout.whole[argument] != 0:
        add_whole(state.sums, slot, group, state.rows.cells[argument, row], sign)
    else:
        add_number(state.sums, slot, group, state.rows.cells[argument, row], sign)


@inner_inlined
def value_of(state: State, argument: int, row: int) -> float:
    """Return a value that is not null."""
    if state.layout.whole[argument] != 0:
        return float(state.rows.cells[argument, row])
    return float(state.rows.floats[argument, row] + 0.0)


@inner_inlined
def aggregate(state: State, a: int, group: int) -> float:
    """Return an aggregate of a group; NaN for null."""
    layout, code, slot = state.layout, state.layout.code[a], state.layout.slot[a]
    if code == COUNT_ROWS:
        return float(state.groups.alive[group])
    if code == COUNT:
        return float(state.groups.known[slot, group])
    if code == DISTINCT:
        return float(state.groups.different[slot, group])
    if code == END:
        row = state.groups.head[slot, group]
        return math.nan if row < 0 else value_of(state, layout.list_of[slot], row)
    if code == NEWEST:
        row = state.groups.tail[slot, group]
        return math.nan if row < 0 else value_of(state, layout.list_of[slot], row)
    if code == QUANTILE:
        known = state.groups.known[layout.order_of[slot], group]
        if known == 0:
            return math.nan
        place = (known * layout.share[a, 0] + layout.share[a, 1] - 1) // layout.share[a, 1] - 1
        return value_of(state, layout.order_of[slot], row_at(state.order, slot, group, place))
    if code == TOTAL_MEAN:
        known = state.groups.known[layout.total_of[slot], group]
        return math.nan if known == 0 else mean_of_total(state.totals, slot, group, known, layout.scale[a], state.moments.digits)
    if code >= VAR_POP:
        known = state.groups.known[layout.moments_of[slot], group]
        return spread(state.moments, slot, group, known, code, layout.scale[a])
    known = state.groups.known[layout.sum_of[slot], group]
    if known == 0:
        return math.nan
    return rounded(state.sums, slot, group, known if code == MEAN else 1)


@inner
def whole_aggregate(state: State, a: int, group: int) -> int:
    """Return an aggregate of decimals as a code (``totals``), or one of whole numbers or its limb; ``NULL`` for null."""
    layout, code, slot = state.layout, state.layout.code[a], state.layout.slot[a]
    if code in (END, NEWEST, QUANTILE):
        return cell_of(state, a, group)
    if state.groups.known[layout.total_of[slot], group] == 0:
        return NULL
    if code == TOTAL:
        return code_of_total(state.totals, slot, group)
    return limb_of_total(state.totals, slot, group, code == TOTAL_LOW)
