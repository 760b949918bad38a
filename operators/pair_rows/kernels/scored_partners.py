"""Find the partners of arrivals by their scores: those within a bound, or the k best of each arrival (docs/algorithms D2).

Arrivals of a key are taken some at a time. A range of older objects, contiguous in the arena, is scored for all of them before the next
range, so that it stays in the first-level cache. Ranges may come in any order; from the newest objects to the oldest, bars rise soonest.
Where the condition has equalities, the partners of an arrival come from a hash index instead, as long as that pays.
Where an object of seq s is at position s + ``offset`` of the arena, partners low..high are at low + offset..high + offset.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from skyband.operators.base import F64, I64
from skyband.operators.jit import inner, inner_inlined, maker
from skyband.operators.pair_rows.hash_index.kernels import (
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
from skyband.operators.pair_rows.hash_index.kernels import START as TABLE_START
from skyband.operators.pair_rows.kernels.partners import (
    KEY,
    NEWER,
    OLDER,
    QUERY,
    FoundPartners,
    PartnerQueries,
    Partners,
    PartnerTask,
    add_found,
    advance_windows,
    ensure_capacity,
    no_partners,
    sort_best_first,
)
from skyband.operators.pair_rows.kernels.sub_batch import next_sub_batch
from skyband.operators.pair_rows.kernels.tables import (
    FIRST_ALIVE,
    FIRST_STORED,
    INDEXED,
    INDEXED_SCORED,
    IS_B,
    IS_NEITHER,
    NEXT_SEQ,
    REGION_START,
    SCORED,
    Objects,
    Scoring,
    Settings,
    SubBatch,
    is_searched,
    new_sub_batch,
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

SMALLEST, LARGEST, UNCOUNTED = 64, 1024, 128
"""Ranges double from the first size to the second; up to the third, scores are looked at without counting first."""

STRETCH = 32
"""Scores that are compared with a bar together: in most stretches none reaches it."""


class Best(NamedTuple):
    """What every query has of every arrival of a sub-batch. S = its largest size."""

    first: I64
    """int64 (queries, S): seq of the first object in the query's window when the arrival comes."""
    found: I64
    """int64 (queries, S): partners in the heap."""
    start: I64
    """int64 (queries,): where the heaps of a query start, one after another."""
    room: I64
    """int64 (queries,): places of each of its heaps; 0 for queries for all partners."""
    heaps: FoundPartners
    """The heaps, of queries for the best partners."""


class Search(NamedTuple):
    """What the search for the partners of a sub-batch reads, its buffers, and the counters that it changes."""

    scoring: Scoring
    zones: Zones
    objects: Objects
    key: int
    offset: int
    seen_until: I64
    """The row ``deletions.UNTIL`` of the arena, or int64 (0,) if no objects can be deleted."""
    queries: PartnerQueries
    batch: SubBatch
    best: Best
    scores: F64
    """float64 (LARGEST,): those of an arrival with a range."""
    buffers: ZoneBuffers
    work: I64
    """int64 (COUNTERS,)."""


@maker
def new_best(queries: PartnerQueries, size: int) -> Best:
    """Return what queries have of no arrivals, for sub-batches of up to ``size``."""
    n = len(queries.k)
    return Best(
        np.zeros((n, size), np.int64), np.zeros((n, size), np.int64), np.zeros(n, np.int64), np.zeros(n, np.int64),
        FoundPartners(np.empty(0, np.float64), np.empty(0, np.int64)),
    )  # fmt: skip


@maker
def start_best(queries: PartnerQueries, times: I64, offset: int, batch: SubBatch, window_first: I64, best: Best) -> Best:
    """Return ``best`` for the arrivals of ``batch``, with nothing found. ``window_first`` (queries,): the windows' first seqs, moved on."""
    places, size = 0, best.found.shape[1]
    for q in range(len(queries.k)):
        best.start[q] = places
        best.room[q] = min(queries.k[q], batch.first_seq + batch.size - batch.first_partner[0])
        places += best.room[q] * size
    for i in range(batch.size):
        advance_windows(window_first, queries, times, offset, batch.first_seq + i)
        for q in range(len(queries.k)):
            best.first[q, i], best.found[q, i] = window_first[q], 0
    if places <= len(best.heaps.score):
        return best
    heaps = FoundPartners(np.empty(2 * places, np.float64), np.empty(2 * places, np.int64))
    return Best(best.first, best.found, best.start, best.room, heaps)


@inner
def heap_of(best: Best, query: int, i: int) -> FoundPartners:
    """Return a view of the heap of one query and arrival, for leaves."""
    start = best.start[query] + i * best.room[query]
    return FoundPartners(best.heaps.score[start : start + best.room[query]], best.heaps.older[start : start + best.room[query]])


