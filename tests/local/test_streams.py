"""Queries over queries: equal tables however rows are cut, all of which ``verify`` proves."""

from __future__ import annotations

from pathlib import Path

import pytest

from skyband.framework.console.lines import Lines
from skyband.framework.verify.budget import Sample
from skyband.framework.verify.verification import verify
from skyband.jobs.spec import load_plan
from tests.spark.cuts import stream, whole_and_in_parts
from tests.spark.equality import assert_equal_tables
from tests.spark.jobs import table
from tests.spark.kinds import MORE, with_more

pytestmark = pytest.mark.long

QUERIES = """\
  best: {type: topk, scoring: s, k: 2, carry: [who], window: {time: 1 hour}}
  steady: {type: topk_loyalty, of: best, object: who, k: 2, window: {time: 2 hours}}
  often: {type: topk_groups, from: steady, group: who, score: count(), k: 1}
  busy: {type: topk_groups, group: who, score: sum(x), k: 3, window: {time: 1 hour}}
  close: {type: topk_pairs, from: busy, scoring: gap, k: 1}
"""
SCORING = """\
  s: {expression: x}
  gap: {expression: "abs(a.busy_score - b.busy_score)", direction: min}
"""


def test_cuts_leave_no_trace_in_chains_and_everything_is_proven(tmp_path: Path) -> None:
    how = {"window": "{time: 5 hours}", "queries": QUERIES, "scoring": SCORING, "more": MORE}
    whole, parts = whole_and_in_parts(None, tmp_path, with_more(stream(11, 200)), keyed=True, **how)
    assert_equal_tables(parts, whole, same_cuts=False, same_files=False)
    assert all(table(whole, f"{name}_changes").num_rows > 10 for name in ("best", "steady", "often", "busy", "close"))
    plan = load_plan(str(parts / "spec.yaml"))
    found = verify(plan, Sample(everything=True), Lines())
    assert found.ok, found.parts
    assert all(share["complete"] for share in found.shares)
    assert {(s["query"], s["taken"]) for s in found.shares if s["kind"] == "results"} == {
        ("best", None), ("busy", None), ("steady", "best"), ("often", "steady"), ("close", "busy"),
    }  # fmt: skip
