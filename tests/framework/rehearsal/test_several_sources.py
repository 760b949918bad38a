"""Several sources as one stream: the changes are those of all rows in their order, however the sources are interleaved and cut."""

from __future__ import annotations

import random
from typing import Any

import pytest

from skyband.framework.plan.compile import compile_job
from skyband.framework.plan.model import Plan
from skyband.framework.rehearsal.rehearsal import Rehearsal
from skyband.framework.spec.load import validate_text
from tests.seeds import seeds

MINUTE = 60_000_000
SPEC = """\
job: book
source:
  id: [id]
  event_time: {column: at, watermark: 3 minutes}
  partition_by: [symbol]
sources:
  asks: {format: csv, path: /nowhere/asks, schema: {id: bigint, at: timestamp, symbol: string, price: double}}
  bids:
    format: json
    path: /nowhere/bids
    watermark: 5 minutes
    idle_after: 30 minutes
    schema: {id: bigint, at: timestamp, symbol: string, price: double, depth: int}
window: {count: 12, time: 40 minutes}
scoring:
  gap: {expression: abs(a.price - b.price)}
  price: {linear: {price: 1}}
queries:
  close: {type: topk_pairs, scoring: gap, k: 3, between: {source: [asks, bids]}}
  within: {type: topk_pairs, scoring: gap, k: 2, from: bids, where: a.depth >= 1 and b.depth >= 1}
  high: {type: topk, scoring: price, k: 2, from: asks}
  deep: {type: threshold, scoring: price, above: 5, where: depth > 1}
sink: {path: /nowhere/out}
"""
ALIKE = """\
job: book
source:
  format: json
  path: /nowhere/in
  id: [id, source]
  event_time: {column: at, watermark: 5 minutes}
  partition_by: [symbol]
  schema: {source: string, id: bigint, at: timestamp, symbol: string, price: double, depth: int}
window: {count: 12, time: 40 minutes}
scoring:
  gap: {expression: abs(a.price - b.price)}
  price: {linear: {price: 1}}
queries:
  close: {type: topk_pairs, scoring: gap, k: 3, between: {column: source, a: asks, b: bids}}
  within: {type: topk_pairs, scoring: gap, k: 2, where: a.source = 'bids' and b.source = 'bids' and a.depth >= 1 and b.depth >= 1}
  high: {type: topk, scoring: price, k: 2, where: source = 'asks'}
  deep: {type: threshold, scoring: price, above: 5, where: depth > 1}
sink: {path: /nowhere/out}
"""
QUERIES = ("close", "within", "high", "deep")


def plan_of(text: str) -> Plan:
    job, problems = validate_text(text, {})
    assert job is not None, problems
    return compile_job(job)


@pytest.fixture(scope="module")
def plans() -> tuple[Plan, Plan]:
    return plan_of(SPEC), plan_of(ALIKE)


def rows_of(rng: random.Random, many: int, source: str, disorder: int) -> list[dict[str, Any]]:
    """Return rows of a source in the order in which they arrive; ids and times are those of other sources, too."""
    made: list[dict[str, Any]] = []
    for n in range(many):
        at = (3 * n + rng.randint(0, 2)) * MINUTE
        row = {"source": source, "id": n, "at": at, "symbol": rng.choice("pq"), "price": float(rng.randint(0, 9))}
        made.append(row | {"depth": rng.randint(0, 3)} if source == "bids" else row)
    return sorted(made, key=lambda r: r["at"] + rng.randint(0, disorder - 1) * MINUTE)


def run(plan: Plan, batches: list[list[dict[str, Any]]], restarts: random.Random | None = None) -> Rehearsal:
    job = Rehearsal(plan)
    for batch in batches:
        job.drop(batch)
        if restarts is not None and restarts.random() < 0.3:
            job.restart()
    job.finish()
    return job


def changes(job: Rehearsal) -> dict[str, list[tuple[Any, ...]]]:
    tables = job.tables()
    return {
        q: sorted(tuple(v for n, v in r.items() if n != "batch_id") for r in tables[f"{q}_changes"].to_pylist()) for q in QUERIES
    }  # fmt: skip


@pytest.mark.parametrize("seed", seeds(0, 8))
def test_changes_are_those_of_all_rows_in_order(plans: tuple[Plan, Plan], seed: int) -> None:
    rng = random.Random(seed)
    asks, bids = rows_of(rng, 30, "asks", 3), rows_of(rng, rng.choice([0, 5, 30]), "bids", 5)
    expected = changes(run(plans[1], [[*asks, *bids]]))
    batches, left = [], {"asks": list(asks), "bids": list(bids)}
    while any(left.values()):
        # However far one source is ahead, up to what it may wait for the other: neither is late.
        batch = []
        for source in rng.sample(list(left), 2):
            other = left["bids" if source == "asks" else "asks"]
            many = rng.randint(0, 9)
            horizon = (min(r["at"] for r in other) if other else 10**18) + 25 * MINUTE
            while many and left[source] and left[source][0]["at"] <= horizon:
                batch.append(left[source].pop(0))
                many -= 1
        batches.append(batch)
    job = run(plans[0], [b for b in batches if b], rng)
    assert not job.tables()["rejected"].num_rows
    assert changes(job) == expected
    assert any(expected.values())


def test_a_source_that_falls_behind_is_waited_for_as_long_as_it_says(plans: tuple[Plan, Plan]) -> None:
    def ask(minute: int) -> dict[str, Any]:
        return {"source": "asks", "id": minute, "at": minute * MINUTE, "symbol": "p", "price": 1.0}

    job = Rehearsal(plans[0])
    job.drop([ask(m) for m in range(20)])
    # 16 minutes less 30 of idling are before everything.
    assert not job.tables()["high_changes"].num_rows
    job.drop([ask(m) for m in range(20, 60)])
    passed = (59 - 3 - 30) * MINUTE
    assert job.tables()["high_changes"].num_rows and job.counts["accepted"] == 26
    bid = {"source": "bids", "id": 1, "symbol": "p", "price": 1.0, "depth": 2}
    job.drop([bid | {"at": passed}, bid | {"at": passed - 1, "id": 2}])
    assert [(r["reason"], '"id":2' in r["text"].replace(" ", "")) for r in job.tables()["rejected"].to_pylist()] == [("late", True)]
    other = Rehearsal(plans[0])
    other.drop([bid | {"at": 10 * MINUTE}])
    # Asks are waited for as long as it takes: they have no idle_after.
    other.drop([bid | {"at": 5_000 * MINUTE, "id": 3}])
    assert other.counts["accepted"] == 0
    other.drop([ask(12)])
    assert other.counts["accepted"] == 0
    other.drop([ask(14)])
    assert other.counts["accepted"] == 1