@inner
def bar_of(queries: PartnerQueries, best: Best, query: int, i: int, upto: int) -> float:
    """Return the largest score with which a partner before seq ``upto`` can be one of those that the query asks for."""
    k = queries.k[query]
    if k == 0 or best.found[query, i] < k:
        return float(queries.worst_score[query])
    worst = best.start[query] + i * best.room[query]
    bar = best.heaps.score[worst]
    return float(np.nextafter(bar, -np.inf)) if upto <= best.heaps.older[worst] else float(bar)


@inner
def loosest_bar(queries: PartnerQueries, best: Best, i: int, upto: int) -> float:
    """Return the largest score with which a partner before seq ``upto`` can be found by any query."""
    bar = -np.inf
    for q in range(len(queries.k)):
        if best.first[q, i] < upto:
            bar = max(bar, bar_of(queries, best, q, i, upto))
    return bar


@inner_inlined
def score_range(search: Search, i: int, first: int, upto: int, bar: float) -> int:
    """Fill ``scores`` with those of arrival i and the partners first..upto - 1, unless none is at most ``bar``.

    Return how many are at the most; with 0 the scores are undefined.
    """
    scoring, objects, offset, batch, scores = search.scoring, search.objects, search.offset, search.batch, search.scores
    count_as_a, score_as_a = scoring.count_as_a, scoring.score_as_a
    count_as_b, score_as_b = scoring.count_as_b, scoring.score_as_b
    floats, integers, start, stop, good = objects.floats, objects.integers, first + offset, upto + offset, upto - first
    search.work[SCORED] += upto - first
    if good > UNCOUNTED and bar < np.inf:
        if batch.side[i] == IS_B:
            good = count_as_b(floats, integers, start, stop, batch.floats[i], batch.integers[i], scoring.pool, bar)
        else:
            good = count_as_a(floats, integers, start, stop, batch.floats[i], batch.integers[i], scoring.pool, bar)
        if good == 0:
            return 0
    if batch.side[i] == IS_B:
        score_as_b(floats, integers, start, stop, batch.floats[i], batch.integers[i], scoring.pool, scores)
    else:
        score_as_a(floats, integers, start, stop, batch.floats[i], batch.integers[i], scoring.pool, scores)
    return good


@inner
def reach(scores: F64, bar: float) -> bool:
    """Return True if one of ``scores`` is at most ``bar``, without a branch for each."""
    hits = 0
    for j in range(len(scores)):
        hits += scores[j] <= bar
    return hits > 0


@inner
def put(partners: Partners, row: int, query: int, key: int, older: int, newer: int, score: float) -> None:
    """Write row ``row`` of the partners found."""
    fields = partners.fields[row]
    fields[QUERY], fields[KEY], fields[OLDER], fields[NEWER] = query, key, older, newer
    partners.score[row] = score


@inner
def sees(seen_until: I64, position: int, seq: int) -> bool:
    """Return True unless the object at a position of the arena was deleted before the arrival of ``seq``."""
    return bool(len(seen_until) == 0 or seen_until[position] > seq)


@inner_inlined
def take_range(search: Search, i: int, first: int, upto: int, partners: Partners, written: int) -> int:
    """Give arrival i's ``scores`` with the partners first..upto - 1 to every query: into heaps, or as rows; return how many are written."""
    queries, key, batch, offset, seen_until, scores, best = (
        search.queries, search.key, search.batch, search.offset, search.seen_until, search.scores, search.best,
    )  # fmt: skip
    seq = batch.first_seq + i
    for q in range(len(queries.k)):
        low, k, bar = max(first, best.first[q, i]), queries.k[q], bar_of(queries, best, q, i, upto)
        if k == 0:
            for older in range(upto - 1, low - 1, -1):
                if scores[older - first] <= bar and sees(seen_until, older + offset, seq):
                    put(partners, written, q, key, older, batch.newer[i], scores[older - first])
                    written += 1
        else:
            heap, count, top = heap_of(best, q, i), best.found[q, i], upto
            while top > low:
                bottom = max(low, top - STRETCH)
                if reach(scores[bottom - first : top - first], bar):
                    for older in range(top - 1, bottom - 1, -1):
                        if scores[older - first] <= bar and sees(seen_until, older + offset, seq):
                            count = add_found(heap, count, k, scores[older - first], older)
                            if count == k:
                                bar = heap.score[0]
                top = bottom
            best.found[q, i] = count
    return written


