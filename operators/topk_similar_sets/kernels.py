"""Find the candidates of a sub-batch in the index of the window's sets; and the drivers of top-k similar sets.

The drivers are compiled once; the pairs' condition comes in as first-class functions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from skyband.operators.base import I64, NEVER
from skyband.operators.jit import inner, inner_inlined, jit, maker
from skyband.operators.pair_rows.kernels.driver import SKYBAND, Finder, events_driver, shard_driver
from skyband.operators.pair_rows.kernels.partners import FoundPartners
from skyband.operators.pair_rows.kernels.share import OwnBlocks, ShardRows, new_outbox
from skyband.operators.pair_rows.kernels.sub_batch import new_skyband_keeper
from skyband.operators.pair_rows.kernels.tables import (
    FOUND,
    IS_A,
    IS_NEITHER,
    ORDER_BITS,
    Candidates,
    ChangeRows,
    Place,
    Skyband,
    SubBatch,
    Task,
    grow_candidates,
    new_candidates,
    with_found,
)
from skyband.operators.set_index.functions import HAMMING
from skyband.operators.set_index.kernels.arrive import StoredSets, group_of, other_group, put_range, rebuild_index
from skyband.operators.set_index.kernels.index import ask_ahead, insert, lacks_room, look_up, sort_few
from skyband.operators.set_index.kernels.probe import PairCondition, Probe, ProbingSet, find_set_partners
from skyband.operators.set_index.kernels.tables import (
    SLOT_BITS,
    ArrivingSets,
    Index,
    Staircase,
    TokenLookup,
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


class SetSource(NamedTuple):
    """What a search reads of a task, and the counters that it changes."""

    test_as_a: Callable[..., None]
    """The pairs' condition for an arrival on side a."""
    test_as_b: Callable[..., None]
    """As ``test_as_a``, for an arrival on side b."""
    criteria: SearchCriteria
    stored: StoredSets
    first_row: I64
    """int64 (m,): the row of ``Tokens`` of the first arrival of each of ``Advance.keys``."""
    counters: I64
    """int64 (PROBED,)."""


class SetFinder(NamedTuple):
    """The index of the window's sets, as a finder of ``pair_rows.kernels.driver``.

    A table that is too small is replaced by a larger one.
    """

    source: SetSource
    inverted_index: Index
    lookup: TokenLookup
    staircase: Staircase
    candidates: Candidates


class Search(NamedTuple):
    """The search for the candidates of a sub-batch."""

    finder: SetFinder
    place: Place
    batch: SubBatch
    row: int
    """int64: the row of the tokens of its first arrival."""
    steps: int
    """int64: steps of the staircase."""


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
def search_one(search: Search, i: int, tokens: int, group: int, count: int) -> int:
    """Find the candidates of arrival i, ``count`` being known of the arrivals before it; return the new count.

    Its ``tokens`` are looked up. Pairs within the sub-batch go to ``batch.scores``, the others to ``candidates``.
    """
    finder, batch, candidates, source = search.finder, search.batch, search.finder.candidates, search.finder.source
    criteria, objects = source.criteria, source.stored.objects
    first = batch.first_partner[i]
    probing = ProbingSet(
        criteria.function, tokens, first, batch.first_seq + i - 1, other_group(source.stored.settings, group), search.steps
    )
    condition = PairCondition(
        objects.floats, objects.integers, search.place.offset, batch.floats[i], batch.integers[i], objects.pool, criteria.has_condition
    )  # fmt: skip
    test = source.test_as_a if batch.side[i] == IS_A else source.test_as_b
    partners = FoundPartners(candidates.score, candidates.older)
    probe = Probe(finder.inverted_index, probing, finder.lookup, finder.staircase, test, condition, 0, partners, source.counters)
    stop = find_set_partners(probe, count)
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
    finder: SetFinder, place: Place, batch: SubBatch, row: int, steps: int, start: int, count: int
) -> tuple[int, int, int]:  # fmt: skip
    """Search for arrivals from number ``start`` on, until a table is full; others as of ``Search``.

    Returns the number of the next arrival, the candidates found so far, and the size ``candidates`` needs: 0 if the index is the full
    table, or if all arrivals are done.
    """
    settings, tokens = finder.source.stored.settings, finder.source.stored.tokens
    index, lookup, search = finder.inverted_index, finder.lookup, Search(finder, place, batch, row, steps)
    for i in range(start, batch.size):
        own = row + i
        codes = tokens.values[tokens.start[own] : tokens.start[own + 1]]
        batch.best[i] = np.nan
        for j in range(i):
            batch.scores[i, j] = np.nan
        if len(codes) == 0 or batch.side[i] == IS_NEITHER:
            continue
        group = group_of(settings, place.key, batch.side[i])
        if i + 1 < batch.size:
            ask_ahead(index, group, tokens.values[tokens.start[own + 1] : tokens.start[own + 2]])
        if lacks_room(index, len(codes), look_up(index, group, other_group(settings, group), codes, lookup)):
            return i, count, 0
        needed = count + max_partners(index, batch, i, len(codes), lookup, finder.source.criteria.function == HAMMING)
        if needed > len(finder.candidates.score):
            return i, count, needed
        count = search_one(search, i, len(codes), group, count)
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


