"""Values that are missing, or are not what a run writes, are differences that ``verify`` tells, and end nothing."""

from __future__ import annotations

from typing import Any

import pytest

from skyband.framework.plan.model import Plan
from tests.framework.verify import small, test_corruptions

COLUMNS = {
    "best_changes": ["changed_at", "step", "pos", "change", "seq", "time", "score", "cause", "batch_id", "id", "grp"],
    "far5_changes": ["older_seq", "newer_time", "score"],
    "many_changes": ["query", "score", "step"],
    "best": ["score", "seq", "valid_from", "from_step", "is_current"],
    "best_now": ["rank", "score", "grp"],
    "rejected": ["reason", "batch_id"],
    "runs": ["batch_id", "rows_in", "rejected", "accepted", "pending", "pending_change", "changes"],
}


@pytest.fixture
def made() -> Plan:
    return test_corruptions.job("keyed")


@pytest.fixture
def plan(made: Plan) -> Plan:
    return small.copied(made)


def put(plan: Plan, table: str, column: str, value: Any) -> None:
    def change(rows: list[dict[str, Any]]) -> None:
        rows[len(rows) // 2][column] = value

    small.altered(plan, table, change)


@pytest.mark.parametrize(("table", "column"), [(t, c) for t, columns in COLUMNS.items() for c in columns])
def test_a_value_that_is_missing_is_a_difference(plan: Plan, table: str, column: str) -> None:
    put(plan, table, column, None)
    assert any(d.where == f"table {table}" and d.what == f"a value is missing: {column}" for d in small.of_tables(plan, "best"))


def test_a_query_that_the_spec_does_not_have_is_a_difference(plan: Plan) -> None:
    put(plan, "many_changes", "query", "nonsense")
    assert [d.text().splitlines()[0] for d in small.of_tables(plan, "many")] == ["table many_changes: the spec has no such query"]


@pytest.mark.parametrize("counters", ["nonsense", "[1]", '{"deleted": "x"}', '{"deleted": null}'])
def test_counters_that_are_none_are_a_difference(plan: Plan, counters: str) -> None:
    put(plan, "runs", "counters", counters)
    assert any("counters is not a JSON object of whole numbers" in d.what for d in small.of_tables(plan, "best"))
