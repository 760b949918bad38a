"""The place of a scan of partners and its buffers, and what scans of blocks and of leaves share."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skyband.operators.base import F64, I64
from skyband.operators.jit import inner, maker
from skyband.operators.pair_rows.zone_maps.kernels.bounds import ZoneBuffers, new_zone_buffers
from skyband.operators.pair_rows.zone_maps.kernels.tables import FIRST_SEQ, LEAF, STOP_SEQ, Zones

SMALLEST, LARGEST, UNCOUNTED = 32, 1024, 512
"""Blocks double from the first size to the second; up to the third, scores are looked at without counting first."""

STRETCH = 32
"""Scores that are looked at together: in most stretches none is a candidate's."""


HIGH, LOW, WIDTH, NEWER_PAIRS, ARRIVAL, COUNT, SORTED, SEGMENT, NEXT_GROUP, PLACE = range(10)
"""Entries of ``Blocks.place``."""


class Blocks(NamedTuple):
    """Where a scan of partners is, and its buffers."""

    place: I64
    """int64 (PLACE,): the block is LOW..HIGH - 1, or as many as WIDTH; the skyband's pairs with an older object from HIGH on; the arrival
    whose turn it is; candidates found, and those of blocks before, which are in order; the segment of the zone map and the group in it."""
    scores: F64
    """float64 (LARGEST,): those of one arrival with the block."""
    bars: F64
    """float64 (LARGEST,): the largest score that a pair with each of the block's objects may have."""
    near: I64
    """int64 (LEAF,): which of a stretch or of a leaf may be candidates."""
    distances: I64
    """int64 (at least LARGEST + 1, and the largest segment + 1): candidates by distance from the block's end."""
    zone: ZoneBuffers
    """Those of a search through zones."""
    costly: int
    """int64: ``Settings.costly``."""


@maker
def new_blocks(zones: Zones, sub_batch: int, costly: int) -> Blocks:
    """Return buffers for scans of any partners, with ``zones`` and arrivals up to ``sub_batch``; ``costly``: as ``Settings.costly``."""
    largest = LARGEST
    for segment in range(len(zones.segments)):
        largest = max(largest, zones.segments[segment, STOP_SEQ] - zones.segments[segment, FIRST_SEQ])
    return Blocks(
        np.empty(PLACE, np.int64),
        np.empty(LARGEST, np.float64),
        np.empty(LARGEST, np.float64),
        np.empty(LEAF, np.int64),
        np.empty(largest + 1, np.int64),
        new_zone_buffers(zones, sub_batch),
        costly,
    )


@inner
def start_blocks(place: I64, seq: int, width: int) -> None:
    """Put the scan at the newest objects older than ``seq``, with a block of ``width``."""
    place[HIGH], place[WIDTH] = seq, width
    place[NEWER_PAIRS] = place[ARRIVAL] = place[COUNT] = place[SORTED] = place[SEGMENT] = place[NEXT_GROUP] = 0


@inner
def bound(stair: F64, newer_pairs: int, cutoff: float) -> float:
    """Return the largest score that a pair may have whose older object is older than those of the skyband's first ``newer_pairs``."""
    bar = float(stair[newer_pairs - 1]) if newer_pairs > 0 else np.inf
    return cutoff if bar > cutoff else bar


@inner
def newer_than(older: I64, at: int, seq: int) -> int:
    """Return the first place from ``at`` on whose older object is before ``seq``."""
    while at < len(older) and older[at] >= seq:
        at += 1
    return at


@inner
def sort_found(older: I64, order: I64, start: int, stop: int, high: int, width: int, distances: I64) -> None:
    """Fill order[start:stop] with start..stop - 1 by ``older`` descending, equal ones as found; all are in [high - width, high).

    O(found + width); few, to whom the width would be much, are inserted one by one.
    """
    if (stop - start) * (stop - start) <= 4 * width:
        for c in range(start, stop):
            i = c
            while i > start and older[order[i - 1]] < older[c]:
                order[i] = order[i - 1]
                i -= 1
            order[i] = c
        return
    for i in range(width + 1):
        distances[i] = 0
    for c in range(start, stop):
        distances[high - older[c]] += 1
    for i in range(1, width + 1):
        distances[i] += distances[i - 1]
    for c in range(start, stop):
        place = high - 1 - older[c]
        order[start + distances[place]] = c
        distances[place] += 1
