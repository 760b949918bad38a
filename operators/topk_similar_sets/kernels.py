"""The driver: one call takes a whole ``advance`` of every key that has arrivals or is due, sub-batch by sub-batch.

It is compiled once; the pairs' condition comes in as first-class functions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from skyband.operators.base import I64, NEVER
from skyband.operators.jit import inner, inner_inlined, jit
from skyband.operators.pair_rows.kernels.fresh import new_near, send_fresh
from skyband.operators.pair_rows.kernels.lists import fill_lists
from skyband.operators.pair_rows.kernels.partners import FoundPartners
from skyband.operators.pair_rows.kernels.share import OwnBlocks, ShardRows, add_found, end_of_block, new_shard_rows, next_own, pass_over
from skyband.operators.pair_rows.kernels.sub_batch import (
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
    IS_A,
    IS_NEITHER,
    NEXT_SEQ,
    ORDER_BITS,
    REGION_START,
    Advance,
    Bucket,
    Candidates,
    ChangeRows,
    Objects,
    Progress,
    Queries,
    Settings,
    Skyband,
    Sources,
    SubBatch,
    grow_candidates,
    history_of,
    new_candidates,
    new_skyband,
    new_sub_batch,
    skyband_of,
)
from skyband.operators.set_index.functions import HAMMING
from skyband.operators.set_index.kernels.arrive import first_alive_of, group_of, other_group, put_range
from skyband.operators.set_index.kernels.index import ask_ahead, insert, lacks_room, look_up, rebuild, sort_few
from skyband.operators.set_index.kernels.probe import PairCondition, ProbingSet, probe
from skyband.operators.set_index.kernels.tables import (
    SLOT_BITS,
    ArrivingSets,
    Index,
    Staircase,
    TokenLookup,
    Tokens,
    new_lookup,
    new_staircase,
)

# Find a sub-batch's candidate pairs in the index, against the staircase frozen at its start (docs/algorithms D3).

FEW = 192
"""Candidates up to which ``sort_few`` is fastest."""


class SearchCriteria(NamedTuple):
    """The similarity and the bounds of a state, fixed over its life."""

    function: int
    """int64: the similarity function."""
    worst_score: float
    """float64: the largest internal score any query accepts."""
    has_condition: bool
    """Whether pairs must meet a condition."""


class SearchInput(NamedTuple):
    """What a search reads."""

    settings: Settings
    criteria: SearchCriteria
    keys: I64
    """int64 (keys, KEY_COLUMNS): the key table."""
    objects: Objects
    """The windows' arena."""
    tokens: Tokens
    """The arrivals' tokens."""


class SearchTables(NamedTuple):
    """What a search writes. A table that is too small is replaced by a larger one."""

    inverted_index: Index
    lookup: TokenLookup
    staircase: Staircase
    candidates: Candidates


class BatchPosition(NamedTuple):
    """Where a sub-batch stands in its key, its tokens and the arena."""

    key: int
    """int64."""
    row: int
    """int64: the row of the tokens of its first arrival."""
    offset: int
    """int64: the object of seq s is at position s + offset of the windows' arena."""
    instant: int
    """int64: the instant up to which earlier calls of ``advance`` have taken every event."""


@inner
def fill_staircase(skyband: Skyband, worst_score: float, staircase: Staircase) -> int:
    """Write the staircase of ``skyband`` below ``worst_score``, without steps that change nothing; return the number of steps."""
    older, stair = skyband.older, skyband.stair
    staircase.below[0], staircase.limit[0] = NEVER, worst_score
    count = 1
    for i in range(len(older)):
        if (i + 1 == len(older) or older[i + 1] != older[i]) and not stair[i] >= staircase.limit[count - 1]:
            staircase.below[count], staircase.limit[count] = older[i], stair[i]
            count += 1
    return count


@inner_inlined
def max_partners(index: Index, batch: SubBatch, i: int, size: int, lookup: TokenLookup, all_sets: bool) -> int:
    """Return an upper bound on the partners of arrival i, whose tokens are looked up."""
    alive = int(batch.first_seq + i - batch.first_partner[i])
    if all_sets:
        return alive
    entries = 0
    for t in range(size):
        if lookup.lists[t] >= 0:
            entries += int(lookup.lists[t] >> SLOT_BITS)
    return min(alive, entries)


@inner_inlined
def search_one(
    test: Callable[..., None], condition: PairCondition, probing: ProbingSet, batch: SubBatch, i: int, index: Index, lookup: TokenLookup,
    staircase: Staircase, candidates: Candidates, count: int, counters: I64,
) -> int:  # fmt: skip
    """Find the candidates of arrival i, ``count`` being known of the arrivals before it; return the new count.

    Pairs within the sub-batch go to ``batch.scores``, the others to ``candidates``.
    """
    found = FoundPartners(candidates.score, candidates.older)
    stop = probe(index, test, condition, probing, lookup, staircase, 0, found, count, counters)
    best = batch.best[i]
    for c in range(count, stop):
        score, older = candidates.score[c], candidates.older[c]
        if score < best or best != best:
            best = score
        if older >= batch.first_seq:
            batch.scores[i, older - batch.first_seq] = score
        else:
            candidates.score[count], candidates.older[count], candidates.arrival[count] = score, older, i
            candidates.order[count] = ((batch.first_seq - older) << ORDER_BITS) | count
            count += 1
    batch.best[i] = best
    return count


