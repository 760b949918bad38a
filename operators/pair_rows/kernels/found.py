"""Take candidates from pairs that shards found, instead of searching for them (docs/algorithms D6)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skyband.operators.base import F64, I64
from skyband.operators.jit import inner, maker
from skyband.operators.pair_rows.capped.kernels import new_capped_keeper
from skyband.operators.pair_rows.capped.limits import Limits
from skyband.operators.pair_rows.kernels.driver import CAPPED, SKYBAND, Finder, events_driver
from skyband.operators.pair_rows.kernels.sub_batch import new_skyband_keeper
from skyband.operators.pair_rows.kernels.tables import (
    FOUND,
    ORDER_BITS,
    Candidates,
    ChangeRows,
    Place,
    Skyband,
    SubBatch,
    Task,
    new_candidates,
    with_found,
)


class FoundRows(NamedTuple):
    """Pairs that shards found of the arrivals of an ``Advance``, in any order."""

    row: I64
    """int64 (pairs,): the row of the newer object among the arrivals, which are in the order of ``Advance.keys`` and seqs."""
    older: I64
    """int64 (pairs,)."""
    score: F64
    """float64 (pairs,)."""
    first_row: I64
    """int64 (m + 1,): the row of the first arrival of each of ``Advance.keys``, and the number of all arrivals."""


class Grouped(NamedTuple):
    """Pairs by arrival."""

    start: I64
    """int64 (arrivals + 1,): where the pairs of each arrival start."""
    older: I64
    """int64 (pairs,)."""
    score: F64
    """float64 (pairs,)."""


@maker
def by_arrival(found: FoundRows) -> Grouped:
    """Return the pairs by arrival. O(arrivals + pairs)."""
    arrivals, pairs = found.first_row[-1], len(found.row)
    grouped = Grouped(np.zeros(arrivals + 1, np.int64), np.empty(pairs, np.int64), np.empty(pairs, np.float64))
    start = grouped.start
    for i in range(pairs):
        start[found.row[i]] += 1
    for row in range(1, arrivals + 1):
        start[row] += start[row - 1]
    for i in range(pairs - 1, -1, -1):
        start[found.row[i]] -= 1
        at = start[found.row[i]]
        grouped.older[at], grouped.score[at] = found.older[i], found.score[i]
    return grouped


@inner
def note_best(batch: SubBatch, arrival: int, score: float) -> None:
    """Make ``score`` the best one of an arrival if it is better."""
    if score < batch.best[arrival] or batch.best[arrival] != batch.best[arrival]:
        batch.best[arrival] = score


@inner
def fill_candidates(grouped: Grouped, row: int, batch: SubBatch, candidates: Candidates) -> int:
    """Fill ``batch.best`` and the candidates, which have room, with the pairs of a sub-batch whose first arrival has ``row``. Return how
    many there are. Each has an older object as a sort key in ``candidates.order``."""
    count, behind = 0, batch.first_seq + batch.size
    for arrival in range(batch.size):
        batch.best[arrival] = np.nan
        for at in range(grouped.start[row + arrival], grouped.start[row + arrival + 1]):
            candidates.score[count], candidates.older[count] = grouped.score[at], grouped.older[at]
            candidates.arrival[count] = arrival
            candidates.order[count] = ((behind - grouped.older[at]) << ORDER_BITS) | count
            count += 1
            note_best(batch, arrival, grouped.score[at])
    return count


@inner
def divide(grouped: Grouped, row: int, batch: SubBatch, candidates: Candidates) -> int:
    """Fill ``batch.scores`` with the pairs of two arrivals of a sub-batch whose first has ``row``, and the candidates with its others.

    Return how many candidates there are. O(arrivals^2 + pairs).
    """
    count, first = 0, batch.first_seq
    for arrival in range(batch.size):
        batch.best[arrival] = np.nan
        for j in range(arrival):
            batch.scores[arrival, j] = np.nan
        for at in range(grouped.start[row + arrival], grouped.start[row + arrival + 1]):
            score, older = grouped.score[at], grouped.older[at]
            note_best(batch, arrival, score)
            if older >= first:
                batch.scores[arrival, older - first] = score
                continue
            candidates.score[count], candidates.older[count], candidates.arrival[count] = score, older, arrival
            candidates.order[count] = ((first - older) << ORDER_BITS) | count
            count += 1
    return count


class FoundFinder(NamedTuple):
    """The pairs that shards found, as a finder of ``driver``."""

    grouped: Grouped
    first_row: I64
    """int64 (m + 1,): as ``FoundRows.first_row``."""
    candidates: Candidates


@maker
def take_pairs(finder: FoundFinder, task: Task, place: Place, batch: SubBatch, _skyband: Skyband) -> tuple[FoundFinder, bool]:
    """Take the pairs of a sub-batch: those of two of its arrivals into ``batch.scores``, if it has room for them, all others as candidates.

    Return also whether there are any pairs.
    """
    grouped, candidates = finder.grouped, finder.candidates
    row = finder.first_row[place.group] + batch.first_seq - task.advance.first_new[place.group]
    pairs = grouped.start[row + batch.size] - grouped.start[row]
    if pairs > len(candidates.score):
        candidates = new_candidates(2 * pairs)
    count = divide(grouped, row, batch, candidates) if len(batch.scores) > 0 else fill_candidates(grouped, row, batch, candidates)
    candidates.order[:count].sort()
    task.work[FOUND] += count
    return FoundFinder(grouped, finder.first_row, with_found(candidates, count)), pairs > 0


@maker
def pass_over_found(finder: FoundFinder, _task: Task, _place: Place, _first: int, _stop: int) -> FoundFinder:
    """Return the finder: no state depends on the arrivals of other shards."""
    return finder


FOUND_PAIRS = Finder(take_pairs, pass_over_found)
_run = events_driver(FOUND_PAIRS, SKYBAND)
_run_capped = events_driver(FOUND_PAIRS, CAPPED)


def drive_found(found: FoundRows, task: Task) -> tuple[ChangeRows, int, Skyband, int]:
    """Process all events of a task whose arrivals have the pairs ``found``. O(pairs + skyband) per sub-batch with pairs.

    Return change rows and their number, the skybands' (perhaps new) arena and its end.
    """
    finder = FoundFinder(by_arrival(found), found.first_row, new_candidates(1024))
    rows, written, keeper, finder, _ = _run(task, finder, new_skyband_keeper(task.settings, task.bucket), 0)
    return rows, written, keeper.skyband, keeper.end


def drive_capped_found(limits: Limits, found: FoundRows, task: Task) -> tuple[ChangeRows, int, Skyband, int]:
    """Process all events of a task, as ``drive_found``, with a cap per object."""
    finder = FoundFinder(by_arrival(found), found.first_row, new_candidates(1024))
    keeper = new_capped_keeper(limits, task.settings, task.bucket)
    rows, written, keeper, finder, _ = _run_capped(task, finder, keeper, task.settings.sub_batch)
    return rows, written, keeper.skyband, keeper.end
