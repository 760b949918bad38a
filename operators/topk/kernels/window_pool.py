"""The window of a bucket's keys in one pool of columns: every key owns a slab, appends at its end and drops at its head.

Rows are named by *places*: place p of a key lies at row p of the columns, or at p - ``wrap`` from ``wrap`` on. A bucket of one key has a
ring of that length, a multiple of LEAF, so that no leaf is torn apart; slabs of many keys never get there (``NO_RING``).
"""

from __future__ import annotations

from typing import NamedTuple

from skyband.operators.base import F64, I64, NEVER
from skyband.operators.jit import jit
from skyband.operators.single_rows.blocks import Block
from skyband.operators.single_rows.kernels.arrays import lower_bound, shift
from skyband.operators.single_rows.kernels.list_moves import alive_from
from skyband.operators.windows import UNBOUNDED

LEAF = 128
"""Rows that share the corners of a box."""

NO_RING = 2**62
"""A place no key reaches: the slabs of many keys do not wrap."""


class WindowPool(NamedTuple):
    """Columns with a place per row, and where every key's rows are.

    ``values`` float64 (d, rows). int64 (rows,), empty where not needed: ``time``, for time windows; ``flags``, a bit per predicate;
    ``ended_by``, for deletions: the number of the block's deletion that takes the row, -1 if one took it before, ``NEVER`` if none did.
    ``leaf_low`` and ``leaf_high`` float64 (d, leaves): corners of the box around rows [LEAF * i, LEAF * (i + 1)). ``wrap``: the ring's
    length, ``NO_RING`` for slabs.

    int64 (keys,): ``begin`` and ``room``, the slab (0 for a ring); ``head`` and ``tail``: the window has places [head, tail), the last of
    them has the last seq; ``leaves_end``: whole leaves of the window before this place have corners.
    """

    values: F64
    time: I64
    flags: I64
    ended_by: I64
    leaf_low: F64
    leaf_high: F64
    wrap: int
    begin: I64
    room: I64
    head: I64
    tail: I64
    leaves_end: I64


@jit(_nrt=False)
def first_place_from(pool: WindowPool, begin: int, end: int, instant: int) -> int:
    """Return the first place in [begin, end) of time >= ``instant``. O(log)."""
    time, wrap = pool.time, pool.wrap
    while begin < end:
        mid = (begin + end) >> 1
        if time[mid if mid < wrap else mid - wrap] < instant:
            begin = mid + 1
        else:
            end = mid
    return begin


@jit
def plan_slabs(block: Block, pool: WindowPool, count: int, micros: int, until: int, end: int, target: I64) -> int:
    """Drop what has expired before ``until`` and choose where each key's rows go: ``target`` int64 (keys of the block,), the begin of
    another slab or -1 to stay. ``end`` is the end of all slabs; return the new one."""
    begin, room, head, tail = pool.begin, pool.room, pool.head, pool.tail
    for g in range(len(block.keys)):
        key, new = block.keys[g], block.end[g] - block.begin[g]
        first = max(head[key], tail[key] - count)
        if micros < UNBOUNDED:
            first = lower_bound(pool.time, first, tail[key], alive_from(until - 1, micros))
        head[key] = first
        need = tail[key] - first + new
        if tail[key] + new <= begin[key] + room[key]:
            target[g] = -1
        elif 4 * need <= 3 * room[key]:
            target[g] = begin[key]
        else:
            target[g] = end
            room[key] = 3 * need
            end += room[key]
    return end


@jit
def append_rows(block: Block, pool: WindowPool, target: I64, columns: tuple[F64, ...], flags: I64) -> None:
    """Move slabs as planned and append the block's rows; the pool has room. Corners of moved slabs become void.

    ``columns`` d float64 (rows of the block,); ``flags`` int64 (rows of the block,), or empty.
    """
    values, time, all_flags, ended_by = pool.values, pool.time, pool.flags, pool.ended_by
    for g in range(len(block.keys)):
        key, to = block.keys[g], target[g]
        if to >= 0:
            a, b = pool.head[key], pool.tail[key]
            for t in range(len(values)):
                shift(values[t], a, b, to - a)
            if len(time):
                shift(time, a, b, to - a)
            if len(all_flags):
                shift(all_flags, a, b, to - a)
            if len(ended_by):
                shift(ended_by, a, b, to - a)
            pool.begin[key], pool.head[key], pool.tail[key] = to, to, to + b - a
            pool.leaves_end[key] = to
        lo, hi, at = block.begin[g], block.end[g], pool.tail[key]
        end = at + hi - lo
        for t in range(len(values)):
            values[t, at:end] = columns[t][lo:hi]
        if len(time):
            time[at:end] = block.time[lo:hi]
        if len(all_flags):
            all_flags[at:end] = flags[lo:hi]
        if len(ended_by):
            ended_by[at:end] = NEVER
        pool.tail[key] = end
