"""Top-k pairs alone against the peers, in one run: independent uniform data, d = 3, K = 20, a count window of 1,000 to 100,000 objects.

Peers: SCase in Numba (``scase_numba``, always) and, where ``peers`` finds them, the C++ ones.
CPU time of this process; the window is full before the clock starts.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from bench import scase_numba
from bench.peers import peer
from skyband.operators.base import Arrivals, Window
from skyband.operators.expressions import parse
from skyband.operators.pair_rows.queries import PairQuery
from skyband.operators.topk_pairs.operator import TopKPairs

D, K = 3, 20
SUM = " + ".join(f"abs(a.x{i} - b.x{i})" for i in range(D))
FUNCTIONS: dict[str, tuple[str, Any, int]] = {
    "closest": (SUM, "min", scase_numba.CLOSEST),
    "furthest": (SUM, "max", scase_numba.FURTHEST),
    "max_product": (" * ".join(f"(a.x{i} * b.x{i})" for i in range(D)), "max", scase_numba.MAX_PRODUCT),
}
PEERS = ("supreme", "scase", "scase-prefilter", "ta")


def block(x: Any, lo: int, hi: int) -> Arrivals:
    """Rows lo..hi as one key's arrivals, a microsecond apart."""
    seq = np.arange(lo, hi)
    return Arrivals(np.zeros(hi - lo, np.int64), seq, seq, {f"x{i}": np.ascontiguousarray(x[lo:hi, i]) for i in range(x.shape[1])})


def ours(x: Any, fn: str, n: int, events: int, batch: int) -> tuple[float, float, int]:
    """(CPU ns, wall ns) an event, and the length of the skyband."""
    text, direction, _ = FUNCTIONS[fn]
    tree = parse(text, {f"x{i}": "float" for i in range(D)})
    logic = TopKPairs(tree, direction, None, None, (PairQuery("q", K, Window(n)),), K, Window(n)).build(None)
    warm = n + 2000
    logic.advance(block(x, 0, warm), warm)
    cpu, wall = time.process_time(), time.perf_counter()
    for lo in range(warm, warm + events, batch):
        hi = min(lo + batch, warm + events)
        logic.advance(block(x, lo, hi), hi)
    return (time.process_time() - cpu) / events * 1e9, (time.perf_counter() - wall) / events * 1e9, len(logic.skyband())


def scase(x: Any, fn: str, n: int, events: int) -> float:
    """CPU ns an event of SCase in Numba; the window is filled with ours (this measures only the cost of SCase)."""
    code = FUNCTIONS[fn][2]
    text, direction, _ = FUNCTIONS[fn]
    tree = parse(text, {f"x{i}": "float" for i in range(D)})
    logic = TopKPairs(tree, direction, None, None, (PairQuery("q", K, Window(n)),), K, Window(n)).build(None)
    logic.advance(block(x, 0, n), n)
    band = logic.skyband()
    size = 8 * len(band) + 1000
    ks, ko, ts, to = np.empty(size), np.empty(size, np.int64), np.empty(size), np.empty(size, np.int64)
    m = len(band)
    ks[:m] = band.score if direction == "min" else -band.score
    ko[:m] = band.items[:, 0]
    m, tm, _ = scase_numba.run(x, K, n, code, n, n + 2, ks, ko, m, ts, to, 0)
    cpu = time.process_time()
    scase_numba.run(x, K, n, code, n + 2, n + 2 + events, ks, ko, m, ts, to, tm)
    return (time.process_time() - cpu) / events * 1e9


def anchors(x: Any, fn: str, n: int) -> dict[str, float]:
    """CPU ns an event of the C++ peers, as they print it; nothing if they are not built."""
    binary = peer("pairs")
    if binary is None:
        return {}
    found: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as place:
        data = Path(place) / "ind.bin"
        x.astype("<f8").tofile(data)
        for algo in PEERS:
            command = [str(binary), "--data", str(data), "--d", str(D), "--n", str(n), "--k", str(K), "--fn", fn, "--algo", algo]
            done = subprocess.run([*command, "--events", "2000", "--seconds", "1"], capture_output=True, text=True, check=True)
            number = re.search(r"(?:cpu_ns_per_event|ns_per_event)=([0-9.]+)", done.stdout)
            if number:
                found[algo] = float(number[1])
    return found


def run() -> Iterator[dict[str, Any]]:
    """Measurements: three functions, three windows, batches of 5,000."""
    for n, events in ((1_000, 100_000), (10_000, 40_000), (100_000, 20_000)):
        x = np.random.default_rng(1).random((n + 2000 + events, D))
        for fn in FUNCTIONS:
            cpu, wall, size = ours(x, fn, n, events, 5000)
            peers = {"scase-numba": scase(x, fn, n, 400 if n > 50_000 else 2000), **anchors(x, fn, n)}
            params = {"fn": fn, "n": n, "k": K, "d": D, "events": events, "skyband": size}
            yield {"operator": "topk_pairs", "params": params, "cpu_ns_per_event": cpu, "wall_ns_per_event": wall, "peers": peers}
