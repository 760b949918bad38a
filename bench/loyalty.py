"""Loyalty alone against the peers, in one run: the paper's synthetic stream with 1,000 to 100,000 objects, and half a century of rain.

Peers: a sweep that keeps the whole order, in Numba (``loyalty_numba``, always, on a prefix), and the C++ ones where ``peer_programs``
finds them, run before and after ours, the better of the two counting. CPU time of this process per update; a window has passed before
the clock starts. ``SKYBAND_BENCH_UPDATES`` is how many updates are measured at most (10 million by default).
"""

from __future__ import annotations

import gzip
import os
import re
import subprocess
import tempfile
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from bench import loyalty_numba
from bench.peer_programs import ROOT, peer
from skyband.operators.base import Arrivals, Column, Named, Ragged, Window
from skyband.operators.loyalty import Loyalty, LoyaltyQuery

BATCH = 10_000
UPDATES = int(os.environ.get("SKYBAND_BENCH_UPDATES", "10000000"))
SWEPT = {1000: 1_000_000, 10_000: 100_000, 100_000: 10_000}
"""Updates the sweeps take, by objects: they are slower by orders of magnitude."""


def synthetic(objects: int, rows: int, most: float = 0.001) -> Any:
    """int64 (rows, 3): time, object, on. Every object turns on and off with chances of its own per instant, uniform in (0, ``most``)."""
    rng = np.random.default_rng(1)
    comes, goes = (np.maximum(most * rng.random(objects), 1e-9) for _ in range(2))
    end = int(1.02 * rows / (2 * comes * goes / (comes + goes)).sum()) + 10
    on = rng.random(objects) < comes / (comes + goes)
    who = np.arange(objects)
    when = np.zeros(objects, np.int64)
    parts = [np.stack([when[on], who[on], np.ones(np.count_nonzero(on), np.int64)])]
    while len(who):
        when = when + rng.geometric(np.where(on, goes[who], comes[who]))
        on = ~on
        left = when <= end
        when, who, on = when[left], who[left], on[left]
        parts.append(np.stack([when, who, on.astype(np.int64)]))
    made = np.concatenate(parts, axis=1)
    order = np.lexsort((rng.permutation(made.shape[1]), made[0]))[:rows]
    return np.ascontiguousarray(made[:, order].T)


def rain() -> Any:
    """int64 (rows, 3) as ``synthetic``: day, station, whether it rains; or None where the data is not."""
    path = (ROOT / os.environ.get("SKYBAND_SHARED", "../shared")).resolve() / "data" / "rain_updates_1970_2021.tsv.gz"
    if not path.exists():
        return None
    with gzip.open(path, "rt", encoding="ascii") as file:
        table = np.loadtxt(file, np.int64, delimiter="\t", skiprows=1, usecols=(0, 2, 3))
    table[:, 1] = np.unique(table[:, 1], return_inverse=True)[1]
    return table


def block(rows: Any, lo: int, hi: int, known: Any) -> Arrivals:
    """Rows lo..hi as one key's arrivals; ``known`` (objects,) bool is updated."""
    when, who, on = (np.ascontiguousarray(rows[lo:hi, c]) for c in range(3))
    new = np.unique(who[~known[who]])
    known[new] = True
    named = Named(new, Ragged(np.arange(len(new) + 1), new))
    return Arrivals(np.zeros(hi - lo, np.int64), np.arange(lo, hi), when, {"on": on, "$who": who}, {}, {"$who": named})


def ours(rows: Any, objects: int, window: int, k: int, first: int, end: int, batch: int) -> dict[str, float]:
    """CPU and wall ns an update of rows first..end, and the changes made; rows before are not timed."""
    query = LoyaltyQuery(k=k)
    op = Loyalty(object=("who",), updates=Column("on", "int"), window=Window(None, window), queries=(query,))
    logic, known = op.build(None), np.zeros(objects, bool)
    edges = np.unique(np.searchsorted(rows[:, 0], rows[[*range(0, first, batch), *range(first, end, batch)], 0]))  # where instants begin
    cpu = wall = 0.0
    changes = points = 0
    for lo, hi in pairwise([*edges.tolist(), end]):
        given, until = block(rows, lo, hi, known), int(rows[hi, 0]) if hi < len(rows) else int(rows[-1, 0]) + 1
        c, w = time.process_time(), time.perf_counter()
        found = logic.advance(given, until)
        if lo >= first:
            cpu, wall = cpu + time.process_time() - c, wall + time.perf_counter() - w
            changes, points = changes + len(found), points + len(found.traces or ())
    n = end - first
    return {"cpu": cpu / n * 1e9, "wall": wall / n * 1e9, "changes": changes / n, "points": points / n}


