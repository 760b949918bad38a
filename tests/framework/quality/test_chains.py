"""Checks and invariants of the tables of queries over queries."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from skyband.framework.plan.nodes import Check
from skyband.framework.quality.checks import Span, evaluate
from skyband.framework.quality.gate import broken
from skyband.framework.tables.results.invariants import broken_by_reports
from skyband.framework.tables.writing.factory import writer_for
from skyband.framework.tables.writing.sink import Sink
from tests.framework.verify import chained

NOT_NULL = "expect_column_values_to_not_be_null"


def test_tables_of_chained_queries_are_checked(tmp_path: Path) -> None:
    plan = chained.make(tmp_path / "job", chained.rows_of(1))
    checks = (
        Check("third_changes", NOT_NULL, '{"column": "score"}', "critical", "new"),
        Check("worst", NOT_NULL, '{"column": "best_cause"}', "critical"),
        Check("steady_now", "expect_table_row_count_to_be_between", '{"min_value": 0, "max_value": 2}', "critical"),
        Check("third", "expect_table_row_count_to_equal", '{"value": 0}', "warn"),
    )
    plan = replace(plan, checks=checks)
    sink = Sink(plan, writer_for(plan.sink), "g")
    found = [o for o, _ in evaluate(plan, sink.writer, Span(0, 5))]
    assert [(o.table, o.success, o.error) for o in found] == [
        ("third_changes", True, None), ("worst", True, None), ("steady_now", True, None), ("third", False, None),
    ]  # fmt: skip
    assert broken(sink, 5) == []
    wide = next(q for q in plan.every_query if q.name == "wide")
    assert list(broken_by_reports(plan, wide, sink.writer.read("wide_changes"))) == []
