"""Find a sub-batch's candidates among the objects of a zone map: only leaves whose bound reaches the staircase are scored.

Segments are the outer loop, the newest first, and arrivals the inner one. The bar of a segment is that of its newest object; what reaches
it is compared with the bar of its own object.
"""

from __future__ import annotations

from skyband.operators.base import F64, I64
from skyband.operators.jit import inner, inner_inlined
from skyband.operators.pair_rows.kernels.tables import (
    INDEXED,
    IS_NEITHER,
    Candidates,
    Scoring,
    Skyband,
    SubBatch,
)
from skyband.operators.pair_rows.zone_maps.kernels.bounds import bound_groups, bound_leaves, score_leaf
from skyband.operators.pair_rows.zone_maps.kernels.tables import FIRST_SEQ, GROUP, LEAF, START, STOP_SEQ, Zones
from skyband.operators.topk_pairs.kernels.blocks import (
    ARRIVAL,
    COUNT,
    NEWER_PAIRS,
    NEXT_GROUP,
    SEGMENT,
    SORTED,
    Blocks,
    bound,
    newer_than,
    sort_found,
)


@inner
def pairs_newer_than(older: I64, seq: int) -> int:
    """Return how many of a skyband's pairs, by older seq descending, have an older object after ``seq``. O(log pairs)."""
    low, high = 0, len(older)
    while low < high:
        middle = (low + high) >> 1
        if older[middle] > seq:
            low = middle + 1
        else:
            high = middle
    return low


@inner
def add_of_leaf(
    scores: F64, limit: float, seqs: I64, arrival: int, batch: SubBatch, skyband: Skyband, cutoff: float, candidates: Candidates,
    blocks: Blocks,
) -> None:  # fmt: skip
    """Add the candidates of an arrival in a leaf with ``scores``, of the objects ``seqs``; ``limit`` is no less than any one's bar."""
    found, near, best, count = 0, blocks.near, batch.best, blocks.place[COUNT]
    for j in range(len(scores)):
        near[found] = j
        found += scores[j] <= limit
    for at in range(found):
        score, seq = scores[near[at]], seqs[near[at]]
        if seq < batch.first_partner[arrival] or not score <= bound(skyband.stair, pairs_newer_than(skyband.older, seq), cutoff):
            continue
        candidates.score[count], candidates.older[count], candidates.arrival[count] = score, seq, arrival
        count += 1
        if score < best[arrival] or best[arrival] != best[arrival]:
            best[arrival] = score
    blocks.place[COUNT] = count


@inner_inlined
def scan_group(
    scoring: Scoring, zones: Zones, group: int, limit: float, arrival: int, batch: SubBatch, skyband: Skyband, cutoff: float,
    candidates: Candidates, blocks: Blocks, work: I64,
) -> None:  # fmt: skip
    """Find the candidates of an arrival in a group of leaves."""
    bounds = blocks.zone.leaf_bounds
    bound_leaves(scoring, zones, group, arrival, batch, blocks.zone, work)
    for leaf in range(GROUP // LEAF):
        low = group * GROUP + leaf * LEAF
        if bounds[leaf] <= limit and score_leaf(scoring, zones, low, arrival, batch, blocks.zone, limit, work) > 0:
            add_of_leaf(blocks.zone.scores, limit, zones.seqs[low : low + LEAF], arrival, batch, skyband, cutoff, candidates, blocks)


@inner
def scan_segment(
    scoring: Scoring, zones: Zones, limit: float, batch: SubBatch, skyband: Skyband, cutoff: float, candidates: Candidates, blocks: Blocks,
    work: I64,
) -> bool:  # fmt: skip
    """Find the candidates in the segment at ``blocks.place``, of arrivals from the one there on: False if there may be no room.

    The leaves of a segment of one group are looked at at once, others after the bounds of their groups.
    """
    place, bounds, room = blocks.place, blocks.zone.group_bounds, len(candidates.score)
    segment = zones.segments[place[SEGMENT]]
    objects, first = segment[STOP_SEQ] - segment[FIRST_SEQ], segment[START] // GROUP
    groups = objects // GROUP
    for i in range(place[ARRIVAL], batch.size):
        if batch.first_partner[i] >= segment[STOP_SEQ]:
            return True
        if batch.side[i] == IS_NEITHER:
            continue
        if groups > 1:
            bound_groups(scoring, zones, first, first + groups, i, batch, blocks.zone, work)
        for group in range(place[NEXT_GROUP], groups):
            if groups == 1 or bounds[group] <= limit:
                if place[COUNT] + GROUP > room:
                    place[ARRIVAL], place[NEXT_GROUP] = i, group
                    return False
                scan_group(scoring, zones, first + group, limit, i, batch, skyband, cutoff, candidates, blocks, work)
        place[NEXT_GROUP] = 0
        work[INDEXED] += objects
    return True


@inner
def scan_segments(
    scoring: Scoring, zones: Zones, batch: SubBatch, skyband: Skyband, cutoff: float, candidates: Candidates, blocks: Blocks, work: I64
) -> bool:  # fmt: skip
    """Find the candidates in the segments from ``blocks.place`` on; as ``scan_blocks``."""
    place = blocks.place
    while place[SEGMENT] < len(zones.segments):
        first, stop = zones.segments[place[SEGMENT], FIRST_SEQ], zones.segments[place[SEGMENT], STOP_SEQ]
        place[NEWER_PAIRS] = newer_than(skyband.older, place[NEWER_PAIRS], stop)
        limit = bound(skyband.stair, place[NEWER_PAIRS], cutoff)
        if limit != limit or stop <= batch.first_partner[0]:
            break
        if not scan_segment(scoring, zones, limit, batch, skyband, cutoff, candidates, blocks, work):
            return False
        sort_found(candidates.older, candidates.order, place[SORTED], place[COUNT], stop, stop - first, blocks.distances)
        place[SORTED], place[ARRIVAL] = place[COUNT], 0
        place[SEGMENT] += 1
    return True
