"""The tables of reserves: the best alive pairs of a window, up to a floor, and what is known of the pairs behind it.

A reserve belongs to one key and one window. It holds *every* alive pair that ranks at its floor or before. Of the other pairs each object
knows a bound: no pair behind the floor of which it is the newer object ranks before the bound.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skyband.operators.base import F64, I64
from skyband.operators.jit import maker
from skyband.operators.pair_rows.kernels.tables import Pairs, Skyband, new_pairs

LENGTH, OLDEST, FIRST, FLOOR_OLDER, FLOOR_NEWER, TOUCHED, DEPTH, SHORT, FIELDS = range(9)
"""Fields of a reserve, int64 (FIELDS,): its pairs; the oldest object in them, or ``NEVER``; the first object alive in its window; the
floor's older and newer object; the first place that the present event has changed, or ``NEVER``; how many pairs its queries looked at; 1
if a query found fewer than it asks for."""


class Layout(NamedTuple):
    """What is fixed over a state's life. All int64."""

    target: int
    """The least number of pairs in a reserve that was filled again, if there are as many."""
    most: int
    """A reserve holds at most ``most`` times ``target`` pairs. When it is full, the better half stays. At least 2."""
    max_per_object: int
    """The most pairs of a result that an object may be in; 0: any number."""
    partners: int
    """The largest number of best older partners that are found for an arrival."""
    float_row: int
    """The row of ``Objects.floats`` with the score of an object's bound in the first reserve's window; the others' follow."""
    integer_row: int
    """The row of ``Objects.integers`` with the older object of a bound, or -1 if there are no more pairs; the others' follow, and then the
    number of the deletion of the object: -1 of one that was processed in a former call, ``NEVER`` without one."""
    reserves: int
    """The number of different windows."""


class Found(NamedTuple):
    """The best older partners of the arrivals, by key, arrival, reserve and rank. (n,), ``start`` (keys of the advance + 1,)."""

    start: I64
    reserve: I64
    older: I64
    newer: I64
    score: F64


class Reserves(NamedTuple):
    """All reserves: that of window w of key k is number k * windows + w."""

    regions: I64
    """int64 (reserves, KEY_COLUMNS): of the columns only those of a skyband's region are used."""
    floor_score: F64
    """float64 (reserves,): the floor's score, inf if all pairs are there."""
    floor_pair: I64
    """int64 (reserves, 2): the floor's older and newer object, -1 if all pairs are there."""
    of_query: I64
    """int64 (queries,): the window's number."""
    pairs: Skyband
    """The arena, each reserve in rank order; ``stair`` is not used."""
    end: int
    """int64: the arena's end."""


class Reserve(NamedTuple):
    """The reserve at hand."""

    pairs: Pairs
    """Its pairs in rank order, and room."""
    fields: I64
    """int64 (FIELDS,)."""
    floor: F64
    """float64 (1,): the floor's score."""


class Rescan(NamedTuple):
    """Buffers of ``rescan``."""

    scores: F64
    """float64 (RANGE,)."""
    floats: F64
    """float64 (float attributes of the score,)."""
    integers: I64
    """int64 (its other attributes,)."""


RANGE = 1024
"""Objects that are scored together."""


@maker
def new_reserve(size: int) -> Reserve:
    """Return a reserve without pairs, with room for ``size``."""
    return Reserve(new_pairs(size), np.zeros(FIELDS, np.int64), np.empty(1, np.float64))


@maker
def with_room(reserve: Reserve, size: int) -> Reserve:
    """Return the reserve with room for ``size`` pairs."""
    old, length = reserve.pairs, reserve.fields[LENGTH]
    if size <= len(old.score):
        return reserve
    pairs = new_pairs(2 * size)
    pairs.score[:length], pairs.older[:length], pairs.newer[:length] = old.score[:length], old.older[:length], old.newer[:length]
    return Reserve(pairs, reserve.fields, reserve.floor)
