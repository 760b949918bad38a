"""Top-k pairs (K = 20) and matches (k = 10) of vectors by cosine beside brute force by BLAS and an HNSW index.

An event is an arrival, which meets a whole window of 100,000 clustered vectors. The window is full before the clock starts, its own pairs
are no candidates, and all programs run in turn in this process, on one thread if no other benchmark ran before; times are CPU time.

* ``blas64`` and ``blas32`` multiply ``SUB_BATCH`` arrivals by the window, in float64 and float32, and keep the pairs above the K-th best
  score so far, or the best of each arrival. They let no pair expire, so they are the minimum for visiting every pair; ``blas64`` must find
  what we find.
* ``hnsw-<ef>`` (hnswlib, M = 16) asks for the ``NEAREST`` nearest vectors of each arrival and adds the arrival. It removes nothing, which
  would cost it several times as much. ``recall`` is the share of the true ones among them, and ``equal_time`` the best in no more time
  than ours.

hnswlib is no requirement of Skyband: install it elsewhere and name its directory in ``SKYBAND_HNSWLIB``. Without it those figures are
missing.
"""

from __future__ import annotations

import importlib
import os
import sys
import time
from collections.abc import Iterator
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before NumPy loads it: threads that wait would count as CPU time

import numpy as np

from skyband.operators.base import F64, Arrivals, State, Window
from skyband.operators.expressions import parse
from skyband.operators.expressions.vectors import Vector
from skyband.operators.matches.operator import ScoredMatches
from skyband.operators.pair_rows.queries import PairQuery
from skyband.operators.topk_pairs.operator import TopKPairs

N, K = 100_000, 20
DIMENSIONS = (64, 128, 384)
CLUSTERS = 1_000
WARM, EVENTS = 128, 512
SUB_BATCH = 32
NEAREST, SEARCHED, EFFORTS = 10, 100, (10, 40, 160, 640)
COLUMNS = ("operator", "params", "cpu_ns_per_event", "peers", "recall")


def vectors(n: int, dimension: int, seed: int = 1) -> F64:
    """Return clustered unit vectors (n, dimension) that float32 holds exactly: centres, and noise half as long as they."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(CLUSTERS, dimension))
    x = centres[rng.integers(0, CLUSTERS, n)] + 0.5 * rng.normal(size=(n, dimension))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    return x.astype(np.float32).astype(np.float64)


def block(x: F64, lo: int, hi: int) -> Arrivals:
    """Rows lo..hi as one key's arrivals, a microsecond apart."""
    seq = np.arange(lo, hi)
    return Arrivals(np.zeros(hi - lo, np.int64), seq, seq, {"e": x[lo:hi]})


def full(x: F64, n: int, matches: bool = False) -> Any:
    """Return the operator with the first ``n`` rows in its window, whose pairs with each other are no candidates."""
    tree, window = parse("cosine(a.e, b.e)", {"e": Vector(x.shape[1])}), Window(n)
    operator: Any = (
        ScoredMatches(scoring=tree, direction="max", queries=(PairQuery("q", NEAREST, window),), window=window)
        if matches
        else TopKPairs(tree, "max", None, None, (PairQuery("q", K, window),), K, window)
    )
    first = operator.build(None)
    first.advance(block(x, 0, 1), 1)
    return operator.build(State({**first.checkpoint(), "next": np.array([n]), "until": np.array([n])}, block(x, 0, n)))


def ours(x: F64, n: int, events: int) -> tuple[float, float, list[tuple[int, int]]]:
    """Return (CPU ns, wall ns) an event, and the best pairs at the end."""
    logic = full(x, n)
    logic.advance(block(x, n, n + WARM), n + WARM)
    cpu, wall = time.process_time(), time.perf_counter()
    logic.advance(block(x, n + WARM, n + WARM + events), n + WARM + events)
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    best = logic.snapshot(0, K, Window(n)).items
    return cpu / events * 1e9, wall / events * 1e9, [(int(a), int(b)) for a, b in best]


def our_matches(x: F64, n: int, events: int) -> tuple[float, float, list[tuple[int, int]]]:
    """Return (CPU ns, wall ns) an event, and the matches of all arrivals."""
    logic = full(x, n, matches=True)
    logic.advance(block(x, n, n + WARM), n + WARM)
    cpu, wall = time.process_time(), time.perf_counter()
    found = logic.advance(block(x, n + WARM, n + WARM + events), n + WARM + events).items
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    return cpu / events * 1e9, wall / events * 1e9, [(int(a), int(b)) for a, b in found]


def blas_matches(x: Any, n: int, events: int) -> tuple[float, list[tuple[int, int]]]:
    """Return CPU ns an event of brute force in the type of ``x``, and the matches of all arrivals."""
    found: list[tuple[int, int]] = []
    begun = time.process_time()
    for lo in range(n + WARM, n + WARM + events, SUB_BATCH):
        hi, first = min(lo + SUB_BATCH, n + WARM + events), lo - n
        scores = x[lo:hi] @ x[first + 1 : hi].T
        for i in range(hi - lo):
            mine = scores[i, i : i + n - 1]
            found += [(first + 1 + i + int(j), lo + i) for j in np.argpartition(mine, len(mine) - NEAREST)[len(mine) - NEAREST :]]
    return (time.process_time() - begun) / events * 1e9, found


