"""What of ``quality.tables`` reaches Great Expectations: names and typed values of a list, nothing else."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

from skyband.framework.base.table_names import JOB_RUNS
from skyband.framework.plan.compile import compile_job
from skyband.framework.plan.nodes import Check
from skyband.framework.quality.checks import Span, evaluate, expectation_class, import_gx, rows_where
from skyband.framework.quality.expectations import EXPECTATIONS, Wrong, arguments
from skyband.framework.spec.load import validate_text
from skyband.framework.tables.schemas import tables
from tests.framework.quality.test_checks import made
from tests.framework.spec.examples import ENV, OTHERS, SENSORS, other

GOOD = "{table: anomalies, expectation: expect_column_values_to_not_be_null, column: score, severity: critical}"


def found(check: str) -> list[tuple[str, str]]:
    assert GOOD in SENSORS
    _, errors = validate_text(SENSORS.replace(GOOD, check), ENV)
    assert all(e.where is not None and e.where.line == 17 for e in errors), errors
    return [(e.code, e.message) for e in errors]


def check(expectation: str, arguments: str) -> str:
    return f"{{table: anomalies, expectation: {expectation}, {arguments}}}"


NOT_NULL = "expect_column_values_to_not_be_null"


@pytest.mark.parametrize(
    "spec, code",
    [
        (check(NOT_NULL, "column: score, row_condition: \"@pd.io.common.os.system('id') == 0\", condition_parser: pandas"), "SKY-E110"),
        (check(NOT_NULL, "column: score, row_condition: \"@pd.io.common.os.system('id') == 0\""), "SKY-E130"),
        (check(NOT_NULL, "column: score, row_condition: \"score.to_csv('/tmp/x') == 0\""), "SKY-E130"),
        (check(NOT_NULL, "column: score, row_condition: {type: x}"), "SKY-E112"),
        (check(NOT_NULL, "column: score, condition_parser: spark"), "SKY-E110"),
        (check(NOT_NULL, "column: score, colum: score"), "SKY-E110"),
        (check(NOT_NULL, "column: {$PARAMETER: x}"), "SKY-E112"),
        (check(NOT_NULL, "column: scor"), "SKY-E120"),
        (check(NOT_NULL, "column: score, mostly: 2"), "SKY-E112"),
        (check(NOT_NULL, "column: score, result_format: {include_unexpected_rows: true}"), "SKY-E110"),
        (check(NOT_NULL, "column: score, meta: {x: y}"), "SKY-E110"),
        (check("expect_column_values_to_not_be_nul", "column: score"), "SKY-E113"),
        (check("expect_query_results_to_match_comparison", "base_query: select 1"), "SKY-E113"),
        (check("expect_column_values_to_match_json_schema", "column: score, json_schema: {$ref: 'file:///etc/passwd'}"), "SKY-E113"),
        (check("expect_column_values_to_match_regex", "column: score, regex: '(a+)+$'"), "SKY-E112"),
        (check("expect_column_values_to_match_regex", "column: score, regex: '(a|aa)*b'"), "SKY-E112"),
        (check("expect_column_values_to_match_regex", "column: score, regex: '((a+)b?)*$'"), "SKY-E112"),
        (check("expect_column_values_to_match_regex", "column: score, regex: '(a)\\1'"), "SKY-E112"),
        (check("expect_column_values_to_match_regex", "column: score, regex: '(a'"), "SKY-E112"),
        (check("expect_column_values_to_match_regex", "column: score, regex: " + "a" * 300), "SKY-E112"),
        (check("expect_column_values_to_be_of_type", "column: score, type_: '__import__(1)'"), "SKY-E112"),
        (check("expect_column_values_to_be_in_set", "column: score, value_set: [{a: 1}]"), "SKY-E112"),
    ],
)  # fmt: skip
def test_what_is_not_on_the_list_is_refused_at_its_place(spec: str, code: str) -> None:
    assert {c for c, _ in found(spec)} == {code}


@pytest.mark.parametrize(
    "spec",
    [
        check(NOT_NULL, "column: score, mostly: 0.9, row_condition: \"score > 3 and older_sensor <> 'x'\""),
        check("expect_column_values_to_be_between", "column: score, min_value: 0, strict_min: true"),
        check("expect_column_values_to_match_regex", "column: older_sensor, regex: '^[a-z]+[0-9]*$'"),
        check("expect_compound_columns_to_be_unique", "column_list: [older_sensor, newer_sensor, valid_from]"),
        check("expect_table_row_count_to_be_between", "min_value: 1"),
    ],
)
def test_what_is_on_the_list_is_taken(spec: str) -> None:
    assert found(spec) == []


@pytest.mark.parametrize("query_type", [None, *OTHERS])
def test_columns_of_tables_are_those_of_the_plan(query_type: str | None) -> None:
    """A column that is there is taken, one that is not is told, for every table of every type."""
    text = SENSORS if query_type is None else other(query_type)
    job, _ = validate_text(text, ENV)
    assert job is not None
    for table in tables(compile_job(job)):
        if table.name == JOB_RUNS:
            continue  # of no batch: there is nothing to check in it
        named = [f"    - {{table: {table.name}, expectation: {NOT_NULL}, column: {c}}}" for c in [*table.schema.names, "nowhere"]]
        rules = "quality:\n  tables:\n" + "\n".join(named) + "\n"
        old, new = (f"    - {GOOD}", "\n".join(named)) if query_type is None else ("window: {time", rules + "window: {time")
        whole = text.replace(old, new)
        _, errors = validate_text(whole, ENV)
        assert [(e.code, e.message) for e in errors] == [("SKY-E120", "the table has no column 'nowhere'")], table.name


def test_everything_is_rebuilt() -> None:
    assert arguments(NOT_NULL, {"column": "x", "row_condition": "y > 1", "mostly": 1}) == {"column": "x", "mostly": 1.0}
    for bad in ({"condition_parser": "pandas"}, {"column": ["x"]}, {"column": {"$PARAMETER": "x"}}):
        with pytest.raises(Wrong):
            arguments(NOT_NULL, bad)


@pytest.mark.long
def test_the_library_has_every_expectation_and_argument_of_the_list() -> None:
    gx = import_gx()
    for name, takes in EXPECTATIONS.items():
        fields = expectation_class(gx, name).__fields__
        assert set(takes) <= set(fields), name


@pytest.mark.long
def test_a_plan_made_elsewhere_runs_no_code_either(tmp_path: Path) -> None:
    """Even past ``validate``: what stands in a plan is read by the same list, and rows are chosen by Skyband's own predicate."""
    canary = tmp_path / "canary"
    attack = {"column": "score", "row_condition": f"@pd.io.common.os.system('touch {canary}') == 0", "condition_parser": "pandas"}
    sink = made(
        tmp_path / "out",
        Check("near", NOT_NULL, json.dumps(attack), "critical"),
        Check("near", NOT_NULL, json.dumps({k: v for k, v in attack.items() if k != "condition_parser"}), "critical"),
        Check("near", NOT_NULL, '{"column": "older_price", "row_condition": "older_price >= 0"}', "critical"),
        Check("near", "expect_table_row_count_to_equal", '{"value": 0, "row_condition": "grp = \'nobody\'"}', "critical"),
    )
    rows = [o for o, _ in evaluate(sink.plan, sink.writer, Span(0, 1))]
    assert [r.success for r in rows] == [False, False, True, True]
    assert not canary.exists()


def test_the_number_that_stands_for_null_inside_is_no_null_in_a_condition() -> None:
    least = -(2**63)
    rows = pa.table({"n": pa.array([least, None, 5, least], pa.int64()), "x": [1.0, 1.0, None, None], "s": ["a", "a", "a", "b"]})
    for condition, places in [
        ("n is null", [1]), ("n < 0", [0, 3]), ("n is not null and x > 0", [0]), ("n <> 5 or s = 'b'", [0, 3]), ("x is null", [2, 3]),
    ]:  # fmt: skip
        assert rows_where(rows, condition).equals(rows.take(places)), condition
