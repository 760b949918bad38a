"""The partners of arrivals: what queries ask for, what a search found, and a heap of the best ones."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skyband.operators.base import F64, I64
from skyband.operators.jit import inner, inner_inlined, jit
from skyband.operators.pair_rows.kernels.tables import Advance, Objects, Settings

QUERY, KEY, NEWER, OLDER, PARTNER_COLUMNS = range(5)
"""Columns of the partners found: ``NEWER`` is twice the arrival's seq, plus 1 if it is on side a."""


class PartnerQueries(NamedTuple):
    """Which partners each query asks for. All of shape (queries,)."""

    k: I64
    """int64: the number of best partners, or 0 for all."""
    window_count: I64
    """int64: objects of the window, or ``UNBOUNDED``."""
    window_micros: I64
    """int64: microseconds of the window, or ``UNBOUNDED``."""
    worst_score: F64
    """float64: the largest internal score."""


class PartnerTask(NamedTuple):
    """What a search for partners takes: the arrivals are in the windows' arena already."""

    settings: Settings
    queries: PartnerQueries
    keys: I64
    """int64 (keys, KEY_COLUMNS): the key table."""
    objects: Objects
    """The windows' arena."""
    advance: Advance


class Partners(NamedTuple):
    """Partners found, grouped by arrival; the best first for queries with ``k`` > 0."""

    fields: I64
    """int64 (size, PARTNER_COLUMNS)."""
    score: F64
    """float64 (size,)."""


class FoundPartners(NamedTuple):
    """The partners of one arrival, in no order, or as a heap with the worst first."""

    score: F64
    """float64 (size,): internal scores."""
    older: I64
    """int64 (size,): their seqs."""


@inner
def advance_windows(first: I64, queries: PartnerQueries, times: I64, offset: int, seq: int) -> None:
    """Move every query's window on to end with the object ``seq``: ``first`` (queries,) becomes the seq of its first object."""
    now = times[seq + offset]
    for q in range(len(first)):
        low = max(first[q], seq + 1 - queries.window_count[q])
        while low < seq and times[low + offset] <= now - queries.window_micros[q]:
            low += 1
        first[q] = low


@jit
def no_partners() -> Partners:
    """Return room for partners."""
    return Partners(np.empty((256, PARTNER_COLUMNS), np.int64), np.empty(256, np.float64))


@jit
def ensure_capacity(partners: Partners, written: int, more: int) -> Partners:
    """Return the first ``written`` partners with room for ``more``, in new arrays if these are too small."""
    if written + more <= len(partners.score):
        return partners
    size = 2 * (written + more)
    new = Partners(np.empty((size, PARTNER_COLUMNS), np.int64), np.empty(size, np.float64))
    new.fields[:written] = partners.fields[:written]
    new.score[:written] = partners.score[:written]
    return new


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
def add_found(found: FoundPartners, count: int, k: int, score: float, older: int) -> int:
    """Add a partner to the ``count`` there are; return the new count. O(log k) with ``k`` > 0: then the best k stay, as a heap."""
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
    return count


@inner
def sort_best_first(found: FoundPartners, count: int) -> None:
    """Sort a heap of ``count`` partners, the best first."""
    scores, olders = found.score, found.older
    for last in range(count - 1, 0, -1):
        score, older = scores[last], olders[last]
        scores[last], olders[last] = scores[0], olders[0]
        i = sift_down(found, last, score, older)
        scores[i], olders[i] = score, older
