"""Top-k against the peers, in one run: many linear queries, one query, drifting data.

Peers: SMA in Numba for one query (``sma_numba``), brute force per batch in DuckDB, and, where ``peer_programs`` finds them, the C++ ones
(``sma`` and ``tma`` at their best grid of those tried). Ours gives every event's change stream in event time; the peers answer
once a cycle of r arrivals (r = 1 for one query where it says so). CPU time; the window is full before the clock starts.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from bench import sma_numba
from bench.peer_programs import peer
from skyband.operators.base import Arrivals, Window
from skyband.operators.single_rows.scores import Linear
from skyband.operators.topk.many import ManyTopK
from skyband.operators.topk.one_function import TopK, TopKQuery

D = 4
NAMES = tuple(f"x{i}" for i in range(D))
BATCH = 131_072
MANY = (  # data, window, queries, arrivals per cycle of the peers, grids to try, arrivals after the first full window before the clock
    ("ind", 1_000_000, 1000, 10_000, (10, 12), 0),
    ("ant", 1_000_000, 1000, 10_000, (8,), 0),
    ("ind", 1_000_000, 1000, 10_000, (10,), 1_000_000),
    ("ant", 1_000_000, 1000, 10_000, (8,), 1_000_000),
    ("ind", 100_000, 100, 1_000, (6,), 0),
    ("ant", 100_000, 100, 1_000, (6,), 0),
    ("sensor", 100_000, 100, 1_000, (12,), 0),
)
ONE = tuple((n, k) for n in (10_000, 100_000, 1_000_000) for k in (10, 100))


def data(kind: str, rows: int, seed: int = 1) -> Any:
    """Rows like the anchors' generator: independent, anti-correlated (near the plane sum = d/2), or random walks."""
    rng = np.random.default_rng(seed)
    if kind == "sensor":
        return np.round(np.cumsum(rng.normal(0, 1, (rows, D)), 0), 1)
    x = rng.random((rows, D))
    if kind == "ant":
        x += (np.clip(rng.normal(0.5, 0.05, (rows, 1)), 0, 1) * D - x.sum(1, keepdims=True)) / D
        x = np.clip(x, 0, 1)
    return x


def blocks(x: Any, lo: int, hi: int) -> list[Arrivals]:
    """Rows lo..hi as one key's arrivals, a microsecond apart."""
    cols = [np.ascontiguousarray(x[:hi, i]) for i in range(D)]
    key, seq = np.zeros(hi, np.int64), np.arange(hi)
    edges = [*range(lo, hi, BATCH), hi]
    return [Arrivals(key[a:b], seq[a:b], seq[a:b], {n: c[a:b] for n, c in zip(NAMES, cols, strict=True)}) for a, b in pairwise(edges)]


def ours(op: Any, x: Any, n: int, warm: int, repeat: int = 1) -> tuple[float, float, int]:
    """(CPU ns, wall ns, changes) an event after ``n`` + ``warm`` rows; the best of ``repeat``."""
    best, wall, changes = np.inf, np.inf, 0
    for _ in range(repeat):
        logic = op.build(None)
        for b in blocks(x, 0, n + warm):
            logic.advance(b, int(b.time[-1]) + 1)
        todo = blocks(x, n + warm, len(x))
        c0, w0, changes = time.process_time(), time.perf_counter(), 0
        for b in todo:
            changes += len(logic.advance(b, int(b.time[-1]) + 1))
        events = len(x) - n - warm
        best = min(best, (time.process_time() - c0) / events * 1e9)
        wall = min(wall, (time.perf_counter() - w0) / events * 1e9)
    return best, wall, changes


def weights(q: int) -> Any:
    """The peers' weights for seed 1: splitmix64 in (0, 1)."""
    mask, s, out = (1 << 64) - 1, 1, np.empty(q * D)
    for i in range(q * D):
        s = (s + 0x9E3779B97F4A7C15) & mask
        z = ((s ^ (s >> 30)) * 0xBF58476D1CE4E5B9) & mask
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
        out[i] = (((z ^ (z >> 31)) >> 11) + 0.5) * 2.0**-53
    return out.reshape(q, D)


