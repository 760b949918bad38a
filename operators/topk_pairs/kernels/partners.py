"""Find a sub-batch's candidate pairs: blocks of partners, newest first, against the staircase at its start.

See docs/algorithms D2. A finite ``cutoff`` excludes pairs above it, makes pairs of two arrivals candidates like the others, and limits
their number. Blocks are the outer loop and arrivals the inner one, so that a block stays in the first-level cache for every arrival.
Where an object of seq s is at position s + ``offset`` of the arena, partners low..high of an arrival are at low + offset..high + offset.
"""

from __future__ import annotations

import numpy as np

from skyband.operators.base import F64, I64
from skyband.operators.jit import inner, maker
from skyband.operators.pair_rows.kernels.tables import (
    FOUND,
    IS_B,
    IS_NEITHER,
    SCORED,
    Candidates,
    Objects,
    Scoring,
    Skyband,
    SubBatch,
    grow_candidates,
    own_scores,
    with_found,
)
from skyband.operators.pair_rows.zone_maps.kernels.bounds import fill_boxes
from skyband.operators.pair_rows.zone_maps.kernels.tables import STOP_SEQ, Zones
from skyband.operators.topk_pairs.kernels.blocks import (
    ARRIVAL,
    COUNT,
    HIGH,
    LARGEST,
    LOW,
    NEWER_PAIRS,
    SMALLEST,
    SORTED,
    STRETCH,
    UNCOUNTED,
    WIDTH,
    Blocks,
    bound,
    newer_than,
    sort_found,
    start_blocks,
)
from skyband.operators.topk_pairs.kernels.leaves import scan_segments


@inner
def reach(scores: F64, bars: F64) -> bool:
    """Return True if one of ``scores`` is at most its bar, without a branch for each."""
    hits = 0
    for j in range(len(scores)):
        hits += scores[j] <= bars[j]
    return hits > 0


@inner
def scan_arrivals(scoring: Scoring, objects: Objects, offset: int, batch: SubBatch, work: I64) -> None:
    """Score the pairs among the arrivals: fill ``batch.scores`` and start ``batch.best``. O(arrivals^2)."""
    score_as_a, score_as_b = scoring.score_as_a, scoring.score_as_b
    for i in range(batch.size):
        best = np.nan
        row = batch.scores[i]
        first = max(batch.first_partner[i] - batch.first_seq, 0)
        neither = batch.side[i] == IS_NEITHER
        for j in range(i if neither else min(first, i)):
            row[j] = np.nan
        if not neither and first < i:
            low, high = batch.first_seq + first + offset, batch.first_seq + i + offset
            if batch.side[i] == IS_B:
                score_as_b(objects.floats, objects.integers, low, high, batch.floats[i], batch.integers[i], scoring.pool, row[first:i])
            else:
                score_as_a(objects.floats, objects.integers, low, high, batch.floats[i], batch.integers[i], scoring.pool, row[first:i])
            work[SCORED] += i - first
            for j in range(first, i):
                if row[j] < best or best != best:
                    best = row[j]
        batch.best[i] = best


@inner
def fill_bars(skyband: Skyband, cutoff: float, newer_pairs: int, low: int, high: int, bars: F64) -> None:
    """Fill ``bars``: the largest score that a pair with the object of seq low + j may have. ``newer_pairs`` as of ``high``.
    O(high - low + pairs)."""
    at = newer_pairs
    for seq in range(high - 1, low - 1, -1):
        at = newer_than(skyband.older, at, seq + 1)
        bars[seq - low] = bound(skyband.stair, at, cutoff)


@inner
def add_found(scores: F64, bars: F64, first: int, arrival: int, batch: SubBatch, candidates: Candidates, count: int, near: I64) -> int:
    """Add the candidates of an arrival among partners of seq ``first``, ..., newest first, to the ``count`` found before; return how many
    there are now. Which they are is found without a branch for each."""
    found, best = 0, batch.best
    for j in range(len(scores)):
        near[found] = j
        found += scores[j] <= bars[j]
    for at in range(found - 1, -1, -1):
        score = scores[near[at]]
        candidates.score[count], candidates.older[count], candidates.arrival[count] = score, first + near[at], arrival
        count += 1
        if score < best[arrival] or best[arrival] != best[arrival]:
            best[arrival] = score
    return count


