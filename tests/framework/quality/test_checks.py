"""Expectations run on the job's tables once per run, quietly, and whatever one of them does."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from pathlib import Path

import pytest

from skyband.framework.console.lines import Lines
from skyband.framework.plan.model import Plan
from skyband.framework.plan.nodes import Check
from skyband.framework.quality.checks import expectation_class, import_gx
from skyband.framework.quality.gate import Gate
from skyband.framework.tables.results.derive import derive
from skyband.framework.tables.writing.driver_writer import DriverWriter
from skyband.framework.tables.writing.sink import Sink
from tests.framework.tables.plans import make_plan, random_changes
from tests.framework.tables.writing.test_sink import commit


def run_checks(plan: Plan, sink: Sink) -> int:
    """The gate of a run that had no batch, or told elsewhere what it rejected."""
    return Gate(plan, Lines()).look(sink, None)


def made(directory: Path, *checks: Check) -> Sink:
    plan = make_plan(str(directory), ("grp",), checks=checks)
    sink = Sink(plan, DriverWriter(directory), "g")
    sink.ensure_all()
    changes = random_changes(plan, seed=2, batches=2, steps=30)
    for n in range(2):
        commit(sink, changes, n)
    derive(sink, 1)
    return sink


NOT_NULL = Check("near", "expect_column_values_to_not_be_null", '{"column": "score"}', "critical")
ROWS = Check("near", "expect_table_row_count_to_be_between", '{"min_value": 1}', "critical")
PRICE = Check("near", "expect_column_values_to_not_be_null", '{"column": "older_price"}', "warning")


@pytest.mark.long
def test_changed_checks_are_evaluated_although_no_batch_came(tmp_path: Path) -> None:
    sink = made(tmp_path, NOT_NULL)
    assert run_checks(sink.plan, sink) == 0
    sink.plan = dataclasses.replace(sink.plan, checks=(NOT_NULL, ROWS))
    assert run_checks(sink.plan, sink) == 0
    assert sorted(sink.writer.read("checks")["expectation"].to_pylist()) == sorted(
        [NOT_NULL.expectation, NOT_NULL.expectation, ROWS.expectation]
    )


@pytest.mark.long
def test_results_are_recorded_once_per_run(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    sink = made(tmp_path, NOT_NULL, ROWS, PRICE)
    assert run_checks(sink.plan, sink) == 0
    assert run_checks(sink.plan, sink) == 0
    rows = sink.writer.read("checks").to_pylist()
    assert [(r["run_id"][:4], r["table_name"], r["severity"], r["success"]) for r in rows] == [
        ("g-1-", "near", "critical", True),
        ("g-1-", "near", "critical", True),
        ("g-1-", "near", "warning", False),
    ]
    assert len({r["run_id"] for r in rows}) == 1
    n = sink.writer.read("near").num_rows
    assert rows[0]["rows_checked"] == n and rows[0]["unexpected"] == 0
    assert json.loads(rows[1]["observed"]) == n
    assert rows[2]["unexpected"] == sink.writer.read("near")["older_price"].null_count > 0
    out, err = capfd.readouterr()
    assert out == ""
    told = [line for line in err.splitlines() if line]
    assert [line.split()[0] for line in told] == ["SKY-E500", "quality:"] * 2 and all("warning" in line for line in told[::2])
    assert all("3 checks in " in line and "1 failed; the results up to batch 1 are published" in line for line in told[1::2])


@pytest.mark.long
def test_a_critical_failure_and_checks_that_cannot_run_fail_the_run(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    sink = made(
        tmp_path,
        Check("near", "expect_table_row_count_to_equal", '{"value": -1}', "critical"),
        Check("near", "expect_column_values_to_not_be_null", '{"column": "nowhere"}', "info"),
        Check("near", "expect_wonders", "{}", "info"),
        Check("near", "expect_column_values_to_not_be_null", '{"colum": "score"}', "info"),
        Check("heads", "expect_column_values_to_be_unique", '{"column": "grp"}', "critical"),
    )
    assert run_checks(sink.plan, sink) == 1
    rows = sink.writer.read("checks").to_pylist()
    assert [r["success"] for r in rows] == [False, False, False, False, True]
    assert "nowhere" in rows[1]["error"]
    assert "expect_wonders" in rows[2]["error"]
    assert rows[3]["error"] is not None
    assert "SKY-E500 critical check failed on table near: expect_table_row_count_to_equal" in capfd.readouterr().err


@pytest.mark.long
def test_without_checks_great_expectations_is_not_imported(tmp_path: Path) -> None:
    code = "import sys, skyband.framework.quality.checks\nprint([m for m in ('great_expectations', 'pyspark') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.long
def test_expectations_are_found_by_their_own_names() -> None:
    gx = import_gx()
    assert expectation_class(gx, "expect_column_values_to_be_between") is gx.expectations.ExpectColumnValuesToBeBetween
    assert expectation_class(gx, "expect_nothing") is None


@pytest.mark.long
def test_arguments_from_the_environment_are_stored_as_the_spec_writes_them(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    check = Check("near", "expect_column_values_to_be_in_set", '{"column":"grp","value_set":["hunter2",1]}', "warning")
    sink = made(tmp_path, check)
    sink.plan = dataclasses.replace(sink.plan, variables=((("quality", "tables", 0, "value_set", 0), "x${S}"),))
    assert run_checks(sink.plan, sink) == 0
    row = sink.writer.read("checks").to_pylist()[0]
    assert row["arguments"] == '{"column":"grp","value_set":["x${S}",1]}' and not row["success"]
    sink.plan = dataclasses.replace(sink.plan, variables=())
    assert run_checks(sink.plan, sink) == 0
    # Neither can the value be looked up by the name of the run.
    assert len(set(sink.writer.read("checks")["run_id"].to_pylist())) == 2
    assert '["x${S}",1]' in capfd.readouterr().err
