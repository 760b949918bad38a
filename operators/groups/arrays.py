"""Arrays of the state of groups: made empty, and with more room."""

from __future__ import annotations

from typing import Any

import numpy as np

from skyband.operators.base import I64, NEVER, AnyArray
from skyband.operators.groups.kernels.heaps import GROUP, LAST_DIRTY, NOT_DIRTY, NOWHERE, Board
from skyband.operators.groups.kernels.rank import COUNTS, Output
from skyband.operators.groups.kernels.tables import (
    BOUNDS,
    EXTRA_DIGITS,
    NARROW,
    WIDE,
    Groups,
    Keys,
    Layout,
    Moments,
    Order,
    Rows,
    Sets,
    State,
    Sums,
)
from skyband.operators.groups.kernels.totals import LIMBS, WIDE_SQUARES
from skyband.operators.groups.sessions import empty_sessions

NONE: I64 = np.empty(0, np.int64)
_FIRST_PLACES = 64
CACHE_LINE = 64
"""Bytes."""


def empty_state(layout: Layout, silence: int | None) -> State:
    """Return a state without rows, groups and keys. ``silence``: what ends a session, if any."""

    def table(*shape: int) -> I64:
        return np.zeros(shape, np.int64)

    arguments, sums, lists, sets = (len(a) for a in (layout.whole, layout.sum_of, layout.list_of, layout.set_of))
    cells = table(arguments, 0)
    rows = Rows(NONE, NONE, NONE, NONE, cells, cells.view(np.float64), table(lists, 0), table(lists, 0), NONE, table(1), NONE)
    groups = Groups(NONE, NONE, table(arguments, 0), table(lists, 0), table(lists, 0), table(sets, 0), table(2))
    exact = _empty_sums(sums, WIDE)
    moments = Moments(_empty_sums(2 * len(layout.moments_of), WIDE_SQUARES), *(table(LIMBS) for _ in range(4)))
    orders = len(layout.order_of)
    order = Order(*(table(orders, 0) for _ in Order._fields))
    totals, by_seq, sessions = table(len(layout.total_of), 0, 2), empty_sets(_FIRST_PLACES), empty_sessions(silence)
    keys = Keys(NONE, NONE, NONE)
    return State(layout, rows, keys, groups, exact, empty_sets(_FIRST_PLACES), order, moments, totals, by_seq, sessions)


def _empty_sums(slots: int, wide: int) -> Sums:
    """Return sums without groups, with up to ``wide`` chunks."""
    endless, pool = np.zeros((slots, 0, 2), np.int64), np.zeros((0, wide + BOUNDS), np.int64)
    return Sums(np.zeros((slots, 0), NARROW), endless, pool, NONE, np.zeros(2, np.int64), np.zeros(wide + EXTRA_DIGITS, np.int64))


def empty_board(carried: int, traces: I64) -> Board:
    """Return a result without groups and keys, whose changes carry so many values, and whose points follow ``traces``."""
    sides, values, traced = (np.zeros((n, 0), np.int64) for n in (2, carried, len(traces)))
    return Board(np.empty(0, GROUP), sides, NONE, sides, NONE, NONE, NONE, NONE, values, values, traces, traced)


_TYPES: dict[str, type[np.generic]] = {"pos": np.int32, "sign": np.int8, "cause": np.int8}
_FINALS = ("final_key", "final_at", "final_group", "final_value", "final_carried")
_COLUMNS = tuple(name for name in Output._fields if name not in (*_FINALS, "members", "counts"))


def empty_output(room: int, finals: int, carried: int, members: I64, traced: bool) -> Output:
    """Return room for so many changes and points, and members of final results; each carries so many values, points if ``traced``."""

    def column(name: str, size: int) -> AnyArray:
        rows = carried if traced or name != "point_carried" else 0
        shape = (rows, size) if name.endswith("carried") else (size,)
        return np.empty(shape, _TYPES.get(name, np.float64 if name.endswith("value") else np.int64))

    columns = {name: column(name, room) for name in _COLUMNS} | {name: column(name, finals) for name in _FINALS}
    return Output(**columns, members=members, counts=np.zeros(len(COUNTS), np.int64))


def empty_sets(places: int) -> Sets:
    """Return an empty table; ``places`` is a power of 2."""
    return Sets(np.full(places, -1), np.zeros(places, np.int64), np.zeros(places, np.int64), np.zeros(1, np.int64))


