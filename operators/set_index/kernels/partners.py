"""Find the partners of each arrival: the older sets of a window that are similar enough, or the k most similar of them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from skyband.operators.base import I64, NEVER
from skyband.operators.jit import inner_inlined
from skyband.operators.pair_rows.kernels.arena import copy_attributes, side_of
from skyband.operators.pair_rows.kernels.partners import (
    KEY,
    NEWER,
    OLDER,
    QUERY,
    FoundPartners,
    PartnerQueries,
    Partners,
    PartnerTask,
    advance_windows,
    ensure_capacity,
    no_partners,
    sort_best_first,
)
from skyband.operators.pair_rows.kernels.tables import (
    FIRST_ALIVE,
    FIRST_STORED,
    IS_A,
    IS_NEITHER,
    NEXT_SEQ,
    REGION_START,
    is_searched,
)
from skyband.operators.set_index.kernels.arrive import StoredSets, group_of, other_group, put, rebuild_index
from skyband.operators.set_index.kernels.index import insert, lacks_room, look_up
from skyband.operators.set_index.kernels.probe import PairCondition, Probe, ProbingSet, find_set_partners
from skyband.operators.set_index.kernels.tables import ArrivingSets, Index, Staircase, TokenLookup, new_lookup, new_staircase


@inner_inlined
def start_probe(
    index: Index, probing: ProbingSet, lookup: TokenLookup, staircase: Staircase, test: Callable[..., None], condition: PairCondition,
    k: int, found: FoundPartners, counters: I64,
) -> int:  # fmt: skip
    """Fill ``found`` with the partners of a set, and return how many.

    A leaf: where references are counted, a ``Probe`` would count those of all its arrays for each set.
    """
    return find_set_partners(Probe(index, probing, lookup, staircase, test, condition, k, found, counters), 0)


def find_partners(
    test_as_a: Callable[..., None], test_as_b: Callable[..., None], function: int, has_condition: bool, task: PartnerTask,
    sets: ArrivingSets, index: Index, counters: I64,
) -> tuple[Partners, int, Index]:  # fmt: skip
    """Find the partners of all arrivals of a task for every query, and put the arrivals into the index.

    Return the partners, their number, and the (perhaps new) index. Writes to the key table and to ``counters`` (int64 (PROBED,)).
    """
    settings, queries, keys, objects, advance = task.settings, task.queries, task.keys, task.objects, task.advance
    stored = StoredSets(settings, keys, objects, sets.tokens, advance.since - 1)
    partners, written = no_partners(), 0
    lookup, staircase = new_lookup(sets.largest), new_staircase(1)
    found = FoundPartners(np.empty(1024, np.float64), np.empty(1024, np.int64))
    query_count, tokens = len(queries.k), sets.tokens
    first, first_of_state = np.empty(query_count, np.int64), np.empty(1, np.int64)
    state = PartnerQueries(np.zeros(1, np.int64), np.full(1, settings.window_count), np.full(1, settings.window_micros), np.zeros(1))
    own_floats, own_integers = np.empty(objects.floats.shape[0], np.float64), np.empty(objects.integers.shape[0], np.int64)
    for g in range(len(advance.keys)):
        key = advance.keys[g]
        offset = keys[key, REGION_START] - keys[key, FIRST_STORED]
        first[:], first_of_state[:] = keys[key, FIRST_ALIVE], keys[key, FIRST_ALIVE]
        for seq in range(advance.first_new[g], keys[key, NEXT_SEQ]):
            advance_windows(first_of_state, state, objects.times, offset, seq)
            advance_windows(first, queries, objects.times, offset, seq)
            keys[key, FIRST_ALIVE] = first_of_state[0]
            row, side = sets.first_row[g] + seq - advance.first_new[g], side_of(settings, objects, seq + offset)
            codes = tokens.values[tokens.start[row] : tokens.start[row + 1]]
            if len(codes) == 0 or side == IS_NEITHER:
                continue
            group = group_of(settings, key, side)
            if settings.shards > 1 and not is_searched(settings, key, seq):
                index = put(stored, index, group, seq, first_of_state[0], codes, lookup)
                continue
            copy_attributes(objects, seq + offset, own_floats, own_integers)
            other = other_group(settings, group)
            needed = look_up(index, group, other, codes, lookup)
            if lacks_room(index, len(codes), needed):
                index = rebuild_index(stored, index, len(codes))
                look_up(index, group, other, codes, lookup)
            for q in range(query_count):
                if seq - first[q] > len(found.score):
                    found = FoundPartners(np.empty(2 * (seq - first[q]), np.float64), np.empty(2 * (seq - first[q]), np.int64))
                staircase.below[0], staircase.limit[0] = NEVER, queries.worst_score[q]
                if q > 0:
                    look_up(index, group, other, codes, lookup)  # starts a new clock for this query
                probing = ProbingSet(function, len(codes), first[q], seq - 1, other, 1)
                condition = PairCondition(objects.floats, objects.integers, offset, own_floats, own_integers, objects.pool, has_condition)
                test = test_as_a if side == IS_A else test_as_b
                count = start_probe(index, probing, lookup, staircase, test, condition, queries.k[q], found, counters)
                if queries.k[q] > 0:
                    sort_best_first(found, count)
                partners = ensure_capacity(partners, written, count)
                for i in range(count):
                    fields = partners.fields[written + i]
                    fields[QUERY], fields[KEY], fields[OLDER] = q, key, found.older[i]
                    fields[NEWER] = 2 * seq + (1 if side == IS_A else 0)
                    partners.score[written + i] = found.score[i]
                written += count
            insert(index, group, seq, first_of_state[0], codes, lookup)
    return partners, written, index
