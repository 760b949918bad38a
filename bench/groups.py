"""Top-k of groups against the C++ peers, in one run, on the same rows: counts, maxima, sums of whole numbers and of doubles.

Peers: ``lazy`` (sums of doubles that drift) and ``lazy-exact``, where ``peers`` finds them; they write the rows. Ours gives the change
stream and the points of all members. CPU time; the window is full before the clock starts.
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

from bench.peer_programs import peer
from skyband.operators.base import Arrivals, Named, Ragged, Window
from skyband.operators.expressions.aggregates import parse_aggregates
from skyband.operators.groups import Groups, GroupsQuery

BATCH = 32_768
EVENTS = 200_000
ROW = np.dtype([("time", np.int64), ("group", np.int32), ("unused", np.int32), ("value", np.float64)])
CASES = (  # aggregate, distribution of values, Zipf exponent, groups, rows in the window
    *(("sum", "lognormal", 1.1, g, w) for g, w in ((100, 10_000), (10_000, 100_000), (1_000_000, 1_000_000))),
    ("sum", "int", 1.1, 10_000, 100_000), ("sum", "adversarial", 1.1, 10_000, 100_000), ("mean", "lognormal", 1.1, 10_000, 100_000),
    ("count", "int", 1.1, 10_000, 100_000), ("max", "lognormal", 1.1, 10_000, 100_000), ("distinct", "int", 1.1, 10_000, 100_000),
    ("sum", "lognormal", 0, 10_000, 100_000),
)  # fmt: skip


def peers(file: Path, aggregate: str, dist: str, s: float, groups: int, alive: int, k: int) -> dict[str, float]:
    """CPU ns an event of the C++ peers, which write the rows to ``file``; nothing if they are not built."""
    binary = peer("groups")
    if binary is None:
        return {}
    stream = [
        "--alive",
        str(alive),
        "--groups",
        str(groups),
        "--s",
        str(s),
        "--dist",
        dist,
        "--events",
        str(EVENTS + BATCH),
        "--agg",
        aggregate,
    ]
    subprocess.run([str(binary), *stream, "--write", str(file)], check=True, capture_output=True)
    algorithms = "lazy,lazy-exact" if aggregate in ("sum", "mean") else "lazy"
    command = [str(binary), *stream, "--k", str(k), "--algo", algorithms]
    out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return {a: float(ns) for a, ns in re.findall(r"algo=(\S+) .*?cpu_ns_per_event=([\d.]+)", out)}


def made_up(dist: str, groups: int, rows: int) -> Any:
    """Rows like the peers', for hosts without them."""
    rng = np.random.default_rng(1)
    made = np.zeros(rows, ROW)
    made["time"], made["group"] = np.arange(rows), rng.integers(0, groups, rows)
    made["value"] = rng.integers(1, 1500, rows) if dist in ("int", "adversarial") else np.exp(4 + 1.5 * rng.normal(size=rows))
    return made


def blocks(rows: Any, whole: bool, first: int, end: int, known: Any) -> Iterator[Arrivals]:
    """Rows first..end as one key's arrivals, with the names of groups that are new."""
    for a, b in pairwise([*range(first, end, BATCH), end]):
        part = rows[a:b]
        number = part["group"].astype(np.int64)
        met = np.unique(number)
        new = met[~known[met]]
        known[new] = True
        value = part["value"].astype(np.int64) if whole else np.ascontiguousarray(part["value"])
        named = {"$g": Named(new, Ragged(np.arange(len(new) + 1), new))}
        yield Arrivals(np.zeros(b - a, np.int64), np.arange(a, b), part["time"].copy(), {"$g": number, "x": value}, {}, named)


def ours(operator: Groups, rows: Any, whole: bool, alive: int) -> tuple[float, float, float]:
    """(CPU ns, wall ns, points) an event, with ``alive`` rows in the window."""
    logic, known = operator.build(None), np.zeros(int(rows["group"].max()) + 1, bool)
    warm = alive + BATCH  # and a batch more, after which no table grows
    for b in blocks(rows, whole, 0, warm, known):
        logic.advance(b, int(b.time[-1]) + 1)
    todo = list(blocks(rows, whole, warm, len(rows), known))
    cpu, wall, points = time.process_time(), time.perf_counter(), 0
    for b in todo:
        made = logic.advance(b, int(b.time[-1]) + 1)
        points += len(made.traces) if made.traces is not None else 0
    events = len(rows) - warm
    return (time.process_time() - cpu) / events * 1e9, (time.perf_counter() - wall) / events * 1e9, points / events


def run() -> Iterator[dict[str, Any]]:
    """Measure every case, for k = 10."""
    for aggregate, dist, s, groups, alive in CASES:
        whole = dist == "int"
        score = "count()" if aggregate == "count" else f"{aggregate}(x)"
        operator = Groups(
            group=("g",), score=parse_aggregates(score, {"x": "int" if whole else "float"}, "score"), window=Window(count=alive),
            queries=(GroupsQuery(k=10),),
        )  # fmt: skip
        with tempfile.TemporaryDirectory() as directory:
            file = Path(directory) / "rows.bin"
            found = peers(file, aggregate, dist, s, groups, alive, 10)
            rows = np.fromfile(file, ROW) if file.exists() else made_up(dist, groups, alive + EVENTS + BATCH)
        ours(operator, rows[: alive + BATCH + 2000], whole, alive)  # compiles
        cpu, wall, points = ours(operator, rows, whole, alive)
        params = {"aggregate": score, "values": dist, "s": s, "groups": groups, "window": alive}
        yield {
            "operator": "groups", "params": params, "cpu_ns_per_event": cpu, "wall_ns_per_event": wall, "peers": found,
            "points_per_event": points,
        }  # fmt: skip