@inner
def scan_block(
    scoring: Scoring, objects: Objects, offset: int, batch: SubBatch, skyband: Skyband, cutoff: float, candidates: Candidates,
    blocks: Blocks, work: I64,
) -> bool:  # fmt: skip
    """Find the candidates with partners of the block at ``blocks.place``, of arrivals from the one there on: False if there may be no room
    for the next one's. O(partners) compares per arrival."""
    count_as_a, score_as_a = scoring.count_as_a, scoring.score_as_a
    count_as_b, score_as_b = scoring.count_as_b, scoring.score_as_b
    floats, integers, block, place = objects.floats, objects.integers, blocks.scores, blocks.place
    low, high, newer_pairs, side = place[LOW], place[HIGH], place[NEWER_PAIRS], batch.side
    limit, filled = bound(skyband.stair, newer_pairs, cutoff), False
    counted = blocks.costly == 0 and (high - low > UNCOUNTED or cutoff < np.inf)
    for i in range(place[ARRIVAL], batch.size):
        first = max(low, batch.first_partner[i])
        if first >= high:
            return True
        upto = min(high, batch.first_seq + i)
        if side[i] == IS_NEITHER or first >= upto:
            continue
        if place[COUNT] + upto - first > len(candidates.score):
            place[ARRIVAL] = i
            return False
        start, stop = first + offset, upto + offset
        x_floats, x_integers = batch.floats[i], batch.integers[i]
        work[SCORED] += upto - first
        if counted:
            if side[i] == IS_B:
                good = count_as_b(floats, integers, start, stop, x_floats, x_integers, scoring.pool, limit)
            else:
                good = count_as_a(floats, integers, start, stop, x_floats, x_integers, scoring.pool, limit)
            if good == 0:
                continue
        if side[i] == IS_B:
            score_as_b(floats, integers, start, stop, x_floats, x_integers, scoring.pool, block)
        else:
            score_as_a(floats, integers, start, stop, x_floats, x_integers, scoring.pool, block)
        if not filled:
            fill_bars(skyband, cutoff, newer_pairs, low, high, blocks.bars)
            filled = True
        bars, count, top = blocks.bars[first - low : upto - low], place[COUNT], upto - first
        while top > 0:
            bottom = max(0, top - STRETCH)
            if reach(block[bottom:top], bars[bottom:top]):
                count = add_found(block[bottom:top], bars[bottom:top], first + bottom, i, batch, candidates, count, blocks.near)
            top = bottom
        place[COUNT] = count
    return True


@inner
def scan_blocks(
    scoring: Scoring, objects: Objects, offset: int, batch: SubBatch, skyband: Skyband, cutoff: float, oldest: int, candidates: Candidates,
    blocks: Blocks, work: I64,
) -> bool:  # fmt: skip
    """Find the candidates with partners from ``blocks.place`` on down to seq ``oldest``, and their best scores for ``batch.best``.

    ``skyband`` is the key's own. False if ``candidates`` needs more room: then go on with the same ``blocks`` and larger arrays.
    """
    place = blocks.place
    while place[HIGH] > oldest:
        high = place[HIGH]
        place[LOW] = max(oldest, high - place[WIDTH])
        place[NEWER_PAIRS] = newer_than(skyband.older, place[NEWER_PAIRS], high)
        limit = bound(skyband.stair, place[NEWER_PAIRS], cutoff)
        if limit != limit:
            break
        if not scan_block(scoring, objects, offset, batch, skyband, cutoff, candidates, blocks, work):
            return False
        sort_found(candidates.older, candidates.order, place[SORTED], place[COUNT], high, place[WIDTH], blocks.distances)
        place[SORTED], place[ARRIVAL], place[HIGH] = place[COUNT], 0, place[LOW]
        place[WIDTH] = min(2 * place[WIDTH], LARGEST)
    return True


@maker
def scan(
    scoring: Scoring, objects: Objects, offset: int, zones: Zones, batch: SubBatch, skyband: Skyband, cutoff: float, candidates: Candidates,
    blocks: Blocks, work: I64,
) -> Candidates:  # fmt: skip
    """Find the sub-batch's candidates, those among its arrivals (``batch.scores``) and the others (returned); see the functions above.

    ``zones``, if they have segments, cover the partners from the oldest one up to a seq that is not after the sub-batch's first. With a
    finite ``cutoff`` there are none in ``batch.scores``, and ``candidates`` does not grow: ``found`` is -1 if there is no room.
    """
    if batch.size == 0:
        return with_found(candidates, 0)
    if own_scores(batch) > 0:
        scan_arrivals(scoring, objects, offset, batch, work)
        start_blocks(blocks.place, batch.first_seq, SMALLEST)
    else:
        for i in range(batch.size):
            batch.best[i] = np.nan
        start_blocks(blocks.place, batch.first_seq + batch.size, LARGEST)
    oldest = int(batch.first_partner[0])
    if len(zones.segments) > 0:
        oldest = max(oldest, zones.segments[0, STOP_SEQ])
        fill_boxes(batch, blocks.zone)
    while not (
        scan_blocks(scoring, objects, offset, batch, skyband, cutoff, oldest, candidates, blocks, work)
        and scan_segments(scoring, zones, batch, skyband, cutoff, candidates, blocks, work)
    ):
        if cutoff < np.inf:
            return with_found(candidates, -1)
        candidates = grow_candidates(candidates, blocks.place[COUNT], 2 * len(candidates.score) + LARGEST)
    work[FOUND] += blocks.place[COUNT]
    return with_found(candidates, blocks.place[COUNT])
