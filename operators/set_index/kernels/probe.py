"""Find the partners of an arriving set by prefix filtering over the inverted index (docs/algorithms D3).

The lists of its a tokens are read from the newest entry back, the shortest list first. After p - 1 lists, a set not met yet shares at most
a - p + 1 tokens with it, which bounds the score: a list is read back only as far as the staircase admits that score. A set that is met is
verified, first by size and signature (one cache line), then by counting common tokens.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from skyband.operators.base import F64, I64
from skyband.operators.jit import inner, inner_inlined
from skyband.operators.set_index.functions import HAMMING
from skyband.operators.set_index.kernels.prefetch import prefetch
from skyband.operators.set_index.kernels.similarity import best_score, popcount, score_of
from skyband.operators.set_index.kernels.tables import (
    CLOCK,
    HEADER,
    HIGH,
    LAST,
    LOW,
    NO_SLOT,
    PREVIOUS,
    SEQ,
    SEQ_BITS,
    SEQ_MASK,
    SIZE,
    SLOT_BITS,
    SLOT_MASK,
    STAMP,
    START,
    Index,
    Staircase,
    TokenLookup,
)

AHEAD = 3
"""Distance in entries of the set that is prefetched."""

CHUNK = 16
"""Tokens counted between two checks whether the score can still be reached."""

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


class FoundPartners(NamedTuple):
    """The partners found, in no order. Arrays have room for every possible partner."""

    score: F64
    """float64 (size,): internal scores."""
    older: I64
    """int64 (size,): their seqs."""


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
    exists: bool
    """False if every pair qualifies."""


@inner_inlined
def count_common_tokens(index: Index, function: int, record: int, a: int, b: int, limit: float) -> int:
    """Count the tokens that the set at ``record`` shares with the arriving one; return -1 once they cannot reach ``limit``."""
    log, marks = index.log, index.marks
    clock = index.scalars[CLOCK]
    common, i, stop = 0, record + HEADER, record + HEADER + b
    while i < stop:
        upto = min(i + CHUNK, stop)
        for j in range(i, upto):
            common += int(marks[log[j]] == clock)
        i = upto
        if not score_of(function, min(common + stop - i, a), a, b) <= limit:
            return -1
    return common


@inner_inlined
def verify(index: Index, probing: ProbingSet, lookup: TokenLookup, record: int, most: int, limit: float, counters: I64) -> float:
    """Return the score of the arriving set with the one at ``record``, NaN if worse than ``limit``; they share ``most`` tokens at most."""
    log = index.log
    a, b = probing.size, log[record + SIZE]
    low, high = lookup.signature[0], lookup.signature[1]
    other_low, other_high = log[record + LOW], log[record + HIGH]
    most = min(most, a - popcount(low & ~other_low) - popcount(high & ~other_high))
    most = min(most, b - popcount(other_low & ~low) - popcount(other_high & ~high))
    counters[WEIGHED] += 1
    if not score_of(probing.function, most, a, b) <= limit:
        return np.nan
    counters[COUNTED] += 1
    common = count_common_tokens(index, probing.function, record, a, b, limit)
    return score_of(probing.function, common, a, b) if common >= 0 else np.nan


@inner_inlined
def passes(test: Callable[..., None], condition: PairCondition, seq: int, lookup: TokenLookup) -> bool:
    """Return True if the pair with the object ``seq`` meets the condition."""
    if not condition.exists:
        return True
    at = seq + condition.offset
    test(condition.floats, condition.integers, at, at + 1, condition.own_floats, condition.own_integers, lookup.condition)
    return bool(lookup.condition[0] == lookup.condition[0])


@inner
def last_step_reached(staircase: Staircase, step: int, score: float) -> int:
    """Return the last of the steps 0 to ``step`` that admits ``score``, or -1."""
    while step >= 0 and staircase.limit[step] < score:
        step -= 1
    return step


@inner
def probe(
    index: Index, test: Callable[..., None], condition: PairCondition, probing: ProbingSet, lookup: TokenLookup, staircase: Staircase,
    k: int, found: FoundPartners, count: int, counters: I64,
) -> int:  # fmt: skip
    """Append the partners whose score the staircase admits to ``found``, which has ``count``; return the new count.

    With ``k`` > 0 only the best k are kept: ``found`` is a heap with the worst first, and the only step is lowered to the worst.
    """
    if probing.function == HAMMING:
        return probe_all(index, test, condition, probing, lookup, staircase, k, found, count, counters)
    log, postings, slots = index.log, index.postings, index.slots
    clock, now, last = index.scalars[CLOCK], probing.last_seq + 1, probing.step_count - 1
    for p in range(probing.size):
        left = probing.size - p
        last = last_step_reached(staircase, last, best_score(probing.function, left, probing.size))
        if last < 0:
            break
        lowest = probing.first_seq if last + 1 == probing.step_count else max(probing.first_seq, staircase.below[last + 1])
        if lowest > probing.last_seq:
            break
        if lookup.lists[p] == NO_SLOT:
            continue
        slot, step = lookup.lists[p] & SLOT_MASK, 0
        if now - ((now - slots[slot, LAST]) & SEQ_MASK) < lowest:
            continue
        start = slots[slot, START]
        entry = start + (lookup.lists[p] >> SLOT_BITS) - 1
        while entry >= start:
            seq = now - ((now - postings[entry]) & SEQ_MASK)
            if seq < lowest:
                break
            record = postings[entry] >> SEQ_BITS
            entry -= 1
            prefetch(log, postings[max(entry - AHEAD, start)] >> SEQ_BITS)
            counters[READ] += 1
            if log[record + STAMP] == clock or log[record + SEQ] != seq:
                continue
            log[record + STAMP] = clock
            while step < last and seq < staircase.below[step + 1]:
                step += 1
            score = verify(index, probing, lookup, record, left, staircase.limit[step], counters)
            if score == score and passes(test, condition, seq, lookup):
                count = add_partner(found, count, k, score, seq, staircase)
    return count


@inner
def probe_all(
    index: Index, test: Callable[..., None], condition: PairCondition, probing: ProbingSet, lookup: TokenLookup, staircase: Staircase,
    k: int, found: FoundPartners, count: int, counters: I64,
) -> int:  # fmt: skip
    """Do as ``probe``, but verify every set of the window: small sets without a common token can be near (docs/algorithms E1.4)."""
    record, step = index.newest[probing.group], 0
    last = last_step_reached(staircase, probing.step_count - 1, 0.0)
    if last < 0:
        return count
    lowest = probing.first_seq if last + 1 == probing.step_count else max(probing.first_seq, staircase.below[last + 1])
    while record >= 0:
        seq = index.log[record + SEQ]
        if seq < lowest:
            break
        while step < last and seq < staircase.below[step + 1]:
            step += 1
        counters[READ] += 1
        score = verify(index, probing, lookup, record, probing.size, staircase.limit[step], counters)
        if score == score and passes(test, condition, seq, lookup):
            count = add_partner(found, count, k, score, seq, staircase)
        record = index.log[record + PREVIOUS]
    return count


@inner
def ranks_after(score: float, older: int, other_score: float, other_older: int) -> bool:
    """Return True if the first partner ranks after the second."""
    return score > other_score or (score == other_score and older < other_older)


@inner
def sift_down(found: FoundPartners, size: int, score: float, older: int) -> int:
    """Move entries of a heap of ``size`` with a free root up until the partner fits; return its position. O(log size)."""
    scores, olders = found.score, found.older
    i = 0
    while True:
        child = 2 * i + 1
        if child >= size:
            break
        if child + 1 < size and ranks_after(scores[child + 1], olders[child + 1], scores[child], olders[child]):
            child += 1
        if ranks_after(score, older, scores[child], olders[child]):
            break
        scores[i], olders[i] = scores[child], olders[child]
        i = child
    return i


@inner_inlined
def add_partner(found: FoundPartners, count: int, k: int, score: float, older: int, staircase: Staircase) -> int:
    """Add a partner; return the new count. O(log k) with ``k`` > 0, else O(1)."""
    scores, olders = found.score, found.older
    if k == 0 or count < k:
        i = count
        count += 1
        while k > 0 and i > 0:
            up = (i - 1) >> 1
            if not ranks_after(score, older, scores[up], olders[up]):
                break
            scores[i], olders[i] = scores[up], olders[up]
            i = up
    elif ranks_after(score, older, scores[0], olders[0]):
        return count
    else:
        i = sift_down(found, k, score, older)
    scores[i], olders[i] = score, older
    if k > 0 and count == k:
        staircase.limit[0] = scores[0]
    return count
