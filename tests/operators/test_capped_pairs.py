"""Top-k pairs with a cap per object against the walk by definition after every event; what the state keeps, and how it grows."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skyband.operators.base import Arrivals, Window
from skyband.operators.contract import check_operator
from skyband.operators.expressions import parse
from skyband.operators.pair_rows.queries import PairQuery
from skyband.operators.topk_pairs.operator import CappedTopKPairs, TopKPairs
from tests.operators.pairs_host import SCHEMA, Case, Stream, band_of, cuts_of, drive, random_case, text_of
from tests.oracles import pairs as oracle
from tests.seeds import seeds


def with_cap(op: TopKPairs, cap: int) -> CappedTopKPairs:
    given = {f.name: getattr(op, f.name) for f in dataclasses.fields(op)}
    return CappedTopKPairs(**given, max_per_object=min(cap, op.keep_k))


def capped_case(seed: int, rows: int = 60, everything: bool = False) -> Case:
    """A random job and stream, a cap, and often a few objects that are far from all others."""
    case = random_case(seed, rows, everything)
    rng = np.random.default_rng(seed + 2)
    op: Any = with_cap(case.op, int(rng.choice([1, 1, 2, 3, 5])))
    columns = {n: c.copy() for n, c in case.stream.columns.items()}
    if rng.random() < 0.6:
        far = rng.random(len(case.stream)) < rng.choice([0.05, 0.2])
        for name in ("x", "y"):
            columns[name][far] = rng.choice([-100.0, 90.0, 100.0], int(far.sum()))
    stream = Stream(case.stream.time, case.stream.key, case.stream.seq, columns)
    return Case(op, stream, case.score, case.where, case.end)


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
    """Snapshots by definition for every k <= K, and nothing kept that what is kept excludes."""
    op: Any = case.op
    for key in range(int(case.stream.key.max()) + 1):
        stream = case.key_stream(key)
        for i, q in enumerate(op.queries):
            for k in range(1, op.keep_k + 1):
                got = logic.snapshot(key, k, q.window, i)
                want = oracle.snapshot(stream, dataclasses.replace(case.query(q), k=k), case.end - 1, len(stream.times))
                assert list(zip(*got.items.T.tolist(), got.score.tolist(), strict=True)) == want
        kept = [(-s if op.direction == "max" else s, -min(a, b), -max(a, b)) for at, a, b, s in band_of(logic) if at == key]
        assert len(set(kept)) == len(kept)
        check_kept(kept, op.max_per_object, op.keep_k)


Rank = tuple[float, int, int]
"""(score, -older, -newer): smaller is better."""


def check_kept(kept: list[Rank], cap: int, k: int) -> None:
    """Nothing is kept that the theorem excludes (docs/algorithms Theorem D), the pairs chosen being those of one pass."""
    most, limit, each = cap - 1 + (2 * k - 1) // cap, 2 * k - 1 if cap == 1 else k, max(1, cap // 2)
    seen: list[Rank] = []
    chosen: list[Rank] = []
    for p in sorted(kept, key=lambda p: (p[1], p)):
        before = [q for q in seen if q < p]
        assert all(sum(o in q[1:] for q in before) < most for o in p[1:])
        assert sum(q < p for q in chosen) < limit
        seen.append(p)
        mine = [sorted(q for q in chosen if o in q[1:]) for o in p[1:]]
        if len(mine[0]) == each:
            continue
        out = mine[1][-1:] if len(mine[1]) == each else sorted(chosen)[-1:] if len(chosen) == limit else []
        if all(p[0] < q[0] for q in out):
            chosen = [q for q in chosen if q not in out] + [p]


@pytest.mark.parametrize("part", range(4))
def test_brute_force(part: int) -> None:
    for seed in seeds(part * 30, part * 30 + 30):
        check(capped_case(seed), seed)


@given(st.integers(0, 2**32), st.integers(1, 40))
def test_brute_force_drawn(seed: int, rows: int) -> None:
    check(capped_case(seed, rows), seed)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(20))
def test_brute_force_everything(part: int) -> None:
    for seed in range(part * 150, part * 150 + 150):
        check(capped_case(10**6 + seed, rows=90, everything=True), seed)


def operator(cap: int, window: Window, direction: Any = "min") -> CappedTopKPairs:
    smaller = Window(window.count and window.count // 2, window.micros and window.micros // 2)
    queries = (PairQuery("all", 4, window), PairQuery("less", 2, smaller), PairQuery("then", 3, window, None, None, 9))
    tree = parse("abs(a.x - b.x)", SCHEMA)
    return CappedTopKPairs(tree, direction, None, None, queries, 5, window, ("buy", "sell"), max_per_object=cap)


@pytest.mark.parametrize(("cap", "window"), [(1, Window(12)), (2, Window(None, 40)), (3, Window(9, 25)), (5, Window(12))])
def test_contract(cap: int, window: Window) -> None:
    assert sum(check_operator(operator(cap, window, "max"), seed) for seed in seeds(0, 4)) > 0


def test_a_cap_of_k_is_none() -> None:
    for seed in seeds(0, 10):
        case = random_case(seed, 40)
        op: Any = with_cap(case.op, case.op.keep_k)
        assert text_of(drive(Case(op, case.stream, case.score, case.where, case.end), [])[0]) == text_of(drive(case, [])[0])


def rows_from(x: Any, start: int) -> Arrivals:
    seq = np.arange(start, start + len(x))
    return Arrivals(np.zeros(len(x), np.int64), seq, seq, {"x": x})


def sizes(cap: int, n: int, far: float) -> tuple[float, int]:
    """(mean size of the state of a full window of n, most pairs of one object in a result), k = 10; ``far``: the share of outliers."""
    window = Window(n)
    tree = parse("abs(a.x - b.x)", SCHEMA)
    logic = CappedTopKPairs(tree, "max", None, None, (PairQuery("q", 10, window),), 10, window, max_per_object=cap).build(None)
    rng, found, most = np.random.default_rng(cap), [], 0
    for start in range(0, 3 * n, n // 4):
        x = rng.normal(size=n // 4)
        x[rng.random(len(x)) < far] += 1e6
        logic.advance(rows_from(x, start), start + n // 4)
        if start >= n:
            found.append(len(logic.skyband()))
            most = max(most, *np.unique(logic.snapshot(0, 10, window).items, return_counts=True)[1].tolist())
    return float(np.mean(found)), most


MORE = [pytest.param(cap, far, marks=pytest.mark.slow) for cap, far in ((1, 0.0), (3, 0.0), (3, 0.002))]


@pytest.mark.parametrize(("cap", "far"), [(1, 0.002), *MORE])
def test_the_state_grows_as_a_logarithm(cap: int, far: float) -> None:
    small, _ = sizes(cap, 500, far)
    large, most = sizes(cap, 4000, far)
    assert large < 2.2 * small
    assert most <= cap


def test_one_far_object_holds_as_many_pairs_as_it_may() -> None:
    window = Window(50)
    x = np.arange(20.0)
    x[7] = 1000.0
    results = []
    op = TopKPairs(parse("abs(a.x - b.x)", SCHEMA), "max", None, None, (PairQuery("q", 4, window),), 4, window)
    for cap in (1, 2, 4):
        logic = with_cap(op, cap).build(None)
        logic.advance(rows_from(x, 0), 20)
        results.append(logic.snapshot(0, 4, window).items.tolist())
    assert results[0] == [[0, 7], [1, 19], [2, 18], [3, 17]]
    assert [sum(7 in pair for pair in found) for found in results] == [1, 2, 4]


def test_wrong_caps_are_refused() -> None:
    for cap in (0, 6):
        with pytest.raises(ValueError, match="max_per_object"):
            operator(cap, Window(12))