def lengthened(a: AnyArray, size: int, fill: Any = 0, axis: int = -1) -> AnyArray:
    """Return ``a`` with ``size`` entries on an axis, the new ones ``fill``."""
    shape = list(a.shape)
    shape[axis] = size - shape[axis]
    return np.concatenate([a, np.full(shape, fill, a.dtype)], axis=axis)


def more_rows(rows: Rows, needed: int, deletes: bool) -> Rows:
    """Return the rows with at least ``needed`` free ones; ``deletes``: rows can be deleted."""
    if rows.spare[0] >= needed:
        return rows
    have = len(rows.expiry)
    size = 2 * (have - int(rows.spare[0])) + 2 * needed + 64
    free = np.concatenate([rows.free[: rows.spare[0]], np.arange(size - 1, have - 1, -1)])
    cells = lengthened(rows.cells, size)
    one = {name: lengthened(getattr(rows, name), size) for name in ("expiry", "seq", "group", "after", "before_in", "after_in")}
    before = lengthened(rows.before, size) if deletes else rows.before
    return rows._replace(
        **one, cells=cells, floats=cells.view(np.float64), free=lengthened(free, size), spare=np.array([len(free)], np.int64), before=before
    )


def more_nodes(order: Order, size: int) -> Order:
    """Return the orders with room for ``size`` rows."""
    return order._replace(**{name: lengthened(getattr(order, name), size) for name in ("left", "right", "size")})


def more_groups(groups: Groups, size: int) -> Groups:
    """Return the groups with room for ``size``."""
    made = {name: lengthened(getattr(groups, name), size) for name in ("alive", "mark", "known", "different")}
    return groups._replace(**made, head=lengthened(groups.head, size, -1), tail=lengthened(groups.tail, size, -1))


def more_sums(sums: Sums, size: int) -> Sums:
    """Return the sums with room for ``size`` groups."""
    slots, groups = sums.narrow.shape
    narrow = aligned(slots * size, NARROW).reshape(slots, size)
    narrow[:, :groups] = sums.narrow
    return sums._replace(narrow=narrow, endless=lengthened(sums.endless, size, axis=1))


def more_pool(sums: Sums, slots: int) -> Sums:
    """Return the sums with a larger pool: at least ``slots`` free rows."""
    have, free = len(sums.pool), sums.free[: sums.spare[0]]
    size = 2 * have + slots + 8
    free = np.concatenate([free, np.arange(size - 1, have - 1, -1)])
    pool = lengthened(sums.pool, size, axis=0)
    return sums._replace(pool=pool, free=lengthened(free, size), spare=np.array([len(free), sums.spare[1]], np.int64))


def more_of_board(board: Board, size: int) -> Board:
    """Return the board with room for ``size`` groups."""
    new = np.zeros(1, GROUP)
    new["value"] = new["bound"] = new["shown_value"] = new["traced"] = np.nan
    new["place"], new["dirty"] = NOWHERE, NOT_DIRTY
    groups = aligned(size, GROUP)
    groups[: len(board.groups)], groups[len(board.groups) :] = board.groups, new[0]
    values = {name: lengthened(getattr(board, name), size) for name in ("carried", "shown_carried", "traced_carried")}
    return board._replace(groups=groups, **values)


def aligned(size: int, kind: np.dtype[np.void]) -> AnyArray:
    """Return zeros whose first entry begins a cache line."""
    made = np.zeros(size * kind.itemsize + CACHE_LINE, np.uint8)
    first = -made.ctypes.data % CACHE_LINE
    return made[first : first + size * kind.itemsize].view(kind)


def more_keys_of_board(board: Board, size: int) -> Board:
    """Return the board with room for ``size`` keys, of which the new ones have no heaps."""
    fills = {"start": 0, "size": 0, "first_dirty": LAST_DIRTY, "next": NEVER, "step": 0, "tied": 0}
    return board._replace(**{field: lengthened(getattr(board, field), size, fill) for field, fill in fills.items()})


def more_output(out: Output, size: int) -> Output:
    """Return the output with room for ``size`` changes and points."""
    return out._replace(**{name: lengthened(getattr(out, name), size) for name in _COLUMNS}) if size > len(out.key) else out
