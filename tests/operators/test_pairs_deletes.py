"""Deletions in all pairs within bounds of a score, and in matches by a score, against brute force after every event."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skyband.operators.base import CAUSES, DELETION_TARGET, NULL, Arrivals, Window
from skyband.operators.contract import SnapshotRequest, check_operator
from skyband.operators.expressions import parse
from skyband.operators.matches.operator import ScoredMatches
from skyband.operators.pair_rows.queries import BoundedPairQuery, PairQuery
from skyband.operators.threshold_pairs.operator import ThresholdPairs
from tests.operators.pairs_host import deleting, random_bounded_case, random_matches_case
from tests.operators.test_scored_partners import check, operators
from tests.seeds import seeds

CASES = {"bounded": random_bounded_case, "matches": random_matches_case}
APART = parse("abs(a.x - b.x)", {"x": "float"})


@pytest.mark.parametrize("kind", CASES)
def test_brute_force(kind: str) -> None:
    for seed in seeds(0, 60):
        check(deleting(CASES[kind](seed), seed), seed)


@given(st.sampled_from(sorted(CASES)), st.integers(0, 2**32), st.integers(1, 40))
def test_brute_force_drawn(kind: str, seed: int, rows: int) -> None:
    check(deleting(CASES[kind](seed, rows), seed), seed)


@pytest.mark.slow
@pytest.mark.parametrize("kind", CASES)
@pytest.mark.parametrize("part", range(5))
def test_brute_force_more(kind: str, part: int) -> None:
    for seed in range(part * 150, part * 150 + 150):
        check(deleting(CASES[kind](10**7 + seed, 90), seed), seed)


@given(st.sampled_from(sorted(operators())), st.integers(0, 2**32), st.integers(1, 30), st.integers(1, 3))
def test_changes_do_not_depend_on_cuts_restarts_and_timers(name: str, seed: int, rows: int, keys: int) -> None:
    op = replace(operators()[name], deletes=True)
    kept = isinstance(op, ThresholdPairs)
    check_operator(
        op, seed, rows, keys, [SnapshotRequest(10**6, q.window) if kept and not q.every_micros else None for q in op.queries]
    )  # fmt: skip


def rows_of(x: list[float], target: list[int]) -> Arrivals:
    """Rows of one key at 0, 1, 2, ...; those with a target of 0 or more are deletions."""
    gone = np.array(target) >= 0
    seq = np.where(gone, -1, np.cumsum(~gone) - 1)
    columns: dict[str, Any] = {"x": np.array(x), DELETION_TARGET: np.where(gone, target, NULL)}
    return Arrivals(np.zeros(len(x), np.int64), seq, np.arange(len(x)), columns)


def test_pairs_of_a_deleted_object_leave_at_once() -> None:
    window = Window(3)
    queries = (BoundedPairQuery("near", window, max_score=1.0), BoundedPairQuery("hourly", window, max_score=1.0, every_micros=4))
    logic = ThresholdPairs(scoring=APART, direction="min", window=window, queries=queries, deletes=True).build(None)
    changes = logic.advance(rows_of([1.0, 2.0, 1.0, 0.0, 1.5, 0.0], [-1, -1, -1, 1, -1, 2]), 20)
    body = (changes.query.tolist(), changes.at.tolist(), changes.sign.tolist(), [CAUSES[c] for c in changes.cause])
    told = list(zip(*body, *changes.items.T.tolist(), strict=True))
    assert [t[1:] for t in told if t[0] == 0] == [
        (1, 1, "arrival", 0, 1), (2, 1, "arrival", 0, 2), (2, 1, "arrival", 1, 2), (3, -1, "delete", 1, 2), (3, -1, "delete", 0, 1),
        (4, -1, "expiry", 0, 2), (4, 1, "arrival", 2, 3), (5, -1, "delete", 2, 3),
    ]  # fmt: skip
    assert [t[1:] for t in told if t[0] == 1] == [(4, 1, "boundary", 2, 3), (8, -1, "delete", 2, 3)]


def test_later_arrivals_do_not_match_a_deleted_row() -> None:
    window = Window(10)
    logic = ScoredMatches(scoring=APART, direction="min", window=window, queries=(PairQuery("one", 1, window),), deletes=True).build(None)
    changes = logic.advance(rows_of([1.0, 1.1, 1.0, 0.0, 1.0], [-1, -1, -1, 2, -1]), 9)
    assert changes.items.tolist() == [[0, 1], [0, 2], [0, 3]]
    assert set(changes.sign.tolist()) == {1}


def part(rows: Arrivals, which: slice) -> Arrivals:
    return Arrivals(rows.key[which], rows.seq[which], rows.time[which], {name: c[which] for name, c in rows.columns.items()})


def test_long_windows_with_zone_maps_see_no_deleted_rows() -> None:
    """Windows in which groups of rows are skipped by their bounds: the same as among the rows that are alive."""
    rng = np.random.default_rng(6)
    n, k, last = 6000, 3, 5990
    x, window = np.round(np.cumsum(rng.normal(size=n)), 1), Window(n)
    target = np.full(n, -1)
    target[rng.choice(np.arange(5000, last), 300, replace=False)] = rng.choice(4000, 300, replace=False)
    objects, gone, rows = x[target < 0], set(target[target >= 0].tolist()), rows_of(x.tolist(), target.tolist())
    asked: dict[str, Any] = {"scoring": APART, "direction": "min", "window": window, "deletes": True}
    matches = ScoredMatches(**asked, queries=(PairQuery("q", k, window),)).build(None)
    bounded = ThresholdPairs(**asked, queries=(BoundedPairQuery("q", window, max_score=0.0),)).build(None)
    for logic in (matches, bounded):
        logic.advance(part(rows, slice(0, last)), last)
        assert logic.counters()["skipped"] > 0
    found, pairs = matches.advance(part(rows, slice(last, n)), n), bounded.advance(part(rows, slice(last, n)), n)
    for newer in range(len(objects) - (n - last), len(objects)):
        older = np.array([s for s in range(newer) if s not in gone])
        score = np.abs(objects[older] - objects[newer])
        best = np.lexsort((-older, score))[:k]
        assert found.items[found.items[:, 1] == newer, 0].tolist() == older[best].tolist()
        entered = pairs.items[(pairs.items[:, 1] == newer) & (pairs.sign > 0), 0]
        assert sorted(entered.tolist()) == older[score == 0.0].tolist()
