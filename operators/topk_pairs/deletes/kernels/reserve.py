"""One reserve: pairs enter and leave, the floor falls when there are too many, and is raised when there are too few."""

from __future__ import annotations

import numpy as np

from skyband.operators.base import I64
from skyband.operators.jit import inner, maker
from skyband.operators.pair_rows.kernels.arena import copy_attributes, side_of
from skyband.operators.pair_rows.kernels.lists import enter, oldest, ranks_before
from skyband.operators.pair_rows.kernels.tables import IS_A, IS_B, IS_NEITHER, REFILLS, SCORED, Objects, Pairs, Scoring, Settings, new_pairs
from skyband.operators.topk_pairs.deletes.kernels.tables import (
    DEPTH,
    FIRST,
    FLOOR_NEWER,
    FLOOR_OLDER,
    LENGTH,
    OLDEST,
    RANGE,
    TOUCHED,
    Layout,
    Rescan,
    Reserve,
    with_room,
)


@inner
def whole(reserve: Reserve) -> bool:
    """Return True if there are no pairs behind the floor."""
    return bool(reserve.fields[FLOOR_OLDER] < 0)


@inner
def above_floor(reserve: Reserve, score: float, older: int, newer: int) -> bool:
    """Return True if a pair ranks at the floor or before."""
    fields = reserve.fields
    return not ranks_before(reserve.floor[0], fields[FLOOR_OLDER], fields[FLOOR_NEWER], score, older, newer)


@inner
def limit_of(layout: Layout, reserve: Reserve) -> int:
    """Return how many pairs a reserve holds at most. When it is full, half of them stay and the floor falls."""
    return int(layout.most * max(layout.target, reserve.fields[DEPTH]))


@inner
def find_oldest(reserve: Reserve) -> None:
    """Note the oldest object in the pairs. O(pairs)."""
    reserve.fields[OLDEST] = oldest(reserve.pairs.older, reserve.fields[LENGTH])


@inner
def lower_bound(objects: Objects, layout: Layout, which: int, position: int, score: float, older: int) -> None:
    """Move the bound of the object at a position forward, if needed, so that it does not rank after its pair with ``older``."""
    scores, olders = objects.floats[layout.float_row + which], objects.integers[layout.integer_row + which]
    if olders[position] < 0 or score < scores[position] or (score == scores[position] and older > olders[position]):
        scores[position], olders[position] = score, older


@inner
def drop_worst(objects: Objects, offset: int, layout: Layout, which: int, reserve: Reserve, keep: int) -> None:
    """Keep the best ``keep`` pairs; the last of them is the floor."""
    pairs, fields = reserve.pairs, reserve.fields
    for i in range(keep, fields[LENGTH]):
        lower_bound(objects, layout, which, (pairs.newer[i] >> 1) + offset, pairs.score[i], pairs.older[i])
    reserve.floor[0], fields[FLOOR_OLDER], fields[FLOOR_NEWER] = pairs.score[keep - 1], pairs.older[keep - 1], pairs.newer[keep - 1]
    fields[LENGTH] = keep
    fields[TOUCHED] = min(fields[TOUCHED], keep)
    find_oldest(reserve)


@inner
def insert(reserve: Reserve, score: float, older: int, newer: int) -> None:
    """Insert a pair; there is room. O(pairs)."""
    scores, olders, newers = reserve.pairs.score, reserve.pairs.older, reserve.pairs.newer
    low, high = 0, reserve.fields[LENGTH]
    while low < high:
        middle = (low + high) >> 1
        if ranks_before(scores[middle], olders[middle], newers[middle], score, older, newer):
            low = middle + 1
        else:
            high = middle
    for i in range(reserve.fields[LENGTH], low, -1):
        scores[i], olders[i], newers[i] = scores[i - 1], olders[i - 1], newers[i - 1]
    scores[low], olders[low], newers[low] = score, older, newer
    reserve.fields[LENGTH] += 1
    reserve.fields[OLDEST] = min(reserve.fields[OLDEST], older)
    reserve.fields[TOUCHED] = min(reserve.fields[TOUCHED], low)


