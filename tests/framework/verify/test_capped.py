"""Pairs with a cap per object in a job: tables pass replay and brute force, ``why`` says what is skipped, states are shared."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from skyband.framework.plan.explain import explain
from skyband.framework.plan.fingerprint import compare, fingerprint
from skyband.framework.spec.load import validate_text
from skyband.framework.verify.brute_force.query_rows import Results
from skyband.framework.verify.replay.replay import stream_of
from skyband.framework.verify.stored import Stored
from skyband.framework.why.history import Answers
from tests.framework.verify import small
from tests.spark.kinds import Kind
from tests.specs import plan_of_text

QUERIES = """\
  spread: {type: topk_pairs, scoring: far, k: 5, max_per_object: 1, carry: [x]}
  short: {type: topk_pairs, scoring: far, k: 3, max_per_object: 1, window: {time: 1 hour}}
  twice: {type: topk_pairs, scoring: far, k: 4, max_per_object: 2, where: "a.side <> b.side"}
  slowly: {type: topk_pairs, scoring: near, k: 4, max_per_object: 1, every: 1 hour}
  sides: {type: topk_pairs, scoring: near, k: 3, max_per_object: 1, max_score: 6, between: {column: side, a: a, b: b}}
"""
KIND = Kind(QUERIES)
ROWS = KIND.rows(3, 200)


def test_what_a_run_leaves_is_as_it_must_be(tmp_path: Path) -> None:
    plan = small.make(KIND.write(tmp_path / "job", 10), ROWS)
    assert [d.text() for d in small.found(plan, ROWS)] == []
    stored = Stored(plan)
    for query in plan.queries:
        results, stream = Results(stored, query), stream_of(stored, query)
        cap = 2 if query.name == "twice" else 1
        for at in stream.at:
            found = [seq for item, _ in results.at((), at) for seq in item]
            assert max(np.unique(found, return_counts=True)[1], default=0) <= cap
    assert not (Path(plan.sink) / "spread_skyband").exists()
    # Without an arrival one pair keeps another out: nothing else displaces at an expiry.
    changes = stored.table("spread_changes").to_pylist()
    alone = {r["step"] for r in changes if r["change"] == "+"} - {r["step"] for r in changes if r["cause"] == "arrival"}
    assert any(r["cause"] == "displaced" and r["step"] in alone for r in changes)


def test_why_names_what_a_pair_is_passed_over_for(tmp_path: Path) -> None:
    plan = small.make(KIND.write(tmp_path / "job", 10), ROWS)
    stored = Stored(plan)
    query = plan.queries[0]
    source = small._rows(plan, ROWS).select([f.name for f in plan.intake.fields])
    answers = Answers(plan, query, source, stored.table("rejected"), stored.until)
    stream, results = stream_of(stored, query), Results(stored, query)
    passed = behind = 0
    for at in sorted(set(stream.at))[10:40]:
        result = [item for item, _ in results.at((), at)]
        objects = sorted({seq for item in result for seq in item})
        others = [seq for seq in range(objects[0], objects[-1]) if seq not in objects]
        pairs = [*((a, b) for a in objects[:3] for b in objects[-3:]), *pairwise(others[:6])]
        for pair in [p for p in pairs if p[0] < p[1]]:
            verdict = answers.verdict((), list(pair), at, None)
            assert verdict.inside == (pair in result)
            if "skipped" in verdict.said:
                passed += 1
                (kept_out,) = verdict.beside
                assert kept_out.rank is not None and set(pair) & set(result[kept_out.rank - 1])
            elif not verdict.inside:
                behind += "rank before it" in verdict.said
    assert passed > 20 and behind > 5


def plan_of(queries: str) -> Any:
    return plan_of_text(SPEC + queries)


SPEC = """\
job: small
source: {format: csv, path: in, schema: {id: bigint, ts: timestamp, x: double}, id: [id], event_time: {column: ts}}
window: {count: 100}
scoring: {far: {expression: abs(a.x - b.x), direction: max}, near: {expression: abs(a.x - b.x), direction: min, keep: {k: 9}}}
sink: {path: out}
queries:
"""


def test_a_state_is_shared_by_equal_caps_only() -> None:
    named = "  q{}: {{type: topk_pairs, scoring: {}, k: {}{}}}\n"
    asked = [("far", 5, 1), ("far", 3, 1), ("far", 5, 2), ("far", 5, None), ("far", 2, 2), ("near", 3, 2)]
    plan = plan_of("".join(named.format(n, s, k, "" if c is None else f", max_per_object: {c}") for n, (s, k, c) in enumerate(asked)))
    # At most 2 of 2 pairs is no cap: a plain state answers that.
    assert [(o.queries, o.k, o.skyband) for o in plan.operators] == [
        (("q0", "q1"), 5, False), (("q2",), 5, False), (("q3", "q4"), 5, True), (("q5",), 9, False),
    ]  # fmt: skip
    said = explain(plan)
    assert "CappedTopKPairs" in said and "at most" in said and "M = 9" in said and "no skyband table" in said


def test_a_job_is_told_what_its_cap_was() -> None:
    named = "  q: {{type: topk_pairs, scoring: far, k: 5{}}}\n"
    one, two, none = (plan_of(named.format(cap)) for cap in (", max_per_object: 1", ", max_per_object: 2", ""))
    assert compare(fingerprint(one), fingerprint(two)) == ["queries.q.max_per_object was 1, now 2"]
    assert compare(fingerprint(none), fingerprint(two)) == ["queries.q.max_per_object is new (2)"]
    assert "max_per_object" not in str(fingerprint(none))


@pytest.mark.parametrize(
    ("query", "code", "said"),
    [
        ("{type: topk_pairs, scoring: far, k: 5, max_per_object: 0}", "SKY-E114", "max_per_object"),
        ("{type: topk_pairs, scoring: far, k: 5, max_per_object: some}", "SKY-E112", "max_per_object"),
        ("{type: topk, scoring: far, k: 5, max_per_object: 1}", "SKY-E110", "max_per_object"),
        ("{type: topk_similar_sets, tokens: words, k: 5, max_per_object: 1}", "SKY-E110", "max_per_object"),
        ("{type: similar_sets, tokens: words, min_score: 0.5, max_per_object: 1}", "SKY-E110", "max_per_object"),
        ("{type: matches, tokens: words, k: 5, max_per_object: 1}", "SKY-E110", "max_per_object"),
    ],
)
def test_a_cap_is_a_number_of_pairs(query: str, code: str, said: str) -> None:
    job, errors = validate_text(SPEC + f"  q: {query}\n", {})
    (found,) = [e for e in errors if e.code == code]
    assert job is None and found.where is not None and found.where.line == 7 and said in found.render()
