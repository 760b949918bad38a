"""What the kernels of a cap per object work on beside the tables of ``pair_rows.kernels``."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skyband.operators.base import F64, I64
from skyband.operators.jit import maker
from skyband.operators.pair_rows.kernels.tables import Pairs, Skyband, new_pairs, new_skyband


class Limits(NamedTuple):
    """When a pair p can be in no result, now or later (docs/algorithms Theorem D).

    B(p) is what ranks before p and ends no earlier. All int64.
    """

    cap: int
    """c, the pairs of a result that an object may be in."""
    of_object: int
    """D: so many pairs of B(p) with an object of p are enough."""
    chosen: int
    """M: so many pairs of B(p) are enough, no object being in more than ``each`` of them."""
    each: int
    """At least 1."""


def limits_of(cap: int, k: int) -> Limits:
    """Return the limits for results of at most ``k`` pairs with no object in more than ``cap`` (1 to ``k``) of them.

    The proof is in docs/algorithms Theorem D. With ``cap`` = k both bounds are k, as without one.
    """
    return Limits(cap=cap, of_object=cap - 1 + (2 * k - 1) // cap, chosen=2 * k - 1 if cap == 1 else k, each=max(1, cap // 2))


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