@inner
def take_in(
    objects: Objects, offset: int, layout: Layout, which: int, reserve: Reserve, limit: int, score: float, older: int, newer: int
) -> None:  # fmt: skip
    """Insert a new pair into the reserve, which has room for ``limit``. Behind its floor, only bound the pair's newer object."""
    if above_floor(reserve, score, older, newer):
        if reserve.fields[LENGTH] >= limit:
            drop_worst(objects, offset, layout, which, reserve, limit // 2)
        if above_floor(reserve, score, older, newer):
            insert(reserve, score, older, newer)
            return
    lower_bound(objects, layout, which, (newer >> 1) + offset, score, older)


@inner
def remove(reserve: Reserve, first: int, gone: int) -> None:
    """Remove the pairs with an object before seq ``first`` and those with the object ``gone``. O(pairs)."""
    pairs, fields, kept = reserve.pairs, reserve.fields, 0
    scores, olders, newers = pairs.score, pairs.older, pairs.newer
    for i in range(fields[LENGTH]):
        if olders[i] < first or olders[i] == gone or newers[i] >> 1 == gone:
            fields[TOUCHED] = min(fields[TOUCHED], i)
        else:
            scores[kept], olders[kept], newers[kept] = scores[i], olders[i], newers[i]
            kept += 1
    if kept < fields[LENGTH]:
        fields[LENGTH] = kept
        find_oldest(reserve)


@inner
def rescan(
    scoring: Scoring, settings: Settings, objects: Objects, offset: int, layout: Layout, which: int, worst: float, done: int, x: int,
    after_score: float, after_older: int, after_newer: int, limit: int, reserve: Reserve, buffers: Rescan, work: I64,
) -> None:  # fmt: skip
    """Score ``x`` with every older object: pairs that rank after the given one enter the reserve, or make the bound of ``x``.

    ``done``: the number of deletions that have happened.
    """
    position = x + offset
    side, newer = side_of(settings, objects, position), 2 * x
    deletion = objects.integers[layout.integer_row + layout.reserves]
    objects.integers[layout.integer_row + which, position] = -1
    if side == IS_NEITHER:
        return
    newer += 1 if side == IS_A else 0
    floats, integers = buffers.floats, buffers.integers
    score_as_a, score_as_b = scoring.score_as_a, scoring.score_as_b
    copy_attributes(objects, position, floats, integers)
    high = x
    while high > reserve.fields[FIRST]:
        low = max(reserve.fields[FIRST], high - RANGE)
        scores = buffers.scores[: high - low]
        if side == IS_B:
            score_as_b(objects.floats, objects.integers, low + offset, high + offset, floats, integers, scoring.pool, scores)
        else:
            score_as_a(objects.floats, objects.integers, low + offset, high + offset, floats, integers, scoring.pool, scores)
        work[SCORED] += high - low
        for older in range(high - 1, low - 1, -1):
            score = scores[older - low]
            alive = score <= worst and deletion[older + offset] >= done
            if alive and ranks_before(after_score, after_older, after_newer, score, older, newer):
                take_in(objects, offset, layout, which, reserve, limit, score, older, newer)
        high = low


@inner
def nearest_bounds(
    objects: Objects, offset: int, layout: Layout, which: int, reserve: Reserve, done: int, arrived: int, best: Pairs
) -> int:
    """Fill ``best`` with the bounds of alive objects that rank first; return how many."""
    scores, olders = objects.floats[layout.float_row + which], objects.integers[layout.integer_row + which]
    deletion, length = objects.integers[layout.integer_row + layout.reserves], 0
    for x in range(reserve.fields[FIRST] + 1, arrived):
        if olders[x + offset] >= 0 and deletion[x + offset] >= done:
            length = enter(best, length, scores[x + offset], olders[x + offset], 2 * x)
    return length


@maker
def fill_again(
    scoring: Scoring, settings: Settings, objects: Objects, offset: int, layout: Layout, which: int, worst: float, done: int, arrived: int,
    reserve: Reserve, buffers: Rescan, work: I64,
) -> Reserve:  # fmt: skip
    """Raise the floor, so that more pairs are in the reserve, if there are more; return the (perhaps new) reserve.

    If n pairs are missing, the new floor is the n-th best bound of an object. The objects with this bound or a better one are scored again,
    O(objects) for each.
    """
    fields = reserve.fields
    work[REFILLS] += 1
    limit = max(limit_of(layout, reserve), 4 * fields[LENGTH])
    reserve = with_room(reserve, limit)
    best = new_pairs(max(1, max(layout.target, 2 * fields[LENGTH]) - fields[LENGTH]))
    found = nearest_bounds(objects, offset, layout, which, reserve, done, arrived, best)
    after_score, after_older, after_newer = reserve.floor[0], fields[FLOOR_OLDER], fields[FLOOR_NEWER]
    # The bounds of a restored state may rank before the floor: it is not lowered to one, and their objects are scored again all the same.
    if found < len(best.score):
        reserve.floor[0], fields[FLOOR_OLDER], fields[FLOOR_NEWER] = np.inf, -1, -1
    elif not above_floor(reserve, best.score[-1], best.older[-1], best.newer[-1]):
        reserve.floor[0], fields[FLOOR_OLDER], fields[FLOOR_NEWER] = best.score[-1], best.older[-1], best.newer[-1]
    scores, olders = objects.floats[layout.float_row + which], objects.integers[layout.integer_row + which]
    deletion = objects.integers[layout.integer_row + layout.reserves]
    for x in range(fields[FIRST] + 1, arrived):
        position = x + offset
        if olders[position] >= 0 and deletion[position] >= done and above_floor(reserve, scores[position], olders[position], 2 * x):
            rescan(
                scoring, settings, objects, offset, layout, which, worst, done, x, after_score, after_older, after_newer, limit, reserve,
                buffers, work,
            )  # fmt: skip
    return reserve
