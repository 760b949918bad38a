"""Top-k pairs under global and other scoring functions: zone maps beside our own scan and the C++ peers, in one run.

``scan`` is the same operator without zone maps. The peers (``peer_programs``) know ``closest``, ``furthest``, ``min_product`` and
``max_product``, d = 1 to 6, without nulls; their answers to the first 200 rows are compared with ours. ``scored`` is the share of the pairs
in the window whose score is computed. CPU time; the window is full before the clock starts. K = 20.

``SKYBAND_BENCH_GLOBAL=all`` runs every function, dimension, distribution and window up to a million rows (an hour); without it the points
that the documentation quotes. ``build/bench/global.svg`` has the bars of a run.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bench.pair_peers import Task, checksum, times
from bench.plot import bars
from skyband.operators.base import Arrivals, Window
from skyband.operators.expressions import parse
from skyband.operators.pair_rows.queries import PairQuery
from skyband.operators.pair_rows.zone_maps import maps
from skyband.operators.topk_pairs.operator import TopKPairs

K = 20
COLUMNS = ("params", "cpu_ns_per_event", "scored", "peers")
SECONDS = 1.0
"""CPU seconds of each peer, about."""
PEERS = ("supreme", "scase", "ta")
BATCH = 5000
SENSOR = "(b.t - a.t) / (abs(a.x0 - b.x0) * abs(a.x1 - b.x1))"
"""Paper 0, section VI-A: readings taken within a short time that differ much."""
HAVERSINE = "haversine(a.x0, a.x1, b.x0, b.x1)"


class Function(NamedTuple):
    """A scoring function as an expression over x0, x1, ... and its direction."""

    join: str
    direction: Any
    fixed: str | None = None

    def text(self, d: int) -> str:
        """The expression for ``d`` columns."""
        return self.fixed or self.join.join(f"abs(a.x{i} - b.x{i})" for i in range(d))


FUNCTIONS = {
    "closest": Function(" + ", "min"), "furthest": Function(" + ", "max"), "min_product": Function(" * ", "min"),
    "max_product": Function(" * ", "max"), "sensor": Function("", "min", SENSOR), "haversine": Function("", "min", HAVERSINE),
}  # fmt: skip
OF_PEERS = ("closest", "furthest", "min_product", "max_product")


class Point(NamedTuple):
    """One measurement: function, distribution, dimensions, window, rows measured."""

    fn: str
    data: str
    d: int
    n: int
    events: int


def points() -> Iterator[Point]:
    """The points of a run."""
    every = os.environ.get("SKYBAND_BENCH_GLOBAL") == "all"
    for n, events in ((10_000, 40_000), (100_000, 20_000), (1_000_000, 10_000)) if every else ((10_000, 40_000), (100_000, 20_000)):
        for fn in FUNCTIONS:
            if fn == "haversine" and n > 10_000 and not every:
                continue  # the scan alone takes minutes
            for d in ((2, 3, 4, 5, 6) if every else (3,)) if fn in OF_PEERS else (2,):
                for data in ("independent", "correlated", "anti-correlated") if every and fn in OF_PEERS else ("independent",):
                    yield Point(fn, data, d, n, events)
    if not every:
        yield from (Point(fn, data, 3, 100_000, 20_000) for fn in ("closest", "furthest") for data in ("correlated", "anti-correlated"))
        yield from (Point(fn, "independent", d, 100_000, 20_000) for fn in ("closest", "furthest") for d in (2, 6))
    yield from (Point(fn, "air quality", 3, 100_000, 20_000) for fn in ("closest", "furthest", "max_product"))


def rows_of(data: str, d: int, rows: int, fn: str) -> Any:
    """Rows (rows, d) of a distribution; None if the data is not there."""
    rng = np.random.default_rng(1)
    if data == "air quality":
        return _air_quality(rows, d)
    x = rng.random((rows, d))
    if data == "correlated":
        x = np.clip(rng.random((rows, 1)) + rng.normal(0, 0.05, (rows, d)), 0, 1)
    elif data == "anti-correlated":
        x += (np.clip(rng.normal(0.5, 0.05, (rows, 1)), 0, 1) * d - x.sum(1, keepdims=True)) / d
        x = np.clip(x, 0, 1)
    if fn == "haversine":
        x = np.stack([np.degrees(np.arcsin(2 * x[:, 0] - 1)), 360 * x[:, 1] - 180], axis=1)
    elif fn == "sensor":
        x = np.round(np.cumsum(rng.normal(size=(rows, d)), axis=0), 1)
    return x


def _air_quality(rows: int, d: int) -> Any:
    """The first complete rows of temperature, pressure and dew point, in the order of time."""
    shared = Path(__file__).resolve().parents[1] / os.environ.get("SKYBAND_SHARED", "../shared") / "data" / "prsa.csv.gz"
    if not shared.exists():
        return None
    import pandas as pd

    table = pd.read_csv(shared, usecols=["TEMP", "PRES", "DEWP"]).dropna().to_numpy(np.float64)[:rows, :d]
    return np.ascontiguousarray(table) if len(table) == rows else None


def block(x: Any, lo: int, hi: int) -> Arrivals:
    """Rows lo..hi as one key's arrivals, a second apart."""
    seq = np.arange(lo, hi)
    columns: dict[str, Any] = {f"x{i}": np.ascontiguousarray(x[lo:hi, i]) for i in range(x.shape[1])}
    return Arrivals(np.zeros(hi - lo, np.int64), seq, seq * 1_000_000, {**columns, "t": seq * 1_000_000})


