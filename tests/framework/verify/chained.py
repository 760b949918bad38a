"""A small job of queries over queries, of every kind of item, and its tables as a run leaves them."""

from __future__ import annotations

import random
from pathlib import Path

from skyband.framework.plan.model import Plan
from tests.framework.verify import small
from tests.spark.jobs import stamp, write_spec

QUERIES = """\
  best: {type: topk, scoring: s, k: 3, carry: [side, x]}
  rare: {type: topk, scoring: s, k: 2, every: 4 minutes}
  busy: {type: topk_groups, group: side, score: sum(x), k: 2}
  loud: {type: topk_groups, group: side, score: sum(x), carry: [distinct(y)], k: 2}
  widest: {type: skyline, from: loud, dimensions: {loud_score: max, distinct_y: max}}
  far: {type: topk_pairs, scoring: far, k: 2}
  calm: {type: topk_loyalty, object: side, criteria: x > 1, k: 1}
  worst: {type: topk, from: best, scoring: again, k: 1, carry: [best_cause, best_time]}
  sky: {type: skyline, from: best, dimensions: {best_score: max, best_seq: min}}
  late: {type: topk, from: best, scoring: again, k: 2, where: "best_cause <> 'arrival'", window: {time: 3 minutes}}
  two: {type: topk_groups, from: best, group: side, score: count(), k: 1, window: {count: 2}}
  shown: {type: threshold, from: rare, scoring: rare, at_least: 0}
  high: {type: threshold, from: busy, scoring: value, above: 1}
  pairs: {type: topk_pairs, from: busy, scoring: close, k: 1}
  wide: {type: threshold, from: far, scoring: gap, at_least: 1}
  steady: {type: topk_loyalty, of: busy, k: 1, window: {time: 30 minutes}}
  often: {type: threshold_loyalty, of: best, object: side, at_least: 2 minutes, window: {time: 20 minutes}}
  third: {type: topk, from: worst, scoring: worst, k: 1}
  regular: {type: threshold_loyalty, of: third, object: id, at_least: 1 minutes, window: {time: 10 minutes}}
  calmer: {type: topk_groups, from: calm, group: side, score: count(), k: 1}
  top_steady: {type: topk_loyalty, of: steady, k: 1, window: {time: 50 minutes}}
"""
SCORING = """\
  s: {expression: x}
  again: {expression: best_score, direction: min}
  value: {expression: busy_score}
  close: {expression: "abs(a.busy_score - b.busy_score)", direction: min}
  gap: {expression: far_score}
  rare: {expression: rare_score}
  worst: {expression: worst_score}
"""
TIME, COUNT = "{time: 7 minutes}", "{count: 4}"
DELETES = "deletes: side = 'd'"
Rows = list[list[object]]


def queries(window: str) -> str:
    """The entries for a job's window: loyalty over rows needs one of time."""
    return "".join(line for line in QUERIES.splitlines(keepends=True) if "time" in window or not line.startswith(("  calm", "  calmer")))


def rows_of(seed: int, deletes: bool = False) -> Rows:
    """Random rows of two keys, with ties and, at the end, a silence of days in some of them."""
    rng, rows, minute = random.Random(seed), [], 0
    silent = rng.random() < 0.5
    for i in range(rng.randrange(20, 60)):
        minute += rng.choice([0, 0, 1, 1, 2, 5])
        row = [i, stamp(minute), rng.choice("pq"), rng.choice(["", 0, 1, 1, 2, -1, 3.5]), rng.randrange(4), rng.choice("abc")]
        rows.append(row)
        if deletes and rng.random() < 0.2:
            rows.append([rng.choice(rows)[0], stamp(minute), row[2], "", 0, "d"])
    if silent:
        rows.append([99, stamp(minute + 3 * 1440), "p", 1, 0, "a"])
    return rows


def make(directory: Path, rows: Rows, window: str = TIME, deletes: str = "") -> Plan:
    """Run the job over ``rows``; its plan."""
    directory.mkdir(exist_ok=True)
    spec = write_spec(directory, window, queries(window), "5 minutes", True, scoring=SCORING, deletes=deletes)
    return small.make(spec, rows)
