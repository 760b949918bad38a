"""What the kernels of a cap per object work on beside the tables of ``pair_rows.kernels``."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skyband.operators.base import F64, I64
from skyband.operators.jit import maker
from skyband.operators.pair_rows.capped.limits import Limits
from skyband.operators.pair_rows.kernels.tables import Pairs, Skyband, new_pairs, new_skyband


class Buffers(NamedTuple):
    """Buffers of one call, grown as needed; what they hold means nothing between two kernels, but ``marks`` is all 0."""

    pool: Pairs
    """A heap of pairs by rank: what a walk chooses from."""
    merged: Skyband
    """The next skyband of a key."""
    bars: F64
    """float64: heaps of ``of_object`` scores, one for every object that is in as many pairs: its best."""
    marks: I64
    """int64 (objects held,): what is known of the object at each place of a key's history."""
    chosen: Pairs
    """``Limits.chosen`` pairs, no object in more than ``each``, by score."""
    ranked_score: F64
    """float64: pairs of one older object, by rank."""
    ranked_newer: I64
    """int64, likewise."""


@maker
def new_buffers(limits: Limits, sub_batch: int, pairs: int, objects: int) -> Buffers:
    """Return buffers for ``pairs`` of a key (state and candidates) and ``objects`` of its history."""
    ranked = limits.of_object + sub_batch + 1
    return Buffers(
        new_pairs(pairs), new_skyband(pairs), np.empty(2 * pairs + limits.of_object, np.float64), np.zeros(objects, np.int64),
        new_pairs(limits.chosen), np.empty(ranked, np.float64), np.empty(ranked, np.int64),
    )  # fmt: skip


@maker
def ensure_buffers(buffers: Buffers, limits: Limits, sub_batch: int, pairs: int, objects: int) -> Buffers:
    """Return ``buffers``, or larger ones if they are too small."""
    if pairs <= len(buffers.pool.score) and objects <= len(buffers.marks):
        return buffers
    return new_buffers(limits, sub_batch, max(2 * pairs, len(buffers.pool.score)), max(objects, len(buffers.marks)))
