"""Process one arrival: find its place among the retained objects, write its changes, and drop objects that need not be retained."""

from __future__ import annotations

from skyband.operators.base import AnyArray
from skyband.operators.jit import jit
from skyband.operators.skyline.kernels.critical import dominator_slot, foresee, link, unlink
from skyband.operators.skyline.kernels.events import move_head
from skyband.operators.skyline.kernels.positions import close_holes, drop_before, first_from, many_holes, remove_position, settle_oldest
from skyband.operators.skyline.kernels.scan import scan_retained
from skyband.operators.skyline.kernels.state import (
    COUNT,
    CRITICAL,
    CRITICAL_NEXT,
    DOMINATORS,
    END,
    FIRST,
    FREE,
    FRONT,
    GONE,
    HEAD,
    LAST,
    MICROS,
    NEWER,
    NEXT_BOUNDARY,
    NEXT_EVENT,
    OLDEST,
    SEQ,
    SLOTS,
    TIME,
    Block,
    ChangeRows,
    Retained,
    Settings,
    ensure_capacity,
)
from skyband.operators.skyline.kernels.words import WordLayout
from skyband.operators.windows import UNBOUNDED


@jit(inline="always")
def new_object(row: int, band: int, block: Block, retained: Retained) -> int:
    """Write the arrival of ``row`` into a free slot, with its dominators still open; return the slot. O(D)."""
    rows, marks = retained.rows, retained.marks
    keys = block.keys
    fresh: int = marks[SLOTS]
    if marks[FREE] > 0:
        marks[FREE] -= 1
        fresh = retained.free[marks[FREE]]
    else:
        marks[SLOTS] += 1
    rows[fresh, SEQ] = block.seq[row]
    rows[fresh, TIME] = block.time[row]
    rows[fresh, NEWER] = 0
    for j in range(keys.shape[0]):
        rows[fresh, DOMINATORS + band + j] = keys[j, row]
    return fresh


@jit(inline="always")
def show_arrival(
    key: int, seq: int, at: int, fresh: int, dominated: int, least: int, queries: AnyArray, retained: Retained, changes: ChangeRows
) -> ChangeRows:
    """Move the heads of a key's queries (Q, 8) to their places after arrival ``seq``, and write the resulting changes.

    ``least`` is the result of ``foresee``, or ``GONE`` for an object that only occupies the window. Return the changes.
    """
    marks = retained.marks
    for query in range(queries.shape[0]):
        head = max(queries[query, HEAD], seq - queries[query, COUNT] + 1)
        if queries[query, FRONT] < head or least < head:
            changes = ensure_capacity(changes, marks[END] - marks[FIRST] + dominated + 2)
            move_head(queries[query], query, key, at, head, fresh, dominated, retained, changes)
            marks[NEXT_EVENT] = min(marks[NEXT_EVENT], queries[query, NEXT_BOUNDARY])
        else:
            queries[query, HEAD] = head
    return changes


@jit(inline="always")
def count_dominator(dominated: int, band: int, layout: WordLayout, queries: AnyArray, retained: Retained) -> None:
    """Add one newer dominator to each object that the arrival dominates; those with K are no longer retained. O(dominated)."""
    rows, links, marks = retained.rows, retained.links, retained.marks
    for j in range(dominated):
        slot = retained.dominated[j, 0]
        left = band - 1 - rows[slot, NEWER]
        unlink(slot, dominator_slot(slot, left, retained), links)
        rows[slot, NEWER] += 1
        links[slot, CRITICAL] = links[slot, CRITICAL_NEXT]
        if left > 0:
            link(slot, dominator_slot(slot, left - 1, retained), links)
        else:
            retained.free[marks[FREE]] = slot
            marks[FREE] += 1
            remove_position(retained.dominated[j, 1], layout, queries, retained)


@jit(inline="always")
def append_object(fresh: int, word: int, settings: Settings, queries: AnyArray, retained: Retained) -> None:
    """Give the arrival in slot ``fresh`` the next position, with ``word`` (with guard bits); update the queries (Q, 8). O(Q)."""
    rows, links, marks = retained.rows, retained.links, retained.marks
    if many_holes(retained):
        close_holes(queries, retained)
    links[fresh, CRITICAL] = links[fresh, CRITICAL_NEXT]
    link(fresh, retained.dominators[fresh, settings.band - 1], links)
    end = marks[END]
    retained.word[end] = word
    retained.slot[end] = fresh
    if marks[FIRST] == end:
        marks[OLDEST] = rows[fresh, SEQ]
    marks[END] = end + 1
    for query in range(queries.shape[0]):
        queries[query, FRONT] = min(queries[query, FRONT], rows[fresh, SEQ])
        if queries[query, MICROS] < UNBOUNDED:
            marks[NEXT_EVENT] = min(marks[NEXT_EVENT], rows[fresh, TIME] + queries[query, MICROS])
    if settings.window_micros < UNBOUNDED:
        marks[NEXT_EVENT] = min(marks[NEXT_EVENT], rows[fresh, TIME] + settings.window_micros)


@jit(inline="always")
def take_arrival(
    row: int, passed: bool, key: int, settings: Settings, layout: WordLayout, block: Block, queries: AnyArray, retained: Retained,
    changes: ChangeRows,
) -> ChangeRows:  # fmt: skip
    """Process arrival ``row`` of a key; if it is ``passed`` over it only occupies the window. Return the changes.

    O(scanned + dominated + dropped), see ``scan``.
    """
    marks = retained.marks
    seq = block.seq[row]
    marks[LAST] = seq
    keep = seq - settings.window_count + 1
    alive = first_from(keep, retained) if marks[OLDEST] < keep else marks[FIRST]
    fresh, dominated, least = -1, 0, GONE
    if block.usable[row] and not passed:
        fresh = new_object(row, settings.band, block, retained)
        dominated = scan_retained(fresh, block.words[row], alive, settings, layout, retained)
        least = foresee(fresh, dominated, settings.band, retained)
    changes = show_arrival(key, seq, block.time[row], fresh, dominated, least, queries, retained, changes)
    count_dominator(dominated, settings.band, layout, queries, retained)
    if marks[OLDEST] < keep:
        drop_before(alive, retained)
        settle_oldest(retained)
    if fresh >= 0:
        append_object(fresh, block.words[row] + layout.guard, settings, queries, retained)
    return changes
