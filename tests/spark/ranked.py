"""Top-k and threshold queries of all kinds over a stream in which rows delete others: a job for the tests."""

from __future__ import annotations

import random
from pathlib import Path

from tests.spark.jobs import stamp

SCORING = """\
  high: {expression: "x + y", direction: max}
  plain: {linear: {x: 1, y: -2}, direction: min}
"""
QUERIES = """\
  best: {type: topk, scoring: high, k: 4, carry: [x, y]}
  best20: {type: topk, scoring: high, k: 2, window: {count: 20}, where: "side <> 'b'"}
  hourly: {type: topk, scoring: plain, k: 3, every: 1 hour}
  hot: {type: threshold, scoring: high, at_least: 12, carry: [x]}
  many: {type: topk, k: 3, queries_from: {format: csv, path: queries.csv}, carry: [x]}
  limits: {type: threshold, above: 9, queries_from: {format: csv, path: limits.csv}}
"""
NAMES = ("best", "best20", "hourly", "hot", "many", "limits")
TABLES = ("many", "limits")


def deleting_stream(seed: int, n: int = 420) -> list[list[object]]:
    """Rows with ties, nulls, disorder of up to 50 minutes, double ids, and deletions (side d), some of them of nothing."""
    rng = random.Random(seed)
    rows: list[tuple[float, list[object]]] = []
    for i in range(n):
        minute = i * 2 + rng.choice([0, 0, 1])
        side = "d" if rng.random() < 0.2 else rng.choice("ab")
        ident = 10_000 + i - rng.randrange(40) if side == "d" or rng.random() < 0.1 else 10_000 + i
        x = "" if rng.random() < 0.05 else rng.randrange(12)
        rows.append((minute, [ident, stamp(minute), "pqr"[ident % 3], x, rng.randrange(4), side]))
    rows.sort(key=lambda r: r[0] + rng.random() * 50)
    return [r for _, r in rows]


def write_queries(directory: Path) -> None:
    rng = random.Random(3)
    rows = [
        f"q{i},{rng.randint(-3, 3)},{rng.randint(-3, 3)},{rng.choice(['', 1, 5])},{rng.choice(['', 2])},{'min' if i % 3 == 0 else ''}"
        for i in range(12)
    ]
    (directory / "queries.csv").write_text("name,weight_x,weight_y,k,min_x,direction\n" + "\n".join(rows) + "\n")
    rows = [f"t{i},{rng.randint(-3, 3)},{rng.randint(-3, 3)},{rng.choice(['', 20])}" for i in range(8)]
    (directory / "limits.csv").write_text("name,weight_x,weight_y,at_most\n" + "\n".join(rows) + "\n")