@maker
def scan_range(search: Search, low: int, high: int, partners: Partners, written: int) -> tuple[Partners, int]:
    """Find the partners of seq low..high - 1 for all arrivals of ``batch``; return the (perhaps new) rows and their number.

    The range is at most ``LARGEST`` long. O(arrivals * range) vectorised scores.
    """
    queries, batch = search.queries, search.batch
    finds_all = queries.k.min() == 0
    for i in range(batch.size):
        first, upto = max(low, batch.first_partner[i]), min(high, batch.first_seq + i)
        if first >= upto or batch.side[i] == IS_NEITHER:
            continue
        most = score_range(search, i, first, upto, loosest_bar(queries, search.best, i, upto))
        if most > 0:
            if finds_all:
                partners = ensure_capacity(partners, written, most * len(queries.k))
            written = take_range(search, i, first, upto, partners, written)
    return partners, written


@inner_inlined
def take_some(search: Search, i: int, scores: F64, seqs: I64, partners: Partners, written: int) -> int:
    """Give arrival i's ``scores`` with the objects ``seqs`` to every query; as ``take_range``."""
    queries, key, batch, offset, seen_until, best = (
        search.queries, search.key, search.batch, search.offset, search.seen_until, search.best,
    )  # fmt: skip
    for q in range(len(queries.k)):
        first, k, worst = best.first[q, i], queries.k[q], queries.worst_score[q]
        for j in range(len(scores)):
            if scores[j] <= worst and seqs[j] >= first and sees(seen_until, seqs[j] + offset, batch.first_seq + i):
                if k == 0:
                    put(partners, written, q, key, seqs[j], batch.newer[i], scores[j])
                    written += 1
                else:
                    best.found[q, i] = add_found(heap_of(best, q, i), best.found[q, i], k, scores[j], seqs[j])
    return written


