"""The list of the best k pairs of one query: entering, leaving, filling it from a skyband and candidates.

A list is ``Pairs`` in rank order, as many as it has room for at most, and its ``length``. Its first k are the result.
"""

from __future__ import annotations

from skyband.operators.base import I64, NEVER
from skyband.operators.jit import inner
from skyband.operators.pair_rows.kernels.arena import alive_from
from skyband.operators.pair_rows.kernels.tables import History, Lists, Pairs, Queries, Skyband, Sources, own_scores, part


@inner
def ranks_before(score: float, older: int, newer: int, score2: float, older2: int, newer2: int) -> bool:
    """Return True if the first pair ranks before the second: smaller score, then larger older, then larger newer."""
    return score < score2 or (score == score2 and (older > older2 or (older == older2 and newer > newer2)))


@inner
def enter(best: Pairs, length: int, score: float, older: int, newer: int) -> int:
    """Insert a pair (it may fall out again); returns the list's length. O(k)."""
    scores, olders, newers = best.score, best.older, best.newer
    k = len(scores)
    i = length
    if length == k:
        i = length - 1
        if not ranks_before(score, older, newer, scores[i], olders[i], newers[i]):
            return length
    while i > 0 and ranks_before(score, older, newer, scores[i - 1], olders[i - 1], newers[i - 1]):
        scores[i], olders[i], newers[i] = scores[i - 1], olders[i - 1], newers[i - 1]
        i -= 1
    scores[i], olders[i], newers[i] = score, older, newer
    return min(k, length + 1)


@inner
def select_stored(best: Pairs, worst: float, first_alive: int, skyband: Skyband) -> int:
    """Fill ``best`` with the best of the skyband with older seq >= ``first_alive`` and score <= ``worst``; returns its length."""
    scores, olders, newers = skyband.score, skyband.older, skyband.newer
    k = len(best.score)
    length = 0
    for i in range(len(olders)):
        if olders[i] < first_alive:
            break
        if scores[i] <= worst:
            length = enter(best, length, scores[i], olders[i], newers[i])
            if length == k:
                worst = best.score[k - 1]
    return length


@inner
def select(best: Pairs, worst: float, first_alive: int, arrived: int, sources: Sources) -> int:
    """Fill ``best`` from the skyband and the first ``arrived`` arrivals. O(skyband + candidates), O(k) an entry."""
    batch, candidates = sources.batch, sources.candidates
    scores, newer = batch.scores, batch.newer
    found_score, found_older, found_arrival = candidates.score, candidates.older, candidates.arrival
    k = len(best.score)
    length = select_stored(best, worst, first_alive, sources.skyband)
    if length == k:
        worst = best.score[k - 1]
    for i in range(min(arrived, own_scores(batch))):
        for j in range(max(first_alive - batch.first_seq, 0), i):
            if scores[i, j] <= worst:
                length = enter(best, length, scores[i, j], batch.first_seq + j, newer[i])
                if length == k:
                    worst = best.score[k - 1]
    for c in range(candidates.found):
        if found_score[c] <= worst and found_arrival[c] < arrived and found_older[c] >= first_alive:
            length = enter(best, length, found_score[c], found_older[c], newer[found_arrival[c]])
            if length == k:
                worst = best.score[k - 1]
    return length


@inner
def before_last(best: Pairs, length: int, score: float, older: int, newer: int) -> bool:
    """Return True if a pair ranks before the last of a list."""
    last = length - 1
    return ranks_before(score, older, newer, best.score[last], best.older[last], best.newer[last])


@inner
def arrive(best: Pairs, length: int, whole: bool, worst: float, first_alive: int, i: int, sources: Sources) -> int:
    """Enter the candidates of arrival i into a list that holds all the others there are, or (not ``whole``) all that rank before its last;
    returns its length. A list that is full is no longer whole."""
    batch, candidates = sources.batch, sources.candidates
    found_score, found_older, grouped = candidates.score, candidates.older, candidates.grouped
    scores, newer = batch.scores, batch.newer[i]
    if not whole:
        worst = best.score[length - 1]
    for j in range(max(first_alive - batch.first_seq, 0), min(i, own_scores(batch))):
        score, older = scores[i, j], batch.first_seq + j
        if score <= worst and (whole or before_last(best, length, score, older, newer)):
            length = enter(best, length, score, older, newer)
    for at in range(batch.start[i], batch.start[i + 1]):
        c = grouped[at]
        score, older = found_score[c], found_older[c]
        if score <= worst and older >= first_alive and (whole or before_last(best, length, score, older, newer)):
            length = enter(best, length, score, older, newer)
    return length


@inner
def drop_expired(best: Pairs, length: int, first_alive: int) -> int:
    """Drop pairs whose older seq is < ``first_alive``; returns how many stay."""
    scores, olders, newers = best.score, best.older, best.newer
    stay = 0
    for i in range(length):
        if olders[i] >= first_alive:
            scores[stay], olders[stay], newers[stay] = scores[i], olders[i], newers[i]
            stay += 1
    return stay


@inner
def oldest(olders: I64, length: int) -> int:
    """Return the smallest older seq, or ``NEVER`` in an empty list."""
    least = NEVER
    for i in range(length):
        least = min(least, int(olders[i]))
    return least


@inner
def copy_pairs(source: Pairs, length: int, target: Pairs) -> None:
    """Copy the first ``length`` pairs."""
    for i in range(length):
        target.score[i], target.older[i], target.newer[i] = source.score[i], source.older[i], source.newer[i]


@inner
def enough(queries: Queries, lists: Lists) -> bool:
    """Return True if every list that is ``partial`` has all its pairs."""
    missing = 0
    for query in range(len(queries.k)):
        missing += queries.partial[query] == 1 and lists.length[query] < queries.k[query]
    return missing == 0


@inner
def fill_lists(queries: Queries, history: History, upto: int, instant: int, skyband: Skyband, lists: Lists) -> None:
    """Fill every query's list from the skyband, as of ``instant`` and before seq ``upto`` (docs/algorithms Theorem A)."""
    for query in range(len(queries.k)):
        first_alive = alive_from(history, upto, instant, queries.window_count[query], queries.window_micros[query])
        best = part(lists.best, queries.list_start[query], queries.list_room[query])
        lists.length[query] = select_stored(best, queries.worst[query], first_alive, skyband)
        lists.whole[query] = 1 if lists.length[query] < queries.list_room[query] else 0
