"""The result by a greedy walk: pairs in rank order, passing over those with an object that is in ``cap`` taken pairs already."""

from __future__ import annotations

from skyband.operators.base import I64
from skyband.operators.jit import inner, jit
from skyband.operators.pair_rows.kernels.lists import ranks_before
from skyband.operators.pair_rows.kernels.tables import Pairs, Skyband, Sources


@inner
def put(pool: Pairs, at: int, score: float, older: int, newer: int) -> None:
    """Write one pair."""
    pool.score[at], pool.older[at], pool.newer[at] = score, older, newer


@inner
def collect_stored(pool: Pairs, worst: float, first_alive: int, skyband: Skyband) -> int:
    """Write what a skyband has with older seq >= ``first_alive`` and score <= ``worst`` to ``pool``, in no order; return how many."""
    scores, olders, newers = skyband.score, skyband.older, skyband.newer
    count = 0
    for i in range(len(olders)):
        if olders[i] < first_alive:
            break
        if scores[i] <= worst:
            put(pool, count, scores[i], olders[i], newers[i])
            count += 1
    return count


@inner
def collect(pool: Pairs, worst: float, first_alive: int, arrived: int, sources: Sources) -> int:
    """Write the pairs of the skyband and of the first ``arrived`` arrivals, as ``collect_stored``. O(skyband + candidates)."""
    batch, candidates = sources.batch, sources.candidates
    scores, newer = batch.scores, batch.newer
    found_score, found_older, found_arrival = candidates.score, candidates.older, candidates.arrival
    count = collect_stored(pool, worst, first_alive, sources.skyband)
    for i in range(arrived):
        for j in range(max(first_alive - batch.first_seq, 0), i):
            if scores[i, j] <= worst:
                put(pool, count, scores[i, j], batch.first_seq + j, newer[i])
                count += 1
    for c in range(candidates.found):
        if found_score[c] <= worst and found_arrival[c] < arrived and found_older[c] >= first_alive:
            put(pool, count, found_score[c], found_older[c], newer[found_arrival[c]])
            count += 1
    return count


@inner
def sink(pool: Pairs, count: int, hole: int, score: float, older: int, newer: int) -> None:
    """Put a pair into the heap of the first ``count`` at ``hole`` or below it. O(log count)."""
    scores, olders, newers = pool.score, pool.older, pool.newer
    i = hole
    while True:
        child = 2 * i + 1
        if child >= count:
            break
        right = child + 1
        if right < count and ranks_before(
            scores[right], olders[right], newers[right], scores[child], olders[child], newers[child]
        ):  # fmt: skip
            child = right
        if not ranks_before(scores[child], olders[child], newers[child], score, older, newer):
            break
        scores[i], olders[i], newers[i] = scores[child], olders[child], newers[child]
        i = child
    scores[i], olders[i], newers[i] = score, older, newer


@jit(_nrt=False)  # as ``inner``, but called from Python, too
def walk(pool: Pairs, count: int, k: int, cap: int, first_stored: int, marks: I64, best: Pairs) -> int:
    """Fill ``best`` with the result of the first ``count`` pairs of ``pool`` (which loses its order); returns how many it has.

    ``marks``: 0 for every object, of which that of seq s is at place s - ``first_stored``. O(count + (k + passed over) log count).
    """
    scores, olders, newers = pool.score, pool.older, pool.newer
    for i in range(count // 2 - 1, -1, -1):
        sink(pool, count, i, scores[i], olders[i], newers[i])
    taken = 0
    while count > 0 and taken < k:
        score, older, newer = scores[0], olders[0], newers[0]
        count -= 1
        if count > 0:
            sink(pool, count, 0, scores[count], olders[count], newers[count])
        x, y = older - first_stored, (newer >> 1) - first_stored
        if marks[x] < cap and marks[y] < cap:
            marks[x] += 1
            marks[y] += 1
            put(best, taken, score, older, newer)
            taken += 1
    for i in range(taken):
        marks[best.older[i] - first_stored] = 0
        marks[(best.newer[i] >> 1) - first_stored] = 0
    return taken
