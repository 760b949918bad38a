"""Advance a bucket in one call: process arrivals and time events of every key, for every query."""

from __future__ import annotations

from skyband.operators.base import NEVER, AnyArray
from skyband.operators.jit import jit
from skyband.operators.skyline.kernels.arrivals import take_arrival
from skyband.operators.skyline.kernels.borrowed import borrowed
from skyband.operators.skyline.kernels.events import elapse
from skyband.operators.skyline.kernels.keys import carry_over, load_key, new_table, new_workspace, store_key, trimmed
from skyband.operators.skyline.kernels.positions import drop_before, settle_oldest
from skyband.operators.skyline.kernels.skip import STOP, begin_key, next_counting, plan_stretch, undisturbed
from skyband.operators.skyline.kernels.state import (
    END,
    FIRST,
    LAST,
    NEXT_EVENT,
    SCANNED,
    TESTS,
    TIME,
    Block,
    ChangeRows,
    Retained,
    Settings,
    Shown,
    Table,
    Workspace,
    empty_changes,
)
from skyband.operators.skyline.kernels.tables import upper_bounds
from skyband.operators.skyline.kernels.words import WordLayout
from skyband.operators.windows import UNBOUNDED


@jit
def pass_time(
    key: int, before: int, boundaries_before: int, settings: Settings, queries: AnyArray, retained: Retained, shown: Shown,
    changes: ChangeRows,
) -> ChangeRows:  # fmt: skip
    """Process a key's expiries before ``before`` and boundaries before ``boundaries_before``; ``queries`` (Q, 8). Return the changes."""
    queries, retained, shown = borrowed(queries), borrowed(retained), borrowed(shown)
    rows, slots, marks = retained.rows, retained.slot, retained.marks
    next_event = NEVER
    for query in range(queries.shape[0]):
        changes, instant = elapse(queries[query], query, key, before, boundaries_before, retained, shown, changes)
        next_event = min(next_event, instant)
    if settings.window_micros < UNBOUNDED:
        alive, end = marks[FIRST], marks[END]
        while alive < end and (slots[alive] < 0 or rows[slots[alive], TIME] + settings.window_micros < before):
            alive += 1
        drop_before(alive, retained)
        settle_oldest(retained)
        if alive < end:
            next_event = min(next_event, rows[slots[alive], TIME] + settings.window_micros)
    marks[NEXT_EVENT] = next_event
    return changes


@jit(inline="always")
def advance_key(
    key: int, settings: Settings, layout: WordLayout, block: Block, queries: AnyArray, until: int, work: Workspace,
    changes: ChangeRows,
) -> ChangeRows:  # fmt: skip
    """Process every event < ``until`` of the key at work; ``queries`` (Q, 8) are its own. Return the changes."""
    retained, shown, stretch = work.retained, work.shown, work.stretch
    row, end = block.first[key], block.end[key]
    marks = retained.marks
    skips = settings.skips and end - row > 1
    if skips:
        begin_key(row, stretch)
    while row < end:
        passed = False
        if skips:
            if row >= stretch.marks[STOP]:
                plan_stretch(row, end, settings, layout, block, retained, stretch)
            following = next_counting(row, stretch)
            passed = following > row
            if passed:
                following = undisturbed(row, following, settings, block, queries, retained)
                if following > row:
                    marks[LAST] = block.seq[following - 1]
                    row = following
                    continue
        if settings.timed and marks[NEXT_EVENT] <= block.time[row]:
            changes = pass_time(key, block.time[row] + 1, block.time[row], settings, queries, retained, shown, changes)
        changes = take_arrival(row, passed, key, settings, layout, block, queries, retained, changes)
        row += 1
    if settings.timed and marks[NEXT_EVENT] < until:
        changes = pass_time(key, until, until, settings, queries, retained, shown, changes)
    return changes


@jit
def advance_keys(
    settings: Settings, layout: WordLayout, block: Block, table: Table, active: AnyArray, until: int, counters: AnyArray
) -> tuple[AnyArray, Table]:
    """Process every event < ``until`` of the keys with ``active`` (keys,), bool; copy the others.

    Return change rows (m, 8) as in ``ChangeRows``, and the new table, which shares with ``table`` the arrays changed in place. Add exact
    dominance tests and objects scanned to ``counters`` (2,), int64. O(objects scanned per arrival): see ``scan``.
    """
    objects, rows, longest = upper_bounds(table, block, active)
    room = new_workspace(objects + 1, longest, settings, layout.dead, table)
    new = new_table(table, rows)
    work, after, before = borrowed(room), borrowed(new), borrowed(table)
    changes = empty_changes()
    key = 0
    while key < len(active):
        if active[key]:
            load_key(key, settings.band, before, work.retained, work.shown)
            changes = advance_key(key, settings, borrowed(layout), borrowed(block), before.queries[key], until, work, changes)
            store_key(key, work.retained, work.shown, after)
            key += 1
        else:
            key = carry_over(key, active, before, after)
    counters[0] += room.retained.marks[TESTS]
    counters[1] += room.retained.marks[SCANNED]
    return changes.rows[: changes.size[0]], trimmed(new)
