"""Find a sub-batch's candidate pairs: blocks of partners, newest first, against the staircase at its start.

See docs/algorithms D2. A finite ``cutoff`` excludes pairs above it, makes pairs of two arrivals candidates like the others, and limits
their number. Blocks are the outer loop and arrivals the inner one, so that a block stays in the first-level cache for every arrival.
Where an object of seq s is at position s + ``offset`` of the arena, partners low..high of an arrival are at low + offset..high + offset.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from skyband.operators.base import F64, I64
from skyband.operators.jit import inner, inner_inlined, maker
from skyband.operators.pair_rows.kernels.lists import enough, fill_lists
from skyband.operators.pair_rows.kernels.sub_batch import (
    ChangeBuffer,
    Skybands,
    merge_sub_batch,
    new_scratch,
    next_sub_batch,
    no_changes,
    no_lists,
    replay_queries,
    wake_times,
)
from skyband.operators.pair_rows.kernels.tables import (
    FIRST_STORED,
    FOUND,
    INDEXED,
    IS_B,
    IS_NEITHER,
    REGION_START,
    SCORED,
    SHORT,
    Advance,
    Bucket,
    Candidates,
    ChangeRows,
    Objects,
    Progress,
    Queries,
    Scoring,
    Settings,
    Skyband,
    Sources,
    SubBatch,
    grow_candidates,
    history_of,
    new_candidates,
    new_skyband,
    new_sub_batch,
    own_scores,
    skyband_of,
    with_found,
)
from skyband.operators.pair_rows.zone_maps.kernels import (
    FIRST_SEQ,
    GROUP,
    LEAF,
    START,
    STOP_SEQ,
    ZoneBuffers,
    Zones,
    bound_groups,
    bound_leaves,
    fill_boxes,
    new_zone_buffers,
    score_leaf,
)

# The place of a scan of partners and its buffers, and what scans of blocks and of leaves share.

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


# Find a sub-batch's candidates among the objects of a zone map: only leaves whose bound reaches the staircase are scored.
#
# Segments are the outer loop, the newest first, and arrivals the inner one. The bar of a segment is that of its newest object; what reaches
# it is compared with the bar of its own object.


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


# The driver: one call processes a whole ``advance`` of every key that has arrivals or is due, sub-batch by sub-batch.
#
# It is compiled once and receives the scoring expression as first-class functions.

MOST_FOUND = 4
"""With more candidates per arrival a cutoff is too loose: without one there are more, but each costs less to find."""


def drive(
    count_as_a: Callable[..., int], score_as_a: Callable[..., None], count_as_b: Callable[..., int], score_as_b: Callable[..., None],
    bound_as_a: Callable[..., None], bound_as_b: Callable[..., None], zones: Zones, settings: Settings, cutoff: float, queries: Queries,
    bucket: Bucket, progress: Progress, advance: Advance, work: I64,
) -> tuple[ChangeRows, int, Skyband, int, int]:  # fmt: skip
    """Process all events of ``advance``, whose arrivals are in the windows' arena already; the functions are those of ``Scoring``.

    Return change rows and their number, the skybands' (perhaps new) arena and its end, and the seq before which all is taken. Writes to
    the key table, ``progress`` and ``work`` (int64 (COUNTERS,)).

    ``zones`` with segments are those of the only key, and end before its first arrival. A finite ``cutoff`` is for one key alone, whose
    skyband has no pair above it; neither has the one returned. The run then ends before
    the first sub-batch that leaves too few pairs in a list that is ``partial``, or that has more than ``MOST_FOUND`` candidates an arrival.
    """
    scoring = Scoring(count_as_a, score_as_a, count_as_b, score_as_b, bound_as_a, bound_as_b, bucket.objects.pool)
    keys, objects = bucket.keys, bucket.objects
    skybands = Skybands(bucket.skyband, bucket.skyband_end, new_skyband(1024))
    changes, lists = no_changes(), no_lists(queries)
    scored = settings.sub_batch if cutoff == np.inf else 0
    batch = new_sub_batch(settings.sub_batch, scored, objects.floats.shape[0], objects.integers.shape[0])
    candidates, scratch, blocks = (
        new_candidates(LARGEST + MOST_FOUND * settings.sub_batch),
        new_scratch(settings),
        new_blocks(zones, settings.sub_batch, settings.costly),
    )
    steps, seq = np.zeros(len(queries.k), np.int64), 0
    for g in range(len(advance.keys)):
        key, seq = advance.keys[g], advance.first_new[g]
        history = history_of(keys, key, objects.times)
        offset = keys[key, REGION_START] - keys[key, FIRST_STORED]
        fill_lists(queries, history, seq, advance.since - 1, skyband_of(keys, key, skybands.skyband), lists)
        while enough(queries, lists):
            batch, first_alive = next_sub_batch(settings, keys, key, seq, advance.until, objects, batch)
            skyband = skyband_of(keys, key, skybands.skyband)
            candidates = scan(scoring, objects, offset, zones, batch, skyband, cutoff, candidates, blocks, work)
            if candidates.found < 0:
                break
            sources = Sources(batch, candidates, skyband)
            steps[:], written, short = progress.step[:, key], changes.written, work[SHORT]
            changes = replay_queries(key, queries, history, sources, lists, progress, changes, work)
            if work[SHORT] > short:
                progress.step[:, key], changes = steps, ChangeBuffer(changes.rows, written)
                break
            if batch.size > 0:
                skybands = merge_sub_batch(settings, keys, key, first_alive, sources, skybands, scratch)
            seq += batch.size
            if batch.last:
                break
        wake_times(key, queries, history, lists, progress)
    return changes.rows, changes.written, skybands.skyband, skybands.end, seq
