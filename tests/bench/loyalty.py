"""Loyalty alone against the peers, in one run: the paper's synthetic stream with 1,000 to 100,000 objects, and half a century of rain.

Peers: a sweep that keeps the whole order, in Numba (``loyalty_numba``, always, on a prefix), and the C++ ones where ``peers`` finds them,
run before and after ours, the better of the two counting. CPU time of this process per update; a window has passed before the clock
starts. ``SKYBAND_BENCH_UPDATES`` is how many updates are measured at most (10 million by default).
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

from skyband.operators.base import Arrivals, Column, Named, Ragged, Window
from skyband.operators.loyalty import Loyalty, LoyaltyQuery
from tests.bench import loyalty_numba
from tests.bench.peers import ROOT, peer

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
        told = logic.advance(given, until)
        if lo >= first:
            cpu, wall = cpu + time.process_time() - c, wall + time.perf_counter() - w
            changes, points = changes + len(told), points + len(told.traces or ())
    n = end - first
    return {"cpu": cpu / n * 1e9, "wall": wall / n * 1e9, "changes": changes / n, "points": points / n}
