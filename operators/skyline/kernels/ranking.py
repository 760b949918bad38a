"""Rank the members of a skyline by a score: turn the changes of its result into the changes of its k best members.

The members of every key and query are kept in rank order. A step of the skyline removes and inserts members; the k first before and after
it differ by the changes of the ranked result.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from skyband.operators.base import BOUNDARY, DISPLACED, PROMOTED, AnyArray
from skyband.operators.jit import inner, jit

QUERY, KEY, AT, STEP, POS, SIGN, CAUSE, SEQ = range(8)
"""Columns of a change row."""

FEW: int = 8
"""Up to this many members are removed or inserted one by one; more are in one pass over all members."""


class Scores(NamedTuple):
    """The scores of rows, grouped by key, in seq order."""

    start: AnyArray
    """(keys + 1,) int64: rows start[k] .. start[k + 1] are key k's."""
    seq: AnyArray
    """(n,) int64."""
    score: AnyArray
    """(n,) float64: larger is better, NaN for rows without a score."""


class Ranking(NamedTuple):
    """The members of the skylines of Q queries that have a score, in rank order: the larger score first, then the larger seq."""

    start: AnyArray
    """(keys * Q + 1,) int64: query w of key k has the members start[k * Q + w] .. of the next."""
    seq: AnyArray
    """(n,) int64."""
    score: AnyArray
    """(n,) float64."""


class Ranked(NamedTuple):
    """Changes of ranked results."""

    rows: AnyArray
    """(m, 8) int64: change rows, sorted by (query, key, step, pos)."""
    score: AnyArray
    """(m,) float64."""


class Members(NamedTuple):
    """Room for the members of the lists at work, one list after the other, and for the k first of a list before a step."""

    seq: AnyArray
    score: AnyArray
    first_seq: AnyArray
    first_score: AnyArray


@inner
def ranks_before(score: float, seq: int, other_score: float, other_seq: int) -> bool:
    """Return True if a member ranks before another one."""
    return score > other_score or (score == other_score and seq > other_seq)


@inner
def find_row(rows: Any, key: int, seq: int) -> int:
    """Return where a row is among ``rows`` (``Scores``, or another tuple with ``start`` and ``seq``), -1 if it is not there. O(log n)."""
    found = -1
    if key + 1 < len(rows.start):
        low, high = rows.start[key], rows.start[key + 1]
        while low < high:
            middle = (low + high) >> 1
            if rows.seq[middle] < seq:
                low = middle + 1
            else:
                high = middle
        if low < rows.start[key + 1] and rows.seq[low] == seq:
            found = low
    return found


@inner
def score_of(scores: Scores, key: int, seq: int) -> float:
    """Return the score of a row, NaN if it has none or is not there. O(log n)."""
    place = find_row(scores, key, seq)
    return np.nan if place < 0 else scores.score[place]


@jit
def scores_of_changes(rows: AnyArray, known: Scores, fresh: Scores) -> AnyArray:
    """Return the scores (m,) float64 of change rows (m, 8), which are ``known`` or of the ``fresh`` arrivals, else NaN. O(m log n)."""
    score = np.empty(rows.shape[0], np.float64)
    for i in range(rows.shape[0]):
        key, seq = rows[i, KEY], rows[i, SEQ]
        score[i] = score_of(known, key, seq)
        if np.isnan(score[i]):
            score[i] = score_of(fresh, key, seq)
    return score


@jit
def scores_of_rows(start: AnyArray, seq: AnyArray, known: Scores, fresh: Scores) -> AnyArray:
    """Return the scores (n,) float64 of the rows ``seq`` (n,), grouped by key and in seq order. O(n + known + fresh).

    ``start`` (keys + 1,) as in ``Scores``; every row is ``known`` or one of the ``fresh`` arrivals.
    """
    score = np.empty(len(seq), np.float64)
    for key in range(len(start) - 1):
        old, old_end, new, new_end = 0, 0, 0, 0
        if key + 1 < len(known.start):
            old, old_end = known.start[key], known.start[key + 1]
        if key + 1 < len(fresh.start):
            new, new_end = fresh.start[key], fresh.start[key + 1]
        for row in range(start[key], start[key + 1]):
            while old < old_end and known.seq[old] < seq[row]:
                old += 1
            if old < old_end and known.seq[old] == seq[row]:
                score[row] = known.score[old]
            else:
                while new < new_end and fresh.seq[new] < seq[row]:
                    new += 1
                score[row] = fresh.score[new] if new < new_end and fresh.seq[new] == seq[row] else np.nan
    return score


