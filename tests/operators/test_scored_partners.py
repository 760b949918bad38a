"""All pairs within bounds of a score, and every arrival's best matches by a score, against brute force after every event."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skyband.operators.base import Arrivals, Window
from skyband.operators.contract import SnapshotRequest, check_operator
from skyband.operators.expressions import parse
from skyband.operators.matches.operator import ScoredMatches
from skyband.operators.pair_rows import scored_partners
from skyband.operators.pair_rows.queries import Between, BoundedPairQuery, PairQuery
from skyband.operators.threshold_pairs.operator import ThresholdPairs
from tests.operators.host import check_kept_pairs
from tests.operators.pairs_host import (
    Case,
    cuts_of,
    drive,
    random_bounded_case,
    random_matches_case,
    text_of,
)
from tests.oracles import pairs as oracle
from tests.seeds import seeds

CASES = {"bounded": random_bounded_case, "matches": random_matches_case}
SCHEMA: Any = {"x": "float", "y": "float", "side": "text"}
APART = parse("abs(a.x - b.x)", SCHEMA)


def check(case: Case, seed: int) -> None:
    rng = np.random.default_rng(seed + 1)
    want = text_of(case.expected(oracle.matches if isinstance(case.op, ScoredMatches) else oracle.replay))
    whole, logic = drive(case, [])
    assert text_of(whole) == want
    check_state(case, logic)
    assert text_of(drive(case, cuts_of(case.stream, rng, 1.0), sub_batch=int(rng.integers(1, 5)))[0]) == want
    assert text_of(drive(case, cuts_of(case.stream, rng, 0.7), restore=True, loose=int(rng.integers(0, 4)))[0]) == want


def check_state(case: Case, logic: Any) -> None:
    """Snapshots and pairs by definition, as of the end; matches are not kept."""
    op = case.op
    if isinstance(op, ScoredMatches):
        assert len(logic.skyband()) == len(logic.snapshot(0, 1, op.window)) == 0
        return
    asked = [case.query(q) for q in op.queries]
    loosest = oracle.Query(
        10**9, op.window.count, op.window.micros, min(q.min_score for q in asked), max(q.max_score for q in asked)
    )  # fmt: skip
    check_kept_pairs(case, logic, asked, loosest, oracle.snapshot)


@pytest.mark.parametrize("kind", CASES)
@pytest.mark.parametrize("part", range(2))
def test_brute_force(kind: str, part: int) -> None:
    for seed in seeds(part * 60, part * 60 + 60):
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


def operators() -> dict[str, Any]:
    """One of every form, over columns of few values."""
    both, sides = Window(6, 9), Between("side", "l", "r")
    by_time, given = Window(None, 7), {"texts": ("l", "r")}
    return {
        "bounded": ThresholdPairs(
            scoring=APART, direction="min", window=both, **given,
            queries=(BoundedPairQuery("near", both, max_score=1.0), BoundedPairQuery("then", Window(3), max_score=2.0, every_micros=4)),
        ),
        "bounded, sides": ThresholdPairs(
            scoring=parse("a.x - b.x", SCHEMA), direction="max", window=by_time, between=sides, **given,
            queries=(BoundedPairQuery("high", by_time, 0.0, 1.0), BoundedPairQuery("any", by_time, max_score=1.0, every_micros=3)),
        ),
        "matches": ScoredMatches(
            scoring=APART, direction="max", window=both, **given,
            queries=(PairQuery("one", 1, both), PairQuery("all", 9, Window(4)), PairQuery("far", 2, both, min_score=1.0)),
        ),
        "matches, sides": ScoredMatches(
            scoring=parse("a.x - b.x", SCHEMA), direction="min", window=by_time, between=sides, where=parse("a.y <> b.y", SCHEMA), **given,
            queries=(PairQuery("two", 2, by_time, -1.0), PairQuery("one", 1, Window(None, 2), -1.0, 1.0)),
        ),
    }  # fmt: skip


@given(st.sampled_from(sorted(operators())), st.integers(0, 2**32), st.integers(1, 24), st.integers(1, 3))
def test_changes_do_not_depend_on_cuts_restarts_and_timers(name: str, seed: int, rows: int, keys: int) -> None:
    op = operators()[name]
    kept = isinstance(op, ThresholdPairs)
    requests = [SnapshotRequest(10**6, q.window) if kept and not q.every_micros else None for q in op.queries]
    check_operator(op, seed, rows, keys, requests)


def rows_of(x: list[float], start: int = 0) -> Arrivals:
    seq = np.arange(start, start + len(x))
    return Arrivals(np.zeros(len(x), np.int64), seq, seq, {"x": np.array(x)})


def test_pairs_enter_with_their_newer_object_and_leave_with_the_older_one() -> None:
    window = Window(3)
    queries = (BoundedPairQuery("near", window, max_score=1.0),)
    logic = ThresholdPairs(scoring=APART, direction="min", window=window, queries=queries).build(None)
    changes = logic.advance(rows_of([1.0, 2.0, 5.0, 2.0, 4.0]), 9)
    told = list(zip(changes.at.tolist(), changes.sign.tolist(), *changes.items.T.tolist(), changes.score.tolist(), strict=True))
    assert told == [(1, 1, 0, 1, 1.0), (3, -1, 0, 1, 1.0), (3, 1, 1, 3, 0.0), (4, -1, 1, 3, 0.0), (4, 1, 2, 4, 1.0)]
    assert logic.counters()["scored"] == 1 + 2 + 2 + 2
    assert len(logic.skyband()) == 1


def test_an_arrivals_matches_are_its_best_the_newest_first() -> None:
    queries = (PairQuery("two", 2, Window(10)), PairQuery("last", 2, Window(3), max_score=1.0))
    logic = ScoredMatches(scoring=APART, direction="min", window=Window(10), queries=queries).build(None)
    changes = logic.advance(rows_of([3.0, 1.0, 9.0, 2.0, 2.0]), 5)
    last = changes.at == 4
    assert changes.items[last & (changes.query == 0)].tolist() == [[3, 4], [1, 4]]
    assert changes.items[last & (changes.query == 1)].tolist() == [[3, 4]]
    assert changes.step[last].tolist() == [4, 4, 2]
    assert logic.counters()["candidates"] == 1 + 2 + 2 + 2 + 1 + 1


def test_long_windows_are_searched_range_by_range() -> None:
    """Windows of several ranges, which are counted before they are looked at, with many equal scores."""
    rng = np.random.default_rng(5)
    x, n, k = rng.integers(0, 900, 6000).astype(float), 4000, 5
    matches = ScoredMatches(scoring=APART, direction="min", window=Window(n), queries=(PairQuery("q", k, Window(n)),))
    bounded = ThresholdPairs(scoring=APART, direction="min", window=Window(n), queries=(BoundedPairQuery("q", Window(n), max_score=0.0),))
    found, pairs = matches.build(None).advance(rows_of(x.tolist()), 6000), bounded.build(None).advance(rows_of(x.tolist()), 6000)
    for newer in range(5000, 6000, 37):
        older = np.arange(newer + 1 - n, newer)
        score = np.abs(x[older] - x[newer])
        best = np.lexsort((-older, score))[:k]
        mine = found.items[:, 1] == newer
        assert found.items[mine, 0].tolist() == older[best].tolist()
        assert found.score[mine].tolist() == score[best].tolist()
        entered = pairs.items[(pairs.items[:, 1] == newer) & (pairs.sign > 0), 0]
        assert sorted(entered.tolist()) == older[score == 0.0].tolist()


def test_heaps_of_many_partners_shorten_sub_batches() -> None:
    def search(k: int) -> Any:
        op = ScoredMatches(scoring=APART, direction="min", window=Window(None, 9), queries=(PairQuery("q", k, Window(None, 9)),))
        return op.build(None).search.settings.sub_batch

    assert search(2) == scored_partners.SUB_BATCH
    assert search(scored_partners.HEAP_PLACES // 4) == 4
    assert search(1_000_000) == 1


def test_wrong_configurations_are_refused() -> None:
    w = Window(10)
    good: dict[str, Any] = {"scoring": APART, "direction": "min", "window": w}
    near, one = BoundedPairQuery("q", w, max_score=0.5), PairQuery("q", 1, w)
    ThresholdPairs(**good, queries=(near,))
    for wrong in (
        {"queries": ()}, {"queries": (near, near)}, {"queries": (BoundedPairQuery("q", w),)}, {"direction": "up", "queries": (near,)},
        {"queries": (BoundedPairQuery("q", Window(11), max_score=0.5),)}, {"queries": (near, BoundedPairQuery("r", w, 0.0, 0.5))},
        {"queries": (BoundedPairQuery("q", w, min_score=math.nan),)}, {"queries": (BoundedPairQuery("q", w, 0.5, every_micros=0),)},
        {"between": Between("side", "l", "l"), "queries": (near,)}, {"scoring": parse("a.x < b.x", SCHEMA), "queries": (near,)},
    ):  # fmt: skip
        with pytest.raises(ValueError, match=r"."):
            ThresholdPairs(**{**good, **wrong})
    ScoredMatches(**good, queries=(one,))
    for queries in (
        (PairQuery("q", 0, w),), (PairQuery("q", 1, w, every_micros=5),), (PairQuery("q", 1, Window(11)),), (),
        (one, PairQuery("r", 1, w, min_score=0.5)),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=r"."):
            ScoredMatches(**good, queries=queries)