@maker
def scan_segment(search: Search, segment: int, partners: Partners, written: int) -> tuple[Partners, int]:
    """Find the partners in a segment of the zones for all arrivals of ``batch``; as ``scan_range``.

    Bars rise from leaf to leaf; the leaves of a segment of one group are looked at at once, others after the bounds of their groups.
    """
    scoring, zones, queries, batch, buffers, best, work = (
        search.scoring, search.zones, search.queries, search.batch, search.buffers, search.best, search.work,
    )  # fmt: skip
    stop, first = zones.segments[segment, STOP_SEQ], zones.segments[segment, START] // GROUP
    groups, finds_all = (stop - zones.segments[segment, FIRST_SEQ]) // GROUP, queries.k.min() == 0
    for i in range(batch.size):
        if batch.first_partner[i] >= stop:
            break
        if batch.side[i] == IS_NEITHER:
            continue
        if groups > 1:
            bound_groups(scoring, zones, first, first + groups, i, batch, buffers, work)
        work[INDEXED] += groups * GROUP
        for group in range(groups):
            if groups > 1 and buffers.group_bounds[group] > loosest_bar(queries, best, i, stop):
                continue
            bound_leaves(scoring, zones, first + group, i, batch, buffers, work)
            for leaf in range(GROUP // LEAF):
                bar, low = loosest_bar(queries, best, i, stop), (first + group) * GROUP + leaf * LEAF
                if buffers.leaf_bounds[leaf] <= bar and score_leaf(scoring, zones, low, i, batch, buffers, bar, work) > 0:
                    if finds_all:
                        partners = ensure_capacity(partners, written, LEAF * len(queries.k))
                    seqs = zones.seqs[low : low + LEAF]
                    written = take_some(search, i, buffers.scores, seqs, partners, written)
    return partners, written


@maker
def look_up(
    search: Search, index: HashIndex, settings: Settings, gathered: Gathered, partners: Partners, written: int
) -> tuple[Partners, int]:  # fmt: skip
    """Find the partners of all arrivals of ``batch`` by the index, which has the objects before them and where ``walk`` has been; the
    arrivals are put in. As ``scan_range``."""
    batch, objects, offset, queries, work = search.batch, search.objects, search.offset, search.queries, search.work
    region, finds_all = index.regions[search.key], queries.k.min() == 0
    start, mask, scored, met = region[TABLE_START], region[SIZE] - 1, 0, 0
    for i in range(batch.size):
        seq, first, code = batch.first_seq + i, batch.first_partner[i], gathered.codes[i]
        older = index.heads[start + (code & mask)] if code >= 0 else -1
        met += seq - first
        while older >= first:
            older, found = gather(index, start, mask, code, older, first, gathered)
            if found > 0:
                score_gathered(search.scoring, batch, i, gathered, found)
                scored += found
                if finds_all:
                    partners = ensure_capacity(partners, written, found * len(queries.k))
                written = take_some(search, i, gathered.scores[:found], gathered.seqs[:found], partners, written)
        own = hash_of_arrival(index, settings, batch.side[i], code, objects, seq + offset)
        insert(index, start, mask, seq, own, objects, seq + offset)
    region[UPTO] = batch.first_seq + batch.size
    work[SCORED] += scored
    work[INDEXED] += met
    work[INDEXED_SCORED] += scored
    return partners, written


@maker
def scan_window(search: Search, partners: Partners, written: int) -> tuple[Partners, int]:
    """Find the partners of all arrivals of ``batch`` range by range, and then those in zones; as ``scan_range``."""
    batch, zones = search.batch, search.zones
    oldest, high, width = batch.first_partner[0], batch.first_seq + batch.size, SMALLEST
    if len(zones.segments) > 0:
        oldest = max(oldest, zones.segments[0, STOP_SEQ])
        fill_boxes(batch, search.buffers)
    while high > oldest:
        low = max(oldest, high - width)
        partners, written = scan_range(search, low, high, partners, written)
        high, width = low, min(2 * width, LARGEST)
    for segment in range(len(zones.segments)):
        partners, written = scan_segment(search, segment, partners, written)
    return partners, written


@inner
def write_best(queries: PartnerQueries, key: int, batch: SubBatch, best: Best, partners: Partners, written: int) -> int:
    """Write every arrival's best partners, the best first; return how many are written."""
    for i in range(batch.size):
        for q in range(len(queries.k)):
            heap, count = heap_of(best, q, i), best.found[q, i]
            sort_best_first(heap, count)
            for at in range(count):
                put(partners, written, q, key, heap.older[at], batch.newer[i], heap.score[at])
                written += 1
    return written


@inner
def leave_to_others(settings: Settings, key: int, batch: SubBatch) -> None:
    """Take arrivals that other shards search for off their sides: then no partner is looked for."""
    for i in range(batch.size):
        if not is_searched(settings, key, batch.first_seq + i):
            batch.side[i] = IS_NEITHER


def find_partners(
    count_as_a: Callable[..., int], score_as_a: Callable[..., None], count_as_b: Callable[..., int], score_as_b: Callable[..., None],
    bound_as_a: Callable[..., None], bound_as_b: Callable[..., None], zones: Zones, index: HashIndex, task: PartnerTask,
    work: I64,
) -> tuple[Partners, int, HashIndex]:  # fmt: skip
    """Find the partners of all arrivals of a task for every query; the functions are those of ``Scoring``.

    ``zones`` with segments are those of the only key, and end before its first arrival.
    Returns the partners and their number, best ones grouped by arrival, all ones perhaps by ranges; and the (perhaps new) index. Writes to
    the key table and to ``work`` (int64 (COUNTERS,)).
    """
    settings, queries, keys, objects, advance = task.settings, task.queries, task.keys, task.objects, task.advance
    scoring = Scoring(count_as_a, score_as_a, count_as_b, score_as_b, bound_as_a, bound_as_b, objects.pool)
    partners, written, seen_until = no_partners(), 0, np.empty(0, np.int64)
    if settings.own_integers > 0:
        seen_until = objects.integers[-1]
    batch, buffers = (
        new_sub_batch(
            settings.sub_batch, 0, objects.floats.shape[0] - settings.own_floats, objects.integers.shape[0] - settings.own_integers
        ),
        new_zone_buffers(zones, settings.sub_batch),
    )
    gathered = new_gathered(index.columns, settings.sub_batch)
    best, scores, window_first = new_best(queries, settings.sub_batch), np.empty(LARGEST, np.float64), np.empty(len(queries.k), np.int64)
    for g in range(len(advance.keys)):
        key, seq = advance.keys[g], advance.first_new[g]
        offset = keys[key, REGION_START] - keys[key, FIRST_STORED]
        window_first[:] = keys[key, FIRST_ALIVE]
        while seq < keys[key, NEXT_SEQ]:
            batch, first_alive = next_sub_batch(settings, keys, key, seq, advance.until, objects, batch)
            if settings.shards > 1:
                leave_to_others(settings, key, batch)
            best = start_best(queries, objects.times, offset, batch, window_first, best)
            search = Search(scoring, zones, objects, key, offset, seen_until, queries, batch, best, scores, buffers, work)
            by_index = is_used(index, key, batch)
            if by_index:
                index = before_arrivals(index, key, settings, objects, offset, batch)
                by_index = walk(index, key, settings, objects, offset, batch, gathered)
            if by_index:
                partners, written = look_up(search, index, settings, gathered, partners, written)
            else:
                partners, written = scan_window(search, partners, written)
            partners = ensure_capacity(partners, written, best.found[:, : batch.size].sum())
            written = write_best(queries, key, batch, best, partners, written)
            keys[key, FIRST_ALIVE] = first_alive
            seq += batch.size
    return partners, written, index