@inner
def find_change(rows: AnyArray, first: int, end: int, seq: int) -> int:
    """Return which of the change rows [first, end), the newest first, is about ``seq``; -1 for none. O(log (end - first))."""
    low, high = first, end
    while low < high:
        middle = (low + high) >> 1
        if rows[middle, SEQ] > seq:
            low = middle + 1
        else:
            high = middle
    return low if low < end and rows[low, SEQ] == seq else -1


@inner
def place_of(members: Members, begin: int, size: int, score: float, seq: int) -> int:
    """Return how many of the ``size`` members from ``begin`` on rank before a member. O(log size), O(size) if its score is NaN.

    A NaN stands for a score that is not known: then only members can be looked up, and ``size`` is the answer for others.
    """
    low, high = 0, size
    if np.isnan(score):
        while low < size and members.seq[begin + low] != seq:
            low += 1
    else:
        while low < high:
            middle = (low + high) >> 1
            if ranks_before(members.score[begin + middle], members.seq[begin + middle], score, seq):
                low = middle + 1
            else:
                high = middle
    return low


@inner
def remove_members(rows: AnyArray, score: AnyArray, first: int, end: int, begin: int, size: int, members: Members) -> int:
    """Remove the members that the change rows [first, end) name; return the new size. O(size) for few, O(size log) for many."""
    if end - first <= FEW:
        for i in range(first, end):
            seq = rows[i, SEQ]
            place = begin + place_of(members, begin, size, score[i], seq)
            if place < begin + size and members.seq[place] == seq:
                size -= 1
                for j in range(place, begin + size):
                    members.seq[j] = members.seq[j + 1]
                    members.score[j] = members.score[j + 1]
        return size
    kept = begin
    for j in range(begin, begin + size):
        if find_change(rows, first, end, members.seq[j]) < 0:
            members.seq[kept] = members.seq[j]
            members.score[kept] = members.score[j]
            kept += 1
    return kept - begin


@jit
def merge_members(rows: AnyArray, score: AnyArray, first: int, end: int, begin: int, size: int, members: Members) -> int:
    """Insert what the change rows [first, end) name, the newest first, in one pass; return the new size. O(size + n log n)."""
    fresh = np.empty(end - first, np.int64)
    count = 0
    for i in range(first, end):
        if not np.isnan(score[i]):
            fresh[count] = i
            count += 1
    worst = np.empty(count, np.float64)
    for i in range(count):
        worst[i] = -score[fresh[i]]
    order = np.argsort(worst, kind="mergesort")  # stable: of equal scores the newest first
    old, place = begin + size - 1, begin + size + count - 1
    for i in range(count - 1, -1, -1):
        row = fresh[order[i]]
        while old >= begin and ranks_before(score[row], rows[row, SEQ], members.score[old], members.seq[old]):
            members.seq[place] = members.seq[old]
            members.score[place] = members.score[old]
            old -= 1
            place -= 1
        members.seq[place] = rows[row, SEQ]
        members.score[place] = score[row]
        place -= 1
    return size + count


@jit
def insert_members(rows: AnyArray, score: AnyArray, first: int, end: int, begin: int, size: int, members: Members) -> int:
    """Insert the rows with a score that the change rows [first, end) name; return the new size. O(size) for few."""
    if end - first > FEW:
        return merge_members(rows, score, first, end, begin, size, members)
    for i in range(first, end):
        if not np.isnan(score[i]):
            seq = rows[i, SEQ]
            place = begin + place_of(members, begin, size, score[i], seq)
            for j in range(begin + size, place, -1):
                members.seq[j] = members.seq[j - 1]
                members.score[j] = members.score[j - 1]
            members.seq[place] = seq
            members.score[place] = score[i]
            size += 1
    return size


class Step(NamedTuple):
    """A step of a skyline: its change rows, and its number in the ranked result. All int64."""

    first: int
    """The first change row, those that leave first."""
    middle: int
    """The first one that enters."""
    end: int
    """The place behind the last one."""
    number: int
    entered: int
    """The cause of members that the skyline had before the step, and that enter the result."""


@inner
def put_step(rows: AnyArray, change: Step, begin: int, shown: int, size: int, members: Members, found: Ranked, written: int) -> int:
    """Write how the first ``size`` members differ from the first ``shown`` before the step; return the number of changes then.

    O(shown + size).
    """
    first, middle, end, step, entered = change.first, change.middle, change.end, change.number, change.entered
    before, j = written, 0
    for i in range(shown):
        seq, score = members.first_seq[i], members.first_score[i]
        while j < size and ranks_before(members.score[begin + j], members.seq[begin + j], score, seq):
            j += 1
        if j == size or members.seq[begin + j] != seq:
            row = find_change(rows, first, middle, seq)
            put(found, written, rows, first, step, written - before, -1, rows[row, CAUSE] if row >= 0 else DISPLACED, seq, score)
            written += 1
    j = 0
    for i in range(size):
        seq, score = members.seq[begin + i], members.score[begin + i]
        while j < shown and ranks_before(members.first_score[j], members.first_seq[j], score, seq):
            j += 1
        if j == shown or members.first_seq[j] != seq:
            row = find_change(rows, middle, end, seq)
            put(found, written, rows, first, step, written - before, 1, rows[row, CAUSE] if row >= 0 else entered, seq, score)
            written += 1
    return written


