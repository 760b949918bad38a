"""Top-k pairs alone against the peers, in one run: independent uniform data, d = 3, K = 20, a count window of 1,000 to 100,000 objects.

Peers: SCase in Numba (``scase_numba``, always) and, where ``peer_programs`` finds them, the C++ ones. All compute the same function: the
checksum over the answers to the first ``CHECKED`` rows is compared. CPU time of this process; the window is full before the clock starts.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from bench import scase_numba
from bench.pair_peers import CHECKED as CHECKED
from bench.pair_peers import Task, checksum, times
from skyband.operators.base import Arrivals, Window
from skyband.operators.expressions import parse
from skyband.operators.pair_rows.queries import PairQuery
from skyband.operators.topk_pairs.operator import TopKPairs

D, K = 3, 20
DISTANCES = [f"abs(a.x{i} - b.x{i})" for i in range(D)]
FUNCTIONS: dict[str, tuple[str, Any, int]] = {
    "closest": (" + ".join(DISTANCES), "min", scase_numba.CLOSEST),
    "furthest": (" + ".join(DISTANCES), "max", scase_numba.FURTHEST),
    "max_product": (" * ".join(DISTANCES), "max", scase_numba.MAX_PRODUCT),
}
PEERS = ("supreme", "scase", "scase-prefilter", "ta")


def block(x: Any, lo: int, hi: int) -> Arrivals:
    """Rows lo..hi as one key's arrivals, a microsecond apart."""
    seq = np.arange(lo, hi)
    return Arrivals(np.zeros(hi - lo, np.int64), seq, seq, {f"x{i}": np.ascontiguousarray(x[lo:hi, i]) for i in range(x.shape[1])})


def logic_of(fn: str, n: int) -> Any:
    """Return the operator for one of ``FUNCTIONS`` and a window of ``n`` objects."""
    text, direction, _ = FUNCTIONS[fn]
    tree = parse(text, {f"x{i}": "float" for i in range(D)})
    return TopKPairs(tree, direction, None, None, (PairQuery("q", K, Window(n)),), K, Window(n)).build(None)


def answers(x: Any, fn: str, n: int) -> str:
    """Return the peers' checksum over our answers."""
    logic = logic_of(fn, n)
    return checksum(task_of(fn, n), lambda lo, hi: logic.advance(block(x, lo, hi), hi), lambda: logic.snapshot(0, K, Window(n)))


def task_of(fn: str, n: int) -> Task:
    """Return what the peers are to compute."""
    return Task(fn, n, K, FUNCTIONS[fn][1] == "min")


def ours(x: Any, fn: str, n: int, events: int, batch: int) -> tuple[float, float, int]:
    """(CPU ns, wall ns) an event, and the length of the skyband."""
    logic = logic_of(fn, n)
    warm = n + 2000
    logic.advance(block(x, 0, warm), warm)
    cpu, wall = time.process_time(), time.perf_counter()
    for lo in range(warm, warm + events, batch):
        hi = min(lo + batch, warm + events)
        logic.advance(block(x, lo, hi), hi)
    return (time.process_time() - cpu) / events * 1e9, (time.perf_counter() - wall) / events * 1e9, len(logic.skyband())


def scase(x: Any, fn: str, n: int, events: int) -> float:
    """CPU ns an event of SCase in Numba; the window is filled with ours (this measures only the cost of SCase)."""
    _, direction, code = FUNCTIONS[fn]
    logic = logic_of(fn, n)
    logic.advance(block(x, 0, n), n)
    band = logic.skyband()
    size = 8 * len(band) + 1000
    ks, ko, ts, to = np.empty(size), np.empty(size, np.int64), np.empty(size), np.empty(size, np.int64)
    m = len(band)
    ks[:m] = band.score if direction == "min" else -band.score
    ko[:m] = band.items[:, 0]
    m, tm, _ = scase_numba.run(scase_numba.pair_score, (x, code), K, n, n, n + 2, ks, ko, m, ts, to, 0)
    cpu = time.process_time()
    scase_numba.run(scase_numba.pair_score, (x, code), K, n, n + 2, n + 2 + events, ks, ko, m, ts, to, tm)
    return (time.process_time() - cpu) / events * 1e9


def anchors(x: Any, fn: str, n: int, seconds: float = 1.0) -> dict[str, float]:
    """CPU ns an event of the C++ peers; nothing if they are not built. Raises AssertionError if answers are not ours."""
    return times(x, task_of(fn, n), PEERS, lambda: answers(x, fn, n), seconds)


def measured(fn: str, n: int, events: int, seconds: float = 1.0) -> dict[str, Any]:
    """One point, in batches of 5,000; each C++ peer runs for about ``seconds``."""
    x = np.random.default_rng(1).random((n + 2000 + events, D))
    cpu, wall, size = ours(x, fn, n, events, 5000)
    peers = {"scase-numba": scase(x, fn, n, 400 if n > 50_000 else 2000), **anchors(x, fn, n, seconds)}
    params = {"fn": fn, "n": n, "k": K, "d": D, "events": events, "skyband": size}
    return {"operator": "topk_pairs", "params": params, "cpu_ns_per_event": cpu, "wall_ns_per_event": wall, "peers": peers}


def run() -> Iterator[dict[str, Any]]:
    """Measurements: three functions, three windows."""
    for n, events in ((1_000, 100_000), (10_000, 40_000), (100_000, 20_000)):
        for fn in FUNCTIONS:
            yield measured(fn, n, events)
