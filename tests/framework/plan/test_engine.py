"""Which jobs this process can run without Spark, and what a spec, explain and a run say of others."""

from __future__ import annotations

import pytest

from skyband.framework.base.errors import SkybandError
from skyband.framework.plan.engine import require_local_engine, why_not_local
from skyband.framework.plan.explain import explain
from skyband.framework.plan.reader import why_not_by_arrow, why_spark_reads
from skyband.framework.spec.load import validate_text
from tests.framework.plan.test_reader import SPEC
from tests.specs import plan_of_text

RULE = 'quality:\n  rows: [{name: low, expect: "x < 9"}]\nwindow:'
FILTER = 'transform:\n  - {where: "x > 1"}\nwindow:'
FILTERS = 'transform:\n  - {where: "x > 1"}\n  - {derive: {z: "x + 1"}}\n  - {where: "hash(z) > 1"}\nwindow:'
DERIVED = 'transform:\n  - {derive: {z: "x + 1"}}\nwindow:'


@pytest.mark.parametrize(("more", "spark"), [(RULE, "quality.rows"), (FILTER, "a filter"), (DERIVED, "a derived column")])
def test_sql_with_a_translation_runs_without_spark(more: str, spark: str) -> None:
    text = SPEC.replace("window:", more, 1)
    plan = plan_of_text(text)
    assert why_not_local(plan) is None and why_not_by_arrow(plan.source, plan.intake) is None
    assert "  engine    spark; local can run it, too\n" in explain(plan)
    # Spark evaluates the SQL of its own jobs, over rows that it has read.
    assert why_spark_reads(plan.source, plan.intake) == spark
    assert f"         read by Spark, not by Arrow: {spark}\n" in explain(plan)
    local = plan_of_text(text + "run: {engine: local}\n")
    assert "         read by Arrow\n" in explain(local) and "  engine    local: " in explain(local)


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("window:", RULE.replace("x < 9", "sin(x) < 0.5"), "row rule low uses sin(), which is not evaluated without Spark"),
        ("window:", FILTERS, "filter 2 of transform uses hash(), which is not evaluated without Spark"),
        ("window:", DERIVED.replace("x + 1", "exp(x)"), "derived column z uses exp(), which is not evaluated without Spark"),
        (
            "window:",
            FILTER.replace("window:", '  - {derive: {z: {sql: "cast(x as float)", type: float}, y: "string(z)"}}\nwindow:'),
            "derived column y uses a cast of float to string, which is not evaluated without Spark",
        ),
        (
            "window:",
            DERIVED.replace('"x + 1"', '{sql: "from_json(string(id), \'array<double>\')", type: "array<double>"}'),
            "derived column z uses from_json(), which is not evaluated without Spark",
        ),
        (
            "format: parquet",
            "format: delta\n  options: {startingTimestamp: '2020-01-01'}",
            "only Spark reads its source: option startingTimestamp",
        ),
    ],
)  # fmt: skip
def test_what_only_spark_can_run_is_named(old: str, new: str, why: str) -> None:
    text = SPEC.replace(old, new, 1)
    plan = plan_of_text(text)
    assert why_not_local(plan) == why
    assert f"  engine    spark; local cannot run it, as {why}\n" in explain(plan)
    with pytest.raises(SkybandError) as e:
        require_local_engine(plan)
    assert (e.value.code, e.value.message) == ("SKY-E137", f"the local engine cannot run this job: {why}")
    assert "--engine spark" in (e.value.hint or "")
    _, errors = validate_text(text + "run: {engine: local}\n", {})
    line = len(text.splitlines()) + 1
    assert [(x.code, x.message) for x in errors] == [("SKY-E137", e.value.message)]
    assert errors[0].where is not None and (errors[0].where.line, errors[0].where.text) == (line, "run: {engine: local}")
    assert "engine: spark" in (errors[0].hint or "")


def test_sql_needs_duckdb(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("skyband.framework.base.extras.find_spec", lambda name: None)
    assert why_not_local(plan_of_text(SPEC)) is None
    why = why_not_local(plan_of_text(SPEC.replace("window:", RULE, 1)))
    assert why == "row rule low is evaluated without Spark only with DuckDB, which is not installed"


def test_a_decimal_may_be_derived_where_it_cannot_be_read() -> None:
    text = SPEC.replace("format: parquet", "format: csv").replace(
        "window:", DERIVED.replace('"x + 1"', '{sql: "cast(x as decimal(9,2))", type: "decimal(9,2)"}'), 1
    )
    assert why_not_local(plan_of_text(text)) is None
    assert (
        why_not_local(plan_of_text(text.replace("id: [id]", "id: [z]"))) == "only Spark reads its source: an id or key of type decimal(9,2)"
    )


def test_a_delta_table_is_read_by_the_local_engine_and_its_changes_are_not() -> None:
    text = SPEC.replace("format: parquet", "format: delta")
    plan = plan_of_text(text)
    assert why_not_local(plan) is None and why_not_by_arrow(plan.source, plan.intake) == "the format is delta"
    assert "  engine    spark; local can run it, too\n" in explain(plan)
    assert "         read by Arrow\n" in explain(plan_of_text(text + "run: {engine: local}\n"))
    changes = text.replace("format: delta", 'format: delta\n  options: {changes: "true"}').replace(
        "x: double", "x: double, op: {type: string, from: $change}"
    )
    changes = changes.replace("event_time: {column: ts}", "event_time: {column: ts, tie_break: [op]}").replace(
        "window:", "deletes: op = 'delete'\nwindow:", 1
    )
    assert why_not_local(plan_of_text(changes)) == "only Spark reads its source: option changes"


def test_a_list_may_be_derived_where_it_cannot_be_read() -> None:
    derived = DERIVED.replace('"x + 1"', '{sql: "split(string(id), \',\')", type: "array<string>"}')
    assert why_not_local(plan_of_text(SPEC.replace("format: parquet", "format: csv").replace("window:", derived, 1))) is None
