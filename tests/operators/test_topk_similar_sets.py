"""The most similar sets against brute force after every event: ties, copies, sides, predicates, boundaries, cuts, restarts, snapshots."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench import similar_sets
from skyband.operators.base import Arrivals, Ragged, Window
from skyband.operators.pair_rows.queries import Between, PairQuery
from skyband.operators.set_index.functions import SIMILARITIES
from skyband.operators.topk_similar_sets.operator import TopKSimilarSets
from tests.operators.host import band_of
from tests.operators.pairs_host import text_of
from tests.operators.sets_host import Case, Sets, cuts_of, drive, ragged, random_case, random_stream
from tests.oracles import sets as oracle
from tests.seeds import seeds


def check(case: Case, seed: int) -> None:
    rng = np.random.default_rng(seed + 1)
    want = text_of(case.expected())
    whole, logic = drive(case, [])
    assert text_of(whole) == want
    check_state(case, logic)
    assert text_of(drive(case, cuts_of(case.stream, rng, 1.0))[0]) == want
    assert text_of(drive(case, cuts_of(case.stream, rng, 0.2), sub_batch=int(rng.integers(1, 12)))[0]) == want
    assert text_of(drive(case, cuts_of(case.stream, rng, 0.7), restore=True, loose=int(rng.integers(0, 4)))[0]) == want


def check_state(case: Case, logic: Any) -> None:
    """Snapshots and skyband by definition, as of the end."""
    op = case.op
    bounds = [case.query(q).bound for q in op.queries]
    loosest = None if None in bounds else max(bounds) if op.similarity == "hamming" else min(bounds)
    for key in range(int(case.stream.key.max()) + 1):
        stream = case.key_stream(key)
        n = len(stream.times)
        for i, q in enumerate(op.queries):
            got = logic.snapshot(key, op.keep_k, q.window, i)
            want = oracle.snapshot(stream, dataclasses.replace(case.query(q), k=op.keep_k), case.end - 1, n)
            assert list(zip(*got.items.T.tolist(), got.score.tolist(), strict=True)) == want
        band = [r[1:] for r in band_of(logic) if r[0] == key]
        assert len(set(band)) == len(band)
        largest = oracle.Query(op.keep_k, op.window.count, op.window.micros, loosest)
        assert set(band) == oracle.skyband(stream, op.keep_k, largest, case.end - 1, n)


@pytest.mark.parametrize("part", range(8))
def test_brute_force(part: int) -> None:
    for seed in seeds(part * 40, part * 40 + 40):
        check(random_case(seed), seed)


@given(st.integers(0, 2**32), st.integers(1, 40))
def test_brute_force_drawn(seed: int, rows: int) -> None:
    check(random_case(seed, rows), seed)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(20))
def test_brute_force_more(part: int) -> None:
    for seed in range(part * 150, part * 150 + 150):
        check(random_case(10**6 + seed, rows=90), seed)


def most_similar(window: Window, k: int, similarity: Any = "jaccard", **more: Any) -> TopKSimilarSets:
    return TopKSimilarSets(tokens="tokens", similarity=similarity, window=window, queries=(PairQuery("q", k, window, **more),), keep_k=k)


def rows_of(sets: Sets, start: int = 0) -> Arrivals:
    seq = np.arange(start, start + len(sets))
    return Arrivals(np.zeros(len(sets), np.int64), seq, seq, {}, {"tokens": ragged(sets)})


@pytest.mark.parametrize("similarity", SIMILARITIES)
def test_many_copies_are_ranked_newest_first(similarity: Any) -> None:
    """A window of one set: the skyband holds the K newest pairs, not all of them."""
    logic = most_similar(Window(400), 5, similarity).build(None)
    logic.advance(rows_of([[3, 1, 2]] * 1000), 1000)
    assert len(logic.skyband()) < 5 * 6
    want = [(998, 999), (997, 999), (997, 998), (996, 999), (996, 998)]
    assert [tuple(r) for r in logic.snapshot(0, 5, Window(400)).items.tolist()] == want


def test_equal_cosines_tie() -> None:
    """o / sqrt(ab) of equal similarities differs in floats: 1 of (1, 9) and 2 of (4, 9), and 1 of (1, 9) again, are all 1/3."""
    nine = list(range(9))
    sets = [nine, [0], [0, 1, 90, 91], [8], nine]
    logic = most_similar(Window(10), 3, "cosine").build(None)
    changes = logic.advance(rows_of(sets[:4]), 4)
    got = logic.snapshot(0, 3, Window(10))
    assert got.score.tolist() == [0.5, 1 / 3, 1 / 3]
    assert got.items.tolist() == [[1, 2], [0, 3], [0, 2]]
    assert len(changes)


@pytest.mark.long
def test_the_index_forgets_what_left_the_window() -> None:
    """Ever new tokens: ten million through a window of 10,000 sets leave no more behind than the window needs."""
    width, rows = 10, 50_000
    logic = most_similar(Window(10_000), 3).build(None)
    sizes = []
    for first in range(0, 10_000_000 // width, rows):
        seq = np.arange(first, first + rows)
        tokens = Ragged(np.arange(rows + 1) * width, np.arange(first * width, (first + rows) * width))
        logic.advance(Arrivals(np.zeros(rows, np.int64), seq, seq, {}, {"tokens": tokens}), first + rows)
        sizes.append(sum(a.nbytes for a in logic.sets.index))
    assert max(sizes) < 50_000_000


def test_wrong_configurations_are_refused() -> None:
    w = Window(10)
    good: dict[str, Any] = {"tokens": "t", "similarity": "jaccard", "window": w, "queries": (PairQuery("q", 2, w),), "keep_k": 5}
    TopKSimilarSets(**good)
    for wrong in (
        {"similarity": "jacard"}, {"queries": ()}, {"queries": (PairQuery("q", 6, w),)}, {"queries": (PairQuery("q", 1, Window(11)),)},
        {"queries": (PairQuery("q", 1, w, max_score=1.0),)}, {"similarity": "hamming", "queries": (PairQuery("q", 1, w, min_score=1.0),)},
        {"queries": (PairQuery("q", 1, w, min_score=float("nan")),)}, {"between": Between("side", "buy", "buy")}, {"window": Window()},
        {"between": Between("side", "buy", "hold"), "texts": ("buy", "sell")},
    ):  # fmt: skip
        with pytest.raises(ValueError, match=r"."):
            TopKSimilarSets(**{**good, **wrong})


def test_sets_without_tokens_are_counted_and_pair_with_nothing() -> None:
    logic = most_similar(Window(10), 3, "hamming").build(None)
    logic.advance(rows_of([[], [1], [], [2]]), 4)
    assert logic.skyband().items.tolist() == [[1, 3]]
    assert logic.counters()["unusable:0"] == 2


@pytest.mark.long
def test_the_benchmarks_scase_finds_the_same_skyband() -> None:
    from bench import scase_numba

    rng = np.random.default_rng(3)
    sets = [sorted(rng.choice(30, int(rng.integers(1, 9)), replace=False).tolist()) for _ in range(900)]
    logic = most_similar(Window(200), 4).build(None)
    logic.advance(rows_of(sets), 900)
    band = logic.skyband()
    ks, ko, ts, to = np.empty(5000), np.empty(5000, np.int64), np.empty(5000), np.empty(5000, np.int64)
    rows = ragged(sets)
    m, _, _ = scase_numba.run(scase_numba.jaccard, (rows.start, rows.values), 4, 200, 0, 900, ks, ko, 0, ts, to, 0)
    assert ko[:m].tolist() == band.items[:, 0].tolist()
    assert np.array_equal(-ks[:m], band.score)


def by_counting(sets: Sets, k: int) -> list[tuple[int, int, float]]:
    """The k most similar pairs by Jaccard: (first, second, score)."""
    holders: dict[int, list[int]] = {}
    common: Counter[tuple[int, int]] = Counter()
    for i, s in enumerate(sets):
        for token in s:
            common.update((j, i) for j in holders.setdefault(token, []))
            holders[token].append(i)
    found = [(o / (len(sets[j]) + len(sets[i]) - o), j, i) for (j, i), o in common.items()]
    return [(j, i, score) for score, j, i in sorted(found, reverse=True)[:k]]


@pytest.mark.real
@pytest.mark.parametrize(("name", "window"), [("commits_anon", 10_000), ("baskets", 2_000)])
def test_real_sets(name: str, window: int, shared_data: Callable[[str], Path]) -> None:
    """Near-duplicates among the last commits, and large sets: the same whatever the cuts, and in the end those of a full count."""
    path = shared_data(f"data/{name}.tsv.gz")
    sets = similar_sets.numbered(islice(similar_sets.commits(path) if name == "commits_anon" else similar_sets.baskets(path), 16_000))
    whole, cut = most_similar(Window(window), 200).build(None), most_similar(Window(window), 200).build(None)
    want = whole.advance(rows_of(sets), len(sets))
    edges = [*range(0, len(sets), 1111), len(sets)]
    got = [cut.advance(rows_of(sets[lo:hi], lo), hi) for lo, hi in pairwise(edges)]
    for field in ("at", "step", "pos", "sign", "cause", "score", "items"):
        assert np.concatenate([getattr(part, field) for part in got]).tobytes() == getattr(want, field).tobytes()
    few = Window(1000)
    found = whole.snapshot(0, 200, few)
    first = len(sets) - 1000
    assert [(a - first, b - first, s) for (a, b), s in zip(found.items.tolist(), found.score.tolist(), strict=True)] == by_counting(
        sets[first:], 200
    )


@pytest.mark.parametrize("similarity", SIMILARITIES)
def test_large_sets(similarity: Any) -> None:
    rng = np.random.default_rng(4)
    sets = [rng.choice(6000, int(rng.integers(1, 4000)), replace=False).tolist() for _ in range(40)]
    logic = most_similar(Window(25), 8, similarity).build(None)
    logic.advance(rows_of(sets), 40)
    stream = oracle.Stream(range(40), [{}] * 40, [frozenset(s) for s in sets], similarity, lambda a, b: True)
    found = logic.snapshot(0, 8, Window(25))
    assert list(zip(*found.items.T.tolist(), found.score.tolist(), strict=True)) == oracle.snapshot(
        stream, oracle.Query(8, 25, None), 39, 40
    )


def test_many_keys_at_once_equal_each_key_alone() -> None:
    rng = np.random.default_rng(5)
    stream = random_stream(rng, 600, 150)
    op = most_similar(Window(4, 90), 2)
    together: Any = op.build(None)
    edges = [0, *cuts_of(stream, rng, 0.02), 600]
    untils = [*(int(stream.time[at]) for at in edges[1:-1]), int(stream.time[-1]) + 500]
    parts = [together.advance(stream.block(lo, hi), until) for (lo, hi), until in zip(pairwise(edges), untils, strict=True)]
    for key in range(int(stream.key.max()) + 1):
        rows = stream.rows(np.flatnonzero(stream.key == key))
        alone: Any = op.build(None)
        want = alone.advance(dataclasses.replace(rows, key=np.zeros(len(rows), np.int64)), int(stream.time[-1]) + 500)
        for name in ("at", "step", "pos", "sign", "cause", "score", "items"):
            got = np.concatenate([getattr(p, name)[p.key == key] for p in parts])
            assert np.array_equal(got, getattr(want, name))