def swept(rows: Any, objects: int, window: int, first: int, end: int) -> float:
    """CPU ns an update of the sweep of the whole order; rows before ``first`` are not timed."""
    state = loyalty_numba.start(objects, end)
    loyalty_numba.advance(state, rows[:2], 0, 0, window)
    loyalty_numba.warm(state, rows, first, window)
    cpu = time.process_time()
    loyalty_numba.advance(state, rows, first, end, window)
    return (time.process_time() - cpu) / (end - first) * 1e9


def anchors(file: Path, objects: int, window: int, k: int, events: dict[str, int]) -> dict[str, float]:
    """CPU ns an update of the C++ peers named in ``events``, as they print it; nothing where they are not built."""
    binary = peer("loyalty")
    found: dict[str, float] = {}
    for algo, most in events.items() if binary is not None else ():
        command = [str(binary), "--data", str(file), "--n", str(objects), "--t", str(window), "--k", str(k), "--algo", algo]
        done = subprocess.run([*command, "--events", str(most)], capture_output=True, text=True, check=True)
        if number := re.search(r"\bns_per_event=([0-9.]+)", done.stdout):
            found[algo] = float(number[1])
    return found


def one_row(rows: Any, objects: int, window: int, k: int) -> float:
    """CPU us of an advance by the rows of one instant, after those of a window."""
    query = LoyaltyQuery(k=k)
    op = Loyalty(object=("who",), updates=Column("on", "int"), window=Window(None, window), queries=(query,))
    logic, known = op.build(None), np.zeros(objects, bool)
    first = int(np.searchsorted(rows[:, 0], rows[0, 0] + window, "right"))
    logic.advance(block(rows, 0, first, known), int(rows[first, 0]))
    edges = np.unique(np.searchsorted(rows[:, 0], rows[first : first + 2000, 0]))[:200]
    blocks = [(block(rows, lo, hi, known), int(rows[hi, 0])) for lo, hi in pairwise(edges.tolist())]
    cpu = time.process_time()
    for given, until in blocks:
        logic.advance(given, until)
    return (time.process_time() - cpu) / len(blocks) * 1e6


def measured(name: str, rows: Any, objects: int, window: int, k: int, file: Path, updates: int = UPDATES) -> dict[str, Any]:
    """One data set: peers, ours, peers again."""
    rows.astype("<i8").tofile(file)
    first = int(np.searchsorted(rows[:, 0], rows[0, 0] + window, "right"))
    end = int(np.searchsorted(rows[:, 0], rows[min(len(rows) - 1, first + updates), 0]))
    some = min(end - first, SWEPT.get(objects, end - first))
    events = {"lq": end - first, "lqpr": end - first}
    ours(rows, objects, window, k, first, min(end, first + 2 * BATCH), BATCH)  # compiles
    before = anchors(file, objects, window, k, {**events, "sweep": some})
    found = ours(rows, objects, window, k, first, end, BATCH)
    after = anchors(file, objects, window, k, events)
    peers = {algo: min(before[algo], after.get(algo, before[algo])) for algo in before}
    peers["sweep-numba"] = swept(rows, objects, window, first, first + some)
    return {
        "operator": "loyalty", "params": {"data": name, "n": objects, "t": window, "k": k, "updates": end - first, "batch": BATCH},
        "cpu_ns_per_event": found["cpu"], "wall_ns_per_event": found["wall"], "changes": found["changes"], "points": found["points"],
        "one_row_us": one_row(rows, objects, window, k), "updates_per_s": 1e9 / found["cpu"], "peers": peers,
    }  # fmt: skip


def run() -> Iterator[dict[str, Any]]:
    """Measurements: synthetic streams (T = 10,000, k = 100) of 1,000, 10,000 and 100,000 objects, and rain (30 days, the 10 rainiest)."""
    with tempfile.TemporaryDirectory() as place:
        for objects in (1000, 10_000, 100_000):  # 5 updates an object are about those of the first window
            yield measured("synthetic", synthetic(objects, UPDATES + 5 * objects), objects, 10_000, 100, Path(place) / "synthetic")
        table = rain()
        if table is not None:
            yield measured("rain", table, int(table[:, 1].max()) + 1, 30, 10, Path(place) / "rain")
