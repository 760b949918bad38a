"""The groups of each key in two heaps per query: members, the last first, and others, the first first.

A heap is a stretch of ``Board.heap[side]``. Groups rank by ``bound``, the larger first, then by ``name``. The value of a member is its
bound or larger, that of another its bound or smaller: a value that stays on its side of the bound touches no heap (docs/algorithms D7).
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from skyband.operators.base import I64, AnyArray
from skyband.operators.jit import inner, inner_inlined

OTHERS, MEMBERS = range(2)
"""Sides of a board."""
NOWHERE: Final = -1
NOT_DIRTY, LAST_DIRTY = -2, -1
"""Of ``Board.dirty``."""


GROUP: Final = np.dtype(
    [(name, np.float64) for name in ("value", "bound", "shown_value", "traced")]
    + [("name", np.int64), ("rows", np.int64)]
    + [(name, np.int32) for name in ("place", "dirty", "shown", "unused")]
)
"""What a board has of a group, in 64 bytes.

``value`` (internal: larger ranks first; NaN for a group that takes no part), ``bound``, ``shown_value``, ``traced`` (the value of its last
point, or NaN), ``name`` (rank by name), ``rows`` (in the window, or ``DELETED``), ``place`` (2 * place in the heap + side, or
``NOWHERE``), ``dirty`` (the next group of the key that may differ from what is shown, ``NOT_DIRTY``, or ``LAST_DIRTY``), ``shown`` (1 if
the changes have it).
"""


class Board(NamedTuple):
    """The present result of one query, and the one that its changes show.

    ``groups``: a ``GROUP`` for each; ``carried`` (carried, groups): what they carry, as of the last event, and ``shown_carried``: as they
    are shown, like ``shown_value``. Per key: ``start`` of its heaps, ``size`` (sides, keys), ``tied`` (see ``kernels.ties``),
    ``first_dirty`` (the first group that may differ), ``next`` (the boundary that shows them, or ``NEVER``), ``step``. ``traces`` (n, 2):
    which of the carried values points have, and 1 for those that are whole numbers; ``traced_carried`` (n, groups): these values of the
    last point.
    """

    groups: AnyArray
    heap: AnyArray
    start: I64
    size: AnyArray
    first_dirty: I64
    next: I64
    step: I64
    tied: I64
    carried: I64
    shown_carried: I64
    traces: I64
    traced_carried: I64


@inner
def better(board: Board, a: int, b: int) -> bool:
    """Return True if group a ranks before group b, by their bounds."""
    x, y = board.groups[a], board.groups[b]
    if x["bound"] != y["bound"]:
        return bool(x["bound"] > y["bound"])
    return bool(x["name"] < y["name"])


@inner
def above(board: Board, side: int, a: int, b: int) -> bool:
    """Return True if a belongs above b in a heap of the side."""
    return better(board, b, a) if side == MEMBERS else better(board, a, b)


@inner
def lift(board: Board, side: int, start: int, i: int, group: int) -> None:
    """Put a group at place i of a heap or above it."""
    while i > 0:
        parent = (i - 1) >> 1
        other = board.heap[side, start + parent]
        if not above(board, side, group, other):
            break
        board.heap[side, start + i] = other
        board.groups[other]["place"] = 2 * i + side
        i = parent
    board.heap[side, start + i] = group
    board.groups[group]["place"] = 2 * i + side


@inner
def lower(board: Board, side: int, start: int, size: int, i: int, group: int) -> None:
    """Put a group at place i of a heap or below it."""
    while True:
        child = 2 * i + 1
        if child >= size:
            break
        if child + 1 < size and above(board, side, board.heap[side, start + child + 1], board.heap[side, start + child]):
            child += 1
        other = board.heap[side, start + child]
        if not above(board, side, other, group):
            break
        board.heap[side, start + i] = other
        board.groups[other]["place"] = 2 * i + side
        i = child
    board.heap[side, start + i] = group
    board.groups[group]["place"] = 2 * i + side


@inner
def push(board: Board, side: int, key: int, group: int) -> None:
    """Add a group to a heap."""
    size = board.size[side, key]
    board.size[side, key] = size + 1
    lift(board, side, board.start[key], size, group)


@inner
def remove(board: Board, side: int, key: int, group: int) -> None:
    """Remove a group from a heap."""
    i, start = board.groups[group]["place"] >> 1, board.start[key]
    size = board.size[side, key] - 1
    board.size[side, key] = size
    board.groups[group]["place"] = NOWHERE
    if i < size:
        move(board, side, start, size, i, board.heap[side, start + size])


@inner
def move(board: Board, side: int, start: int, size: int, i: int, group: int) -> None:
    """Put a group, whose bound may have changed, at place i, above or below it."""
    if i > 0 and above(board, side, group, board.heap[side, start + ((i - 1) >> 1)]):
        lift(board, side, start, i, group)
    else:
        lower(board, side, start, size, i, group)


@inner
def refresh(board: Board, side: int, key: int, top: int) -> None:
    """Set the bound of the first group of a heap to its value."""
    board.groups[top]["bound"] = board.groups[top]["value"]
    lower(board, side, board.start[key], board.size[side, key], 0, top)


@inner_inlined
def mark_dirty(board: Board, key: int, group: int) -> None:
    """Note that a group may differ from what is shown."""
    g = board.groups[group]
    if g["dirty"] == NOT_DIRTY:
        g["dirty"] = board.first_dirty[key]
        board.first_dirty[key] = group
