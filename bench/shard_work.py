"""The work of shards by their number, counted and timed without Spark: what a model of more cores than this machine has rests on.

For 1 to 64 shards, windows of 10,000 and 100,000 rows, and K = 20. ``products``: top-k pairs by a score without useful bounds, so every
partner in the window is scored; ``matches``: the most similar earlier sets of every set. Every shard takes a window of rows first, then
``CALLS`` calls of ``ROWS`` rows; all run one after the other, each alone in memory. Those of matches start from the state of the operator's
own logic, as they have no other. So does the merge, which takes what all shards have found.

Figures are per row of the stream. ``shard_us`` and ``merge_us`` are CPU time: of one shard (the median of all shards and calls), and of the
merge. ``idle_us`` is that of a shard with an empty share: what every shard does for every row. ``search`` is the pairs that the busiest
shard has scored, or the sets of which it has counted common tokens; ``sent`` the pairs that all shards send, ``bytes`` their messages. The
peer is the operator's own logic.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, Final, Protocol

import numpy as np

from bench.similar_sets import Rows, numbered, synthetic
from skyband.framework.streaming.rows.blocks import table_bytes
from skyband.framework.streaming.rows.shards import Taken, found_table
from skyband.operators.base import Arrivals, State, Window
from skyband.operators.expressions import parse
from skyband.operators.found_pairs import FoundPairs
from skyband.operators.matches.operator import Matches
from skyband.operators.pair_rows.queries import PairQuery
from skyband.operators.shards import BLOCK, Share
from skyband.operators.topk_pairs.operator import TopKPairs

K: Final = 20
WINDOWS: Final = (10_000, 100_000)
SHARDS: Final = (1, 2, 4, 8, 16, 32, 64)
ROWS: Final = 64 * BLOCK
"""Rows of a call: a block for each of 64 shards."""
CALLS: Final = 3
STEP: Final = 10_000
"""Rows of the calls that fill a window."""
NOBODY: Final = 10**6
"""More shards than there are blocks of rows."""
COLUMNS: Final = ("operator", "params", "shard_us", "merge_us", "idle_us", "search", "sent", "bytes", "peers")
PRODUCTS: Final = "abs(a.x - b.x) * abs(a.y - b.y) * abs(a.z - b.z)"


class Stream(Protocol):
    """The rows of one key."""

    def block(self, lo: int, hi: int) -> Arrivals:
        """Return rows lo to hi."""
        ...


class Numbers:
    """Rows with three random numbers, a microsecond apart."""

    def __init__(self, rows: int) -> None:
        rng = np.random.default_rng(7)
        self.columns = {name: rng.random(rows) for name in "xyz"}

    def block(self, lo: int, hi: int) -> Arrivals:
        """Return rows lo to hi."""
        seq = np.arange(lo, hi)
        return Arrivals(np.zeros(hi - lo, np.int64), seq, seq, {name: values[lo:hi] for name, values in self.columns.items()})


def operators(window: int) -> dict[str, tuple[Any, Stream]]:
    """Return (operator, its rows) by name."""
    kept, rows = Window(window), window + CALLS * ROWS
    best = (PairQuery("q", K, kept),)
    sets = numbered(synthetic(rows + rows // 5))
    score = parse(PRODUCTS, dict.fromkeys("xyz", "float"))
    return {
        "products": (TopKPairs(score, "min", None, None, best, K, kept), Numbers(rows)),
        "matches": (
            Matches(tokens="tokens", similarity="jaccard", window=kept, queries=best),
            Rows(sets[:rows]),
        ),
    }


def timed(logic: Any, method: str, arrivals: Arrivals, until: int) -> tuple[Any, float]:
    """Return what a call returns, and its CPU time in microseconds per row."""
    start = time.process_time_ns()
    made = getattr(logic, method)(arrivals, until)
    return made, (time.process_time_ns() - start) / 1e3 / len(arrivals)


def filled(logic: Any, method: str, stream: Stream, window: int) -> Any:
    """Return the logic with a window of rows."""
    for lo in range(0, window, STEP):
        getattr(logic, method)(stream.block(lo, lo + STEP), lo + STEP)
    logic.counters()
    return logic


def calls(window: int) -> list[tuple[int, int]]:
    """Return the bounds (lo, hi) of the calls that are measured."""
    return [(lo, lo + ROWS) for lo in range(window, window + CALLS * ROWS, ROWS)]


def measured_shard(operator: Any, stream: Stream, window: int, state: State, share: Share) -> tuple[list[FoundPairs], list[float], int]:
    """Return the pairs that a shard finds by call, its microseconds per row, and the size of its search."""
    # The state of a shard of pairs is the K-skyband of its own pairs, with looser bars than that of all pairs.
    own = isinstance(operator, TopKPairs)
    shard = filled(operator.build_shard(share, None), "find", stream, window) if own else operator.build_shard(share, state)
    made = [timed(shard, "find", stream.block(lo, hi), hi) for lo, hi in calls(window)]
    counted = shard.counters()
    return [pairs for pairs, _ in made], [us for _, us in made], counted.get("scored", counted.get("counted", 0))


def measured(name: str, operator: Any, stream: Stream, window: int) -> Iterator[dict[str, Any]]:
    """Measure all numbers of shards."""
    own = filled(operator.build(None), "advance", stream, window)
    state = State(own.checkpoint(), stream.block(0, window))
    alone = float(np.median([timed(own, "advance", stream.block(lo, hi), hi)[1] for lo, hi in calls(window)]))
    measured_shard(operator, stream, window, state, Share(0, SHARDS[-1]))  # compiled now
    # Of so many shards no row is in the last one's share: the rows have fewer blocks.
    idle = float(np.median(measured_shard(operator, stream, window, state, Share(NOBODY - 1, NOBODY))[1]))
    for of in SHARDS:
        parts = [measured_shard(operator, stream, window, state, Share(i, of)) for i in range(of)]
        merge, merging, size = operator.build_merge(state), [], 0
        for call, (lo, hi) in enumerate(calls(window)):
            found = [pairs[call] for pairs, _, _ in parts]
            size += sum(len(table_bytes(found_table(Share(i, of), Taken(hi - lo, hi), {"q": pairs}))) for i, pairs in enumerate(found))
            names = ("query", "key", "older", "newer", "score")
            joined = FoundPairs(*(np.concatenate([getattr(pairs, c) for pairs in found]) for c in names))
            arrivals = stream.block(lo, hi)
            given = Arrivals(arrivals.key, arrivals.seq, arrivals.time, arrivals.columns, arrivals.ragged, found=joined)
            merging.append(timed(merge, "advance", given, hi)[1])
        shard_us, merge_us = float(np.median([us for _, part, _ in parts for us in part])), float(np.median(merging))
        yield {
            "operator": name, "params": {"n": window, "k": K, "shards": of}, "cpu_ns_per_event": 1e3 * (shard_us + merge_us),
            "wall_ns_per_event": 1e3 * (shard_us + merge_us), "shard_us": shard_us, "merge_us": merge_us, "idle_us": idle,
            "search": max(searched for _, _, searched in parts) / (CALLS * ROWS),
            "sent": sum(len(pairs) for found, _, _ in parts for pairs in found) / (CALLS * ROWS), "bytes": size / (CALLS * ROWS),
            "peers": {"alone": 1e3 * alone},
        }  # fmt: skip


def run() -> Iterator[dict[str, Any]]:
    """Measure both operators; some minutes."""
    for window in WINDOWS:
        for name, (operator, stream) in operators(window).items():
            yield from measured(name, operator, stream, window)
