"""No result of a job violates what always holds of results: random rows and options, for queries of every type with every option."""

from __future__ import annotations

import math
import random
from decimal import Decimal
from typing import Any

import pytest

from skyband.framework.queries.registry import QUERY_TYPES
from skyband.framework.rehearsal.rehearsal import Rehearsal
from skyband.framework.tables.schemas import changes_name
from tests.seeds import seeds
from tests.specs import plan_of_text

SPEC = """\
job: bounded
source:
  format: csv
  path: /nowhere/in
  schema:
    {id: bigint, ts: timestamp, key: string, x: double, y: double, n: bigint, d: "decimal(18,2)", g: string, words: string, lit: boolean,
    gone: boolean}
  id: [id]
  event_time: {column: ts, watermark: 2 minutes}
  partition_by: [key]
DELETES
window: WINDOW
tokens: {words: {column: words}}
scoring:
  x: {expression: x, direction: max}
  low: {expression: x - y, direction: min}
  apart: {expression: abs(a.x - b.x) + abs(a.y - b.y), direction: min}
queries:
QUERIES
sink: {path: /nowhere/out}
"""
SINGLE = """\
  t1: {type: topk, scoring: x, k: K EVERY}
  t2: {type: topk, scoring: low, k: K, min_score: LOW, max_score: HIGH EVERY}
  h1: {type: threshold, scoring: x, above: LOW EVERY}
  h2: {type: threshold, scoring: low, at_least: LOW, below: HIGH EVERY}
  h3: {type: threshold, scoring: x, at_most: HIGH, where: "n > 0" EVERY}
  s1: {type: skyline, dimensions: {x: max, y: min} EVERY}
  s2: {type: skyline, dimensions: {x: max, y: min, g: equal}, band: K, distinct: true EVERY}
  s3: {type: skyline, dimensions: {x: max, y: min}, top: K, by: low EVERY}
  s4: {type: skyline, dimensions: {x: max, y: min}, prefer: [y] EVERY}
"""
# A skyline with a size takes no `every` beside others of its state.
SIZED = "  s5: {type: skyline, dimensions: {x: max, y: min}, size: K, weights: {x: 1, y: 2}}\n"
PAIRS = """\
  p1: {type: topk_pairs, scoring: apart, k: K EVERY}
  p2: {type: topk_pairs, scoring: apart, k: K, max_per_object: 1 EVERY}
  p3: {type: topk_pairs, scoring: apart, k: K, between: {column: g, a: a, b: b}, max_score: POSITIVE EVERY}
  p4: {type: threshold_pairs, scoring: apart, max_score: POSITIVE EVERY}
  m1: {type: matches, scoring: apart, k: K, max_score: POSITIVE}
  m2: {type: matches, tokens: words, k: K, min_score: 0.4}
  z1: {type: similar_sets, tokens: words, min_score: 0.5 EVERY}
  z2: {type: topk_similar_sets, tokens: words, k: K EVERY}
"""
GROUPS = """\
  g1: {type: topk_groups, group: g, score: sum(x), k: K, carry: [count(), last(words)] EVERY}
  g2: {type: topk_groups, group: g, score: sum(d), k: K, ties: include, direction: min EVERY}
  g3: {type: threshold_groups, group: g, score: last(x), above: HIGH, below: LOW EVERY}
  g4: {type: threshold_groups, group: g, score: last(d), above: HIGH.10, below: LOW.10, carry: [count()] EVERY}
  g5: {type: threshold_groups, group: g, score: mean(d), above: LOW, having: count() > 1 EVERY}
  g6: {type: threshold_groups, group: [g, lit], score: sum(n), above: HIGH, below: LOW, window: {tumbling: 7 minutes} EVERY}
  g7: {type: threshold_groups, group: g, score: max(x), above: HIGH, below: HIGH, window: {session: 4 minutes} EVERY}
"""
LOYALTY = """\
  l1: {type: topk_loyalty, object: g, criteria: x > 0, k: K EVERY}
  l2: {type: threshold_loyalty, object: g, updates: lit, at_least: 3 minutes, stale_after: 6 minutes EVERY}
  l3: {type: threshold_loyalty, object: g, criteria: y > 1, share: 40%, trace: all EVERY}
"""
CHAINS = """\
  c0: {type: topk, scoring: x, k: K, carry: [g, y] EVERY}
  c1: {type: skyline, from: c0, dimensions: {c0_score: max, y: min}}
  c2: {type: threshold_groups, from: c0, group: g, score: last(c0_score), above: HIGH, below: LOW EVERY}
  c3: {type: topk_loyalty, of: c0, object: g, k: K, window: {time: 10 minutes} EVERY}
  c4: {type: threshold_groups, group: g, score: last(x), above: HIGH, below: LOW, carry: [count()] EVERY}
  c5: {type: topk_groups, from: c4, group: g, score: max(c4_score) + max(count), k: K EVERY}
"""
KINDS = {"single": (SINGLE, True), "sized": (SIZED, True), "pairs": (PAIRS, True), "groups": (GROUPS, True), "loyalty": (LOYALTY, False),
         "chains": (CHAINS, True)}  # fmt: skip
