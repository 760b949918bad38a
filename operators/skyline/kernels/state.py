"""The arrays of the skyline kernels as named tuples, and the columns of their rows.

The state of a bucket is flat, grouped by key (``Table``). The key at work is unpacked into *slots* and *positions* (``Retained``): an
object stays in its slot as long as it is retained; positions FIRST <= p < END list the slots in seq order, -1 where one was removed.
Numba takes a named tuple apart for free, but cannot change one: numbers that change stand in the array ``marks``.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skyband.operators.base import AnyArray
from skyband.operators.jit import jit

SEQ, TIME, NEWER, DOMINATORS = range(4)
"""Columns of an object row (3 + K + D): seq, time, number of newer dominators; from ``DOMINATORS`` on the seqs of the K newest older
dominators, newest first (-1: none), then the keys of the D dimensions, the ordered ones first."""

COUNT, MICROS, EVERY, HEAD, POSITION, FRONT, NEXT_BOUNDARY, STEP = range(8)
"""Fields of a query of a key: its window (UNBOUNDED: no such end); boundary length (0: none); first seq alive; first position alive and
the seq there (NEVER: none), set while the key is at work; next boundary (NEVER if nothing changed since the last); steps so far."""

CRITICAL, CRITICAL_NEXT, CHILD, NEXT, PREVIOUS = range(5)
"""Columns of ``links``, by slot: seq of the critical dominator before and after the event at work (see ``events``); slot of the first
object it is the critical dominator of; next and previous slot of the list the object itself is in so (-1: none)."""

FIRST, END, SLOTS, FREE, HOLES, COARSE_END, OLDEST, LAST, NEXT_EVENT, TESTS, SCANNED = range(11)
"""Places in ``marks``: first position and the one after the last; slots ever used; free slots among them; positions without an object;
end of the positions with coarse words; a lower bound of the oldest retained seq (NEVER: none); last seq; next instant at which something
happens without an arrival; exact dominance tests and objects scanned, over all keys."""

DELETED: int = 2
"""Column of a shown list after seq and time, only in skylines with deletions: whether the object was deleted since."""

GONE: int = 2**62
"""The critical dominator of an object with K newer dominators."""

ORPHANS: int = 64
"""Up to this many objects that may be promoted by an event are found without a scan."""


class Settings(NamedTuple):
    """The constants of a state. Windows are UNBOUNDED where they have no such end."""

    band: int
    """K."""
    ordered: int
    """Dimensions with an order; the others must be equal for objects to be compared."""
    distinct: bool
    """Whether a newer equal object is a dominator."""
    window_count: int
    """The state's window in objects."""
    window_micros: int
    """The state's window in microseconds."""
    least_count: int
    """The smallest window of a query, in objects."""
    least_micros: int
    """The smallest window of a query, in microseconds."""
    timed: bool
    """Whether something can happen without an arrival: an end in time or a boundary."""
    skips: bool
    """Whether words alone can prove dominance: K = 1, one level, and every dimension is ordered and has a field of its own."""
    level_ends: int
    """Bit j is set if ordered dimension j is the last of its level; 0 for one level."""


class Block(NamedTuple):
    """The n arrivals of one call, grouped by key, in seq order."""

    first: AnyArray
    """(keys,) int64: the key's first row."""
    end: AnyArray
    """(keys,) int64: the row after its last."""
    seq: AnyArray
    """(n,) int64."""
    time: AnyArray
    """(n,) int64, microseconds."""
    keys: AnyArray
    """(D, n) int64: the exactly compared values (``words``)."""
    words: AnyArray
    """(n,) int64, without guard bits."""
    usable: AnyArray
    """(n,) uint8: 0 for objects that only occupy the window."""


