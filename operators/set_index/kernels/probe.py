"""Find the partners of an arriving set by prefix filtering over the inverted index (docs/algorithms D3).

The lists of its a tokens are read from the newest entry back, the shortest list first. After p - 1 lists, a set not met yet shares at most
a - p + 1 tokens with it, which bounds the score: a list is read back only as far as the staircase admits that score. A set that is met is
compared by size and signature (one cache line). The common tokens of those that remain are counted, some dozens of entries later: so the
outcome of a comparison is no branch, which the processor would mispredict.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from skyband.operators.base import F64, I64
from skyband.operators.jit import inner, inner_inlined
from skyband.operators.pair_rows.kernels.partners import FoundPartners, add_found
from skyband.operators.prefetch import prefetch
from skyband.operators.set_index.functions import HAMMING
from skyband.operators.set_index.kernels.similarity import best_score, may_reach, popcount, score_of
from skyband.operators.set_index.kernels.tables import (
    AT_ONCE,
    CLOCK,
    FIRST,
    HIGH,
    LANES,
    LOW,
    MET,
    POSITION_MASK,
    PREVIOUS,
    SEQ,
    SEQ_BITS,
    SEQ_MASK,
    SIZE_BITS,
    SIZE_MASK,
    SLOT_BITS,
    SLOT_COLUMNS,
    SLOT_MASK,
    START,
    Index,
    Staircase,
    TokenLookup,
)

AHEAD = 3
"""Distance in entries of the set that is prefetched."""

READ, WEIGHED, COUNTED, PROBED = range(4)
"""Elements of the counters, int64 (PROBED,): list entries read, sets verified, sets whose common tokens were counted."""


class ProbingSet(NamedTuple):
    """An arriving set and the range of objects it is compared with."""

    function: int
    """int64: the similarity function."""
    size: int
    """int64: its number of tokens, at least 1."""
    first_seq: int
    """int64: seq of the first object it can pair with."""
    last_seq: int
    """int64: seq of the last object it can pair with."""
    group: int
    """int64: the group it is compared with."""
    step_count: int
    """int64: the number of steps of the staircase, at least 1."""


class PairCondition(NamedTuple):
    """What the compiled condition of a pair reads; it scores a pair NaN that does not meet the condition."""

    floats: F64
    """float64 (float attributes, size): the windows' arena."""
    integers: I64
    """int64 (other attributes, size)."""
    offset: int
    """int64: the object of seq s is at s + offset."""
    own_floats: F64
    """float64 (float attributes,): attributes of the arrival."""
    own_integers: I64
    """int64 (other attributes,)."""
    pool: I64
    """int64: the pool of the arena."""
    exists: bool
    """False if every pair qualifies."""


class Probe(NamedTuple):
    """A search for the partners of an arriving set."""

    inverted_index: Index
    probing: ProbingSet
    lookup: TokenLookup
    """The set's tokens, looked up."""
    staircase: Staircase
    """What admits a score."""
    test: Callable[..., None]
    """The compiled condition of pairs."""
    condition: PairCondition
    k: int
    """int64: only the best k are kept: ``found`` is a heap with the worst first, and the only step is lowered to the worst. 0 for all."""
    found: FoundPartners
    counters: I64
    """int64 (PROBED,)."""


@inner_inlined
def most_common_tokens(index: Index, probing: ProbingSet, lookup: TokenLookup, at: int, size: int, most: int) -> int:
    """Return an upper bound, ``most`` at most, on the tokens that the set of ``size`` at a position shares with the arriving one."""
    sets = index.sets
    low, high, other_low, other_high = lookup.signature[0], lookup.signature[1], sets[at + LOW], sets[at + HIGH]
    most = min(most, probing.size - popcount(low & ~other_low) - popcount(high & ~other_high))
    return int(min(most, size - popcount(other_low & ~low) - popcount(other_high & ~high)))


@inner_inlined
def verify(index: Index, probing: ProbingSet, at: int, limit: float) -> float:
    """Return the score of the arriving set with the one at a position, NaN if worse than ``limit``."""
    tokens, marks, clock = index.tokens, index.marks, index.scalars[CLOCK]
    a, b = probing.size, index.sets[at + MET] & SIZE_MASK
    i = index.sets[at + FIRST] & POSITION_MASK
    common, stop = 0, i + b
    while True:
        for j in range(LANES):
            common += int(marks[tokens[i + j]] == clock)
        i += LANES
        if i >= stop:
            score = score_of(probing.function, common, a, b)
            return score if score <= limit else np.nan
        if not may_reach(probing.function, min(common + stop - i, a), a, b, limit):
            return np.nan


@inner_inlined
def passes(probe: Probe, seq: int) -> bool:
    """Return True if the pair with the object ``seq`` meets the condition."""
    test, condition, lookup = probe.test, probe.condition, probe.lookup
    if not condition.exists:
        return True
    at = seq + condition.offset
    test(condition.floats, condition.integers, at, at + 1, condition.own_floats, condition.own_integers, condition.pool, lookup.condition)
    return bool(lookup.condition[0] == lookup.condition[0])


@inner
def last_step_reached(staircase: Staircase, step: int, score: float) -> int:
    """Return the last of the steps 0 to ``step`` that admits ``score``, or -1."""
    while step >= 0 and staircase.limit[step] < score:
        step -= 1
    return step


