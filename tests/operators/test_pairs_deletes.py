"""Deletions in top-k pairs, with and without a cap, in all pairs within bounds, and in matches, against brute force after every event."""

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
from skyband.operators.topk_pairs import deletes as deletes_logic
from skyband.operators.topk_pairs.operator import CappedTopKPairs, TopKPairs
from tests.operators.pairs_host import (
    Case,
    changes_of_some_keys,
    cuts_of,
    deleting,
    drive,
    random_bounded_case,
    random_case,
    random_matches_case,
    text_of,
)
from tests.operators.test_capped_pairs import capped_case
from tests.operators.test_scored_partners import check_state, operators
from tests.oracles import pairs as oracle
from tests.seeds import seeds

CASES = {"topk": random_case, "capped": capped_case, "bounded": random_bounded_case, "matches": random_matches_case}
APART = parse("abs(a.x - b.x)", {"x": "float"})


def check(case: Case, seed: int) -> None:
    rng = np.random.default_rng(seed + 1)
    want = text_of(case.expected(oracle.matches if isinstance(case.op, ScoredMatches) else oracle.replay))
    whole, logic = drive(case, [])
    assert text_of(whole) == want
    if isinstance(case.op, TopKPairs | CappedTopKPairs):
        check_snapshots(case, logic)
    else:
        check_state(case, logic)
    assert text_of(drive(case, cuts_of(case.stream, rng, 1.0), sub_batch=int(rng.integers(1, 5)))[0]) == want
    assert text_of(drive(case, cuts_of(case.stream, rng, 0.7), restore=True, loose=int(rng.integers(0, 4)))[0]) == want


def check_snapshots(case: Case, logic: Any) -> None:
    """Snapshots of a smaller k and of the whole window by definition, as of the end; nothing is kept as a table."""
    op: Any = case.op
    assert len(logic.skyband()) == 0
    for key in range(int(case.stream.key.max()) + 1):
        stream = case.key_stream(key)
        for i, q in enumerate(op.queries):
            for k, window in ((q.k, q.window), (max(1, op.keep_k // 2), op.window)):
                got = logic.snapshot(key, k, window, i)
                asked = replace(case.query(replace(q, window=window)), k=k)
                assert list(zip(*got.items.T.tolist(), got.score.tolist(), strict=True)) == oracle.snapshot(
                    stream, asked, case.end - 1, len(stream.times)
                )


@pytest.mark.parametrize("kind", CASES)
def test_brute_force(kind: str) -> None:
    for seed in seeds(0, 60):
        check(deleting(CASES[kind](seed), seed), seed)


@pytest.mark.parametrize(("kind", "pairs", "partners"), [("topk", 1, 1), ("topk", 4, 2), ("capped", 1, 1), ("capped", 5, 2)])
def test_small_reserves_are_filled_again(monkeypatch: pytest.MonkeyPatch, kind: str, pairs: int, partners: int) -> None:
    """Floors that fall and rise all the time, and arrivals of which too few partners were found."""
    monkeypatch.setattr(deletes_logic, "SPARE", (0, pairs))
    monkeypatch.setattr(deletes_logic, "PARTNERS", partners)
    monkeypatch.setattr(deletes_logic, "MOST", 2)
    refills = 0
    for seed in seeds(60, 72):
        case = deleting(CASES[kind](seed, 90), seed)
        rows, logic = drive(case, [])
        refills += logic.counters()["refills"]
        want = text_of(case.expected())
        assert text_of(rows) == want
        assert text_of(drive(case, cuts_of(case.stream, np.random.default_rng(seed), 0.7), restore=True)[0]) == want
    assert refills


@pytest.mark.parametrize("kind", CASES)
def test_a_state_is_divided_by_keys(kind: str) -> None:
    assert sum(changes_of_some_keys(deleting(CASES[kind](seed), seed).op, seed) for seed in seeds(100, 115)) > 0


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
