"""Sets that are similar enough, and every arrival's best matches, against brute force after every event."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skyband.operators.base import Arrivals, Window
from skyband.operators.matches.operator import Matches
from skyband.operators.pair_rows.queries import BoundedPairQuery, PairQuery
from skyband.operators.similar_sets.operator import SimilarSets
from tests.operators.host import check_kept_pairs
from tests.operators.pairs_host import text_of
from tests.operators.sets_host import Case, cuts_of, drive, ragged, random_matches_case, random_pairs_case
from tests.oracles import sets as oracle
from tests.seeds import seeds


def check(case: Case, seed: int) -> None:
    rng = np.random.default_rng(seed + 1)
    want = text_of(case.expected(oracle.matches if isinstance(case.op, Matches) else oracle.replay))
    whole, logic = drive(case, [])
    assert text_of(whole) == want
    check_state(case, logic)
    assert text_of(drive(case, cuts_of(case.stream, rng, 1.0))[0]) == want
    assert text_of(drive(case, cuts_of(case.stream, rng, 0.7), restore=True, loose=int(rng.integers(0, 4)))[0]) == want


def check_state(case: Case, logic: Any) -> None:
    """Snapshots and pairs by definition, as of the end; matches are not kept."""
    op = case.op
    if isinstance(op, Matches):
        assert len(logic.skyband()) == len(logic.snapshot(0, 1, op.window)) == 0
        return
    bounds = [case.query(q).bound or 0.0 for q in op.queries]
    loosest = max(bounds) if op.similarity == "hamming" else min(bounds)
    largest = oracle.Query(10**9, op.window.count, op.window.micros, loosest)
    check_kept_pairs(case, logic, [case.query(q) for q in op.queries], largest, oracle.snapshot)


CASES = {"pairs": random_pairs_case, "matches": random_matches_case}


@pytest.mark.parametrize("kind", CASES)
@pytest.mark.parametrize("part", range(4))
def test_brute_force(kind: str, part: int) -> None:
    for seed in seeds(part * 40, part * 40 + 40):
        check(CASES[kind](seed), seed)


@given(st.sampled_from(sorted(CASES)), st.integers(0, 2**32), st.integers(1, 40))
def test_brute_force_drawn(kind: str, seed: int, rows: int) -> None:
    check(CASES[kind](seed, rows), seed)


@pytest.mark.slow
@pytest.mark.parametrize("kind", CASES)
@pytest.mark.parametrize("part", range(10))
def test_brute_force_more(kind: str, part: int) -> None:
    for seed in range(part * 150, part * 150 + 150):
        check(CASES[kind](10**6 + seed, 90), seed)


def rows_of(sets: list[list[int]], start: int = 0) -> Arrivals:
    seq = np.arange(start, start + len(sets))
    return Arrivals(np.zeros(len(sets), np.int64), seq, seq, {}, {"tokens": ragged(sets)})


def test_every_pair_of_copies_is_told_and_taken_back() -> None:
    queries = (BoundedPairQuery("q", Window(4), min_score=1.0),)
    logic = SimilarSets(tokens="tokens", similarity="jaccard", window=Window(4), queries=queries).build(None)
    changes = logic.advance(rows_of([[1, 2]] * 6), 6)
    assert np.count_nonzero(changes.sign > 0) == 0 + 1 + 2 + 3 + 3 + 3
    assert np.count_nonzero(changes.sign < 0) == 3 + 3
    assert len(logic.skyband()) == 6


def test_an_arrivals_matches_are_its_best_the_newest_first() -> None:
    queries = (PairQuery("two", 2, Window(10)), PairQuery("near", 2, Window(3)))
    logic = Matches(tokens="tokens", similarity="jaccard", window=Window(10), queries=queries).build(None)
    changes = logic.advance(rows_of([[1, 2], [1, 2], [1, 2, 3], [7], [1, 2]]), 5)
    last = changes.at == 4
    assert changes.items[last & (changes.query == 0)].tolist() == [[1, 4], [0, 4]]
    assert changes.items[last & (changes.query == 1)].tolist() == [[2, 4]]
    assert changes.step[last].tolist() == [3, 3, 3]


def test_wrong_configurations_are_refused() -> None:
    w = Window(10)
    good: dict[str, Any] = {"tokens": "t", "similarity": "jaccard", "window": w}
    near = BoundedPairQuery("q", w, min_score=0.5)
    SimilarSets(**good, queries=(near,))
    for wrong in (
        {"queries": ()}, {"queries": (near, near)}, {"queries": (BoundedPairQuery("q", w),)}, {"similarity": "near", "queries": (near,)},
        {"queries": (BoundedPairQuery("q", Window(11), min_score=0.5),)}, {"queries": (BoundedPairQuery("q", w, max_score=0.5),)},
        {"queries": (BoundedPairQuery("q", w, min_score=float("nan")),)}, {"similarity": "hamming", "queries": (near,)},
        {"queries": (BoundedPairQuery("q", w, min_score=0.5, every_micros=0),)},
    ):  # fmt: skip
        with pytest.raises(ValueError, match=r"."):
            SimilarSets(**{**good, **wrong})
    Matches(**good, queries=(PairQuery("q", 1, w),))
    for queries in ((PairQuery("q", 0, w),), (PairQuery("q", 1, w, every_micros=5),), (PairQuery("q", 1, w, max_score=0.5),), ()):
        with pytest.raises(ValueError, match=r"."):
            Matches(**good, queries=queries)


@pytest.mark.parametrize("similarity", ["jaccard", "cosine"])
def test_window_snapshots_equal_those_of_another_library(similarity: Any) -> None:
    """SetSimilaritySearch joins a whole window at once: the same pairs, at every hundredth set."""
    library = pytest.importorskip("SetSimilaritySearch", reason="needs the package SetSimilaritySearch")
    rng = np.random.default_rng(8)
    sets = [rng.choice(14, int(rng.integers(1, 9)), replace=False).tolist() for _ in range(900)]
    at_least, n = 0.567, 150
    queries = (BoundedPairQuery("q", Window(n), min_score=at_least),)
    logic = SimilarSets(tokens="tokens", similarity=similarity, window=Window(n), queries=queries).build(None)
    for lo in range(0, 900, 100):
        logic.advance(rows_of(sets[lo : lo + 100], lo), lo + 100)
        first = max(0, lo + 100 - n)
        window = sets[first : lo + 100]
        want = {
            (first + min(i, j), first + max(i, j)): s
            for i, j, s in library.all_pairs(window, similarity_func_name=similarity, similarity_threshold=at_least)
        }
        got = logic.snapshot(0, 10**6, Window(n))
        assert len(got) > 10
        assert {tuple(item): pytest.approx(s) for item, s in zip(got.items.tolist(), got.score.tolist(), strict=True)} == want
