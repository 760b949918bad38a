"""Keep a list per dominator of the objects it is critical for, to find at once the objects that may be promoted when it leaves."""

from __future__ import annotations

from skyband.operators.base import AnyArray
from skyband.operators.jit import jit
from skyband.operators.skyline.kernels.state import CHILD, CRITICAL, CRITICAL_NEXT, DOMINATORS, GONE, NEWER, NEXT, PREVIOUS, SEQ, Retained


@jit(inline="always")
def link(slot: int, parent: int, links: AnyArray) -> None:
    """Put ``slot`` first in the list of ``parent`` (-1: in none); ``links`` (c, 5). O(1)."""
    links[slot, PREVIOUS] = -1
    links[slot, NEXT] = -1
    if parent >= 0:
        following = links[parent, CHILD]
        links[slot, NEXT] = following
        if following >= 0:
            links[following, PREVIOUS] = slot
        links[parent, CHILD] = slot


@jit(inline="always")
def unlink(slot: int, parent: int, links: AnyArray) -> None:
    """Take ``slot`` out of its list; ``parent`` is -1 if it has left already; ``links`` (c, 5). O(1)."""
    previous, following = links[slot, PREVIOUS], links[slot, NEXT]
    if previous >= 0:
        links[previous, NEXT] = following
    elif parent >= 0:
        links[parent, CHILD] = following
    if following >= 0:
        links[following, PREVIOUS] = previous


@jit(inline="always")
def dominator_slot(slot: int, j: int, retained: Retained) -> int:
    """Return the slot of the j-th newest older dominator of ``slot``, -1 if there is none or it has left."""
    found: int = retained.dominators[slot, j]
    if found >= 0 and retained.rows[found, SEQ] != retained.rows[slot, DOMINATORS + j]:
        found = -1  # It left, and its slot is another's.
    return found


@jit(inline="always")
def foresee(fresh: int, dominated: int, band: int, retained: Retained) -> int:
    """Set ``CRITICAL_NEXT`` of the arrival in slot ``fresh`` and of the objects it dominates.

    Return the smallest seq among its own critical dominator and those of the objects it dominates so far: a query's result changes iff that
    is before the query's head. O(dominated).
    """
    rows, links = retained.rows, retained.links
    least: int = rows[fresh, DOMINATORS + band - 1]
    links[fresh, CRITICAL] = GONE
    links[fresh, CRITICAL_NEXT] = least
    links[fresh, CHILD] = -1
    for j in range(dominated):
        slot = retained.dominated[j, 0]
        left = band - 2 - rows[slot, NEWER]
        links[slot, CRITICAL_NEXT] = rows[slot, DOMINATORS + left] if left >= 0 else GONE
        least = min(least, links[slot, CRITICAL])
    return least
