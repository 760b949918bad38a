"""Bounds of an arrival's scores with the objects of boxes, and the buffers for them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skyband.operators.base import F64, I64
from skyband.operators.jit import inner, inner_inlined, maker
from skyband.operators.pair_rows.kernels.tables import BOUNDS, INDEXED_SCORED, IS_B, SCORED, Scoring, SubBatch
from skyband.operators.pair_rows.zone_maps.kernels.build import fill_box
from skyband.operators.pair_rows.zone_maps.kernels.tables import FIRST_SEQ, GROUP, LEAF, STOP_SEQ, Zones

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