@inner
def put(
    found: Ranked, written: int, rows: AnyArray, first: int, step: int, pos: int, sign: int, cause: int, seq: int, score: float
) -> None:  # fmt: skip
    """Write one change in place ``written``, of the query, key and instant of the change row ``first``."""
    row = found.rows[written]
    row[QUERY], row[KEY] = rows[first, QUERY], rows[first, KEY]
    row[AT], row[STEP] = rows[first, AT], step
    row[POS], row[SIGN] = pos, sign
    row[CAUSE], row[SEQ] = cause, seq
    found.score[written] = score


@jit
def rank_changes(
    rows: AnyArray, score: AnyArray, most: AnyArray, bounded: AnyArray, steps: AnyArray, ranking: Ranking
) -> tuple[Ranked, Ranking]:
    """Return the changes of the ranked results that follow from change rows (m, 8) of skylines, and the members after them.

    ``rows`` are sorted by (query, key, step, pos), with ``score`` (m,) each. Query w shows its ``most[w]`` (Q,) best members; ``bounded``
    (Q,): it changes at boundaries only. ``steps`` (keys, Q) counts steps, in place. O(m (members + most) + all members).
    """
    count, queries, lists = rows.shape[0], len(most), len(ranking.start) - 1
    longest, widest = 0, 0
    for place in range(lists):
        longest = max(longest, ranking.start[place + 1] - ranking.start[place])
    for query in range(queries):
        widest = max(widest, min(most[query], longest + count))
    room = len(ranking.seq) + count
    members = Members(np.empty(room, np.int64), np.empty(room, np.float64), np.empty(widest, np.int64), np.empty(widest, np.float64))
    found = Ranked(np.empty((2 * count, 8), np.int64), np.empty(2 * count, np.float64))
    sources, start = np.full(lists, -1), np.zeros(lists + 1, np.int64)
    for place in range(lists):
        start[place + 1] = ranking.start[place + 1] - ranking.start[place]
    first, begin, written = 0, 0, 0
    while first < count:
        query, key = rows[first, QUERY], rows[first, KEY]
        place = key * queries + query
        size = 0
        for j in range(ranking.start[place], ranking.start[place + 1]):
            members.seq[begin + size] = ranking.seq[j]
            members.score[begin + size] = ranking.score[j]
            size += 1
        while first < count and rows[first, QUERY] == query and rows[first, KEY] == key:
            middle = first
            while middle < count and rows[middle, SIGN] < 0 and same_step(rows, first, middle):
                middle += 1
            end = middle
            while end < count and rows[end, SIGN] > 0 and same_step(rows, first, end):
                end += 1
            shown = min(size, most[query])
            for j in range(shown):
                members.first_seq[j] = members.seq[begin + j]
                members.first_score[j] = members.score[begin + j]
            size = remove_members(rows, score, first, middle, begin, size, members)
            size = insert_members(rows, score, middle, end, begin, size, members)
            step = Step(first, middle, end, steps[key, query] + 1, BOUNDARY if bounded[query] else PROMOTED)
            after = put_step(rows, step, begin, shown, min(size, most[query]), members, found, written)
            if after > written:
                steps[key, query] += 1
            written, first = after, end
        sources[place], start[place + 1] = begin, size
        begin += size
    for place in range(lists):
        start[place + 1] += start[place]
    after_seq, after_score = np.empty(start[lists], np.int64), np.empty(start[lists], np.float64)
    for place in range(lists):
        size, source = start[place + 1] - start[place], sources[place]
        for j in range(size):
            if source >= 0:
                after_seq[start[place] + j], after_score[start[place] + j] = members.seq[source + j], members.score[source + j]
            else:
                old = ranking.start[place] + j
                after_seq[start[place] + j], after_score[start[place] + j] = ranking.seq[old], ranking.score[old]
    return Ranked(found.rows[:written], found.score[:written]), Ranking(start, after_seq, after_score)


@inner
def same_step(rows: AnyArray, first: int, other: int) -> bool:
    """Return True if two change rows belong to one step."""
    same = rows[first, QUERY] == rows[other, QUERY] and rows[first, KEY] == rows[other, KEY]
    return bool(same and rows[first, STEP] == rows[other, STEP])
