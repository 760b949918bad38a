"""Build a segment of a zone map: split its objects into leaves of neighbours, and compute the boxes.

The objects are halved at the median of the attribute that varies most, compared with its range in the whole segment, until a part is a
leaf. As the number of leaves is a power of two, the leaves of a group are neighbours, too.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skyband.operators.base import F64, I64, NULL, AnyArray
from skyband.operators.jit import inner, inner_inlined, jit, maker
from skyband.operators.pair_rows.kernels.tables import BOUNDS, INDEXED_SCORED, IS_B, SCORED, Scoring, SubBatch

# The tables of a zone map: copies of a key's objects in leaves of neighbours, and the box of every leaf and group of leaves.
#
# Shapes use: floats = float attributes, integers = other attributes, size = objects that there is room for, a multiple of ``GROUP``.
#
# A *box* holds for each attribute its least and its greatest value and whether one is null: rows 3 r, 3 r + 1 and 3 r + 2 for attribute r.
# Without values that are not null the least is greater than the greatest (``NO_LEAST`` and ``NO_GREATEST``, or the infinities).

LEAF = 64
"""Objects of a leaf."""
GROUP = 1024
"""Objects of a group: its 16 leaves follow each other."""

FIRST_SEQ, STOP_SEQ, START, SEGMENT_COLUMNS = range(4)
"""Columns of ``Zones.segments``: the segment has the objects from seq FIRST_SEQ to STOP_SEQ - 1, at START, ... of the arrays."""

NO_LEAST: int = 2**63 - 1
NO_GREATEST: int = -(2**63) + 1


class Zones(NamedTuple):
    """A zone map as arrays. Within a segment, objects are in the order of leaves."""

    segments: I64
    """int64 (segments, SEGMENT_COLUMNS), the newest first: each goes up to where the one before it starts."""
    floats: F64
    """float64 (floats, size)."""
    integers: I64
    """int64 (integers, size)."""
    seqs: I64
    """int64 (size,): seq of each object."""
    leaf_floats: F64
    """float64 (3 floats, size / LEAF): boxes of leaves."""
    leaf_integers: I64
    """int64 (3 integers, size / LEAF)."""
    group_floats: F64
    """float64 (3 floats, size / GROUP): boxes of groups."""
    group_integers: I64
    """int64 (3 integers, size / GROUP)."""


def no_zones(floats: int, integers: int, size: int = 0) -> Zones:
    """Return arrays with room for ``size`` objects (a multiple of ``GROUP``), without segments."""
    return Zones(
        np.empty((0, SEGMENT_COLUMNS), np.int64), np.empty((floats, size)), np.empty((integers, size), np.int64),
        np.empty(size, np.int64), np.empty((3 * floats, size // LEAF)), np.empty((3 * integers, size // LEAF), np.int64),
        np.empty((3 * floats, size // GROUP)), np.empty((3 * integers, size // GROUP), np.int64),
    )  # fmt: skip


_FAR = 1e300
"""Values further out count as this far where the range of an attribute is looked at, so that ranges are finite."""
_MULTIPLIER, _INCREMENT, _MODULUS = 1103515245, 12345, 2**31
"""A linear congruential generator for pivots, so that no order of values makes every pivot a bad one."""


@inner
def value_of(floats: F64, integers: I64, attribute: int, column: int) -> float:
    """Return an attribute's value as a float; +inf for a null."""
    rows = floats.shape[0]
    if attribute < rows:
        value = floats[attribute, column]
        return value if value == value else np.inf
    whole = integers[attribute - rows, column]
    return np.inf if whole == NULL else float(whole)


@inner
def spread(floats: F64, integers: I64, attribute: int, order: I64, low: int, high: int) -> float:
    """Return the range of an attribute among order[low:high]."""
    least, greatest = _FAR, -_FAR
    for i in range(low, high):
        value = value_of(floats, integers, attribute, order[i])
        least = value if value < least else least
        greatest = value if value > greatest else greatest
    return max(0.0, min(greatest, _FAR) - max(least, -_FAR))


@inner
def halve(order: I64, values: F64, low: int, high: int, middle: int) -> None:
    """Reorder [low, high) of ``order`` and ``values`` so that no value before ``middle`` is greater than one from there on.

    O(high - low) expected.
    """
    random = high - low
    while high - low > 1:
        random = (random * _MULTIPLIER + _INCREMENT) % _MODULUS
        pivot = values[low + random % (high - low)]
        i, j = low, high - 1
        while i <= j:
            while values[i] < pivot:
                i += 1
            while values[j] > pivot:
                j -= 1
            if i <= j:
                values[i], values[j] = values[j], values[i]
                order[i], order[j] = order[j], order[i]
                i += 1
                j -= 1
        if middle <= j:
            high = j + 1
        elif middle >= i:
            low = i
        else:
            return


