"""Who is whose critical dominator: one list of objects per dominator, so that who may be promoted when it leaves is found at once."""

from __future__ import annotations

from skyband.operators.base import AnyArray
from skyband.operators.jit import jit
from skyband.operators.skyline.kernels.state import CHILD, CRITICAL, CRITICAL_NEXT, DOMINATORS, GONE, NEWER, NEXT, PREVIOUS, SEQ, Retained


@jit(inline="always")
def link(s: int, parent: int, links: AnyArray) -> None:
    """Put slot s first in the list of ``parent`` (-1: in none); ``links`` (c, 5). O(1)."""
    links[s, PREVIOUS] = -1
    links[s, NEXT] = -1
    if parent >= 0:
        following = links[parent, CHILD]
        links[s, NEXT] = following
        if following >= 0:
            links[following, PREVIOUS] = s
        links[parent, CHILD] = s


@jit(inline="always")
def unlink(s: int, parent: int, links: AnyArray) -> None:
    """Take slot s out of its list; ``parent`` is -1 if it has left already; ``links`` (c, 5). O(1)."""
    previous, following = links[s, PREVIOUS], links[s, NEXT]
    if previous >= 0:
        links[previous, NEXT] = following
    elif parent >= 0:
        links[parent, CHILD] = following
    if following >= 0:
        links[following, PREVIOUS] = previous


@jit(inline="always")
def dominator_slot(s: int, j: int, retained: Retained) -> int:
    """The slot of the j-th newest older dominator of slot s, -1 if there is none or it has left."""
    found: int = retained.dominators[s, j]
    if found >= 0 and retained.rows[found, SEQ] != retained.rows[s, DOMINATORS + j]:
        found = -1  # it left and its slot is another's
    return found


@jit(inline="always")
def foresee(fresh: int, dominated: int, band: int, retained: Retained) -> int:
    """Set ``CRITICAL_NEXT`` of the arrival in slot ``fresh`` and of what it dominates.

    Returns the smallest seq among its own critical dominator and those of what it dominates so far: a query's result changes iff that
    is before the query's head. O(dominated).
    """
    rows, links = retained.rows, retained.links
    least: int = rows[fresh, DOMINATORS + band - 1]
    links[fresh, CRITICAL] = GONE
    links[fresh, CRITICAL_NEXT] = least
    links[fresh, CHILD] = -1
    for j in range(dominated):
        s = retained.dominated[j, 0]
        left = band - 2 - rows[s, NEWER]
        links[s, CRITICAL_NEXT] = rows[s, DOMINATORS + left] if left >= 0 else GONE
        least = min(least, links[s, CRITICAL])
    return least