class Table(NamedTuple):
    """The state of all keys: r retained objects, Q queries, s objects shown by queries with boundaries."""

    start: AnyArray
    """(keys + 1,) int64: rows start[k] .. start[k + 1] are key k's."""
    rows: AnyArray
    """(r, 3 + K + D) int64: object rows in seq order."""
    words: AnyArray
    """(r,) int64, with guard bits."""
    last: AnyArray
    """(keys,) int64: last seq, -1 for none. Changed in place."""
    due: AnyArray
    """(keys,) int64: the next instant at which something happens without an arrival, or NEVER. Changed in place."""
    queries: AnyArray
    """(keys, Q, 8) int64: see ``COUNT``. Changed in place."""
    shown_start: AnyArray
    """(keys * Q + 1,) int64, or (1,) without boundaries: query w of key k shows shown[shown_start[k * Q + w]] .."""
    shown: AnyArray
    """(s, 2) int64: seq and time, newest first."""


class Retained(NamedTuple):
    """The retained objects of the key at work, c slots."""

    rows: AnyArray
    """(c, 3 + K + D) int64, by slot: object rows."""
    links: AnyArray
    """(c, 5) int64, by slot: see ``CRITICAL``."""
    dominators: AnyArray
    """(c, K) int64, by slot: slots of the older dominators, which may have left since; -1 for none."""
    free: AnyArray
    """(c,) int64: stack of marks[FREE] free slots."""
    word: AnyArray
    """(c + 64,) int64, by position: words with guard bits; dead ones in front, and where there is no object."""
    coarse: AnyArray
    """(c + 64,) int32, by position: coarse words, up to marks[COARSE_END]."""
    slot: AnyArray
    """(c + 64,) int64, by position: slots in seq order, -1 where there is no object."""
    dominated: AnyArray
    """(c, 2) int64: slot and position of the objects that the arrival at work dominates, newest first."""
    orphans: AnyArray
    """(64,) int64: slots of objects whose critical dominator leaves."""
    marks: AnyArray
    """(11,) int64: see ``FIRST``."""


class Shown(NamedTuple):
    """The results that the queries with boundaries of the key at work showed last; unused without such queries."""

    lists: AnyArray
    """(Q, longest, 2) int64: seq and time, newest first."""
    length: AnyArray
    """(Q,) int64."""
    members: AnyArray
    """(longest, 2) int64: room for the next shown list."""


class Stretch(NamedTuple):
    """The stretch of arrivals of the key at work that the kernels look ahead over."""

    ahead: AnyArray
    """(128,) int64: words with guard bits of arrivals that nothing newer dominates, then dead ones."""
    known: AnyArray
    """(64,) int64: words with guard bits of objects that dominated an arrival, or dead ones."""
    known_seq: AnyArray
    """(64,) int64: their seqs, -1 for none."""
    following: AnyArray
    """(1024,) int64: for each of its rows, counted from its first, the first one from there on that is not passed over."""
    marks: AnyArray
    """(4,) int64: see ``skip.BEGIN``."""


class Workspace(NamedTuple):
    """Room for the key at work."""

    retained: Retained
    shown: Shown
    stretch: Stretch


class ChangeRows(NamedTuple):
    """The changes of a call, in the order they are found."""

    rows: AnyArray
    """(room, 8) int64: query, key, at, step, pos, sign, cause, seq."""
    size: AnyArray
    """(1,) int64: how many there are."""


@jit
def empty_changes() -> ChangeRows:
    """Return room for changes."""
    return ChangeRows(np.empty((1024, 8), np.int64), np.zeros(1, np.int64))


@jit
def enlarged(changes: ChangeRows, need: int) -> ChangeRows:
    """Return the changes in twice the room for them and ``need`` more."""
    count = changes.size[0]
    rows = np.empty((2 * (count + need), 8), np.int64)
    for i in range(count):
        for j in range(8):
            rows[i, j] = changes.rows[i, j]
    return ChangeRows(rows, changes.size)


@jit(inline="always")
def ensure_capacity(changes: ChangeRows, need: int) -> ChangeRows:
    """Return the changes with room for ``need`` more."""
    if changes.size[0] + need > changes.rows.shape[0]:
        changes = enlarged(changes, need)
    return changes
