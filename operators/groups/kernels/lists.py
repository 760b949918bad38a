"""Lists of rows per group, in order of arrival, whose first row has the least, greatest, first or last value; and chains of any entries."""

from __future__ import annotations

from skyband.operators.base import I64
from skyband.operators.groups.kernels.tables import FIRST, GREATEST, LEAST, Groups, Rows
from skyband.operators.jit import inner


@inner
def enter_list(rows: Rows, groups: Groups, slot: int, group: int, row: int, argument: int, whole: int, rule: int) -> None:
    """Append a row to the list of its group, after removing the rows that it outdoes for the rest of their lives. O(1) amortized."""
    tail = groups.tail[slot, group]
    while tail >= 0 and outdone(rows, argument, whole, rule, tail, row):
        tail = rows.before_in[slot, tail]
    rows.before_in[slot, row], rows.after_in[slot, row] = tail, -1
    if tail >= 0:
        rows.after_in[slot, tail] = row
    else:
        groups.head[slot, group] = row
    groups.tail[slot, group] = row


@inner
def outdone(rows: Rows, argument: int, whole: int, rule: int, old: int, new: int) -> bool:
    """Return True if an older row need not stay in the list beside a newer one."""
    if rule == LEAST:
        if whole:
            return bool(rows.cells[argument, old] >= rows.cells[argument, new])
        return bool(rows.floats[argument, old] >= rows.floats[argument, new])
    if rule == GREATEST:
        if whole:
            return bool(rows.cells[argument, old] <= rows.cells[argument, new])
        return bool(rows.floats[argument, old] <= rows.floats[argument, new])
    return rule != FIRST


@inner
def leave_list(rows: Rows, groups: Groups, slot: int, group: int, row: int) -> None:
    """Remove a row that is older than all others of the list, if it is still in it."""
    if groups.head[slot, group] != row:
        return
    after = rows.after_in[slot, row]
    groups.head[slot, group] = after
    if after >= 0:
        rows.before_in[slot, after] = -1
    else:
        groups.tail[slot, group] = -1


@inner
def leave_whole_list(rows: Rows, groups: Groups, slot: int, group: int, row: int) -> None:
    """Remove any row from a list that has all rows of its group."""
    unchain(rows.before_in[slot], rows.after_in[slot], groups.head[slot], groups.tail[slot], group, row)


@inner
def unchain(before: I64, after: I64, first: I64, last: I64, owner: int, entry: int) -> None:
    """Remove an entry from the chain of its owner: ``before`` and ``after`` by entry, ``first`` and ``last`` by owner, -1 for none."""
    earlier, later = before[entry], after[entry]
    if earlier >= 0:
        after[earlier] = later
    else:
        first[owner] = later
    if later >= 0:
        before[later] = earlier
    else:
        last[owner] = earlier
