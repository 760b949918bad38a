"""Different values of each group: a hash table of (owner, value) with the number of rows, where an owner is a slot and a group."""

from __future__ import annotations

from typing import Final

from skyband.operators.groups.kernels.tables import Sets
from skyband.operators.jit import inner, jit

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