def logic_of(point: Point) -> Any:
    """The operator of a point."""
    function, window = FUNCTIONS[point.fn], Window(point.n)
    kinds: dict[str, Any] = {**{f"x{i}": "float" for i in range(point.d)}, "t": "time"}
    tree = parse(function.text(point.d), kinds)
    return TopKPairs(tree, function.direction, None, None, (PairQuery("q", K, window),), K, window).build(None)


def advance(logic: Any, x: Any, lo: int, hi: int) -> None:
    """Feed rows lo..hi."""
    logic.advance(block(x, lo, hi), hi * 1_000_000)


def ours(x: Any, point: Point, events: int, zones: bool = True) -> tuple[float, float, float]:
    """(CPU ns, wall ns) an event, and the share of pairs that were scored; the window is filled with zone maps in any case."""
    logic, least = logic_of(point), maps.LEAST_OBJECTS
    for lo in range(0, point.n + BATCH, BATCH):
        advance(logic, x, lo, min(lo + BATCH, point.n + BATCH))
    logic.counters()
    maps.LEAST_OBJECTS = least if zones else 2**60
    try:
        cpu, wall, first = time.process_time(), time.perf_counter(), point.n + BATCH
        for lo in range(first, first + events, BATCH):
            advance(logic, x, lo, min(lo + BATCH, first + events))
        took = (time.process_time() - cpu) / events * 1e9, (time.perf_counter() - wall) / events * 1e9
    finally:
        maps.LEAST_OBJECTS = least
    return *took, logic.counters()["scored"] / (events * point.n)


def peers_of(x: Any, point: Point) -> dict[str, float]:
    """CPU ns an event of the C++ peers; none if they are not built. Raises AssertionError if answers are not ours."""
    if point.fn not in OF_PEERS:
        return {}
    task = Task(point.fn, point.n, K, FUNCTIONS[point.fn].direction == "min")

    def answers() -> str:
        logic = logic_of(point)
        return checksum(task, lambda lo, hi: advance(logic, x, lo, hi), lambda: logic.snapshot(0, K, Window(point.n)))

    return times(x, task, PEERS, answers, SECONDS)


def measured(point: Point) -> dict[str, Any] | None:
    """One point; None without its data."""
    x = rows_of(point.data, point.d, point.n + BATCH + point.events, point.fn)
    if x is None:
        return None
    ours(x[: point.n + 2 * BATCH], point._replace(n=min(point.n, 8192)), BATCH)  # compiles
    cpu, wall, scored = ours(x, point, point.events)
    few = max(1000, point.events // 10) if point.n >= 100_000 else point.events
    peers = {"scan": ours(x, point, few, zones=False)[0], **peers_of(x, point)}
    params = {"fn": point.fn, "data": point.data, "d": point.d, "n": point.n, "k": K}
    return {
        "operator": "topk_pairs", "params": params, "cpu_ns_per_event": cpu, "wall_ns_per_event": wall, "scored": scored, "peers": peers,
    }  # fmt: skip


def run() -> Iterator[dict[str, Any]]:
    """Measurements; then ``build/bench/global.svg`` has them."""
    named: list[tuple[str, dict[str, float]]] = []
    for point in points():
        row = measured(point)
        if row is not None:
            yield row
            bar = f"{point.fn}, {point.data}, d = {point.d}, N = {point.n:,}"
            named.append((bar, {"skyband": row["cpu_ns_per_event"], **row["peers"]}))
    drawing = Path(__file__).resolve().parents[1] / "build" / "bench" / "global.svg"
    drawing.write_text(bars(named, "CPU nanoseconds per row, logarithmic"), encoding="utf-8")
