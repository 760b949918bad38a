"""What deletions cost queries about pairs of sets: the operators without deletions, and with 0, 1 and 10 deletions per 100 sets.

Each deletion takes away a set of the window, drawn at random, or for ``best`` an object of the best pair. The window is full before the
clock starts. CPU time of this process.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from bench.similar_sets import Rows, numbered, synthetic
from skyband.operators.base import DELETION_TARGET, NULL, Arrivals, Ragged, Window
from skyband.operators.matches.operator import Matches
from skyband.operators.pair_rows.queries import BoundedPairQuery, PairQuery
from skyband.operators.similar_sets.operator import SimilarSets
from skyband.operators.topk_similar_sets.operator import TopKSimilarSets, TopKSimilarSetsDeletes

BATCH = 1000


def logics(k: int, window: Window, deletes: bool) -> dict[str, Any]:
    """A logic of every type."""
    common: dict[str, Any] = {"tokens": "tokens", "similarity": "jaccard", "window": window}
    topk, best = TopKSimilarSetsDeletes if deletes else TopKSimilarSets, (PairQuery("q", k, window),)
    return {
        "similar_sets": SimilarSets(**common, deletes=deletes, queries=(BoundedPairQuery("q", window, min_score=0.8),)).build(None),
        "matches": Matches(**common, deletes=deletes, queries=(PairQuery("q", k, window, min_score=0.5),)).build(None),
        "topk_similar_sets": topk(**common, queries=best, keep_k=k).build(None),
    }


def with_deletions(block: Arrivals, after: Any, target: Any) -> Arrivals:
    """The rows of a block with deletions of the objects ``target``, each after the row ``after``."""
    n, m = len(block), len(after)
    order = np.argsort(np.concatenate([np.arange(n), after]), kind="stable")
    is_row = order < n
    seq = np.where(is_row, np.concatenate([block.seq, np.full(m, -1)])[order], -1)
    time_ = np.concatenate([block.time, block.time[after]])[order]
    targets = np.concatenate([np.full(n, NULL), target])[order]
    tokens = block.ragged["tokens"]
    length = np.where(is_row, np.concatenate([np.diff(tokens.start), np.zeros(m, np.int64)])[order], 0)
    ragged = Ragged(np.concatenate([[0], np.cumsum(length)]).astype(np.int64), tokens.values)
    return Arrivals(np.zeros(n + m, np.int64), seq, time_, {DELETION_TARGET: targets}, {"tokens": ragged})


def measured(logic: Any, rows: Rows, window: int, events: int, share: float | None, best: bool) -> dict[str, float]:
    """CPU ns a set, and joins of the window per 1,000 sets; ``share``: deletions per set, None for an operator without them."""
    rng = np.random.default_rng(7)
    deleted: set[int] = set()

    def block(lo: int, hi: int) -> Arrivals:
        found = rows.block(lo, hi)
        if share is None:
            return found
        after = np.flatnonzero(rng.random(hi - lo) < share) if lo >= window else np.empty(0, np.int64)
        target = []
        for i in after.tolist():
            while True:
                gone = int(rng.integers(max(0, lo + i + 1 - window), lo + i + 1))
                if gone not in deleted:
                    break
            deleted.add(gone)
            target.append(gone)
        return with_deletions(found, after, np.array(target, np.int64))

    def best_of(at: int) -> Arrivals:
        """A deletion of an object of the best pair."""
        found = logic.snapshot(0, 1, Window(window)).items[0, 1]
        none = Ragged(np.zeros(2, np.int64), np.empty(0, np.int64))
        one = np.zeros(1, np.int64)
        return Arrivals(one, one - 1, one + at, {DELETION_TARGET: one + found}, {"tokens": none})

    logic.advance(block(0, window), window)
    logic.counters()
    spent, batch = 0.0, round(1 / (share or 1)) if best else BATCH
    for lo in range(window, window + events, batch):
        hi = min(lo + batch, window + events)
        given = with_deletions(rows.block(lo, hi), np.empty(0, np.int64), np.empty(0, np.int64)) if best else block(lo, hi)
        gone = best_of(lo + batch) if best else None
        cpu = time.process_time()
        logic.advance(given, lo + batch)
        if gone is not None:
            logic.advance(gone, lo + batch + 1)
        spent += time.process_time() - cpu
    return {"cpu_ns_per_event": spent / events * 1e9, "joins_per_1000": logic.counters().get("refills", 0) / events * 1000}


def run() -> Iterator[dict[str, Any]]:
    """Measurements: types, windows, k, shares of deletions."""
    rows = Rows(numbered(synthetic(100_000)))
    for window, k, events in ((10_000, 10, 20_000), (50_000, 10, 20_000), (10_000, 100, 20_000)):
        for share in (None, 0.0, 0.01, 0.1):
            for name, logic in logics(k, Window(window), share is not None).items():
                found = measured(logic, rows, window, events, share, False)
                yield {"operator": name, "params": {"n": window, "k": k, "deletions": share}, **found}
        logic = logics(k, Window(window), True)["topk_similar_sets"]
        found = measured(logic, rows, window, 2000, 0.1, True)
        yield {"operator": "topk_similar_sets", "params": {"n": window, "k": k, "deletions": "of the best"}, **found}