@inner_inlined
def compare_entries(
    probe: Probe, last: int, lowest: int, most: int, start: int, entry: int, step: int, near: int
) -> tuple[int, int, int]:  # fmt: skip
    """Add the sets to the ``near`` ones in ``lookup`` that can be partners by size and signature, without a branch on the outcome.

    Reads a list back from ``entry`` to ``start`` or to the seq ``lowest``, until ``AT_ONCE`` sets are near. Returns the next entry (before
    ``start`` at the end), its step of the staircase, and the number near. The arriving set shares ``most`` tokens at most with each.
    """
    index, probing, lookup, staircase = probe.inverted_index, probe.probing, probe.lookup, probe.staircase
    sets, postings, below, limits = index.sets, index.postings, staircase.below, staircase.limit
    clock, now = index.scalars[CLOCK], probing.last_seq + 1
    read, weighed = 0, 0
    while entry >= start and near < AT_ONCE:
        seq = now - ((now - postings[entry]) & SEQ_MASK)
        if seq < lowest:
            entry = start - 1
            break
        at = (postings[entry] >> SEQ_BITS) & POSITION_MASK
        entry -= 1
        prefetch(sets, postings[max(entry - AHEAD, start)] >> SEQ_BITS)
        while step < last and seq < below[step + 1]:
            step += 1
        size = sets[at + MET] & SIZE_MASK
        new = int(sets[at + MET] >> SIZE_BITS != clock) & int(sets[at + SEQ] == seq)
        sets[at + MET] = (clock << SIZE_BITS) | size
        common = most_common_tokens(index, probing, lookup, at, size, most)
        lookup.near[near], lookup.near_step[near] = at, step
        near += new & int(may_reach(probing.function, common, probing.size, size, limits[step]))
        read += 1
        weighed += new
    probe.counters[READ] += read
    probe.counters[WEIGHED] += weighed
    return entry, step, near


@inner_inlined
def add_near(probe: Probe, near: int, count: int) -> int:
    """Count the common tokens of the ``near`` sets, and append the partners among them as ``find_set_partners`` does; return the new
    count."""
    index, lookup, staircase = probe.inverted_index, probe.lookup, probe.staircase
    probe.counters[COUNTED] += near
    for i in range(near):
        row = lookup.near[i] & POSITION_MASK
        score = verify(index, probe.probing, row, staircase.limit[lookup.near_step[i]])
        if score == score and passes(probe, index.sets[row + SEQ]):
            count = add_partner(probe, count, score, index.sets[row + SEQ])
    return count


@inner
def find_set_partners(probe: Probe, count: int) -> int:
    """Append the partners whose score the staircase admits to ``found``, which has ``count``; return the new count."""
    index, probing, lookup, staircase = probe.inverted_index, probe.probing, probe.lookup, probe.staircase
    if probing.function == HAMMING:
        return scan_window(probe, count)
    slots, last, near = index.slots, probing.step_count - 1, 0
    for p in range(probing.size):
        left = probing.size - p
        last = last_step_reached(staircase, last, best_score(probing.function, left, probing.size))
        if last < 0:
            break
        lowest = probing.first_seq if last + 1 == probing.step_count else max(probing.first_seq, staircase.below[last + 1])
        if lowest > probing.last_seq:
            break
        if lookup.lists[p] < 0:
            continue
        step, start = 0, slots[(lookup.lists[p] & SLOT_MASK) * SLOT_COLUMNS + START]
        entry = start + (lookup.lists[p] >> SLOT_BITS) - 1
        while entry >= start:
            entry, step, near = compare_entries(probe, last, lowest, left, start, entry, step, near)
            if near == AT_ONCE or probe.k > 0:
                count = add_near(probe, near, count)
                near = 0
    return add_near(probe, near, count)


@inner
def scan_window(probe: Probe, count: int) -> int:
    """Do as ``find_set_partners``, but verify every set of the window: small sets without a common token can be near (docs/algorithms
    E1.4)."""
    index, probing, lookup, staircase, counters = probe.inverted_index, probe.probing, probe.lookup, probe.staircase, probe.counters
    sets, row, step = index.sets, index.newest[probing.group], 0
    last = last_step_reached(staircase, probing.step_count - 1, 0.0)
    if last < 0:
        return count
    lowest = probing.first_seq if last + 1 == probing.step_count else max(probing.first_seq, staircase.below[last + 1])
    while row >= 0:
        seq, size = sets[row + SEQ], sets[row + MET] & SIZE_MASK
        if seq < lowest:
            break
        while step < last and seq < staircase.below[step + 1]:
            step += 1
        counters[READ] += 1
        counters[WEIGHED] += 1
        most = most_common_tokens(index, probing, lookup, row, size, probing.size)
        if score_of(probing.function, most, probing.size, size) <= staircase.limit[step]:
            counters[COUNTED] += 1
            score = verify(index, probing, row, staircase.limit[step])
            if score == score and passes(probe, seq):
                count = add_partner(probe, count, score, seq)
        row = sets[row + PREVIOUS]
    return count


@inner_inlined
def add_partner(probe: Probe, count: int, score: float, older: int) -> int:
    """Add a partner as ``add_found`` does, and lower the only step to the worst of k; return the new count."""
    count = add_found(probe.found, count, probe.k, score, older)
    if probe.k > 0 and count == probe.k:
        probe.staircase.limit[0] = probe.found.score[0]
    return count
