"""The lists of best pairs where objects can be deleted: each query's k best pairs and some more.

A list holds every pair of the query's window that ranks at its bound or before. So a deletion is cheap while the list has k pairs. When it
has fewer, and there may be pairs behind the bound, the window is joined again (``join``).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skyband.operators.base import F64, I64, NEVER
from skyband.operators.jit import inner
from skyband.operators.pair_rows.kernels.lists import drop_expired, enter, oldest, ranks_before
from skyband.operators.pair_rows.kernels.partners import FoundPartners
from skyband.operators.pair_rows.kernels.tables import Pairs, Queries
from skyband.operators.set_index.kernels.tables import Staircase


class Best(NamedTuple):
    """The lists of all keys and queries. Their entries stand side by side (``Queries.list_start``), in rank order."""

    score: F64
    """float64 (keys, places)."""
    older: I64
    """int64 (keys, places)."""
    newer: I64
    """int64 (keys, places): as of a pair."""
    length: I64
    """int64 (queries, keys): entries of each list; those behind the first k may have left the window."""
    oldest: I64
    """int64 (queries, keys): no entry has an older seq than this, ``NEVER`` for an empty list."""
    bound_score: F64
    """float64 (queries, keys): the score of the bound, ``inf`` if the list has all pairs there are."""
    bound_older: I64
    """int64 (queries, keys)."""
    bound_newer: I64
    """int64 (queries, keys)."""


@inner
def kept_places(room: int) -> int:
    """Return how many entries of a list with ``room`` places stay when it is full, and how many a join of the window looks for."""
    return max(1, room // 2)


@inner
def entries(best: Best, queries: Queries, query: int, key: int) -> Pairs:
    """Return a view of the places of a list."""
    start, stop = queries.list_start[query], queries.list_start[query] + queries.list_room[query]
    return Pairs(best.score[key, start:stop], best.older[key, start:stop], best.newer[key, start:stop])


@inner
def set_bound(best: Best, query: int, key: int, pairs: Pairs, last: int) -> None:
    """Set the bound of a list to its entry number ``last``, and its length accordingly."""
    best.length[query, key] = last + 1
    best.bound_score[query, key], best.bound_older[query, key] = pairs.score[last], pairs.older[last]
    best.bound_newer[query, key] = pairs.newer[last]


@inner
def set_no_bound(best: Best, query: int, key: int, length: int) -> None:
    """Note that a list of ``length`` has all pairs there are."""
    best.length[query, key] = length
    best.bound_score[query, key], best.bound_older[query, key], best.bound_newer[query, key] = np.inf, -1, -1


@inner
def admits(best: Best, query: int, key: int, score: float, older: int, newer: int) -> bool:
    """Return True if a pair ranks before the bound of a list."""
    return bool(ranks_before(score, older, newer, best.bound_score[query, key], best.bound_older[query, key], best.bound_newer[query, key]))


@inner
def add(best: Best, queries: Queries, query: int, key: int, score: float, older: int, newer: int) -> bool:
    """Add a pair to a list if its bounds admit it, and return whether they do. A full list is cut first. O(places)."""
    if not score <= queries.worst[query] or not admits(best, query, key, score, older, newer):
        return False
    pairs = entries(best, queries, query, key)
    if best.length[query, key] == len(pairs.score):
        set_bound(best, query, key, pairs, kept_places(len(pairs.score)) - 1)
        if not admits(best, query, key, score, older, newer):
            return False
    best.length[query, key] = enter(pairs, best.length[query, key], score, older, newer)
    best.oldest[query, key] = min(best.oldest[query, key], older)
    return True


@inner
def note_oldest(best: Best, queries: Queries, query: int, key: int) -> None:
    """Set ``oldest`` of a list. O(places)."""
    best.oldest[query, key] = oldest(entries(best, queries, query, key).older, best.length[query, key])


@inner
def drop_old(best: Best, queries: Queries, query: int, key: int, first_alive: int) -> bool:
    """Remove the pairs with objects before ``first_alive`` from a list, and return whether there were any."""
    if best.oldest[query, key] >= first_alive:
        return False
    pairs, length = entries(best, queries, query, key), best.length[query, key]
    best.length[query, key] = drop_expired(pairs, length, first_alive)
    note_oldest(best, queries, query, key)
    return bool(best.length[query, key] < length)


@inner
def drop_deleted(best: Best, queries: Queries, query: int, key: int, gone: int) -> bool:
    """Remove the pairs with the object ``gone`` from a list, and return whether there were any. O(places)."""
    pairs, kept = entries(best, queries, query, key), 0
    length = best.length[query, key]
    for i in range(length):
        if pairs.older[i] != gone and pairs.newer[i] >> 1 != gone:
            pairs.score[kept], pairs.older[kept], pairs.newer[kept] = pairs.score[i], pairs.older[i], pairs.newer[i]
            kept += 1
    best.length[query, key] = kept
    return bool(kept < length)


@inner
def fill_limits(best: Best, queries: Queries, key: int, first: I64, found: FoundPartners, staircase: Staircase) -> tuple[int, int]:
    """Fill ``staircase`` with the largest scores of pairs of an arrival that a list admits, by their older object.

    A pair with the score of a bound is admitted if its older object is not before that of the bound. ``first`` (queries,): the first seqs
    of the windows. ``found`` is scratch for two entries a query. Returns the number of steps and the first seq of the last. O(queries^2).
    """
    limits, starts, count = found.score, found.older, 0
    for q in range(len(queries.k)):
        worst, score = queries.worst[q], best.bound_score[q, key]
        limits[count], starts[count] = min(worst, score), max(first[q], best.bound_older[q, key])
        limits[count + 1], starts[count + 1] = min(worst, np.nextafter(score, -np.inf)), first[q]
        count += 2
    for i in range(1, count):  # the largest limit first
        limit, start, j = limits[i], starts[i], i
        while j > 0 and limits[j - 1] < limit:
            limits[j], starts[j] = limits[j - 1], starts[j - 1]
            j -= 1
        limits[j], starts[j] = limit, start
    steps, lowest = 0, np.int64(NEVER)
    for i in range(count):
        if starts[i] >= lowest:
            continue
        if steps == 0 or limits[i] < staircase.limit[steps - 1]:
            staircase.below[steps], staircase.limit[steps] = lowest, limits[i]
            steps += 1
        lowest = starts[i]
    return steps, int(lowest)
