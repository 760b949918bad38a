"""Finding a sub-batch's candidate pairs: blocks of partners newest first, against the staircase frozen at its start.

See docs/algorithms.md D2. Blocks are the outer loop and arrivals the inner one, so that a block stays in the first-level cache while every
arrival looks at it.
Where an object of seq s is at position s + ``offset`` of the arena, partners low..high of an arrival are at low + offset..high + offset.
"""

from __future__ import annotations

import numpy as np

from skyband.operators.base import F64, I64
from skyband.operators.jit import inner, jit, maker
from skyband.operators.pair_rows.kernels.tables import (
    FOUND,
    IS_B,
    IS_NEITHER,
    ORDER_BITS,
    SCORED,
    Candidates,
    Objects,
    Scoring,
    Skyband,
    SubBatch,
    new_candidates,
)

SMALLEST, LARGEST, UNCOUNTED = 32, 1024, 64
"""Blocks double from the first size to the second; up to the third, scores are looked at without counting first."""


@maker
def grown(candidates: Candidates, count: int, size: int) -> Candidates:
    """A copy of the first ``count`` with room for ``size``."""
    new = new_candidates(size)
    for i in range(count):
        new.score[i], new.older[i] = candidates.score[i], candidates.older[i]
        new.arrival[i], new.order[i] = candidates.arrival[i], candidates.order[i]
    return new


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
                score_as_b(objects.floats, objects.integers, low, high, batch.floats[i], batch.integers[i], row[first:i])
            else:
                score_as_a(objects.floats, objects.integers, low, high, batch.floats[i], batch.integers[i], row[first:i])
            work[SCORED] += i - first
            for j in range(first, i):
                if row[j] < best or best != best:
                    best = row[j]
        batch.best[i] = best


@jit()
def scan_partners(
    scoring: Scoring, objects: Objects, offset: int, batch: SubBatch, skyband: Skyband, candidates: Candidates, block: F64, work: I64
) -> Candidates:
    """Find the candidates with objects older than the sub-batch, and their best scores for ``batch.best``.

    ``skyband`` is the key's own; ``candidates`` are overwritten and may be replaced by larger arrays. O(partners) compares per arrival.
    """
    count_as_a, score_as_a = scoring.count_as_a, scoring.score_as_a
    count_as_b, score_as_b = scoring.count_as_b, scoring.score_as_b
    floats, integers = objects.floats, objects.integers
    side, first_partner, best = batch.side, batch.first_partner, batch.best
    older, stair, pairs = skyband.older, skyband.stair, len(skyband.older)
    found_score, found_older = candidates.score, candidates.older
    found_arrival, order = candidates.arrival, candidates.order
    count, newer_pairs = 0, 0
    high, width = batch.first_seq, SMALLEST
    while high > first_partner[0]:
        low = max(first_partner[0], high - width)
        while newer_pairs < pairs and older[newer_pairs] >= high:
            newer_pairs += 1
        limit = stair[newer_pairs - 1] if newer_pairs > 0 else np.inf
        if limit != limit:
            break
        count_before = count
        for i in range(batch.size):
            first = max(low, first_partner[i])
            if first >= high:
                break
            if side[i] == IS_NEITHER:
                continue
            start, stop = first + offset, high + offset
            x_floats, x_integers = batch.floats[i], batch.integers[i]
            work[SCORED] += high - first
            if width > UNCOUNTED:
                if side[i] == IS_B:
                    good = count_as_b(floats, integers, start, stop, x_floats, x_integers, limit)
                else:
                    good = count_as_a(floats, integers, start, stop, x_floats, x_integers, limit)
                if good == 0:
                    continue
            if side[i] == IS_B:
                score_as_b(floats, integers, start, stop, x_floats, x_integers, block)
            else:
                score_as_a(floats, integers, start, stop, x_floats, x_integers, block)
            if count + high - first > len(found_score):
                candidates = grown(candidates, count, 2 * len(found_score) + high - first)
                found_score, found_older = candidates.score, candidates.older
                found_arrival, order = candidates.arrival, candidates.order
            at, bar = newer_pairs, limit
            for j in range(high - first - 1, -1, -1):
                score = block[j]
                if score <= bar:
                    while at < pairs and older[at] > first + j:
                        at += 1
                    bar = stair[at - 1] if at > 0 else np.inf
                    if score <= bar:
                        found_score[count], found_older[count], found_arrival[count] = score, first + j, i
                        order[count] = ((batch.first_seq - first - j) << ORDER_BITS) | count
                        count += 1
                        if score < best[i] or best[i] != best[i]:
                            best[i] = score
        if count - count_before > 1:
            order[count_before:count].sort()
        high = low
        width = min(2 * width, LARGEST)
    work[FOUND] += count
    return Candidates(found_score, found_older, found_arrival, order, candidates.grouped, count)


@jit()
def scan(
    scoring: Scoring, objects: Objects, offset: int, batch: SubBatch, skyband: Skyband, candidates: Candidates, block: F64, work: I64
) -> Candidates:
    """Find the sub-batch's candidates, those among its arrivals (``batch.scores``) and the others (returned); see the functions above."""
    if batch.size == 0:
        return Candidates(candidates.score, candidates.older, candidates.arrival, candidates.order, candidates.grouped, 0)
    scan_arrivals(scoring, objects, offset, batch, work)
    return scan_partners(scoring, objects, offset, batch, skyband, candidates, block, work)
