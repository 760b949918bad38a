"""Every operator against its peers in one table, a few points each, in some minutes; the benchmark of an operator has more points.

``best`` is the fastest peer and ``times`` each peer's CPU time as a multiple of ours: below 1, the peer is faster. Peers are those of the
benchmarks ``topk_pairs``, ``capped_pairs``, ``topk``, ``skyline``, ``loyalty`` and ``similar_sets``. No peer knows caps, so capped pairs
stand beside our plain pairs. ``supreme`` keeps no result: it is the minimum for visiting every pair, and never ``best``.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench import capped_pairs, loyalty, similar_sets, skyline, topk, topk_pairs

FLOORS = ("supreme",)
"""Peers that compute no result, which ours need not beat."""
COLUMNS = ("operator", "params", "cpu_ns_per_event", "best", "times")
"""The fields that are printed; the lines of the file have all."""
ROWS = 1_000_000
"""Rows or updates measured, of operators that take less than a microsecond for one."""


def compared(row: dict[str, Any]) -> dict[str, Any]:
    """Return a benchmark's row with ``best`` and ``times``, and without the fields that only that benchmark explains."""
    cpu, peers = row["cpu_ns_per_event"], row["peers"]
    results = [name for name in peers if name not in FLOORS]
    return {
        "operator": row["operator"], "params": row["params"], "cpu_ns_per_event": cpu, "wall_ns_per_event": row["wall_ns_per_event"],
        "best": min(results, key=peers.__getitem__, default="-"), "times": {name: ns / cpu for name, ns in peers.items()}, "peers": peers,
    }  # fmt: skip


def measured() -> Iterator[dict[str, Any]]:
    """Rows of the operators' benchmarks."""
    for fn in topk_pairs.FUNCTIONS:
        yield topk_pairs.measured(fn, 10_000, 20_000, 0.5)
    for fn in ("closest", "furthest"):
        yield from capped_pairs.measured(fn, 0.0, 20_000)
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "rows"
        for kind in ("ind", "ant"):
            yield topk.many(file, kind, 100_000, 100, 1_000, (6,), 0)
        x = topk.data("ind", 100_000 + ROWS)
        x.tofile(file)
        yield topk.one(file, x, 100_000, 10)
        for kind in ("ind", "ant"):
            skyline.compile_kernels(kind)
            for d in (3, 5):
                yield skyline.measured(kind, 10_000, d, skyline.EVENTS[10_000])
        updates = loyalty.synthetic(10_000, ROWS + 50_000)
        yield loyalty.measured("synthetic", updates, 10_000, 10_000, 100, file, ROWS)
        sets = similar_sets.numbered(similar_sets.synthetic(60_000))
        similar_sets.write(sets, file)
        for k, events in ((10, 40_000), (1000, 8_000)):
            yield similar_sets.measured("synthetic", sets, similar_sets.Rows(sets), file, 10_000, k, events)


def run() -> Iterator[dict[str, Any]]:
    """Measurements: all operators."""
    return map(compared, measured())