@maker
def find_in_index(finder: SetFinder, task: Task, place: Place, batch: SubBatch, skyband: Skyband) -> tuple[SetFinder, bool]:
    """Find the candidates of a sub-batch, as ``Finder.find``, and put its sets into the index.

    Pairs among its arrivals go to ``batch.scores``, the others to ``candidates``.
    """
    source = finder.source
    if len(skyband.older) + 1 > len(finder.staircase.below):
        staircase = new_staircase(2 * len(skyband.older) + 1)
        finder = SetFinder(source, finder.inverted_index, finder.lookup, staircase, finder.candidates)
    steps = fill_staircase(skyband, source.criteria.worst_score, finder.staircase)
    row = source.first_row[place.group] + batch.first_seq - task.advance.first_new[place.group]
    i, count = 0, 0
    while True:
        i, count, needed = search_from(finder, place, batch, row, steps, i, count)
        if i == batch.size:
            break
        if needed > 0:
            candidates = grow_candidates(finder.candidates, count, 2 * needed)
            finder = SetFinder(source, finder.inverted_index, finder.lookup, finder.staircase, candidates)
        else:
            tokens = source.stored.tokens.start[row + i + 1] - source.stored.tokens.start[row + i]
            index = rebuild_index(source.stored, finder.inverted_index, tokens)
            finder = SetFinder(source, index, finder.lookup, finder.staircase, finder.candidates)
    order_candidates(finder.candidates, count)
    task.work[FOUND] += count
    found = with_found(finder.candidates, count)
    return SetFinder(source, finder.inverted_index, finder.lookup, finder.staircase, found), batch.size > 0


@maker
def put_others(finder: SetFinder, task: Task, place: Place, first: int, stop: int) -> SetFinder:
    """Put the sets that other shards search for into the index, as ``Finder.pass_over``."""
    source = finder.source
    row = source.first_row[place.group] + first - task.advance.first_new[place.group]
    index = put_range(source.stored, place.key, first, stop, row, finder.inverted_index, finder.lookup)
    return SetFinder(source, index, finder.lookup, finder.staircase, finder.candidates)


@maker
def new_finder(
    test_as_a: Callable[..., None], test_as_b: Callable[..., None], criteria: SearchCriteria, task: Task, sets: ArrivingSets, index: Index,
    counters: I64,
) -> SetFinder:  # fmt: skip
    """Return the finder for a task whose arrivals have ``sets``."""
    stored = StoredSets(task.settings, task.bucket.keys, task.bucket.objects, sets.tokens, task.advance.since - 1)
    source = SetSource(test_as_a, test_as_b, criteria, stored, sets.first_row, counters)
    return SetFinder(source, index, new_lookup(sets.largest), new_staircase(1024), new_candidates(1024))


INDEX = Finder(find_in_index, put_others)
_run = events_driver(INDEX, SKYBAND)
_run_shard = shard_driver(INDEX, SKYBAND)


def drive(
    test_as_a: Callable[..., None], test_as_b: Callable[..., None], criteria: SearchCriteria, task: Task, sets: ArrivingSets, index: Index,
    counters: I64,
) -> tuple[ChangeRows, int, Skyband, int, Index]:  # fmt: skip
    """Process all events of a task, whose arrivals have ``sets``.

    ``test_as_a`` and ``test_as_b`` evaluate the pairs' condition for an arrival on that side. Returns the change rows and their number,
    the skybands' arena and its end, and the index; arena and index may be new arrays. Writes to the key table, ``progress``, ``work``
    and ``counters`` (int64 (PROBED,)).
    """
    finder = new_finder(test_as_a, test_as_b, criteria, task, sets, index, counters)
    keeper = new_skyband_keeper(task.settings, task.bucket)
    rows, written, keeper, finder, _ = _run(task, finder, keeper, task.settings.sub_batch)
    return rows, written, keeper.skyband, keeper.end, finder.inverted_index


def drive_shard(
    test_as_a: Callable[..., None], test_as_b: Callable[..., None], criteria: SearchCriteria, own: OwnBlocks, task: Task,
    sets: ArrivingSets, index: Index, counters: I64,
) -> tuple[ShardRows, int, Skyband, int, Index]:  # fmt: skip
    """Find the pairs of the arrivals of a task that are the shard's; other shards' sets go into the index without a search.

    Return the pairs and their number, the skybands' arena and its end, and the index; arena and index may be new arrays. Other arguments as
    of ``drive``.
    """
    finder = new_finder(test_as_a, test_as_b, criteria, task, sets, index, counters)
    keeper = new_skyband_keeper(task.settings, task.bucket)
    # With K larger than a block hardly a pair is dominated by those of near objects.
    outbox = new_outbox(task.settings, task.settings.keep_k <= own.block)
    rows, written, keeper, finder, _ = _run_shard(task, own, finder, keeper, outbox)
    return rows, written, keeper.skyband, keeper.end, finder.inverted_index
