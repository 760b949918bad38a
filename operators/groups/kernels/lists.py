"""Lists and sets of each group: rows in order of arrival, and different values.

The first row of a list has the least, greatest, first or last value; there are chains of any entries, too.
"""

from __future__ import annotations

from typing import Final

from skyband.operators.base import I64
from skyband.operators.groups.kernels.tables import FIRST, GREATEST, LEAST, Groups, Rows, Sets
from skyband.operators.jit import inner, jit


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


# Different values of each group: a hash table of (owner, value) with the number of rows, where an owner is a slot and a group.


_HALF: Final = (1 << 31) - 1


@inner
def home(owner: int, value: int, places: int) -> int:
    """Return the first place to look at; ``places`` is a power of 2. No product leaves 63 bits."""
    h = (value & _HALF) * 0x2545F491 + ((value >> 31) & _HALF) * 0x1B873593 + (owner & _HALF) * 0x3C6EF372
    h ^= h >> 29
    h = (h & _HALF) * 0x45D9F3B5 + (h >> 31)
    h ^= h >> 32
    return h & (places - 1)


@inner
def place_of(sets: Sets, owner: int, value: int) -> int:
    """Return the place of a value, or the free place for it."""
    places = len(sets.owner)
    at = home(owner, value, places)
    while sets.owner[at] >= 0 and (sets.owner[at] != owner or sets.value[at] != value):
        at = (at + 1) & (places - 1)
    return at


@inner
def enter_set(sets: Sets, owner: int, value: int) -> int:
    """Count a row more; return 1 if the value is new, else 0. There must be free places."""
    at = place_of(sets, owner, value)
    if sets.owner[at] < 0:
        sets.owner[at], sets.value[at], sets.rows[at] = owner, value, 1
        sets.used[0] += 1
        return 1
    sets.rows[at] += 1
    return 0


@inner
def leave_set(sets: Sets, owner: int, value: int) -> int:
    """Count a row less; return 1 if it was the last with its value, else 0."""
    at = place_of(sets, owner, value)
    sets.rows[at] -= 1
    if sets.rows[at] > 0:
        return 0
    sets.used[0] -= 1
    places = len(sets.owner)
    following = (at + 1) & (places - 1)
    while sets.owner[following] >= 0:  # close the gap, so that every value is found from its home on
        start = home(sets.owner[following], sets.value[following], places)
        if (following - start) & (places - 1) >= (following - at) & (places - 1):
            sets.owner[at], sets.value[at], sets.rows[at] = sets.owner[following], sets.value[following], sets.rows[following]
            at = following
        following = (following + 1) & (places - 1)
    sets.owner[at] = -1
    return 1


@jit
def move_sets(old: Sets, new: Sets) -> None:
    """Copy all values to a larger table."""
    for i in range(len(old.owner)):
        if old.owner[i] >= 0:
            at = place_of(new, old.owner[i], old.value[i])
            new.owner[at], new.value[at], new.rows[at] = old.owner[i], old.value[i], old.rows[i]
            new.used[0] += 1
