"""Column lineage by its definition: what a column does not come from changes nothing of it, and what it comes from is in a source."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest

from skyband.framework.lookups.in_memory import read_tables
from skyband.framework.observe.lineage.table_columns import InputColumn, TableLineage, input_tables, table_lineage
from skyband.framework.plan.model import Plan
from skyband.framework.rehearsal.rehearsal import Rehearsal
from skyband.framework.tables.schemas import batch_tables
from tests.framework.observe.lineage.jobs import NOISE, plans, rows_of, value
from tests.specs import plan_of_text, spec_text

ABOUT_THE_JOB = {"runs", "checks", "published"}
OWN = {
    "query", "step", "pos", "change", "cause", "batch_id", "rank", "bucket", "from_step", "to_step", "is_current", "last_seq", "reason",
    "origin", "newer", "pred",
}  # fmt: skip
"""Columns that Skyband makes itself, beside positions (``seq``)."""
OF_NO_COLUMN = {
    ("topk_groups", "score"), ("topk_groups", "count"), ("kafka", "topic_partition"), ("kafka", "topic_offset"), ("several", "source"),
    ("several", "a_source"), ("several", "b_source"),
    ("chains", "score"), ("chains", "best_cause"),
}  # fmt: skip
"""(job, column) of user's columns that count rows, or say which source or record a row is."""


@pytest.fixture(scope="module")
def jobs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Plan]:
    return plans(tmp_path_factory.mktemp("jobs"))


def own(column: str) -> bool:
    return column in OWN or column == "seq" or column.endswith(("_seq",))


def test_every_column_of_every_table_has_an_origin_or_is_skybands_own(jobs: dict[str, Plan]) -> None:
    for job, plan in jobs.items():
        found = table_lineage(plan)
        assert [t.name for t in batch_tables(plan) if t.name not in found] == ["checks", "published", "runs"], job
        known = {InputColumn(table, str(f.source_name)) for table, one in input_tables(plan).items() for f in one.fields}
        for table in batch_tables(plan):
            if table.name in ABOUT_THE_JOB:
                continue
            lineage = found[table.name]
            assert list(lineage.columns) == table.schema.names, (job, table.name)
            without = {c for c, origin in lineage.columns.items() if not origin.direct and not own(c)}
            assert {(job, c) for c in without} <= OF_NO_COLUMN, (job, table.name)
            assert not [c for c, origin in lineage.columns.items() if origin.direct and own(c)], (job, table.name)
            named = {c for origin in lineage.columns.values() for c in (*origin.direct, *origin.indirect)} | set(lineage.rows)
            assert named and named <= known, (job, table.name, named - known)


def test_the_columns_of_a_chain_are_those_of_the_source(jobs: dict[str, Plan]) -> None:
    third = table_lineage(jobs["chains"])["third_changes"]
    assert third.columns["score"].direct == {InputColumn("", "x"): "TRANSFORMATION"}
    assert third.columns["id"].direct == {InputColumn("", "id"): "IDENTITY"}
    wide = table_lineage(jobs["chains"])["widest_changes"]
    assert wide.columns["distinct_y"].direct == {InputColumn("", "y"): "AGGREGATION"}
    assert wide.rows[InputColumn("", "side")] >= {"GROUP_BY"}


def test_steps_and_look_ups_are_followed(jobs: dict[str, Plan]) -> None:
    steps = table_lineage(jobs["steps"])["best"]
    assert steps.columns["area"].direct == {InputColumn("", "CITY"): "TRANSFORMATION"}
    assert steps.columns["city"].direct == {InputColumn("", "CITY"): "IDENTITY"}
    assert steps.columns["score"].direct == dict.fromkeys([InputColumn("", "x"), InputColumn("", "z")], "TRANSFORMATION")
    assert steps.rows[InputColumn("", "w")] == {"FILTER"} and steps.rows[InputColumn("", "y")] == {"FILTER", "SORT"}
    looked = table_lineage(jobs["looked"])["best"]
    tier, host = InputColumn("lookups.site", "tier"), InputColumn("", "host")
    assert looked.columns["score"].direct == dict.fromkeys([InputColumn("", "x"), tier], "TRANSFORMATION")
    assert looked.columns["region"].direct == {InputColumn("lookups.site", "REGION"): "IDENTITY"}
    assert looked.columns["region"].indirect == dict.fromkeys([host, InputColumn("lookups.site", "host")], frozenset({"JOIN"}))
    assert looked.rows[host] == {"JOIN"} and host not in table_lineage(jobs["looked"])["plain"].rows