def blas(x: Any, n: int, events: int) -> tuple[float, list[tuple[int, int]]]:
    """Return CPU ns an event of brute force in the type of ``x``, and the best pairs of objects that are in the window at the end."""
    window, found, bar = x[:n].copy(), np.empty((0, 3)), -np.inf
    last = n + WARM + events
    spent = 0.0
    for lo in range(n, last, SUB_BATCH):
        hi = min(lo + SUB_BATCH, last)
        begun = time.process_time()
        scores = x[lo:hi] @ window.T
        row, column = np.divmod(np.flatnonzero(scores >= bar), n)
        older = column + (lo - 1 - column) // n * n
        mine = np.stack([scores[row, column].astype(np.float64), older, lo + row], axis=1)
        own = x[lo:hi] @ x[lo:hi].T
        row, column = np.nonzero(np.tri(hi - lo, k=-1, dtype=bool) & (own >= bar))
        mine = np.concatenate([mine, np.stack([own[row, column].astype(np.float64), lo + column, lo + row], axis=1)])
        found = np.concatenate([found, mine[(mine[:, 1] > mine[:, 2] - n) & (mine[:, 1] >= last - n)]])
        found = found[np.argsort(-found[:, 0], kind="stable")[:K]]
        bar = found[-1, 0] if len(found) == K else -np.inf
        window[np.arange(lo, hi) % n] = x[lo:hi]
        if lo >= n + WARM:
            spent += time.process_time() - begun
    return spent / events * 1e9, [(int(a), int(b)) for _, a, b in found]


def hnswlib() -> Any:
    """Return the module, or None."""
    place = os.environ.get("SKYBAND_HNSWLIB")
    if place:
        sys.path.append(place)
    try:
        return importlib.import_module("hnswlib")
    except ImportError:
        return None
    finally:
        if place:
            sys.path.remove(place)


def hnsw(library: Any, x: F64, n: int) -> dict[int, tuple[float, float]]:
    """Return (CPU ns an event, recall) by the effort of a search."""
    index = library.Index(space="cosine", dim=x.shape[1])
    index.init_index(max_elements=len(x), M=16, ef_construction=100)
    index.add_items(x[:n], np.arange(n))
    index.set_num_threads(1)
    at, found = n, {}
    for effort in EFFORTS:
        index.set_ef(effort)
        spent, right = 0.0, 0
        for i in range(at, at + SEARCHED):
            begun = time.process_time()
            labels, _ = index.knn_query(x[i], NEAREST)
            index.add_items(x[i : i + 1], np.array([i]))
            spent += time.process_time() - begun
            true = np.argpartition(x[:i] @ x[i], i - NEAREST)[i - NEAREST :]
            right += len({*labels[0].tolist()} & {*true.tolist()})
        at += SEARCHED
        found[effort] = (spent / SEARCHED * 1e9, right / (SEARCHED * NEAREST))
    return found


def measured(dimension: int, n: int = N, events: int = EVENTS) -> Iterator[dict[str, Any]]:
    """Measure one dimension. Raise AssertionError if brute force finds something else."""
    x = vectors(n + WARM + max(events, SEARCHED * len(EFFORTS)), dimension)
    single, library = x.astype(np.float32), hnswlib()
    searched = {} if library is None else hnsw(library, x, n)
    recall = {f"hnsw-{effort}": share for effort, (_, share) in searched.items()}
    for operator, k, mine, peer in (("topk_pairs", K, ours, blas), ("matches", NEAREST, our_matches, blas_matches)):
        cpu, wall, found = mine(x, n, events)
        exact, expected = peer(x, n, events)
        assert {*found} == {*expected}, f"brute force and we disagree: {operator}, d={dimension}"
        peers = {"blas64": exact, "blas32": peer(single, n, events)[0], **{f"hnsw-{effort}": ns for effort, (ns, _) in searched.items()}}
        in_time = {"equal_time": max((share for ns, share in searched.values() if ns <= cpu), default=0.0)} if searched else {}
        yield {
            "operator": operator, "params": {"score": "cosine", "n": n, "d": dimension, "k": k, "events": events},
            "cpu_ns_per_event": cpu, "wall_ns_per_event": wall, "peers": peers, "recall": {**recall, **in_time},
        }  # fmt: skip
    if library is None:
        missing = "hnswlib is not installed (SKYBAND_HNSWLIB)"
        yield {"operator": "topk_pairs", "params": {"d": dimension}, "says": {"hnsw": missing}}


def run() -> Iterator[dict[str, Any]]:
    """Measurements: three dimensions."""
    for dimension in DIMENSIONS:
        yield from measured(dimension)
