"""Pairs of rows with equal columns, by the hash index and by a scan, beside DuckDB's hash join: keys of 10,000 values, windows of N rows.

``scan`` is the same operator without the index, over fewer rows where it takes long. ``duckdb`` joins the whole table with itself, once, on
one thread, by the key and the same conditions: the older row is less than N rows before the newer one, and the score is within the bound.
For ``matches``, with more partners than there are, it has the same pairs, which is checked; a state also has their order, and what leaves.
Medians of ``RUNS`` runs by turns, CPU time; windows fill up within the time. Rows have a key and a number.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np

from skyband.operators.base import Arrivals, Window
from skyband.operators.expressions import parse
from skyband.operators.matches.operator import ScoredMatches
from skyband.operators.pair_rows.hash_index import index
from skyband.operators.pair_rows.queries import BoundedPairQuery, PairQuery
from skyband.operators.threshold_pairs.operator import ThresholdPairs
from skyband.operators.topk_pairs.operator import TopKPairs

COLUMNS = ("operator", "params", "cpu_ns_per_event", "peers")
VALUES, K, RUNS, BATCH = 10_000, 20, 5, 20_000
SCANNED = 5_000
"""Rows behind a full window of which a scan's time is taken."""
NO_INDEX = 2**62
"""Objects that no window has."""


def operator_of(kind: str, n: int, bound: float) -> Any:
    """Return the operator for the closest pairs of equal keys, within a bound but for top-k pairs."""
    schema: Any = {"key": "int", "x": "float"}
    given: dict[str, Any] = {"scoring": parse("abs(a.x - b.x)", schema), "direction": "min", "where": parse("a.key = b.key", schema)}
    window = Window(n)
    if kind == "topk_pairs":
        return TopKPairs(**given, between=None, queries=(PairQuery("q", K, window),), keep_k=K, window=window)
    if kind == "matches":
        return ScoredMatches(**given, queries=(PairQuery("q", 100, window, max_score=bound),), window=window)
    return ThresholdPairs(**given, queries=(BoundedPairQuery("q", window, max_score=bound),), window=window)


def block(columns: dict[str, Any], low: int, high: int) -> Arrivals:
    """Rows low..high as one key's arrivals, a microsecond apart."""
    seq = np.arange(low, high)
    return Arrivals(np.zeros(high - low, np.int64), seq, seq, {name: values[low:high] for name, values in columns.items()})


def ours(operator: Any, columns: dict[str, Any], begin: int) -> tuple[float, int]:
    """Return the CPU ns a row over the rows from ``begin`` on, and the changes by them."""
    logic, changes, cpu, rows = operator.build(None), 0, 0.0, len(columns["key"])
    edges = sorted({*range(0, begin, BATCH), *range(begin, rows, BATCH), rows})
    for low, high in pairwise(edges):
        arrivals, start = block(columns, low, high), time.process_time()
        found = logic.advance(arrivals, high)
        if low >= begin:
            cpu, changes = cpu + time.process_time() - start, changes + len(found)
    return cpu / (rows - begin) * 1e9, changes


def duckdb(columns: dict[str, Any], n: int, bound: float) -> tuple[float, int]:
    """Return the CPU ns a row of a hash join, and its pairs."""
    import duckdb as engine
    import pyarrow as pa

    rows = len(columns["key"])
    with engine.connect(config={"threads": 1}) as db:
        db.register("given", pa.table({"seq": np.arange(rows), **columns}))
        db.execute("create table r as select * from given")
        start = time.process_time()
        found = db.execute(
            "select a.seq, b.seq, abs(a.x - b.x) as score from r a join r b on a.key = b.key and a.seq < b.seq and b.seq - a.seq < ?"
            " where abs(a.x - b.x) <= ?", [n, bound],
        ).fetchnumpy()  # fmt: skip
        return (time.process_time() - start) / rows * 1e9, len(found["score"])


def measured(kind: str, n: int, rows: int, bound: float) -> dict[str, Any]:
    """One point: medians of runs by turns."""
    rng = np.random.default_rng(1)
    columns = {"key": rng.integers(0, VALUES, rows), "x": rng.random(rows)}
    fewer = {name: values[: n + SCANNED] for name, values in columns.items()}
    operator, least = operator_of(kind, n, bound), index.LEAST_OBJECTS
    ours(operator, {name: values[:2000] for name, values in columns.items()}, 0)  # compiles
    by_index, by_scan, joined = [], [], []
    for _ in range(RUNS):
        by_index.append(ours(operator, columns, 0))
        joined.append(duckdb(columns, n, bound))
        index.LEAST_OBJECTS = NO_INDEX  # type: ignore[misc]
        by_scan.append(ours(operator, fewer, n))
        index.LEAST_OBJECTS = least  # type: ignore[misc]
    assert kind != "matches" or by_index[0][1] == joined[0][1]
    index_, scan, join = (statistics.median(t for t, _ in runs) for runs in (by_index, by_scan, joined))
    params = {"n": n, "rows": rows, "bound": bound, "changes": round(by_index[0][1] / rows, 2), "joined": round(joined[0][1] / rows, 2)}
    return {"operator": kind, "params": params, "cpu_ns_per_event": index_, "peers": {"scan": scan, "duckdb": join}}


def run() -> Iterator[dict[str, Any]]:
    """Measurements: three query types, two windows, pairs within a narrow and a wide bound."""
    for n, rows in ((10_000, 200_000), (100_000, 300_000)):
        yield measured("topk_pairs", n, rows, 1.0)
        for bound in (0.01, 0.5):
            yield measured("threshold_pairs", n, rows, bound)
            yield measured("matches", n, rows, bound)