def test_sources_of_a_stream_are_kept_apart(jobs: dict[str, Plan]) -> None:
    high = table_lineage(jobs["several"])["high"]
    assert set(high.columns["score"].direct) == {InputColumn("asks", "price"), InputColumn("bids", "bid.price")}
    assert set(table_lineage(jobs["several"])["deep"].columns["depth"].direct) == {InputColumn("bids", "depth")}


def tables_of(plan: Plan, rows: list[dict[str, Any]]) -> dict[str, pa.Table]:
    job = Rehearsal(plan, read_tables(plan))
    job.drop(rows)
    job.finish()
    return {name: table.to_pydict() for name, table in job.tables().items() if name not in (*ABOUT_THE_JOB, "job_runs")}


def may_change(lineage: TableLineage, column: str, changed: InputColumn) -> bool:
    origin = lineage.columns[column]
    return changed in lineage.rows or changed in origin.direct or changed in origin.indirect


JOBS = (
    "matches", "similar_sets", "skyline", "threshold", "threshold_groups", "threshold_loyalty", "threshold_pairs", "topk", "topk_groups",
    "topk_loyalty", "topk_pairs", "topk_similar_sets", "steps", "statistics", "corrected", "families", "looked", "chains",
    "several",
)  # fmt: skip


@pytest.mark.parametrize("name", JOBS)
def test_a_column_that_is_not_named_changes_nothing(jobs: dict[str, Plan], name: str) -> None:
    plan = jobs[name]
    lineage = table_lineage(plan)
    rng = random.Random(name)
    rows = rows_of(plan, rng)
    before = tables_of(plan, rows)
    assert sum(len(table["step"]) for table in before.values() if "step" in table) > 10
    looked_at = 0
    for source, f in ((source, f) for source, part in plan.source.each for f in part.fields):
        changed = InputColumn(source, str(f.source_name))
        fixed = {n: [c for c in one.columns if not may_change(one, c, changed)] for n, one in lineage.items() if n in before}
        if not any(set(columns) - OWN for columns in fixed.values()):
            continue
        after = tables_of(plan, [row | {f.name: value(f, rng)} if row.get("source", "") == source else row for row in rows])
        for table, columns in fixed.items():
            for column in columns:
                assert after[table][column] == before[table][column], (changed, table, column)
        looked_at += 1
        # What is only carried does change: it is not named for nothing.
        for table, one in lineage.items():
            for column, origin in one.columns.items():
                if table in before and changed in origin.direct and changed not in one.rows and len(before[table][column]) > 10:
                    assert after[table][column] != before[table][column], (changed, table, column)
    assert looked_at > 0 or NOISE not in {f.name for f in plan.source.fields}


def test_a_wrong_lineage_would_be_seen() -> None:
    """The test above, of a lineage that lacks what a filter reads."""
    plan = plan_of_text(
        spec_text(
            "small", "{id: bigint, ts: timestamp, x: double, y: double}", transform=['where: "y > 0"'], window="{count: 20}",
            scoring={"x": "{expression: x}"}, queries={"best": "{type: topk, scoring: x, k: 3}"},
        )
    )  # fmt: skip
    changed = InputColumn("", "y")
    assert table_lineage(plan)["best"].rows[changed] == {"FILTER"}
    rng = random.Random(1)
    rows = rows_of(plan, rng)
    other = [row | {"y": value(plan.source.fields[3], rng)} for row in rows]
    assert tables_of(plan, rows)["best"]["score"] != tables_of(plan, other)["best"]["score"]