@inner
def split(floats: F64, integers: I64, order: I64, values: F64, ranges: F64, stack: I64) -> None:
    """Reorder ``order`` into leaves. O(objects * (attributes + 1) * log(leaves))."""
    attributes, top = len(ranges), 1
    stack[0, 0], stack[0, 1] = 0, len(order)
    for attribute in range(attributes):
        ranges[attribute] = spread(floats, integers, attribute, order, 0, len(order))
    while top > 0:
        top -= 1
        low, high = stack[top, 0], stack[top, 1]
        best, widest = 0, -1.0
        for attribute in range(attributes):
            if ranges[attribute] > 0.0:
                share = spread(floats, integers, attribute, order, low, high) / ranges[attribute]
                if share > widest:
                    best, widest = attribute, share
        for i in range(low, high):
            values[i] = value_of(floats, integers, best, order[i])
        middle = (low + high) >> 1
        halve(order, values, low, high, middle)
        if middle - low > LEAF:
            stack[top, 0], stack[top, 1] = low, middle
            stack[top + 1, 0], stack[top + 1, 1] = middle, high
            top += 2


@inner
def fill_leaf_boxes(zones: Zones, start: int, objects: int) -> None:
    """Compute the boxes of the leaves from position ``start`` on."""
    for leaf in range(start // LEAF, (start + objects) // LEAF):
        first = leaf * LEAF
        for row in range(zones.floats.shape[0]):
            least, greatest, null = np.inf, -np.inf, 0.0
            for i in range(first, first + LEAF):
                value = zones.floats[row, i]
                if value == value:
                    least, greatest = min(least, value), max(greatest, value)
                else:
                    null = 1.0
            zones.leaf_floats[3 * row, leaf], zones.leaf_floats[3 * row + 1, leaf] = least, greatest
            zones.leaf_floats[3 * row + 2, leaf] = null
        for row in range(zones.integers.shape[0]):
            low, high, missing = NO_LEAST, NO_GREATEST, 0
            for i in range(first, first + LEAF):
                whole = zones.integers[row, i]
                if whole != NULL:
                    low, high = min(low, whole), max(high, whole)
                else:
                    missing = 1
            zones.leaf_integers[3 * row, leaf], zones.leaf_integers[3 * row + 1, leaf] = low, high
            zones.leaf_integers[3 * row + 2, leaf] = missing


@inner
def join_boxes(leaves: AnyArray, groups: AnyArray, first: int, stop: int) -> None:
    """Compute the boxes of groups first..stop - 1, (3 attributes, groups), from those of their leaves, (3 attributes, leaves)."""
    for row in range(leaves.shape[0]):
        of_leaves, of_groups, least = leaves[row], groups[row], row % 3 == 0
        for group in range(first, stop):
            start = group * GROUP // LEAF
            joined = of_leaves[start]
            for leaf in range(start + 1, start + GROUP // LEAF):
                joined = min(joined, of_leaves[leaf]) if least else max(joined, of_leaves[leaf])
            of_groups[group] = joined


@jit
def build(floats: F64, integers: I64, seqs: I64, start: int, zones: Zones) -> None:
    """Write the objects, in leaves, and the boxes to ``zones`` from position ``start`` on.

    ``floats`` float64 (floats, n), ``integers`` int64 (integers, n), ``seqs`` int64 (n,); n is ``GROUP`` times a power of two, ``start`` a
    multiple of ``GROUP``. About a tenth of a microsecond an object.
    """
    objects, attributes = len(seqs), floats.shape[0] + integers.shape[0]
    order = np.arange(objects)
    if attributes > 0:
        split(floats, integers, order, np.empty(objects), np.empty(attributes), np.empty((128, 2), np.int64))
    for i in range(objects):
        zones.seqs[start + i] = seqs[order[i]]
    for row in range(floats.shape[0]):
        for i in range(objects):
            zones.floats[row, start + i] = floats[row, order[i]]
    for row in range(integers.shape[0]):
        for i in range(objects):
            zones.integers[row, start + i] = integers[row, order[i]]
    fill_leaf_boxes(zones, start, objects)
    first, stop = start // GROUP, (start + objects) // GROUP
    join_boxes(zones.leaf_floats, zones.group_floats, first, stop)
    join_boxes(zones.leaf_integers, zones.group_integers, first, stop)


@inner
def fill_box(floats: F64, integers: I64, float_box: F64, integer_box: I64) -> None:
    """Write the box of one object, (3 floats,) and (3 integers,), from its attributes, (floats,) and (integers,)."""
    for row in range(len(floats)):
        value = floats[row]
        null = value != value
        float_box[3 * row] = np.inf if null else value
        float_box[3 * row + 1] = -np.inf if null else value
        float_box[3 * row + 2] = 1.0 if null else 0.0
    for row in range(len(integers)):
        whole = integers[row]
        missing = whole == NULL
        integer_box[3 * row] = NO_LEAST if missing else whole
        integer_box[3 * row + 1] = NO_GREATEST if missing else whole
        integer_box[3 * row + 2] = 1 if missing else 0


# Bounds of an arrival's scores with the objects of boxes, and the buffers for them.

BOUNDS_OF_A_CALL = 32
"""A call for bounds costs about as much as so many bounds do."""


class ZoneBuffers(NamedTuple):
    """Buffers of a search through zones. S = arrivals of the largest sub-batch."""

    float_boxes: F64
    """float64 (S, 3 floats): the boxes of the arrivals."""
    integer_boxes: I64
    """int64 (S, 3 integers)."""
    group_bounds: F64
    """float64 (groups of the largest segment,): the bounds of one arrival with a segment's groups."""
    leaf_bounds: F64
    """float64 (GROUP / LEAF,): likewise with the leaves of a group."""
    scores: F64
    """float64 (LEAF,): the scores of one arrival with a leaf."""


@maker
def new_zone_buffers(zones: Zones, sub_batch: int) -> ZoneBuffers:
    """Return buffers for arrivals up to ``sub_batch``."""
    groups, size = 0, sub_batch if len(zones.segments) > 0 else 0
    for segment in range(len(zones.segments)):
        groups = max(groups, (zones.segments[segment, STOP_SEQ] - zones.segments[segment, FIRST_SEQ]) // GROUP)
    return ZoneBuffers(
        np.empty((size, zones.leaf_floats.shape[0]), np.float64), np.empty((size, zones.leaf_integers.shape[0]), np.int64),
        np.empty(groups, np.float64), np.empty(GROUP // LEAF, np.float64), np.empty(LEAF, np.float64),
    )  # fmt: skip


@inner
def fill_boxes(batch: SubBatch, buffers: ZoneBuffers) -> None:
    """Write the boxes of the arrivals."""
    for i in range(batch.size):
        fill_box(batch.floats[i], batch.integers[i], buffers.float_boxes[i], buffers.integer_boxes[i])


@inner_inlined
def bound_boxes(
    scoring: Scoring, floats: F64, integers: I64, first: int, stop: int, arrival: int, batch: SubBatch, buffers: ZoneBuffers, out: F64,
    work: I64,
) -> None:  # fmt: skip
    """Write the bounds of an arrival with the boxes first..stop - 1, ``floats`` and ``integers``, to ``out``."""
    bound_as_a, bound_as_b = scoring.bound_as_a, scoring.bound_as_b
    float_box, integer_box = buffers.float_boxes[arrival], buffers.integer_boxes[arrival]
    if batch.side[arrival] == IS_B:
        bound_as_b(floats, integers, first, stop, float_box, integer_box, scoring.pool, out)
    else:
        bound_as_a(floats, integers, first, stop, float_box, integer_box, scoring.pool, out)
    work[BOUNDS] += BOUNDS_OF_A_CALL + stop - first


@inner_inlined
def bound_groups(
    scoring: Scoring, zones: Zones, first: int, stop: int, arrival: int, batch: SubBatch, buffers: ZoneBuffers, work: I64
) -> None:
    """Write the bounds of an arrival with the groups first..stop - 1 to ``buffers.group_bounds``."""
    bound_boxes(
        scoring, zones.group_floats, zones.group_integers, first, stop, arrival, batch, buffers, buffers.group_bounds, work
    )  # fmt: skip


@inner_inlined
def bound_leaves(scoring: Scoring, zones: Zones, group: int, arrival: int, batch: SubBatch, buffers: ZoneBuffers, work: I64) -> None:
    """Write the bounds of an arrival with the leaves of a group to ``buffers.leaf_bounds``."""
    first, stop = group * GROUP // LEAF, (group + 1) * GROUP // LEAF
    bound_boxes(scoring, zones.leaf_floats, zones.leaf_integers, first, stop, arrival, batch, buffers, buffers.leaf_bounds, work)


@inner_inlined
def score_leaf(
    scoring: Scoring, zones: Zones, low: int, arrival: int, batch: SubBatch, buffers: ZoneBuffers, limit: float, work: I64
) -> int:
    """Write the scores of an arrival with the leaf at position ``low`` to ``buffers.scores``; return how many are at most ``limit``."""
    score_as_a, score_as_b = scoring.score_as_a, scoring.score_as_b
    floats, integers, pool = batch.floats[arrival], batch.integers[arrival], scoring.pool
    scores, hits = buffers.scores, 0
    if batch.side[arrival] == IS_B:
        score_as_b(zones.floats, zones.integers, low, low + LEAF, floats, integers, pool, scores)
    else:
        score_as_a(zones.floats, zones.integers, low, low + LEAF, floats, integers, pool, scores)
    work[SCORED] += LEAF
    work[INDEXED_SCORED] += LEAF
    for j in range(LEAF):
        hits += scores[j] <= limit
    return hits
