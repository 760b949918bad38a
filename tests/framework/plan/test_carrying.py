"""What groups carry as columns of the stream that their result makes up."""

from __future__ import annotations

from pathlib import Path

import pytest

from skyband.framework.base.errors import SpecErrors
from skyband.framework.plan.fingerprint import fingerprint
from skyband.framework.plan.model import Plan
from skyband.framework.tables.schemas import trajectory_schema
from skyband.jobs.spec import load_plan

SPEC = """\
job: talkers
source:
  format: csv
  path: in
  schema: {id: bigint, ts: timestamp, src: string, dst: string, bytes: bigint}
  id: [id]
  event_time: {column: ts, watermark: 5 minutes}
window: {time: 20 minutes}
queries:
  groups: {type: topk_groups, group: src, score: sum(bytes), carry: [distinct(dst), last(dst)], k: 50}
  others: {type: topk_groups, group: src, score: sum(bytes), carry: [count()], k: 3}
sink: {path: out}
"""
SKY = "  sky: {type: skyline, from: groups, dimensions: {groups_score: max, distinct_dst: max}}\n"


def plan_of(tmp_path: Path, more: str = "", text: str = SPEC) -> Plan:
    (tmp_path / "job.yaml").write_text(text.replace("sink:", f"{more}sink:"))
    return load_plan(str(tmp_path / "job.yaml"))


def test_entries_have_what_groups_carry(tmp_path: Path) -> None:
    plan, bare = plan_of(tmp_path, SKY), plan_of(tmp_path)
    (stream,) = plan.streams
    assert {f.name: f.type for f in stream.plan.intake.fields} == {
        "src": "string", "distinct_dst": "bigint", "last_dst": "string", "groups_score": "double", "groups_change": "string",
        "groups_cause": "string", "groups_at": "timestamp",
    }  # fmt: skip
    groups, others = plan.queries
    assert trajectory_schema(plan, groups).names == ["src", "distinct_dst", "last_dst", "valid_from", "score", "batch_id"]
    for made, query in ((plan, others), (bare, bare.queries[0])):
        assert trajectory_schema(made, query).names == ["src", "valid_from", "score", "batch_id"]


def test_only_the_query_that_is_taken_is_another_one(tmp_path: Path) -> None:
    queries, bare = (fingerprint(plan)["queries"] for plan in (plan_of(tmp_path, SKY), plan_of(tmp_path)))
    assert queries["groups"] == bare["groups"] | {"traces": ["distinct_dst", "last_dst"]}
    assert queries["others"] == bare["others"] and "traces" not in bare["groups"]
    members = plan_of(tmp_path, "  steady: {type: topk_loyalty, of: groups, k: 1, window: {time: 1 day}}\n")
    found = fingerprint(members)["queries"]
    assert {name: found[name] for name in bare} == bare


@pytest.mark.parametrize("more", [SKY, "  wide: {type: topk_groups, from: groups, group: src, score: max(distinct_dst), k: 1}\n"])
def test_with_boundaries_there_are_no_such_columns(tmp_path: Path, more: str) -> None:
    with pytest.raises(SpecErrors, match="distinct_dst") as found:
        plan_of(tmp_path, more, SPEC.replace("k: 50", "k: 50, every: 1 minute"))
    assert "leave out 'every' of 'groups'" in str(found.value)


def test_an_object_is_no_carried_value(tmp_path: Path) -> None:
    with pytest.raises(SpecErrors, match="last_dst"):
        plan_of(tmp_path, "  steady: {type: topk_loyalty, of: groups, object: last_dst, k: 1, window: {time: 1 day}}\n")