@inner
def search_from(
    test_as_a: Callable[..., None], test_as_b: Callable[..., None], reads: SearchInput, position: BatchPosition, batch: SubBatch,
    steps: int, tables: SearchTables, start: int, count: int, counters: I64,
) -> tuple[int, int, int]:  # fmt: skip
    """Search for arrivals from number ``start`` on, until a table is full; the staircase has ``steps`` steps.

    Returns the number of the next arrival, the candidates found so far, and the size ``candidates`` needs: 0 if the index is the full
    table, or if all arrivals are done.
    """
    settings, criteria, objects, tokens = reads.settings, reads.criteria, reads.objects, reads.tokens
    index, lookup, staircase, candidates = tables.inverted_index, tables.lookup, tables.staircase, tables.candidates
    for i in range(start, batch.size):
        row = position.row + i
        codes = tokens.values[tokens.start[row] : tokens.start[row + 1]]
        batch.best[i] = np.nan
        for j in range(i):
            batch.scores[i, j] = np.nan
        if len(codes) == 0 or batch.side[i] == IS_NEITHER:
            continue
        group = group_of(settings, position.key, batch.side[i])
        other = other_group(settings, group)
        if i + 1 < batch.size:
            ask_ahead(index, group, tokens.values[tokens.start[row + 1] : tokens.start[row + 2]])
        if lacks_room(index, len(codes), look_up(index, group, other, codes, lookup)):
            return i, count, 0
        needed = count + max_partners(index, batch, i, len(codes), lookup, criteria.function == HAMMING)
        if needed > len(candidates.score):
            return i, count, needed
        probing = ProbingSet(criteria.function, len(codes), batch.first_partner[i], batch.first_seq + i - 1, other, steps)
        condition = PairCondition(
            objects.floats, objects.integers, position.offset, batch.floats[i], batch.integers[i], objects.pool, criteria.has_condition
        )  # fmt: skip
        test = test_as_a if batch.side[i] == IS_A else test_as_b
        count = search_one(test, condition, probing, batch, i, index, lookup, staircase, candidates, count, counters)
        insert(index, group, batch.first_seq + i, batch.first_partner[0], codes, lookup)
    return batch.size, count, 0


@jit()
def order_candidates(candidates: Candidates, count: int) -> None:
    """Sort the order of the first ``count`` candidates."""
    if count > FEW:
        candidates.order[:count].sort()
    elif count > 1:
        for i in range(count):
            candidates.grouped[i] = candidates.order[i]  # grouped is filled later
        sort_few(candidates.grouped, count, candidates.order)


@jit()
def search(
    test_as_a: Callable[..., None], test_as_b: Callable[..., None], reads: SearchInput, position: BatchPosition, batch: SubBatch,
    skyband: Skyband, tables: SearchTables, work: I64, counters: I64,
) -> SearchTables:  # fmt: skip
    """Find the sub-batch's candidates and put its sets into the index.

    Pairs among its arrivals go to ``batch.scores``, the others to ``candidates`` of the tables returned. ``test_as_a`` and ``test_as_b``
    evaluate the pairs' condition for an arrival on that side. Counts in ``work`` (int64 (COUNTERS,)) and ``counters`` (int64 (PROBED,)).
    """
    index, lookup, staircase, candidates = tables.inverted_index, tables.lookup, tables.staircase, tables.candidates
    if len(skyband.older) + 1 > len(staircase.below):
        staircase = new_staircase(2 * len(skyband.older) + 1)
    steps = fill_staircase(skyband, reads.criteria.worst_score, staircase)
    i, count = 0, 0
    while True:
        current = SearchTables(index, lookup, staircase, candidates)
        i, count, needed = search_from(test_as_a, test_as_b, reads, position, batch, steps, current, i, count, counters)
        if i == batch.size:
            break
        if needed > 0:
            candidates = grow_candidates(candidates, count, 2 * needed)
        else:
            first_alive = first_alive_of(reads.settings, reads.keys, reads.objects.times, position.instant)
            row = position.row + i
            index = rebuild(index, first_alive, reads.tokens.start[row + 1] - reads.tokens.start[row], len(index.newest))
    order_candidates(candidates, count)
    work[FOUND] += count
    found = Candidates(candidates.score, candidates.older, candidates.arrival, candidates.order, candidates.grouped, count)
    return SearchTables(index, lookup, staircase, found)


