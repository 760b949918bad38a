"""Top-k of the families of paper 2 other than weighted sums, products and sums of squares, with constants of each query's own.

Beside the influence grid (``skyband``): the same queries as operators side by side, a pass over every block for each; and brute force in
Numba, which only scores every arrival for every query and counts the scores that reach a cutoff. The C++ peers know weighted sums
only. CPU time; the window is full before the clock starts.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from bench.topk import NAMES, D, data, ours, weights
from skyband.operators.base import F64, Window
from skyband.operators.expressions import parse
from skyband.operators.jit import jit
from skyband.operators.side_by_side import SideBySide
from skyband.operators.topk.many import ManyTopK
from skyband.operators.topk.one_function import TopK, TopKQuery

N, K, EVENTS, SCORED = 100_000, 20, 500_000, 50_000
CONSTANTS = tuple(f"a{i}" for i in range(D))
FORMS = {
    "product": " * ".join(f"({a} + {x})" for a, x in zip(CONSTANTS, NAMES, strict=True)),
    "squares": " + ".join(f"{a} * {x} * {x}" for a, x in zip(CONSTANTS, NAMES, strict=True)),
}


@jit
def score_all(x: F64, constants: F64, cutoffs: F64, product: bool, scores: F64) -> int:
    """Score every row of x (n, d) for every query, ``constants`` (d, Q); return how many scores reach ``cutoffs`` (Q,)."""
    reached = 0
    queries = len(cutoffs)
    for row in range(len(x)):
        for t in range(x.shape[1]):
            v, a = x[row, t], constants[t]
            if product:
                for q in range(queries):
                    scores[q] = scores[q] * (a[q] + v) if t > 0 else a[q] + v
            else:
                for q in range(queries):
                    scores[q] = scores[q] + a[q] * v * v if t > 0 else a[q] * v * v
        for q in range(queries):
            reached += np.int64(scores[q] >= cutoffs[q])
    return reached


def brute_force(form: str, x: Any, constants: F64) -> float:
    """CPU ns a row of ``score_all``."""
    columns, scores = np.ascontiguousarray(constants.T), np.empty(len(constants))
    score_all(x[:100], columns, scores + np.inf, form == "product", scores)
    start = time.process_time()
    score_all(x, columns, np.full(len(constants), np.inf), form == "product", scores)
    return (time.process_time() - start) / len(x) * 1e9


def measured(form: str, kind: str, queries: int) -> dict[str, Any]:
    """One point."""
    x, constants = data(kind, N + EVENTS), weights(queries)
    score = parse(FORMS[form], dict.fromkeys(NAMES + CONSTANTS, "float"), ("",), "score")
    names, window = tuple(f"q{i}" for i in range(queries)), Window(N)
    many = ManyTopK(names, NAMES, constants, np.full(queries, K), window, score=score, parameters=CONSTANTS)
    apart = SideBySide(
        tuple(TopK(score, "max", None, (TopKQuery(name, K, window),), K, window) for name in names),
        tuple(tuple(zip(CONSTANTS, row, strict=True)) for row in constants.tolist()),
    )
    ours(many, x, N, 0)  # compiled now
    cpu, wall, changes = ours(many, x, N, 0)
    ours(apart, x[: N + SCORED], N, 0)
    beside, _, _ = ours(apart, x[: N + SCORED], N, 0)
    return {
        "operator": "topk", "params": {"score": form, "data": kind, "N": N, "Q": queries, "k": K, "d": D}, "cpu_ns_per_event": cpu,
        "wall_ns_per_event": wall, "changes": changes,
        "peers": {"side by side": beside, "brute force": brute_force(form, np.ascontiguousarray(x[:SCORED]), constants)},
    }  # fmt: skip


def run() -> Iterator[dict[str, Any]]:
    """All points; about a minute."""
    for form in FORMS:
        for kind in ("ind", "ant"):
            for queries in (100, 1000):
                yield measured(form, kind, queries)
