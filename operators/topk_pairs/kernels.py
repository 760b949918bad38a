"""Find a sub-batch's candidate pairs: blocks of partners, newest first, against the staircase at its start; and the drivers of top-k pairs.

See docs/algorithms D2. Where the condition has equalities, partners come from a hash index, as long as that pays. A finite ``cutoff``
excludes pairs above it, makes pairs of two arrivals candidates like the others, and limits their number. Blocks are the outer loop and
arrivals the inner one, so that a block stays in the first-level cache for every arrival. Where an object of seq s is at position
s + ``offset`` of the arena, partners low..high of an arrival are at low + offset..high + offset.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from skyband.operators.base import F64, I64
from skyband.operators.jit import inner, inner_inlined, maker
from skyband.operators.pair_rows.capped.kernels import new_capped_keeper
from skyband.operators.pair_rows.capped.limits import Limits
from skyband.operators.pair_rows.hash_index.kernels import (
    BLOCK,
    SIZE,
    UPTO,
    Gathered,
    HashIndex,
    before_arrivals,
    gather,
    hash_of_arrival,
    insert,
    is_used,
    new_gathered,
    score_gathered,
    walk,
)
from skyband.operators.pair_rows.hash_index.kernels import (
    START as TABLE_START,
)
from skyband.operators.pair_rows.kernels.driver import CAPPED, SKYBAND, Finder, events_driver, shard_driver
from skyband.operators.pair_rows.kernels.share import OwnBlocks, ShardRows, new_outbox
from skyband.operators.pair_rows.kernels.sub_batch import new_skyband_keeper
from skyband.operators.pair_rows.kernels.tables import (
    FOUND,
    INDEXED,
    INDEXED_SCORED,
    IS_B,
    IS_NEITHER,
    ORDER_BITS,
    SCORED,
    Candidates,
    ChangeRows,
    Objects,
    Place,
    Scoring,
    Settings,
    Skyband,
    SubBatch,
    Task,
    grow_candidates,
    new_candidates,
    own_scores,
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


class Search(NamedTuple):
    """What the search for the candidates of a sub-batch reads, and the counters that it changes."""

    scoring: Scoring
    objects: Objects
    offset: int
    zones: Zones
    """If they have segments, they cover the partners from the oldest one up to a seq that is not after the sub-batch's first."""
    batch: SubBatch
    skyband: Skyband
    """The key's own."""
    cutoff: float
    blocks: Blocks
    work: I64
    """int64 (COUNTERS,)."""


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


@inner_inlined
def add_of_leaf(search: Search, limit: float, seqs: I64, arrival: int, candidates: Candidates) -> None:
    """Add the candidates of an arrival in the leaf of the objects ``seqs`` that is scored; ``limit`` is no less than any one's bar."""
    batch, skyband, blocks, scores = search.batch, search.skyband, search.blocks, search.blocks.zone.scores
    found, near, best, count = 0, blocks.near, batch.best, blocks.place[COUNT]
    for j in range(len(scores)):
        near[found] = j
        found += scores[j] <= limit
    for at in range(found):
        score, seq = scores[near[at]], seqs[near[at]]
        if seq < batch.first_partner[arrival] or not score <= bound(skyband.stair, pairs_newer_than(skyband.older, seq), search.cutoff):
            continue
        candidates.score[count], candidates.older[count], candidates.arrival[count] = score, seq, arrival
        count += 1
        if score < best[arrival] or best[arrival] != best[arrival]:
            best[arrival] = score
    blocks.place[COUNT] = count