def peers(file: Path, n: int, q: int, k: int, r: int, rows: int, algos: str, grid: int | None, warm: int = 0) -> dict[str, float]:
    """CPU ns an event of the C++ peers, if they are built."""
    binary = peer("topk")
    if binary is None:
        return {}
    command = [str(binary), "--data", str(file), "--d", str(D), "--n", str(n), "--q", str(q), "--k", str(k), "--r", str(r),
               "--cycles", str((rows - n - warm) // r), "--warm", str(warm // r), "--algo", algos]  # fmt: skip
    out = subprocess.run([*command, *(["--grid", str(grid)] if grid else [])], check=True, capture_output=True, text=True).stdout
    found = re.findall(r"algo=(\S+) .*?cpu_ns_per_event=([\d.]+) changes=(\d+)", out)
    return {a: float(ns) for a, ns, _ in found}


def duckdb_per_batch(x: Any, n: int, k: int, r: int, cycles: int) -> float:
    """CPU ns an arrival of asking DuckDB for the top k of the window after every ``r`` arrivals (one query, one thread)."""
    import duckdb
    import pandas as pd

    frame = pd.DataFrame(x[: n + r * cycles], columns=list(NAMES))
    frame["seq"] = np.arange(len(frame))
    with duckdb.connect(config={"threads": 1}) as db:
        db.execute("create table t as select * from frame")
        start = time.process_time()
        for c in range(1, cycles + 1):
            db.execute(
                f"select seq from t where seq >= {c * r} and seq < {n + c * r} order by {' + '.join(NAMES)} desc, seq desc limit {k}"
            ).fetchall()
        return (time.process_time() - start) / (r * cycles) * 1e9


def many(file: Path, kind: str, n: int, q: int, r: int, grids: tuple[int, ...], warm: int) -> dict[str, Any]:
    """A point of ``MANY``; the peers read their rows from ``file``, which is written."""
    drift = kind == "sensor"
    events, k = (500_000 if drift else 1_000_000), 20
    x = data(kind, n + warm + events)
    x.tofile(file)
    op = ManyTopK(tuple(f"q{i}" for i in range(q)), NAMES, weights(q), np.full(q, k), Window(n))
    ours(op, x, n, warm)  # compiled now
    cpu, wall, changes = ours(op, x, n, warm)
    found: dict[str, float] = {}
    for g in grids:
        for name, ns in peers(file, n, q, k, r, n + warm + (events if not drift else 100_000), "sma,tma", g, warm).items():
            found[name] = min(ns, found.get(name, np.inf))
    if not warm:  # slow: a few cycles suffice, but drifting data change with every arrival
        found.update(peers(file, n, q, k, r, n + (100_000 if drift else 20 * r), "tsl", None))
    return {
        "operator": "topk", "params": {"data": kind, "N": n, "Q": q, "k": k, "d": D, "peer_cycle": r, "warm": warm},
        "cpu_ns_per_event": cpu, "wall_ns_per_event": wall, "changes": changes, "peers": found,
    }  # fmt: skip


def one(file: Path, x: Any, n: int, k: int) -> dict[str, Any]:
    """One query over the rows ``x``, which are also in ``file``."""
    w = weights(1)[0]
    linear = Linear(tuple(zip(NAMES, w.tolist(), strict=True)))
    op = TopK(linear, "max", None, (TopKQuery("q", k, Window(n)),), k, Window(n))
    ours(op, x[: 4 * BATCH], BATCH, 0)
    cpu, wall, changes = ours(op, x[: n + 1_000_000], n, 0, 3)
    found = {f"{a} r=1": v for a, v in peers(file, n, 1, k, 1, n + 1_000_000, "sma1", None).items()}
    found |= {f"{a} r=N/100": v for a, v in peers(file, n, 1, k, n // 100, n + 1_000_000, "sma1", None).items()}
    sma_numba.sma(x[:2000], w, 1000, 10)
    start = time.process_time()
    sma_numba.sma(x[: n + 1_000_000], w, n, k)
    found["sma_numba r=1"] = (time.process_time() - start) / (n + 1_000_000) * 1e9
    if k == 10:
        found["duckdb r=N/100"] = duckdb_per_batch(x, n, k, n // 100, 20)
    return {
        "operator": "topk", "params": {"data": "ind", "N": n, "Q": 1, "k": k, "d": D}, "cpu_ns_per_event": cpu,
        "wall_ns_per_event": wall, "changes": changes, "peers": found,
    }  # fmt: skip


def run() -> Iterator[dict[str, Any]]:
    """All points; a few minutes."""
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "rows.bin"
        for point in MANY:
            yield many(file, *point)
        x = data("ind", 3_000_000)
        x.tofile(file)
        for n, k in ONE:
            yield one(file, x, n, k)
