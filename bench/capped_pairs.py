"""Top-k pairs with a cap per object against plain ones, by turns in one run: N = 10,000, k = 10.

Functions: those of ``topk_pairs`` in d = 3, and the furthest pairs of a stream in which one object of 500 is far from all others.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from bench.topk_pairs import FUNCTIONS, D, block
from skyband.operators.base import Window
from skyband.operators.expressions import parse
from skyband.operators.pair_rows.queries import PairQuery
from skyband.operators.topk_pairs.operator import CappedTopKPairs, TopKPairs

N, K, EVENTS, BATCH = 10_000, 10, 40_000, 5_000


def logic(fn: str, cap: int | None) -> Any:
    """An operator of ``fn``, with a cap or without."""
    text, direction, _ = FUNCTIONS[fn]
    tree, window = parse(text, {f"x{i}": "float" for i in range(D)}), Window(N)
    given: tuple[Any, ...] = (tree, direction, None, None, (PairQuery("q", K, window),), K, window)
    return (TopKPairs(*given) if cap is None else CappedTopKPairs(*given, max_per_object=cap)).build(None)


def measured(fn: str, far: float, events: int = EVENTS) -> Iterator[dict[str, Any]]:
    """One stream with caps 1 and 3. ``far``: the share of the objects that are far from all others."""
    rng = np.random.default_rng(1)
    x = rng.random((N + events, D))
    x[rng.random(len(x)) < far] += 1000.0
    logics = {cap: logic(fn, cap) for cap in (None, 1, 3)}
    cpu, wall = dict.fromkeys(logics, 0.0), dict.fromkeys(logics, 0.0)
    for one in logics.values():
        one.advance(block(x, 0, N), N)
    for low in range(N, N + events, BATCH):
        for cap, one in logics.items():
            before = time.process_time(), time.perf_counter()
            one.advance(block(x, low, low + BATCH), low + BATCH)
            cpu[cap] += time.process_time() - before[0]
            wall[cap] += time.perf_counter() - before[1]
    for cap in (1, 3):
        params = {"fn": fn, "far": far, "n": N, "k": K, "cap": cap, "events": events, "state": len(logics[cap].skyband())}
        yield {
            "operator": "capped_pairs", "params": params, "cpu_ns_per_event": cpu[cap] / events * 1e9,
            "wall_ns_per_event": wall[cap] / events * 1e9, "peers": {"plain": cpu[None] / events * 1e9},
            "times_plain": cpu[cap] / cpu[None],
        }  # fmt: skip


def run() -> Iterator[dict[str, Any]]:
    """Measurements: every function with caps 1 and 3; the peer is the plain operator."""
    for fn, far in (*((name, 0.0) for name in FUNCTIONS), ("furthest", 0.002)):
        yield from measured(fn, far)
