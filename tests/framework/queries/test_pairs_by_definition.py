"""Brute force over pairs: ranked once for all windows or compared anew, it gives what plain Python over every two objects gives."""

from __future__ import annotations

import math
import random
from itertools import combinations
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from skyband.framework.plan.model import Plan
from skyband.framework.queries.pair_rows import brute_force
from skyband.framework.queries.protocol import Question
from skyband.framework.queries.registry import query_type
from skyband.framework.verify.brute_force.objects import Accepted, Objects, Room, Work, objects
from tests.seeds import cases
from tests.specs import plan_of_text

SPEC = """\
job: small
source:
  format: csv
  path: in
  schema: {id: bigint, ts: timestamp, x: double, side: string, words: string}
  id: [id]
  event_time: {column: ts}
window: {count: 9, time: 20 seconds}
tokens: {words: {column: words, separator: " "}}
scoring: {far: {expression: abs(a.x - b.x), direction: max}, near: {expression: a.x - b.x, direction: min}}
sink: {path: out}
queries:
  far: {type: topk_pairs, scoring: far, k: 4}
  short: {type: topk_pairs, scoring: far, k: 3, window: {count: 5}}
  few: {type: topk_pairs, scoring: near, k: 3, where: "a.side <> b.side", min_score: -1, max_score: 4}
  sides: {type: topk_pairs, scoring: near, k: 3, between: {column: side, a: p, b: q}}
  alike: {type: topk_similar_sets, tokens: words, k: 4}
  square: {type: topk_similar_sets, tokens: words, k: 4, similarity: cosine, where: "a.x < b.x"}
  apart: {type: topk_similar_sets, tokens: words, k: 4, similarity: hamming}
  all: {type: similar_sets, tokens: words, min_score: 0.4}
  seen: {type: matches, tokens: words, k: 2, where: "a.x <> b.x"}
  within: {type: threshold_pairs, scoring: far, min_score: 1, max_score: 3}
  within_sides: {type: threshold_pairs, scoring: near, max_score: 1, between: {column: side, a: p, b: q}}
  closest: {type: matches, scoring: near, k: 2, min_score: -2}
"""
SECOND = 1_000_000
BOUNDS = {"few": (-1, 4), "all": (0.4, math.inf), "within": (1, 3), "within_sides": (-math.inf, 1), "closest": (-2, math.inf)}
"""Of the scores of queries, as the spec has them."""


@pytest.fixture(scope="module")
def plan() -> Plan:
    return plan_of_text(SPEC)


def rows_of(rng: random.Random, n: int) -> tuple[pa.Table, list[int]]:
    time = sorted(rng.randrange(40) * SECOND for _ in range(n))
    made = {
        "id": pa.array(range(n), pa.int64()),
        "ts": pa.array(time, pa.timestamp("us", "UTC")),
        "x": pa.array([None if rng.random() < 0.1 else float(rng.randrange(5)) for _ in range(n)], pa.float64()),
        "side": pa.array([rng.choice("pqr") for _ in range(n)]),
        "words": pa.array([" ".join(rng.choices("abcd", k=rng.randint(1, 3))) for _ in range(n)]),
    }
    return pa.table(made), time


def plainly(name: str, data: Objects, window: list[int], k: int | None) -> list[Any]:
    """((a, b), score) of the window's pairs in rank order, from the spec's text above."""
    x, side = data.rows["x"].to_pylist(), data.rows["side"].to_pylist()
    sets, found = data.tokens["words"], []
    for older, newer in combinations(sorted(window), 2):
        a, b = older, newer
        if name in ("sides", "within_sides"):
            if {side[a], side[b]} != {"p", "q"}:
                continue
            a, b = (a, b) if side[a] == "p" else (b, a)
        difference = None if x[a] is None or x[b] is None else x[a] - x[b]
        common, both = len(sets[a] & sets[b]), len(sets[a] | sets[b])
        score: float | None
        if name in ("far", "short", "within"):
            score = None if difference is None else abs(difference)
        elif name in ("few", "sides", "within_sides", "closest"):
            score = difference
        elif name == "apart":
            score = float(both - common)
        elif not common or (name in ("square", "seen") and difference is None):
            continue
        elif name == "square":
            score = common * common / (len(sets[a]) * len(sets[b])) if difference is not None and difference < 0 else None
        else:
            score = common / both if name != "seen" or difference != 0 else None
        least, most = BOUNDS.get(name, (-math.inf, math.inf))
        if score is None or (name == "few" and side[a] == side[b]) or not least <= score <= most:
            continue
        rank = score if name in ("few", "sides", "apart", "within_sides", "closest") else -score
        found.append((rank, -older, -newer, (a, b), math.sqrt(score) if name == "square" else score + 0.0))
    return [(item, score) for *_, item, score in sorted(found)[:k]]


@pytest.mark.parametrize("room", [10**6, 0])
@pytest.mark.parametrize("block", [1 << 17, 7])
def test_it_is_what_every_two_objects_give(plan: Plan, room: int, block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(brute_force, "BLOCK", block)
    for case in range(cases(12)):
        rng = random.Random(case)
        rows, time = rows_of(rng, 30)
        data = objects(plan, Accepted((), rows, time, {}), Room(room))
        for at in rng.sample(sorted({t + d for t in time for d in (0, 1)}), 6):
            for query in plan.queries:
                end = int(np.searchsorted(time, at, side="right"))
                count = query.window.count or 10**9
                alive = [s for s in range(max(0, end - count), end) if query.window.micros is None or time[s] + query.window.micros > at]
                got = query_type(query.type).brute_force(Question(plan, query, data, at))
                if query.item.lasting:
                    assert got == plainly(query.name, data, alive, query.k), (query.name, at)
                    items = [item for item, _ in got or []]
                    scores = query_type(query.type).scores(Question(plan, query, data, at), items)
                    assert scores == [score for _, score in got or []]
                    continue
                expected: list[Any] = []
                for s in [s for s in range(end) if time[s] == at]:
                    since = max(0, s + 1 - count)
                    others = [o for o in range(since, s) if query.window.micros is None or time[o] + query.window.micros > at]
                    pairs = [p for o in others for p in plainly(query.name, data, [o, s], None)]
                    expected += sorted(pairs, key=lambda p: (p[1] if query.direction == "min" else -p[1], -p[0][0], -p[0][1]))[: query.k]
                assert got == expected, (query.name, at)


def test_what_the_query_does_not_admit_has_no_score(plan: Plan) -> None:
    rows, time = rows_of(random.Random(1), 30)
    data = objects(plan, Accepted((), rows, time, {}))
    by_name = {q.name: q for q in plan.queries}
    side = rows["side"].to_pylist()
    same = next((a, b) for a, b in combinations(range(30), 2) if side[a] == side[b])
    for name, item in (("few", same), ("sides", same), ("far", (5, 3)), ("far", (4, 4))):
        query = by_name[name]
        (score,) = query_type(query.type).scores(Question(plan, query, data, 0), [item]) or []
        assert math.isnan(score), (name, item)


@pytest.mark.parametrize("room", [10**6, 0])
def test_time_that_is_over_gives_no_result_and_what_is_done_is_kept(plan: Plan, room: int) -> None:
    rows, time = rows_of(random.Random(1), 30)
    data = objects(plan, Accepted((), rows, time, {}), Room(room))
    (query,) = [q for q in plan.queries if q.name == "far"]
    assert query_type("topk_pairs").brute_force(Question(plan, query, data, time[-1], None, Work(late=lambda: True))) is None
    assert query_type("topk_pairs").brute_force(Question(plan, query, data, time[-1], None, Work()))
