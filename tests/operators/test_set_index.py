"""The index of sets: bounds that need no division, and a clock that starts again."""

from __future__ import annotations

from typing import Any

import numpy as np

from skyband.operators.base import Arrivals, Window
from skyband.operators.jit import jit
from skyband.operators.pair_rows.queries import PairQuery
from skyband.operators.set_index.functions import SIMILARITIES
from skyband.operators.set_index.kernels import similarity
from skyband.operators.set_index.kernels.tables import CLOCK, LAST_CLOCK
from skyband.operators.topk_similar_sets.operator import TopKSimilarSets
from tests.operators.sets_host import ragged


@jit(cache=False)
def count_wrong(function: int, a: int, b: int, limits: Any) -> tuple[int, int]:
    """Count the pairs that ``may_reach`` leaves out though their score is good enough, and those that it lets pass though it is not."""
    missed, passed = 0, 0
    for common in range(min(a, b) + 1):
        for i in range(len(limits)):
            good = similarity.score_of(function, common, a, b) <= limits[i]
            may = similarity.may_reach(function, common, a, b, limits[i])
            missed += int(good and not may)
            passed += int(may and not good)
    return missed, passed


def test_no_pair_that_is_similar_enough_is_left_out_by_the_bound_without_a_division() -> None:
    exact = np.unique([-p / q for q in range(1, 30) for p in range(q + 1)])
    near = np.concatenate([exact, np.nextafter(exact, -np.inf), np.nextafter(exact, np.inf), [-np.inf, np.inf]])
    for function in range(len(SIMILARITIES)):
        for a in range(1, 16):
            for b in range(1, 16):
                assert count_wrong(function, a, b, near)[0] == 0
                assert count_wrong(function, a, b, -1 / np.sqrt([2.0, 5.0, 17.0, 101.0]))[1] == 0
    assert count_wrong(0, 5, 5, np.array([np.nan]))[0] == 0


def test_the_clock_of_the_index_starts_again() -> None:
    """The clock is stored in 31 bits. Near its end the index is rebuilt, and the result is that of an index without a past."""
    rng = np.random.default_rng(3)
    sets = [rng.choice(30, int(rng.integers(1, 8)), replace=False).tolist() for _ in range(400)]
    window = Window(50)
    skybands = []
    for ahead in (None, 3, 50):
        logic: Any = TopKSimilarSets(
            tokens="tokens", similarity="jaccard", window=window, queries=(PairQuery("q", 5, window),), keep_k=5
        ).build(None)  # fmt: skip
        for lo in range(0, 400, 100):
            seq = np.arange(lo, lo + 100)
            if ahead is not None and lo == 200:
                logic.sets.index.scalars[CLOCK] = LAST_CLOCK - ahead
            logic.advance(Arrivals(np.zeros(100, np.int64), seq, seq, {}, {"tokens": ragged(sets[lo : lo + 100])}), lo + 100)
        assert logic.sets.index.scalars[CLOCK] < 1000
        band = logic.skyband()
        skybands.append((band.items.tolist(), band.score.tolist()))
    assert skybands[0] == skybands[1] == skybands[2]
