"""Rows in order: each gets the statistics of the rows before it, and then counts itself."""

from __future__ import annotations

import math

from skyband.operators.base import F64, I64, NULL
from skyband.operators.groups.kernels.advance import DONE, add_row, aggregate, drop_head, lacking, leave_group
from skyband.operators.groups.kernels.deletions import find_row, unlink
from skyband.operators.groups.kernels.tables import COUNT, TOTAL, Feed, State
from skyband.operators.groups.kernels.totals import mean_of_total
from skyband.operators.jit import inner_inlined, jit


@jit
def take_rows(state: State, feed: Feed, key_of: I64, argument_of: I64, size: int, at_least: int, found: F64) -> int:
    """Process the rows of the feed from ``state.groups.clock[1]`` on; return why it stops, ``DONE`` after the last.

    ``key_of`` (rows,): the key of each row. ``argument_of`` (statistics,): the argument of each. ``size``: rows of the window, or
    ``UNBOUNDED``. ``found`` (statistics, rows) gets the values of rows that belong to a group and delete nothing.
    """
    clock = state.groups.clock
    while clock[1] < len(feed.seq):
        why = lacking(state)
        if why != DONE:
            return why
        i = clock[1]
        key = key_of[i]
        deletes = len(feed.target) > 0 and feed.target[i] != NULL
        drop_gone(state, key, feed.time[i], -1 if deletes else feed.seq[i] - size)
        if deletes:
            row = find_row(state, key, feed.target[i])
            if row >= 0:
                unlink(state, key, row)
                leave_group(state, row)
        elif feed.group[i] >= 0:
            note(state, argument_of, feed.group[i], at_least, found, i)
            add_row(state, feed, i, key)
        clock[1] += 1
    return DONE


@inner_inlined
def drop_gone(state: State, key: int, at: int, oldest: int) -> None:
    """Remove the rows of a key that have left the window at an instant, and those with a seq before ``oldest``."""
    head = state.keys.head[key]
    while head >= 0 and (state.rows.expiry[head] <= at or state.rows.seq[head] < oldest):
        drop_head(state, key)
        head = state.keys.head[key]


@inner_inlined
def note(state: State, argument_of: I64, group: int, at_least: int, found: F64, i: int) -> None:
    """Write the statistics of a group as those of row ``i``."""
    for s in range(len(state.layout.code)):
        known = state.groups.known[argument_of[s], group]
        if state.layout.code[s] == COUNT:
            found[s, i] = known
        elif known < at_least:
            found[s, i] = math.nan
        elif state.layout.code[s] == TOTAL:
            scale, digits = state.layout.scale[s], state.moments.digits
            found[s, i] = mean_of_total(state.totals, state.layout.slot[s], group, 1, scale, digits)
        else:
            found[s, i] = aggregate(state, s, group)
