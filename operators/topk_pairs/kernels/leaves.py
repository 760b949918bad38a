"""Find a sub-batch's candidates among the objects of a zone map: only leaves whose bound reaches the staircase are scored.

Segments are the outer loop, the newest first, and arrivals the inner one. The bar of a segment is that of its newest object; what reaches
it is compared with the bar of its own object.
"""

from __future__ import annotations

from skyband.operators.base import F64, I64
from skyband.operators.jit import inner
from skyband.operators.pair_rows.kernels.tables import (
    BOUNDS,
    INDEXED,
    INDEXED_SCORED,
    IS_B,
    IS_NEITHER,
    SCORED,
    Candidates,
    Scoring,
    Skyband,
    SubBatch,
)
from skyband.operators.topk_pairs.kernels.blocks import (
    ARRIVAL,
    COUNT,
    NEWER_PAIRS,
    NEXT_GROUP,
    SEGMENT,
    SMALL_SEGMENT,
    SORTED,
    Blocks,
    bound,
    newer_than,
    sort_found,
)
from skyband.operators.zone_maps.kernels.build import fill_box
from skyband.operators.zone_maps.kernels.tables import FIRST_SEQ, GROUP, LEAF, START, STOP_SEQ, Zones

BOUNDS_OF_A_CALL = 32
"""A call for bounds costs about as much as so many bounds do."""


@inner
def fill_boxes(batch: SubBatch, blocks: Blocks) -> None:
    """Write the boxes of the arrivals."""
    for i in range(batch.size):
        fill_box(batch.floats[i], batch.integers[i], blocks.float_boxes[i], blocks.integer_boxes[i])


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


@inner
def bound_zones(
    scoring: Scoring, floats: F64, integers: I64, first: int, stop: int, arrival: int, batch: SubBatch, blocks: Blocks, out: F64, work: I64
) -> None:
    """Write the bounds of an arrival with the boxes first..stop - 1 to ``out``."""
    bound_as_a, bound_as_b = scoring.bound_as_a, scoring.bound_as_b
    float_box, integer_box = blocks.float_boxes[arrival], blocks.integer_boxes[arrival]
    if batch.side[arrival] == IS_B:
        bound_as_b(floats, integers, first, stop, float_box, integer_box, out)
    else:
        bound_as_a(floats, integers, first, stop, float_box, integer_box, out)
    work[BOUNDS] += BOUNDS_OF_A_CALL + stop - first


@inner
def scan_leaves(
    scoring: Scoring, zones: Zones, first: int, stop: int, limit: float, arrival: int, batch: SubBatch, skyband: Skyband, cutoff: float,
    candidates: Candidates, blocks: Blocks, work: I64,
) -> None:  # fmt: skip
    """Find the candidates of an arrival in the leaves first..stop - 1."""
    score_as_a, score_as_b, is_b = scoring.score_as_a, scoring.score_as_b, batch.side[arrival] == IS_B
    floats, integers, bounds, scores = batch.floats[arrival], batch.integers[arrival], blocks.leaf_bounds, blocks.scores[:LEAF]
    bound_zones(scoring, zones.leaf_floats, zones.leaf_integers, first, stop, arrival, batch, blocks, bounds, work)
    for leaf in range(first, stop):
        if bounds[leaf - first] <= limit:
            low, high = leaf * LEAF, (leaf + 1) * LEAF
            if is_b:
                score_as_b(zones.floats, zones.integers, low, high, floats, integers, scores)
            else:
                score_as_a(zones.floats, zones.integers, low, high, floats, integers, scores)
            work[SCORED] += LEAF
            work[INDEXED_SCORED] += LEAF
            hits = 0
            for j in range(LEAF):
                hits += scores[j] <= limit
            if hits > 0:
                add_of_leaf(scores, limit, zones.seqs[low:high], arrival, batch, skyband, cutoff, candidates, blocks)


@inner
def scan_segment(
    scoring: Scoring, zones: Zones, limit: float, batch: SubBatch, skyband: Skyband, cutoff: float, candidates: Candidates, blocks: Blocks,
    work: I64,
) -> bool:  # fmt: skip
    """Find the candidates in the segment at ``blocks.place``, of arrivals from the one there on: False if there may be no room.

    The leaves of a small segment are looked at together; those of a large one by groups, after the bounds of the groups.
    """
    place, bounds, room = blocks.place, blocks.group_bounds, len(candidates.score)
    segment = zones.segments[place[SEGMENT]]
    objects = segment[STOP_SEQ] - segment[FIRST_SEQ]
    first_group = segment[START] // GROUP
    stop = first_group + objects // GROUP
    for i in range(place[ARRIVAL], batch.size):
        if batch.first_partner[i] >= segment[STOP_SEQ]:
            return True
        if batch.side[i] == IS_NEITHER:
            continue
        place[ARRIVAL] = i
        if objects <= SMALL_SEGMENT:
            if place[COUNT] + objects > room:
                return False
            first_leaf, stop_leaf = segment[START] // LEAF, (segment[START] + objects) // LEAF
            scan_leaves(scoring, zones, first_leaf, stop_leaf, limit, i, batch, skyband, cutoff, candidates, blocks, work)
        else:
            bound_zones(scoring, zones.group_floats, zones.group_integers, first_group, stop, i, batch, blocks, bounds, work)
            for group in range(first_group + place[NEXT_GROUP], stop):
                if bounds[group - first_group] <= limit:
                    if place[COUNT] + GROUP > room:
                        place[NEXT_GROUP] = group - first_group
                        return False
                    first_leaf, stop_leaf = group * GROUP // LEAF, (group + 1) * GROUP // LEAF
                    scan_leaves(scoring, zones, first_leaf, stop_leaf, limit, i, batch, skyband, cutoff, candidates, blocks, work)
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