def drive(
    test_as_a: Callable[..., None], test_as_b: Callable[..., None], settings: Settings, criteria: SearchCriteria, queries: Queries,
    bucket: Bucket, progress: Progress, advance: Advance, sets: ArrivingSets, index: Index, work: I64, counters: I64,
) -> tuple[ChangeRows, int, Skyband, int, Index]:  # fmt: skip
    """Take all events of ``advance``, whose arrivals ``sets`` are in the windows' arena already.

    ``test_as_a`` and ``test_as_b`` evaluate the pairs' condition for an arrival on that side. Returns the change rows and their number,
    the skybands' arena and its end, and the index; arena and index may be new arrays. Writes to the key table, ``progress``, ``work``
    (int64 (COUNTERS,)) and ``counters`` (int64 (PROBED,)).
    """
    keys, objects = bucket.keys, bucket.objects
    skybands = Skybands(bucket.skyband, bucket.skyband_end, new_skyband(1024))
    changes, lists = no_changes(), no_lists(queries)
    batch = new_sub_batch(settings.sub_batch, settings.sub_batch, objects.floats.shape[0], objects.integers.shape[0])
    scratch = new_scratch(settings)
    reads = SearchInput(settings, criteria, keys, objects, sets.tokens)
    tables = SearchTables(index, new_lookup(sets.largest), new_staircase(1024), new_candidates(1024))
    for g in range(len(advance.keys)):
        key, seq = advance.keys[g], advance.first_new[g]
        history = history_of(keys, key, objects.times)
        offset = keys[key, REGION_START] - keys[key, FIRST_STORED]
        fill_lists(queries, history, seq, advance.since - 1, skyband_of(keys, key, skybands.skyband), lists)
        while True:
            batch, first_alive = next_sub_batch(settings, keys, key, seq, advance.until, objects, batch)
            skyband = skyband_of(keys, key, skybands.skyband)
            position = BatchPosition(key, sets.first_row[g] + seq - advance.first_new[g], offset, advance.since - 1)
            tables = search(test_as_a, test_as_b, reads, position, batch, skyband, tables, work, counters)
            sources = Sources(batch, tables.candidates, skyband)
            changes = replay_queries(key, queries, history, sources, lists, progress, changes, work)
            if batch.size > 0:
                skybands = merge_sub_batch(settings, keys, key, first_alive, sources, skybands, scratch)
            seq += batch.size
            if batch.last:
                break
        wake_times(key, queries, history, lists, progress)
    return changes.rows, changes.written, skybands.skyband, skybands.end, tables.inverted_index


# The driver of a shard: as ``drive``, without queries; sets of other shards' arrivals go into the index without a search.


def drive_shard(
    test_as_a: Callable[..., None], test_as_b: Callable[..., None], settings: Settings, criteria: SearchCriteria, own: OwnBlocks,
    bucket: Bucket, advance: Advance, sets: ArrivingSets, index: Index, work: I64, counters: I64,
) -> tuple[ShardRows, int, Skyband, int, Index]:  # fmt: skip
    """Find the pairs of the arrivals of ``advance`` that are the shard's; all are in the windows' arena already.

    Return the pairs and their number, the skybands' arena and its end, and the index; arena and index may be new arrays. Other arguments as
    of ``drive``.
    """
    keys, objects = bucket.keys, bucket.objects
    skybands = Skybands(bucket.skyband, bucket.skyband_end, new_skyband(1024))
    batch = new_sub_batch(settings.sub_batch, settings.sub_batch, objects.floats.shape[0], objects.integers.shape[0])
    scratch, instant = new_scratch(settings), advance.since - 1
    reads = SearchInput(settings, criteria, keys, objects, sets.tokens)
    tables = SearchTables(index, new_lookup(sets.largest), new_staircase(1024), new_candidates(1024))
    near, rows, written = new_near(settings.keep_k, 1024), new_shard_rows(1024), 0
    for g in range(len(advance.keys)):
        key, seq = advance.keys[g], advance.first_new[g]
        stop, row = keys[key, NEXT_SEQ], sets.first_row[g] - seq
        history = history_of(keys, key, objects.times)
        offset = keys[key, REGION_START] - keys[key, FIRST_STORED]
        while seq < stop:
            mine = min(stop, next_own(own, key, seq))
            inverted_index = put_range(
                settings, keys, objects, key, seq, mine, row + seq, sets.tokens, instant, tables.inverted_index, tables.lookup
            )  # fmt: skip
            tables, seq = SearchTables(inverted_index, tables.lookup, tables.staircase, tables.candidates), mine
            if seq == stop:
                break
            keys[key, NEXT_SEQ] = min(stop, end_of_block(own, seq))
            batch, first_alive = next_sub_batch(settings, keys, key, seq, advance.until, objects, batch)
            keys[key, NEXT_SEQ] = stop
            skyband = skyband_of(keys, key, skybands.skyband)
            position = BatchPosition(key, row + seq, offset, instant)
            tables = search(test_as_a, test_as_b, reads, position, batch, skyband, tables, work, counters)
            if settings.keep_k > own.block:  # then hardly a pair is dominated by those of near objects
                rows, written = add_found(key, batch, tables.candidates, rows, written)
            else:
                first = seq - (own.of - 1) * own.block
                near, rows, written = send_fresh(key, first, batch, tables.candidates, skyband, near, rows, written)
            skybands = merge_sub_batch(settings, keys, key, first_alive, Sources(batch, tables.candidates, skyband), skybands, scratch)
            seq += batch.size
        pass_over(settings, keys, key, history)
    return rows, written, skybands.skyband, skybands.end, tables.inverted_index
