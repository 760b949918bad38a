"""Chains of every depth: the rows of each stage have the keys of the source, and are those of a job of its own."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.framework.streaming.bucket.random_chains import DEPTH, MINUTE, Rows, all_buckets, differences, random_case
from tests.framework.streaming.bucket.test_bucket_streams import texts
from tests.seeds import seeds
from tests.spark.jobs import stamp
from tests.specs import plan_of_text

SPEC = """\
job: keys
source:
  format: csv
  path: in
  schema: {{id: bigint, ts: timestamp, grp: string, x: double, y: double, side: string}}
  id: [id]
  event_time: {{column: ts}}
  partition_by: [grp]
window: {{time: 20 minutes}}
scoring:
  q0: {{expression: x}}
{scoring}queries:
  q0: {{type: threshold, scoring: q0, at_least: 1}}
{queries}  members: {{type: topk_loyalty, of: q{last}, object: id, k: 2}}
run: {{buckets: {buckets}}}
sink: {{path: out}}
"""


def spec(depth: int, buckets: int) -> str:
    scoring = "".join(f"  q{n}: {{expression: q{n - 1}_score}}\n" for n in range(1, depth))
    queries = "".join(f"  q{n}: {{type: topk, from: q{n - 1}, scoring: q{n}, k: {n + 1}}}\n" for n in range(1, depth))
    return SPEC.format(scoring=scoring, queries=queries, last=depth - 1, buckets=buckets)


@pytest.mark.parametrize(("depth", "restore"), [(2, False), (3, True), (DEPTH, True), (12, False)])
def test_rows_of_every_stage_have_their_keys(depth: int, restore: bool) -> None:
    """Keys come one after another, and have entries in another order: the first of them at last, one of them never."""
    keys = "abcdefg"
    rows: Rows = [[n, stamp(n), key, 0, 0, "a"] for n, key in enumerate(keys)]
    rows += [[10 + n, stamp(10 + n), key, 5 + n, 0, "a"] for n, key in enumerate("hgfdca")]
    key_of = {row[0]: row[2] for row in rows}
    found = {}
    for buckets in (1, 3):
        plan = plan_of_text(spec(depth, buckets))
        end = 1_577_836_800_000_000 + 100 * MINUTE
        out = all_buckets(plan, [[row] for row in rows], restore, end)
        for name in (*(f"q{n}" for n in range(depth)), "members"):
            changes = out[f"changes:{name}"]
            assert {r["id"] for r in changes} == {10, 11, 12, 13, 14, 15}
            assert all(r["grp"] == key_of[r["id"]] for r in changes), (name, buckets)
        assert all(r["grp"] == key_of[r["id"]] for r in out["trajectory:members"])
        found[buckets] = texts(out)
    assert found[1] == found[3]


def test_random_chains_are_jobs_of_their_own_and_the_definition() -> None:
    for seed in seeds(0, 5):
        assert differences(random_case(seed), seed) == [], seed


def test_random_cases_have_every_query_type_and_depth() -> None:
    kinds, depths = Counter[str](), Counter[int]()
    for seed in range(30):
        plan = random_case(seed).plan()
        depth = {q.name: 1 for q in plan.queries}
        for node in plan.streams:
            depth |= {q.name: depth[node.of] + 1 for q in node.plan.queries}
            # Loyalty is asked over the entries, or the members, of results of every type.
            loyal = any("loyalty" in q.type for q in node.plan.queries)
            of = next(q.type for q in plan.every_query if q.name == node.of)
            kinds.update([f"loyalty over {of}"] if loyal else [])
        kinds.update(q.type for q in plan.every_query)
        depths[max(depth.values())] += 1
    types = {k for k in kinds if not k.startswith("loyalty over")}
    assert len(types) == 10 and {f"loyalty over {t}" for t in types} <= set(kinds)
    assert set(range(2, DEPTH + 1)) <= set(depths)


def test_rows_of_a_result_that_name_no_object_are_verified() -> None:
    """A group's row has no cause, so the loyalty of causes over it gets a report on no object; other causes are in its rank."""
    assert differences(random_case(9183), 9183) == []
