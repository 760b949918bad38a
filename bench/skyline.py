"""Skylines of count windows against the C++ peers of paper 3 (where ``peer_programs`` finds them).

One run gives all columns; the peers' checksum over every change must be ours. Peers everybody has: a plain LL-Eager in Numba, and
recomputing each window's skyline with ``paretoset`` (timed on a few windows). Figures are CPU time of the thread.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from bench.ll_eager_numba import ll_eager
from bench.peer_programs import peer
from skyband.operators.base import AnyArray, Arrivals, Changes, Column, Window
from skyband.operators.jit import jit
from skyband.operators.skyline.operator import Dimension, Skyline, SkylineQuery

BATCH = 20_000
PLAIN = 20_000
"""Events the plain peer runs over after one window."""

EVENTS = {10_000: 100_000, 100_000: 200_000}


def data(kind: str, d: int, rows: int, seed: int) -> AnyArray:
    """Rows (rows, d): ``ind`` uniform, ``ant`` anti-correlated (near the plane sum = d / 2), ``cor`` correlated."""
    rng = np.random.default_rng(seed)
    if kind == "cor":
        return np.clip(rng.random((rows, 1)) + rng.normal(0, 0.05, (rows, d)), 0, 1)
    x = rng.random((rows, d))
    if kind == "ant":
        x += (np.clip(rng.normal(0.5, 0.05, (rows, 1)), 0, 1) * d - x.sum(1, keepdims=True)) / d
        x = np.clip(x, 0, 1)
    return x


@jit
def checksum(at: Any, plus: Any, row: Any) -> int:
    """The peers' checksum over changes (their README)."""
    h = np.uint64(0x9E3779B97F4A7C15)
    for i in range(len(at)):
        x = (h ^ (np.uint64(2 * at[i] + plus[i]) * np.uint64(0xD6E8FEB86659FD93))) + np.uint64(row[i])
        x ^= x >> np.uint64(32)
        x *= np.uint64(0xFF51AFD7ED558CCD)
        h = x ^ (x >> np.uint64(29))
    return h


def total(blocks: list[Changes]) -> str:
    """Checksum of our change stream in the peers' order (per event deletions, then insertions, by row)."""
    at, sign, row = (np.concatenate([f(b) for b in blocks]) for f in (lambda b: b.at, lambda b: b.sign, lambda b: b.items[:, 0]))
    order = np.lexsort((row, sign, at))
    return f"{int(checksum(at[order], (sign[order] > 0).astype(np.int64), row[order])):016x}"


def ours(x: AnyArray, window: int, events: int) -> dict[str, Any]:
    """Our operator over ``x``: CPU and wall time per event after one window of warm-up, checksum, retained, mean skyline size."""
    d = x.shape[1]
    columns = {f"c{j}": np.ascontiguousarray(x[:, j]) for j in range(d)}
    dims = tuple(Dimension(Column(f"c{j}", "float"), "min") for j in range(d))
    logic = Skyline(dims, (SkylineQuery("q", Window(window)),), Window(window)).build(None)
    seq, key = np.arange(len(x)), np.zeros(len(x), np.int64)
    blocks: list[Changes] = []
    retained: list[int] = []
    cpu = wall = 0
    for a in [*range(0, window, BATCH), *range(window, window + events, BATCH)]:
        b = min(a + BATCH, window if a < window else window + events)
        block = Arrivals(key[a:b], seq[a:b], seq[a:b], {n: c[a:b] for n, c in columns.items()})
        c0, w0 = time.thread_time_ns(), time.perf_counter_ns()
        blocks.append(logic.advance(block, b))
        c1, w1 = time.thread_time_ns(), time.perf_counter_ns()
        if a >= window:
            cpu, wall = cpu + c1 - c0, wall + w1 - w0
            retained.append(logic.counters()["retained"])
    sizes = np.zeros(window + events)
    for b in blocks:
        np.add.at(sizes, b.at, b.sign)
    return {
        "cpu_ns_per_event": cpu / events,
        "wall_ns_per_event": wall / events,
        "checksum": total(blocks),
        "retained": round(float(np.mean(retained))),
        "skyline": round(float(np.cumsum(sizes)[window:].mean())),
        "changes": sum(len(b) for b in blocks),
    }


def anchors(x: AnyArray, window: int, events: int) -> dict[str, tuple[float, str]]:
    """CPU time per event and checksum of each C++ peer; empty without them."""
    program = peer("skyline")
    if program is None:
        return {}
    with tempfile.NamedTemporaryFile(suffix=".f8") as file:
        np.ascontiguousarray(x, "<f8").tofile(file.name)
        command = ["--data", file.name, "--d", str(x.shape[1]), "--w", str(window), "--events", str(events), "--algo", "all"]
        printed = subprocess.run([str(program), *command], capture_output=True, text=True, check=True).stdout
    found = {}
    for line in printed.splitlines():
        fields = dict(re.findall(r"(\w+)=(\S+)", line))
        found[fields["algo"]] = (float(fields["cpu_ns_per_event"]), fields["checksum"])
    return found


def recompute(x: AnyArray, window: int, times: int = 1) -> float:
    """CPU time of one skyline by ``paretoset``, as a user without a stream operator pays at every event; NaN if it is not installed."""
    try:
        from paretoset import paretoset
    except ImportError:
        return float("nan")
    paretoset(x[:100], distinct=False)
    start = time.thread_time_ns()
    for i in range(times):
        paretoset(x[i : i + window], distinct=False)
    return (time.thread_time_ns() - start) / times


def plain(x: AnyArray, window: int) -> float:
    """CPU time per event of the plain LL-Eager in Numba."""
    ll_eager(x[:100], 10)
    start = time.thread_time_ns()
    ll_eager(x, window)
    return (time.thread_time_ns() - start) / len(x)


def measured(kind: str, window: int, d: int, events: int) -> dict[str, Any]:
    """One point. Raises AssertionError if a peer's changes are not ours."""
    x = data(kind, d, 320_000, 100 + d)[: window + events]
    mine = ours(x, window, events)
    peers = anchors(x, window, events)
    for name, (_, seen) in peers.items():
        assert seen == mine["checksum"], f"{name} and we disagree: {kind} d={d} W={window}"
    named = {name: cpu for name, (cpu, _) in peers.items()}
    named |= {"numba-ll-eager": plain(x[: window + PLAIN], window)}
    best = min(named.values())
    if window == min(EVENTS):
        named["paretoset"] = recompute(x, window)
    named = {name: round(cpu, 1) for name, cpu in named.items() if cpu == cpu}
    return {
        "operator": "skyline",
        "params": {"data": kind, "d": d, "window": window},
        "cpu_ns_per_event": round(mine["cpu_ns_per_event"], 1),
        "wall_ns_per_event": round(mine["wall_ns_per_event"], 1),
        "best": round(best / mine["cpu_ns_per_event"], 2),
        "retained": mine["retained"],
        "skyline": mine["skyline"],
        "changes": mine["changes"],
        "peers": named,
    }


def compile_kernels(kind: str) -> None:
    """Run a small stream of ``kind``."""
    ours(data(kind, 2, 3000, 1), 1000, 2000)


def run() -> Iterator[dict[str, Any]]:
    """W = 10,000 and 100,000, d = 2..5, independent and anti-correlated. Raises AssertionError if a peer's changes are not ours."""
    for kind in ("ind", "ant"):
        compile_kernels(kind)
        for window, events in EVENTS.items():
            for d in (2, 3, 4, 5):
                yield measured(kind, window, d, events)
