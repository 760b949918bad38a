"""Finding the sets an arriving one is similar enough to: the lists of its tokens are read from the newest entry back.

See docs/algorithms D3. After p - 1 of its a tokens' lists, a set not met yet shares at most a - p + 1 tokens with it, which bounds the
score; the list is read back to where the steps ask for better than that. A set that is met is weighed: first by its size and signature,
which cost one line of memory, then by counting.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from skyband.operators.base import F64, I64
from skyband.operators.jit import inner, inner_inlined
from skyband.operators.set_index.kernels.prefetch import prefetch
from skyband.operators.set_index.kernels.similarity import HAMMING, best_score, ones, score_of
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
    Looked,
    Steps,
)

AHEAD = 3
"""The set so many entries on is asked for while one is looked at."""

CHUNK = 16
"""Tokens counted between two looks at whether the rest can still be enough."""

READ, WEIGHED, COUNTED, PROBED = range(4)
"""Places of the counters, int64 (PROBED,): entries of lists read, different sets among them, sets whose tokens were counted."""


class Asked(NamedTuple):
    """An arriving set, and what it is looked for."""

    function: int
    """int64: the similarity function."""
    size: int
    """int64: its number of tokens, at least 1."""
    first: int
    """int64: seq of the first object it can pair with."""
    newest: int
    """int64: seq of the last one."""
    other: int
    """int64: the group it is compared with."""
    steps: int
    """int64: how many steps there are, at least 1."""


class Found(NamedTuple):
    """The partners found, in no order. Room for all there may be."""

    score: F64
    """float64 (size,): internal scores."""
    older: I64
    """int64 (size,): their seqs."""


class Tested(NamedTuple):
    """How a pair's condition is put to a partner: a scoring function that gives NaN for what is no candidate, and what it reads."""

    floats: F64
    """float64 (float attributes, size): the windows' arena."""
    integers: I64
    """int64 (other attributes, size)."""
    offset: int
    """int64: the object of seq s is at s + offset."""
    own_floats: F64
    """float64 (float attributes,): those of the arrival."""
    own_integers: I64
    """int64 (other attributes,)."""
    asked: bool
    """Whether there is a condition."""


@inner_inlined
def count_common(index: Index, function: int, record: int, a: int, b: int, bar: float) -> int:
    """How many tokens of the set at ``record`` the arriving one has, or -1 as soon as they cannot reach ``bar``."""
    log, marks = index.log, index.marks
    clock = index.scalars[CLOCK]
    common, i, stop = 0, record + HEADER, record + HEADER + b
    while i < stop:
        upto = min(i + CHUNK, stop)
        for j in range(i, upto):
            common += int(marks[log[j]] == clock)
        i = upto
        if not score_of(function, min(common + stop - i, a), a, b) <= bar:
            return -1
    return common


@inner_inlined
def weigh(index: Index, asked: Asked, looked: Looked, record: int, most: int, bar: float, counters: I64) -> float:
    """The score of the arriving set with the one at ``record``, of which it shares ``most`` tokens at most; NaN if worse than ``bar``."""
    log = index.log
    a, b = asked.size, log[record + SIZE]
    low, high = looked.signature[0], looked.signature[1]
    other_low, other_high = log[record + LOW], log[record + HIGH]
    most = min(most, a - ones(low & ~other_low) - ones(high & ~other_high))
    most = min(most, b - ones(other_low & ~low) - ones(other_high & ~high))
    counters[WEIGHED] += 1
    if not score_of(asked.function, most, a, b) <= bar:
        return np.nan
    counters[COUNTED] += 1
    common = count_common(index, asked.function, record, a, b, bar)
    return score_of(asked.function, common, a, b) if common >= 0 else np.nan


@inner_inlined
def passes(test: Callable[..., None], tested: Tested, seq: int, looked: Looked) -> bool:
    """Whether the pair with the object ``seq`` meets its condition."""
    if not tested.asked:
        return True
    at = seq + tested.offset
    test(tested.floats, tested.integers, at, at + 1, tested.own_floats, tested.own_integers, looked.test)
    return bool(looked.test[0] == looked.test[0])


@inner
def worst_step(steps: Steps, step: int, score: float) -> int:
    """The last step, of those up to ``step``, that ``score`` reaches, or -1."""
    while step >= 0 and steps.limit[step] < score:
        step -= 1
    return step


