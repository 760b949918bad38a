"""Top-k pairs of streams in which rows are deleted, with and without a cap, against plain ones without deletions, by turns in one run."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from bench.topk_pairs import FUNCTIONS, D
from skyband.operators.base import DELETION_TARGET, NULL, Arrivals, Window
from skyband.operators.expressions import parse
from skyband.operators.pair_rows.queries import PairQuery
from skyband.operators.topk_pairs.operator import CappedTopKPairs, TopKPairs

K, BATCH = 20, 5_000


def logic(fn: str, n: int, deletes: bool, cap: int | None = None) -> Any:
    """An operator of ``fn`` over the last ``n`` rows."""
    text, direction, _ = FUNCTIONS[fn]
    tree, window = parse(text, {f"x{i}": "float" for i in range(D)}), Window(n)
    given: tuple[Any, ...] = (tree, direction, None, None, (PairQuery("q", K, window),), K, window, (), deletes)
    return (TopKPairs(*given) if cap is None else CappedTopKPairs(*given, max_per_object=cap)).build(None)


def stream(n: int, events: int, share: float) -> tuple[Any, Any, Any, Any]:
    """(values, seq, target, is an object) of rows, of which ``share`` delete an object of the last ``n``, any of them alike."""
    rng = np.random.default_rng(1)
    rows = n + events
    is_object = rng.random(rows) >= share
    is_object[:n] = True
    newest = np.cumsum(is_object) - 1
    seq = np.where(is_object, newest, -1)
    target, gone = np.full(rows, NULL), set[int]()
    for i in np.flatnonzero(~is_object).tolist():
        while True:
            chosen = int(newest[i]) - int(rng.integers(0, n - 1))
            if chosen not in gone:
                break
        gone.add(chosen)
        target[i] = chosen
    return rng.random((rows, D)), seq, target, is_object


def block(x: Any, seq: Any, target: Any, low: int, high: int) -> Arrivals:
    """The rows ``low``, ..., ``high`` - 1."""
    columns = {f"x{i}": np.ascontiguousarray(x[low:high, i]) for i in range(D)} | {DELETION_TARGET: target[low:high]}
    return Arrivals(np.zeros(high - low, np.int64), seq[low:high], np.arange(low, high), columns)


def measured(fn: str, n: int, share: float, cap: int | None, events: int) -> dict[str, Any]:
    """One stream; the peer is the plain operator over its objects, without the deletions."""
    x, seq, target, is_object = stream(n, events, share)
    logics = {"deletes": logic(fn, n, True, cap), "plain": logic(fn, n, False, cap)}
    cpu = dict.fromkeys(logics, 0.0)
    for low in range(0, n + events, BATCH):
        high = min(low + BATCH, n + events)
        mine = low + np.flatnonzero(is_object[low:high])
        blocks = {"deletes": block(x, seq, target, low, high), "plain": block(x[mine], seq[mine], target[mine], 0, len(mine))}
        for name, one in logics.items():
            before = time.process_time()
            one.advance(blocks[name], high)
            cpu[name] += (time.process_time() - before) * (low >= n)
    objects = int(np.count_nonzero(is_object[n:]))
    params = {"fn": fn, "n": n, "k": K, "cap": cap, "share": share, "events": events}
    return {
        "operator": "deleted_pairs", "params": params, "cpu_ns_per_event": cpu["deletes"] / objects * 1e9,
        "peers": {"plain": cpu["plain"] / objects * 1e9}, "times_plain": cpu["deletes"] / cpu["plain"],
    }  # fmt: skip


def run() -> Iterator[dict[str, Any]]:
    """Measurements: every function, two windows, 1 % and 10 % deletions; one with a cap."""
    for n in (1_000, 10_000):
        for fn in FUNCTIONS:
            for share in (0.01, 0.1):
                for cap in (None, 3):
                    yield measured(fn, n, share, cap, 40_000 if n == 10_000 else 100_000)
