"""The paths of ``ManyTopK`` that small random streams hardly take: ring and slabs, refills by best leaf, lists of a lazy grid."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from skyband.operators.base import Arrivals, State, Window
from skyband.operators.jit import HAVE_NUMBA
from skyband.operators.single_rows.kernels.heap import Heap
from skyband.operators.single_rows.kernels.ranked_list import RankedList
from skyband.operators.single_rows.kernels.select import Below
from skyband.operators.topk import many_logic
from skyband.operators.topk.kernels.many import CHUNK, RefillRequest, SearchSpace, refill_rows
from skyband.operators.topk.kernels.many_tables import COUNTERS, LEAF, WindowPool, find_corners, query_of
from skyband.operators.topk.many import ManyTopK
from skyband.operators.topk.many_logic import query_table
from tests.operators.test_topk import expected
from tests.operators.topk_host import NULL, Stream, drive, rows_of


def stream_of(x: Any, key: Any = None) -> Stream:
    n = len(x)
    key = np.zeros(n, np.int64) if key is None else key
    seq = np.zeros(n, np.int64)
    for k in np.unique(key):
        seq[key == k] = np.arange((key == k).sum())
    return Stream(np.arange(n, dtype=np.int64) + 100, key, seq, np.full(n, NULL), x, False)


def op_of(rng: np.random.Generator, q: int, d: int, window: Window, k: int = 5) -> ManyTopK:
    return ManyTopK(
        tuple(f"q{i}" for i in range(q)), tuple(f"x{i}" for i in range(d)), rng.normal(size=(q, d)), rng.integers(1, k + 1, q), window
    )  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize("shape", ["uniform", "walk", "steps", "falling"])
@pytest.mark.parametrize("window", [Window(300), Window(300, 250), Window(None, 280)])
def test_ring_and_grid_against_brute_force(shape: str, window: Window, monkeypatch: pytest.MonkeyPatch) -> None:
    """A window that turns over several times in a ring a little longer than itself, in blocks of all sizes."""
    monkeypatch.setattr(many_logic, "SLACK", 64)
    monkeypatch.setattr(many_logic, "FIRST_ROWS", 128)
    rng = np.random.default_rng(len(shape))
    n, d = 1400, 2
    x = {
        "uniform": lambda: rng.random((n, d)),
        "walk": lambda: np.round(np.cumsum(rng.normal(size=(n, d)), 0)),
        "steps": lambda: rng.random((n, d)) + np.arange(n)[:, None] // 400 * 3.0,
        "falling": lambda: rng.random((n, d)) - np.arange(n)[:, None] * 0.05,
    }[shape]()
    op, stream = op_of(rng, 5, d, window), stream_of(x)
    end = int(stream.time[-1]) + 1
    want = expected(op, stream, end)
    assert drive(op, stream, [], end, False)[0] == want
    assert drive(op, stream, np.sort(rng.choice(n, 12, False)).tolist(), end, False)[0] == want
    assert drive(op, stream, np.sort(rng.choice(n, 6, False)).tolist(), end, True)[0] == want


def test_a_second_key_turns_the_ring_into_slabs() -> None:
    rng = np.random.default_rng(0)
    key = np.concatenate([np.zeros(700, np.int64), rng.integers(0, 3, 500)])
    _, first = np.unique(key, return_index=True)
    key = np.argsort(np.argsort(first))[key]
    op, stream = op_of(rng, 4, 2, Window(150)), stream_of(rng.random((1200, 2)), key)
    end = int(stream.time[-1]) + 1
    assert drive(op, stream, [100, 250, 500, 690, 705, 800, 1000], end, False)[0] == expected(op, stream, end)


def test_snapshot_across_the_end_of_the_ring(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(many_logic, "SLACK", 10)
    rng = np.random.default_rng(1)
    x, op = rng.random((1000, 2)), op_of(rng, 3, 2, Window(200))
    stream, logic = stream_of(x), None
    logic = op.build(None)
    for lo in range(0, 1000, 10):
        logic.advance(stream.block(lo, lo + 10), int(stream.time[lo + 9]) + 1)
        first = max(0, lo + 10 - 200)
        for q in range(3):
            score = op.weights[q, 0] * x[first : lo + 10, 0] + op.weights[q, 1] * x[first : lo + 10, 1]
            best = first + np.lexsort((np.arange(len(score)), score))[::-1][:7]
            assert logic.snapshot(0, 7, Window(200), q).items[:, 0].tolist() == best.tolist()


@pytest.mark.parametrize("shape", ["uniform", "few", "walk", "equal"])
def test_refill_by_best_leaf(shape: str) -> None:
    """Rows of a ring with corners for some of its leaves: the best below (thr, cut), newest first on ties."""
    rng = np.random.default_rng(3)
    wrap = 40 * LEAF
    op = ManyTopK(("q",), ("x0",), np.ones((1, 1)), np.array([1]), Window(40 * LEAF))
    query = query_of(query_table(op, np.ones(1), np.array([1])), 0)
    for _ in range(60):
        head = int(rng.integers(0, wrap))
        tail = head + int(rng.integers(1, wrap - LEAF))
        n = tail - head
        v = {
            "uniform": lambda n=n: rng.random(n), "few": lambda n=n: rng.integers(0, 4, n).astype(float),
            "walk": lambda n=n: np.cumsum(rng.normal(size=n)), "equal": lambda n=n: np.ones(n),
        }[shape]()  # fmt: skip
        x = np.full((1, wrap), np.nan)
        place = np.arange(head, tail)
        x[0, place % wrap] = v
        none, one = np.empty(0, np.int64), np.zeros(1, np.int64)
        pool = WindowPool(x, none, none, none, np.empty((1, 41)), np.empty((1, 41)), wrap, one, one, one, one, one)
        last = (head + int(rng.integers(0, n + 1))) // LEAF * LEAF
        for p in range((head + LEAF - 1) // LEAF * LEAF, last, LEAF):
            find_corners(pool, p % wrap)
        thr, cut = float(rng.choice(v)), int(rng.integers(head, tail))
        need = int(rng.integers(1, 30))
        ranked = RankedList(np.empty(40), np.empty(40, np.int64), np.empty(40, np.int64), np.empty(0), none)
        request = RefillRequest(head, tail, 0, 0, 0, 0, Below(thr, cut, -np.inf), last, need)
        heap, leaves = Heap(np.empty(64), np.empty(64, np.int64)), (np.empty(41), np.empty(41, np.int64))
        got = refill_rows(query, pool, request, ranked, 0, SearchSpace(np.empty(CHUNK), heap, *leaves, np.zeros(COUNTERS, np.int64)))
        below = np.flatnonzero((v < thr) | ((v == thr) & (place < cut)))
        best = below[np.lexsort((below, v[below]))[::-1][:need]]
        assert ranked.seq[:got].tolist() == place[best].tolist()
        assert ranked.score[:got].tolist() == v[best].tolist()


@pytest.mark.skipif(not HAVE_NUMBA, reason="the grid is compiled")
@pytest.mark.parametrize("d", [1, 2, 4, 9])
def test_no_candidate_is_missed(d: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cutoffs that rise and fall, rows in and out of the range, boxes: every row at or above a cutoff is found, in order."""
    monkeypatch.setattr(many_logic, "REFIT_ROWS", 3000)
    rng = np.random.default_rng(d)
    q = 40
    weights = rng.normal(size=(q, d))
    low = np.where(rng.random((q, 1)) < 0.3, 0.2, -np.inf) * np.ones(d)
    boxed = low[:, 0] > -np.inf
    op = ManyTopK(
        tuple(f"q{i}" for i in range(q)), tuple(f"x{i}" for i in range(d)), weights, np.ones(q, np.int64), Window(1000), low=low,
        high=np.full((q, d), np.inf),
    )  # fmt: skip
    index = many_logic.InfluenceIndex(query_table(op, np.ones(q), np.ones(q, np.int64)), np.zeros(COUNTERS, np.int64))
    base = np.sort(rng.random((2000, d)) @ weights.T, axis=0)[-30]
    for step in range(40):
        x = rng.random((400, d)) * (3.0 if step % 7 == 3 else 1.0)
        x[rng.random(x.shape) < 0.003] = rng.choice([np.nan, np.inf, -np.inf])
        thr = base + rng.normal(0, 0.1, q) * (rng.random(q) < (1.0 if step % 5 == 0 else 0.05))
        cols = tuple(np.ascontiguousarray(x[:, t]) for t in range(d))
        found = index.candidates(cols, 400, np.empty(0, np.int64), thr, 1000, 1000, lambda: (np.zeros(d), np.ones(d)))
        assert found is not None
        begin, rows, scores = found
        for i in range(q):
            with np.errstate(all="ignore"):
                s = weights[i, 0] * cols[0]
                for t in range(1, d):
                    s = s + weights[i, t] * cols[t]
                s = s + 0.0
                ok = (s >= thr[i]) & ((low[i] <= x).all(axis=1) | ~boxed[i])
            assert rows[begin[i] : begin[i + 1]].tolist() == np.flatnonzero(ok).tolist()
            assert scores[begin[i] : begin[i + 1]].tolist() == s[ok].tolist()


def test_rows_of_one_instant_longer_than_a_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(many_logic, "FIRST_ROWS", 16)
    rng = np.random.default_rng(5)
    op, stream = op_of(rng, 3, 2, Window(50)), stream_of(rng.random((300, 2)))
    stream.time[:] = 100
    assert drive(op, stream, [], 101, False)[0] == expected(op, stream, 101)


def test_restored_in_the_middle_of_a_ring(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(many_logic, "SLACK", 32)
    rng = np.random.default_rng(6)
    x, op = rng.random((900, 3)), op_of(rng, 6, 3, Window(200))
    stream = stream_of(x)
    a = op.build(None)
    for lo in range(0, 600, 50):
        a.advance(stream.block(lo, lo + 50), int(stream.time[lo + 50]))
    kept = stream.block(400, 600)
    b = op.build(State(a.checkpoint(), Arrivals(kept.key, kept.seq, kept.time, kept.columns)))
    rest = stream.block(600, 900)
    end = int(stream.time[-1]) + 1
    assert rows_of(a.advance(rest, end)) == rows_of(b.advance(rest, end))
