"""What groups carry as columns of the stream that their result makes up."""

from __future__ import annotations

from pathlib import Path

import pytest

from skyband.framework.base.errors import SpecErrors
from skyband.framework.plan.fingerprint import compare, fingerprint
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
    groups, others = bare.queries
    assert trajectory_schema(bare, groups).names == ["src", "distinct_dst", "last_dst", "valid_from", "score", "batch_id"]
    assert trajectory_schema(bare, others).names == ["src", "count", "valid_from", "score", "batch_id"]


@pytest.mark.parametrize("every", ["", ", every: 1 minute"])
def test_who_takes_a_result_makes_no_difference_to_it(tmp_path: Path, every: str) -> None:
    text = SPEC.replace("k: 50", f"k: 50{every}")
    members = "  steady: {type: topk_loyalty, of: groups, k: 1, window: {time: 1 day}}\n"
    bare, *taken = (fingerprint(plan_of(tmp_path, more, text))["queries"] for more in ("", SKY, members))
    assert bare["groups"]["traces"] == ["distinct_dst", "last_dst"] and bare["others"]["traces"] == ["count"]
    assert all({name: found[name] for name in bare} == bare for found in taken)


def test_a_job_whose_trajectories_carry_nothing_has_to_be_rebuilt(tmp_path: Path) -> None:
    now = fingerprint(plan_of(tmp_path))
    former = {**now, "queries": {n: {k: v for k, v in q.items() if k != "traces"} for n, q in now["queries"].items()}}
    assert compare(former, now) == [
        f"queries.{name}.carry: a former version wrote no trajectories of what groups carry" for name in ("groups", "others")
    ]


def test_an_object_is_no_carried_value(tmp_path: Path) -> None:
    with pytest.raises(SpecErrors, match="last_dst"):
        plan_of(tmp_path, "  steady: {type: topk_loyalty, of: groups, object: last_dst, k: 1, window: {time: 1 day}}\n")