X = [None, 0.0, -0.0, 1.0, 2.0, 2.0000000000000004, -1.5, 3.0, 1e308, -1e308, math.inf, math.nan]
D = [None, "0.10", "-0.10", "2.10", "3.11", "1.09", "9999999999999999.99"]
SECOND = 1_000_000


def spec_of(kind: str, rng: random.Random, deletes: bool, every: bool) -> str:
    low = rng.choice([-2, 0, 1])
    lines = KINDS[kind][0].splitlines(keepends=True)
    queries = "".join(line for line in lines if not (deletes and "session" in line))
    window = rng.choice(["{time: 10 minutes}", "{time: 15 minutes, count: 7}"]) if kind != "loyalty" else "{time: 10 minutes}"
    given = {
        "EVERY": f", every: {rng.choice([1, 3, 5])} minutes" if every else "", "POSITIVE": str(rng.choice([1, 3])),
        "LOW": str(low), "HIGH": str(low + rng.choice([1, 2])), "K": str(rng.choice([1, 2, 4])),
    }  # fmt: skip
    for name, value in given.items():
        queries = queries.replace(name, value)
    text = SPEC.replace("QUERIES\n", queries).replace("WINDOW", window)
    return text.replace("DELETES\n", "deletes: gone\n" if deletes else "")


def rows_of(rng: random.Random) -> list[dict[str, Any]]:
    at, rows = 0, list[dict[str, Any]]()
    for i in range(rng.randrange(20, 90)):
        at += rng.choice([0, 0, 10, 30, 60, 300]) * SECOND
        d = rng.choice(D)
        rows.append(
            {
                "id": i, "ts": at, "key": rng.choice("pq"), "x": rng.choice(X), "y": float(rng.randrange(4)),
                "n": rng.choice([None, 0, 1, 3]),
                "d": None if d is None else Decimal(d), "g": rng.choice("abc"), "words": " ".join(rng.choices("uvwxyz", k=3)),
                "lit": rng.random() < 0.6, "gone": False,
            }
        )  # fmt: skip
        if rng.random() < 0.1:
            rows.append({**rng.choice(rows), "ts": at, "gone": True})
    return rows


def test_every_type_is_there() -> None:
    named = "".join(queries for queries, _ in KINDS.values())
    assert all(f"type: {name}," in named for name in QUERY_TYPES.all())


@pytest.mark.parametrize("every", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_no_result_violates_an_invariant(kind: str, every: bool) -> None:
    changed: dict[str, int] = {}
    for seed in seeds(0, 10):
        rng = random.Random(seed)
        deletes = KINDS[kind][1] and rng.random() < 0.4
        plan = plan_of_text(spec_of(kind, rng, deletes, every))
        job, rows = Rehearsal(plan), rows_of(rng)
        while rows:
            size = rng.randrange(1, 30)
            job.drop(rows[:size])
            # Raises SKY-E503 if an invariant does not hold.
            tables = job.tables()
            if rng.random() < 0.3:
                job.restart()
            rows = rows[size:]
        job.finish()
        tables = job.tables()
        assert not tables["checks"].num_rows
        for q in plan.every_query:
            changed[q.name] = changed.get(q.name, 0) + tables[changes_name(q.name)].num_rows
    assert all(changed.values()), changed
