"""The arrays of the kernels of skylines with deletions, and the columns of their rows.

A dominated object can come back when its dominators are deleted, so every alive object of the window is kept. Each has up to K
*witnesses*: alive objects that dominate it. K witnesses in a window prove that the object is not in the result, so nothing else is known of
most objects. An object that may be in some result is *tracked*: its witnesses are its K newest dominators, and every arrival is compared
with it.

The state of a bucket is flat, grouped by key (``WindowTable``). The key at work is unpacked into *positions* in seq order
(``WindowObjects``).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skyband.operators.base import AnyArray
from skyband.operators.jit import maker

KEYS: int = 2
"""Columns of an object row (2 + D): seq and time (``state.SEQ``, ``state.TIME``), then from here on the keys of the D dimensions."""

CHUNK: int = 64
"""So many objects are compared at once."""

BEFORE, AFTER = range(2)
"""Columns of ``critical``: the seq of the K-th newest witness before and after the event at work, -1 for fewer than K witnesses. An object
is in the result of a window iff ``critical < head <= seq``, with the first seq ``head`` alive in the window."""

FIRST, END, TRACKED, LAST, NEXT_EVENT, EVENT, TESTS = range(7)
"""Places in ``marks``: first position and the one after the last; number of tracked objects; last seq; next instant at which something
happens without an arrival; number of the event at work; dominance tests, over all keys."""


class WindowSettings(NamedTuple):
    """The constants of a state."""

    band: int
    """K."""
    ordered: int
    """Dimensions with an order; the others must be equal for objects to be compared."""
    distinct: bool
    """Whether a newer equal object is a dominator."""
    queries: int
    """How many of the windows belong to queries; one more may be the state's window."""
    largest: int
    """Which window is the state's: it contains all others."""
    timed: bool
    """Whether something can happen without an arrival: an end in time or a boundary."""
    first_level: int
    """How many of the dimensions with an order are in the first level; the same as ``ordered`` for one level."""
    level_ends: int
    """Bit j is set if ordered dimension j is the last of its level; 0 for one level."""


class WindowBlock(NamedTuple):
    """The n rows of one call, grouped by key: objects in seq order, and deletions among them."""

    first: AnyArray
    """(keys,) int64: the key's first row."""
    end: AnyArray
    """(keys,) int64: the row after its last."""
    seq: AnyArray
    """(n,) int64: -1 for deletions."""
    target: AnyArray
    """(n,) int64: the seq that a deletion deletes."""
    time: AnyArray
    """(n,) int64, microseconds."""
    keys: AnyArray
    """(D, n) int64: the exactly compared values (``words``)."""
    usable: AnyArray
    """(n,) uint8: 0 for objects that only occupy the window."""


class WindowTable(NamedTuple):
    """The state of all keys: r alive objects, Q windows, s objects shown by queries with boundaries."""

    start: AnyArray
    """(keys + 1,) int64: rows start[k] .. start[k + 1] are key k's."""
    rows: AnyArray
    """(r, 2 + D) int64: object rows in seq order."""
    witness: AnyArray
    """(r, K) int64: witnesses, counted from the key's first row, in any order; -1 for none."""
    critical: AnyArray
    """(r,) int64: see ``BEFORE``."""
    tracked: AnyArray
    """(r,) uint8."""
    last: AnyArray
    """(keys,) int64: last seq, -1 for none. Changed in place."""
    due: AnyArray
    """(keys,) int64: the next instant at which something happens without an arrival, or NEVER. Changed in place."""
    queries: AnyArray
    """(keys, Q, 8) int64: see ``state.COUNT``. Changed in place."""
    shown_start: AnyArray
    """(keys * Q + 1,) int64, or (1,) without boundaries: window w of key k shows shown[shown_start[k * Q + w]] .."""
    shown: AnyArray
    """(s, 3) int64: seq, time and whether it was deleted since, newest first."""


class WindowObjects(NamedTuple):
    """The alive objects of the key at work, c positions."""

    rows: AnyArray
    """(c, 2 + D) int64: object rows."""
    columns: AnyArray
    """(D, c) int64: the keys again, by dimension, so that many objects are compared at once."""
    dead: AnyArray
    """(c,) uint8: whether the object was deleted."""
    witness: AnyArray
    """(c, K) int64: positions of witnesses, in any order; -1 for none. Entry j of position i is *node* i * K + j."""
    node: AnyArray
    """(c,) int64: the first node that names the position, or -1."""
    next: AnyArray
    """(c * K,) int64: the next node that names the same position, or -1."""
    previous: AnyArray
    """(c * K,) int64: the node before, or -1."""
    critical: AnyArray
    """(c, 2) int64: see ``BEFORE``."""
    place: AnyArray
    """(c,) int64: the object's place in ``tracked``, or -1."""
    tracked: AnyArray
    """(c,) int64: positions of the tracked objects, in any order."""
    tracked_columns: AnyArray
    """(D, c) int64: their keys, by dimension."""
    hits: AnyArray
    """(64,) int64: which objects of a chunk pass a test."""
    dominated: AnyArray
    """(c,) int64: positions of the tracked objects that the arrival at work dominates, newest first."""
    touched: AnyArray
    """(c,) int64: positions of the objects that lose a witness."""
    seen: AnyArray
    """(c,) int64: the last event in which the object was put into ``touched``."""
    marks: AnyArray
    """(7,) int64: see ``FIRST``."""


class WindowShown(NamedTuple):
    """The results that the queries with boundaries of the key at work showed last; unused without such queries."""

    lists: AnyArray
    """(Q, longest, 3) int64: seq, time and whether it was deleted since, newest first."""
    length: AnyArray
    """(Q,) int64."""
    positions: AnyArray
    """(longest,) int64: room for the positions of members."""
    members: AnyArray
    """(longest, 3) int64: room for the next shown list."""


@maker
def new_objects(room: int, band: int, columns: int) -> WindowObjects:
    """Return space for ``room`` objects with rows of ``columns``."""
    return WindowObjects(
        np.empty((room, columns), np.int64),
        np.empty((columns - KEYS, room), np.int64),
        np.zeros(room, np.uint8),
        np.empty((room, band), np.int64),
        np.empty(room, np.int64),
        np.empty(room * band, np.int64),
        np.empty(room * band, np.int64),
        np.empty((room, 2), np.int64),
        np.empty(room, np.int64),
        np.empty(room, np.int64),
        np.empty((columns - KEYS, room), np.int64),
        np.empty(CHUNK, np.int64),
        np.empty(room, np.int64),
        np.empty(room, np.int64),
        np.zeros(room, np.int64),
        np.zeros(7, np.int64),
    )