@inner_inlined
def scan_group(search: Search, group: int, limit: float, arrival: int, candidates: Candidates) -> None:
    """Find the candidates of an arrival in a group of leaves."""
    scoring, zones, batch, buffers, work = search.scoring, search.zones, search.batch, search.blocks.zone, search.work
    bound_leaves(scoring, zones, group, arrival, batch, buffers, work)
    for leaf in range(GROUP // LEAF):
        low = group * GROUP + leaf * LEAF
        if buffers.leaf_bounds[leaf] <= limit and score_leaf(scoring, zones, low, arrival, batch, buffers, limit, work) > 0:
            add_of_leaf(search, limit, zones.seqs[low : low + LEAF], arrival, candidates)


@inner
def scan_segment(search: Search, limit: float, candidates: Candidates) -> bool:
    """Find the candidates in the segment at ``blocks.place``, of arrivals from the one there on: False if there may be no room.

    The leaves of a segment of one group are looked at at once, others after the bounds of their groups.
    """
    zones, batch, blocks, work = search.zones, search.batch, search.blocks, search.work
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
            bound_groups(search.scoring, zones, first, first + groups, i, batch, blocks.zone, work)
        for group in range(place[NEXT_GROUP], groups):
            if groups == 1 or bounds[group] <= limit:
                if place[COUNT] + GROUP > room:
                    place[ARRIVAL], place[NEXT_GROUP] = i, group
                    return False
                scan_group(search, first + group, limit, i, candidates)
        place[NEXT_GROUP] = 0
        work[INDEXED] += objects
    return True


@inner
def scan_segments(search: Search, candidates: Candidates) -> bool:
    """Find the candidates in the segments from ``blocks.place`` on; as ``scan_blocks``."""
    zones, batch, skyband, blocks = search.zones, search.batch, search.skyband, search.blocks
    place = blocks.place
    while place[SEGMENT] < len(zones.segments):
        first, stop = zones.segments[place[SEGMENT], FIRST_SEQ], zones.segments[place[SEGMENT], STOP_SEQ]
        place[NEWER_PAIRS] = newer_than(skyband.older, place[NEWER_PAIRS], stop)
        limit = bound(skyband.stair, place[NEWER_PAIRS], search.cutoff)
        if limit != limit or stop <= batch.first_partner[0]:
            break
        if not scan_segment(search, limit, candidates):
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
def scan_arrivals(search: Search) -> None:
    """Score the pairs among the arrivals: fill ``batch.scores`` and start ``batch.best``. O(arrivals^2)."""
    scoring, objects, offset, batch = search.scoring, search.objects, search.offset, search.batch
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
            search.work[SCORED] += i - first
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
def scan_block(search: Search, candidates: Candidates) -> bool:
    """Find the candidates with partners of the block at ``blocks.place``, of arrivals from the one there on: False if there may be no room
    for the next one's. O(partners) compares per arrival."""
    scoring, objects, offset, batch = search.scoring, search.objects, search.offset, search.batch
    skyband, cutoff, blocks, work = search.skyband, search.cutoff, search.blocks, search.work
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
def scan_blocks(search: Search, oldest: int, candidates: Candidates) -> bool:
    """Find the candidates with partners from ``blocks.place`` on down to seq ``oldest``, and their best scores for ``batch.best``.

    False if ``candidates`` needs more room: then go on with the same ``blocks`` and larger arrays.
    """
    skyband, blocks = search.skyband, search.blocks
    place = blocks.place
    while place[HIGH] > oldest:
        high = place[HIGH]
        place[LOW] = max(oldest, high - place[WIDTH])
        place[NEWER_PAIRS] = newer_than(skyband.older, place[NEWER_PAIRS], high)
        limit = bound(skyband.stair, place[NEWER_PAIRS], search.cutoff)
        if limit != limit:
            break
        if not scan_block(search, candidates):
            return False
        sort_found(candidates.older, candidates.order, place[SORTED], place[COUNT], high, place[WIDTH], blocks.distances)
        place[SORTED], place[ARRIVAL], place[HIGH] = place[COUNT], 0, place[LOW]
        place[WIDTH] = min(2 * place[WIDTH], LARGEST)
    return True


@maker
def scan(search: Search, candidates: Candidates) -> Candidates:
    """Find the sub-batch's candidates, those among its arrivals (``batch.scores``) and the others (returned); see the functions above.

    With a finite ``cutoff`` there are none in ``batch.scores``, and ``candidates`` does not grow: ``found`` is -1 if there is no room.
    """
    batch, blocks, zones = search.batch, search.blocks, search.zones
    if batch.size == 0:
        return with_found(candidates, 0)
    if own_scores(batch) > 0:
        scan_arrivals(search)
        start_blocks(blocks.place, batch.first_seq, SMALLEST)
    else:
        for i in range(batch.size):
            batch.best[i] = np.nan
        start_blocks(blocks.place, batch.first_seq + batch.size, LARGEST)
    oldest = int(batch.first_partner[0])
    if len(zones.segments) > 0:
        oldest = max(oldest, zones.segments[0, STOP_SEQ])
        fill_boxes(batch, blocks.zone)
    while not (scan_blocks(search, oldest, candidates) and scan_segments(search, candidates)):
        if search.cutoff < np.inf:
            return with_found(candidates, -1)
        candidates = grow_candidates(candidates, blocks.place[COUNT], 2 * len(candidates.score) + LARGEST)
    search.work[FOUND] += blocks.place[COUNT]
    return with_found(candidates, blocks.place[COUNT])


# Find a sub-batch's candidates by the hash index: only partners whose columns of equalities have the arrival's hash are scored.


@inner
def start_best(batch: SubBatch) -> None:
    """Start ``batch.best`` and ``batch.scores`` without any pairs."""
    for i in range(batch.size):
        batch.best[i] = np.nan
        for j in range(min(i, len(batch.scores))):
            batch.scores[i, j] = np.nan


@inner_inlined
def add_gathered(search: Search, gathered: Gathered, found: int, arrival: int, candidates: Candidates, count: int) -> int:
    """Add the candidates of an arrival among the first ``found`` objects gathered, which are scored; return how many there are now.

    Pairs of two arrivals go to ``batch.scores`` if that has room.
    """
    batch, skyband, best, scores, first_seq = search.batch, search.skyband, search.batch.best, gathered.scores, search.batch.first_seq
    for at in range(found):
        score, seq = scores[at], gathered.seqs[at]
        if not score <= bound(skyband.stair, pairs_newer_than(skyband.older, seq), search.cutoff):
            continue
        if score < best[arrival] or best[arrival] != best[arrival]:
            best[arrival] = score
        if seq >= first_seq and len(batch.scores) > 0:
            batch.scores[arrival, seq - first_seq] = score
            continue
        candidates.score[count], candidates.older[count], candidates.arrival[count] = score, seq, arrival
        candidates.order[count] = ((first_seq + batch.size - seq) << ORDER_BITS) | count
        count += 1
    return count


@maker
def look_up(search: Search, index: HashIndex, key: int, settings: Settings, gathered: Gathered, candidates: Candidates) -> Candidates:
    """Find the sub-batch's candidates as ``scan`` does, by the index, which has the objects before it and where ``walk`` has been; the
    arrivals are put in."""
    batch, objects, offset, work = search.batch, search.objects, search.offset, search.work
    region = index.regions[key]
    start, mask, count, scored, met = region[TABLE_START], region[SIZE] - 1, 0, 0, 0
    start_best(batch)
    for i in range(batch.size):
        seq, first, code = batch.first_seq + i, batch.first_partner[i], gathered.codes[i]
        older = index.heads[start + (code & mask)] if code >= 0 else -1
        met += seq - first
        while older >= first:
            older, found = gather(index, start, mask, code, older, first, gathered)
            if found > 0:
                score_gathered(search.scoring, batch, i, gathered, found)
                scored += found
                if count + BLOCK > len(candidates.score):
                    if search.cutoff < np.inf:
                        region[UPTO] = seq
                        return with_found(candidates, -1)
                    candidates = grow_candidates(candidates, count, 2 * len(candidates.score) + BLOCK)
                count = add_gathered(search, gathered, found, i, candidates, count)
        own = hash_of_arrival(index, settings, batch.side[i], code, objects, seq + offset)
        insert(index, start, mask, seq, own, objects, seq + offset)
    region[UPTO] = batch.first_seq + batch.size
    candidates.order[:count].sort()
    work[SCORED] += scored
    work[INDEXED] += met
    work[INDEXED_SCORED] += scored
    work[FOUND] += count
    return with_found(candidates, count)


@inner
def has_pairs(batch: SubBatch, candidates: Candidates) -> bool:
    """Return True if a sub-batch has candidates, or pairs of two arrivals."""
    for i in range(batch.size):
        if batch.best[i] == batch.best[i]:
            return True
    return candidates.found != 0


# The drivers: one call processes a whole ``advance`` of every key that has arrivals or is due, sub-batch by sub-batch.
#
# They are compiled once and receive the scoring expression as first-class functions.

MOST_FOUND = 4
"""With more candidates per arrival a cutoff is too loose: without one there are more, but each costs less to find."""


class PartnerFinder(NamedTuple):
    """The search for partners, by a scan or by the hash index, as a finder of ``pair_rows.kernels.driver``."""

    scoring: Scoring
    zones: Zones
    hash_index: HashIndex
    cutoff: float
    """float64."""
    blocks: Blocks
    gathered: Gathered
    candidates: Candidates


@maker
def new_finder(scoring: Scoring, zones: Zones, index: HashIndex, cutoff: float, task: Task) -> PartnerFinder:
    """Return the search for the sub-batches of a task."""
    settings = task.settings
    candidates = new_candidates(LARGEST + MOST_FOUND * settings.sub_batch)
    blocks, gathered = (
        new_blocks(zones, settings.sub_batch, settings.costly),
        new_gathered(index.columns, settings.sub_batch),
    )
    return PartnerFinder(scoring, zones, index, cutoff, blocks, gathered, candidates)


@maker
def find(finder: PartnerFinder, task: Task, place: Place, batch: SubBatch, skyband: Skyband) -> tuple[PartnerFinder, bool]:
    """Find the candidates of a sub-batch, as ``Finder.find``."""
    scoring, zones, index, cutoff, blocks = finder.scoring, finder.zones, finder.hash_index, finder.cutoff, finder.blocks
    settings, objects, offset, key = task.settings, task.bucket.objects, place.offset, place.key
    search = Search(scoring, objects, offset, zones, batch, skyband, cutoff, blocks, task.work)
    candidates, gathered, by_index = finder.candidates, finder.gathered, is_used(index, key, batch)
    if by_index:
        index = before_arrivals(index, key, settings, objects, offset, batch)
        by_index = walk(index, key, settings, objects, offset, batch, gathered)
    if by_index:
        candidates = look_up(search, index, key, settings, gathered, candidates)
        may_change = has_pairs(batch, candidates)
    else:
        candidates, may_change = scan(search, candidates), batch.size > 0
    return PartnerFinder(scoring, zones, index, cutoff, blocks, gathered, candidates), may_change


@maker
def pass_over(finder: PartnerFinder, _task: Task, _place: Place, _first: int, _stop: int) -> PartnerFinder:
    """Return the finder: arrivals of other shards are in the windows' arena, from which the index takes them when it needs them."""
    return finder


BY_SCORE = Finder(find, pass_over)
_run = events_driver(BY_SCORE, SKYBAND)
_run_capped = events_driver(BY_SCORE, CAPPED)
_run_shard = shard_driver(BY_SCORE, SKYBAND)
_run_capped_shard = shard_driver(BY_SCORE, CAPPED)


def drive(
    count_as_a: Callable[..., int], score_as_a: Callable[..., None], count_as_b: Callable[..., int], score_as_b: Callable[..., None],
    bound_as_a: Callable[..., None], bound_as_b: Callable[..., None], zones: Zones, index: HashIndex, cutoff: float, task: Task,
) -> tuple[ChangeRows, int, Skyband, int, int, HashIndex]:  # fmt: skip
    """Process all events of a task; the functions are those of ``Scoring``.

    Return change rows and their number, the skybands' (perhaps new) arena and its end, the seq before which all is taken, and the
    (perhaps new) index. Writes to the key table, ``progress`` and ``work``.

    ``zones`` with segments are those of the only key, and end before its first arrival. A finite ``cutoff`` is for one key alone, whose
    skyband has no pair above it; neither has the one returned. The run then ends before
    the first sub-batch that leaves too few pairs in a list that is ``partial``, or that has more than ``MOST_FOUND`` candidates an arrival.
    """
    scoring = Scoring(count_as_a, score_as_a, count_as_b, score_as_b, bound_as_a, bound_as_b, task.bucket.objects.pool)
    finder, keeper = new_finder(scoring, zones, index, cutoff, task), new_skyband_keeper(task.settings, task.bucket)
    scored = task.settings.sub_batch if cutoff == np.inf and task.settings.apart == 1 else 0
    rows, written, keeper, finder, seq = _run(task, finder, keeper, scored)
    return rows, written, keeper.skyband, keeper.end, seq, finder.hash_index


def drive_capped(
    count_as_a: Callable[..., int], score_as_a: Callable[..., None], count_as_b: Callable[..., int], score_as_b: Callable[..., None],
    bound_as_a: Callable[..., None], bound_as_b: Callable[..., None], zones: Zones, index: HashIndex, limits: Limits, task: Task,
) -> tuple[ChangeRows, int, Skyband, int, int, HashIndex]:  # fmt: skip
    """Process all events of a task with a cap per object; see ``drive``."""
    scoring = Scoring(count_as_a, score_as_a, count_as_b, score_as_b, bound_as_a, bound_as_b, task.bucket.objects.pool)
    finder, keeper = new_finder(scoring, zones, index, np.inf, task), new_capped_keeper(limits, task.settings, task.bucket)
    rows, written, keeper, finder, seq = _run_capped(task, finder, keeper, task.settings.sub_batch)
    return rows, written, keeper.skyband, keeper.end, seq, finder.hash_index


def drive_shard(
    count_as_a: Callable[..., int], score_as_a: Callable[..., None], count_as_b: Callable[..., int], score_as_b: Callable[..., None],
    bound_as_a: Callable[..., None], bound_as_b: Callable[..., None], zones: Zones, index: HashIndex, own: OwnBlocks, task: Task,
) -> tuple[ShardRows, int, Skyband, int, int, HashIndex]:  # fmt: skip
    """Find the pairs of the arrivals of a task that are the shard's.

    Return the pairs and their number, the skybands' (perhaps new) arena and its end, the seq before which all is taken, and the (perhaps
    new) index. Other arguments as of ``drive``.
    """
    scoring = Scoring(count_as_a, score_as_a, count_as_b, score_as_b, bound_as_a, bound_as_b, task.bucket.objects.pool)
    finder, keeper = new_finder(scoring, zones, index, np.inf, task), new_skyband_keeper(task.settings, task.bucket)
    rows, written, keeper, finder, seq = _run_shard(task, own, finder, keeper, new_outbox(task.settings, True))
    return rows, written, keeper.skyband, keeper.end, seq, finder.hash_index


class CappedShare(NamedTuple):
    """What the driver of a shard of capped pairs takes besides the task."""

    limits: Limits
    """The limits of the state."""
    own: OwnBlocks
    """The shard's arrivals."""


def drive_capped_shard(
    count_as_a: Callable[..., int], score_as_a: Callable[..., None], count_as_b: Callable[..., int], score_as_b: Callable[..., None],
    bound_as_a: Callable[..., None], bound_as_b: Callable[..., None], zones: Zones, index: HashIndex, share: CappedShare, task: Task,
) -> tuple[ShardRows, int, Skyband, int, int, HashIndex]:  # fmt: skip
    """Find the pairs of the shard's arrivals under a cap per object; see ``drive_shard``."""
    scoring = Scoring(count_as_a, score_as_a, count_as_b, score_as_b, bound_as_a, bound_as_b, task.bucket.objects.pool)
    finder, keeper = new_finder(scoring, zones, index, np.inf, task), new_capped_keeper(share.limits, task.settings, task.bucket)
    rows, written, keeper, finder, seq = _run_capped_shard(task, share.own, finder, keeper, new_outbox(task.settings, False))
    return rows, written, keeper.skyband, keeper.end, seq, finder.hash_index