@inner
def probe(
    index: Index, test: Callable[..., None], tested: Tested, asked: Asked, looked: Looked, steps: Steps, most: int, found: Found,
    count: int, counters: I64,
) -> int:  # fmt: skip
    """Find the partners of the arriving set that reach the step of their seq; they go to ``found`` from ``count`` on. Returns how many are
    found then.

    With ``most`` > 0, only the best ``most`` matter, and one step is lowered as they are found: ``found`` is then a heap, its worst first.
    """
    if asked.function == HAMMING:
        return probe_all(index, test, tested, asked, looked, steps, most, found, count, counters)
    log, postings, slots = index.log, index.postings, index.slots
    clock, now, last = index.scalars[CLOCK], asked.newest + 1, asked.steps - 1
    for p in range(asked.size):
        left = asked.size - p
        last = worst_step(steps, last, best_score(asked.function, left, asked.size))
        if last < 0:
            break
        lowest = asked.first if last + 1 == asked.steps else max(asked.first, steps.below[last + 1])
        if lowest > asked.newest:
            break
        if looked.lists[p] == NO_SLOT:
            continue
        slot, step = looked.lists[p] & SLOT_MASK, 0
        if now - ((now - slots[slot, LAST]) & SEQ_MASK) < lowest:
            continue
        start = slots[slot, START]
        entry = start + (looked.lists[p] >> SLOT_BITS) - 1
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
            while step < last and seq < steps.below[step + 1]:
                step += 1
            score = weigh(index, asked, looked, record, left, steps.limit[step], counters)
            if score == score and passes(test, tested, seq, looked):
                count = keep(found, count, most, score, seq, steps)
    return count


@inner
def probe_all(
    index: Index, test: Callable[..., None], tested: Tested, asked: Asked, looked: Looked, steps: Steps, most: int, found: Found,
    count: int, counters: I64,
) -> int:  # fmt: skip
    """As ``probe``, but every set of the window is met: Hamming distance likes small sets that share nothing (docs/algorithms E1.4)."""
    record, step = index.newest[asked.other], 0
    last = worst_step(steps, asked.steps - 1, 0.0)
    if last < 0:
        return count
    lowest = asked.first if last + 1 == asked.steps else max(asked.first, steps.below[last + 1])
    while record >= 0:
        seq = index.log[record + SEQ]
        if seq < lowest:
            break
        while step < last and seq < steps.below[step + 1]:
            step += 1
        counters[READ] += 1
        score = weigh(index, asked, looked, record, asked.size, steps.limit[step], counters)
        if score == score and passes(test, tested, seq, looked):
            count = keep(found, count, most, score, seq, steps)
        record = index.log[record + PREVIOUS]
    return count


@inner
def behind(score: float, older: int, score2: float, older2: int) -> bool:
    """Whether a partner ranks after another."""
    return score > score2 or (score == score2 and older < older2)


@inner
def settle(found: Found, size: int, score: float, older: int) -> int:
    """The place for a partner in a heap of ``size`` whose root is free: those that rank after it have moved up. O(log size)."""
    scores, olders = found.score, found.older
    i = 0
    while True:
        child = 2 * i + 1
        if child >= size:
            break
        if child + 1 < size and behind(scores[child + 1], olders[child + 1], scores[child], olders[child]):
            child += 1
        if behind(score, older, scores[child], olders[child]):
            break
        scores[i], olders[i] = scores[child], olders[child]
        i = child
    return i


@inner_inlined
def keep(found: Found, count: int, most: int, score: float, older: int, steps: Steps) -> int:
    """Take a partner in; returns how many there are. With ``most`` > 0: O(log most)."""
    scores, olders = found.score, found.older
    if most == 0 or count < most:
        i = count
        count += 1
        while most > 0 and i > 0:
            up = (i - 1) >> 1
            if not behind(score, older, scores[up], olders[up]):
                break
            scores[i], olders[i] = scores[up], olders[up]
            i = up
    elif behind(score, older, scores[0], olders[0]):
        return count
    else:
        i = settle(found, most, score, older)
    scores[i], olders[i] = score, older
    if most > 0 and count == most:
        steps.limit[0] = scores[0]
    return count
