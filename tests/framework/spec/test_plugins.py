"""Scoring functions and expectations of other packages: what a spec may say of them, and what becomes of it."""

from __future__ import annotations

import dataclasses
import itertools
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pytest

from skyband.framework.plan.compile import compile_job
from skyband.framework.plan.fingerprint import compare, fingerprint
from skyband.framework.plan.nodes import Check
from skyband.framework.quality import checks
from skyband.framework.quality.checks import Span, evaluate, uses_library
from skyband.framework.quality.expectations import OWN, Found
from skyband.framework.sources.files import spark_reader
from skyband.framework.sources.registry import SOURCES
from skyband.framework.spec.expressions.scoring_functions import SCORING_FUNCTIONS, ScoringFunction
from skyband.framework.spec.load import validate_text
from skyband.jobs.plugin_template.package.source import TSV
from tests.framework.quality.test_checks import NOT_NULL, made
from tests.specs import spec_text

SPEC = spec_text(
    "sensors",
    "{id: bigint, ts: timestamp, x: double, between: double, who: string}",
    window="{count: 100}",
    scoring={"apart": "{function: gap, columns: {value: x}, direction: max}"},
    queries={"q": "{type: topk_pairs, scoring: apart, k: 3}"},
)


class Sorted:
    """An expectation: the column's values do not fall."""

    arguments: ClassVar = {"column": "column", "by": "number"}

    def look(self, rows: pa.Table, arguments: Mapping[str, Any]) -> Found:
        if arguments.get("by") == 13:
            raise ValueError("unlucky")
        values = rows[arguments["column"]].to_pylist()
        falls = [b for a, b in itertools.pairwise(values) if b < a]
        return Found(not falls, len(values), len(falls), falls)


@pytest.fixture(autouse=True)
def installed() -> Iterator[None]:
    functions = SCORING_FUNCTIONS
    with (
        functions.added("gap", ScoringFunction("abs(a.$value - b.$value)")),
        functions.added("total", ScoringFunction("$x + 2 * ${y}")),
        OWN.added("expect_column_sorted", Sorted()),
    ):
        yield


def errors_of(text: str) -> list[str]:
    _, errors = validate_text(text, {}, "job.yaml")
    return [e.render() for e in errors]


@pytest.mark.parametrize(
    ("old", "function", "expression"),
    [
        ("topk_pairs", "{function: gap, columns: {value: x}}", "{expression: abs(a.x - b.x)}"),
        ("topk_pairs", "{function: gap, columns: {value: between}}", "{expression: abs(a.`between` - b.`between`)}"),
        ("topk", "{function: total, columns: {y: between}}", "{expression: x + 2 * `between`}"),
    ],
)
def test_a_function_is_the_expression_it_stands_for(old: str, function: str, expression: str) -> None:
    plans = []
    for scoring in (function, expression):
        text = SPEC.replace("{function: gap, columns: {value: x}, direction: max}", scoring).replace("topk_pairs", old)
        job, errors = validate_text(text, {})
        assert job is not None, [e.render() for e in errors]
        plans.append(compile_job(job))
    assert plans[0].operators == plans[1].operators


def test_a_state_knows_when_a_package_has_changed_its_function() -> None:
    plans = []
    for expression in ("abs(a.$size - b.$size)", "abs( a.$size - b.$size )", "a.$size * b.$size"):
        with SCORING_FUNCTIONS.added("volatile", ScoringFunction(expression)):
            job, errors = validate_text(SPEC.replace("{function: gap, columns: {value: x}", "{function: volatile, columns: {size: x}"), {})
            assert job is not None, [e.render() for e in errors]
            plans.append(fingerprint(compile_job(job)))
    assert compare(plans[0], plans[1]) == []
    (told,) = compare(plans[0], plans[2])
    assert told.startswith("queries.q.scoring ")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("function: gap", "function: gapp", "job.yaml:10:21 SKY-E121 no scoring function 'gapp' is installed"),
        ("{value: x}", "{valu: x}", "SKY-E110 gap has no parameter 'valu'"),
        ("{value: x}", "{value: xx}", "SKY-E120 unknown column 'xx'"),
        (", columns: {value: x}", "", "SKY-E120 unknown column 'value'"),
        ("{value: x}", "{value: who}", "SKY-E130"),
        ("topk_pairs", "topk", "SKY-E130"),
        ("function: gap,", "function: gap, expression: x,", "unknown field 'expression'"),
        ("{value: x}", '{value: "x) + abs(a.x"}', "SKY-E"),
    ],
)
def test_mistakes_are_told_at_their_place(old: str, new: str, said: str) -> None:
    assert SPEC.count(old) >= 1
    assert any(said in e for e in errors_of(SPEC.replace(old, new, 1))), errors_of(SPEC.replace(old, new, 1))


def test_the_engine_reads_a_format_of_another_name_by_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    for name in ("files", "listed", "unreadable"):
        monkeypatch.setattr(spark_reader, name, lambda spark, source, *_, **__: asked.append(source.format))
    with SOURCES.added("tsv", TSV):
        job, errors = validate_text(SPEC.replace("format: csv", "format: tsv"), {})
        assert job is not None, [e.render() for e in errors]
        source = compile_job(job).source
    assert source.format == "tsv"
    spark: Any = None
    TSV.stream(spark, source, None)
    TSV.again(spark, source, None, tmp_path / "checkpoint")
    lying: Any = TSV.backlog(source, None, tmp_path)
    lying.listed(spark)
    watch: Any = TSV.watch(source, None, tmp_path)
    watch.probe(spark, "file:///x")
    assert asked == ["csv"] * 4


@pytest.mark.parametrize("expression", ["x + y", "abs($ - 1)", "${x", "$x + $1"])
def test_what_is_no_expression_with_places_is_no_function(expression: str) -> None:
    with pytest.raises(ValueError, match="not an expression with parameters"):
        ScoringFunction(expression)


def test_an_expectation_is_named_and_checked_like_the_librarys() -> None:
    quality = "quality: {tables: [{table: q, expectation: expect_column_sorted, column: score, by: 1, severity: warning}]}\nwindow"
    text = SPEC.replace("window", quality, 1)
    job, errors = validate_text(text, {})
    assert job is not None, [e.render() for e in errors]
    (check,) = compile_job(job).checks
    assert (check.expectation, check.severity) == ("expect_column_sorted", "warning") and not uses_library(check)
    for old, new, said in (
        ("expect_column_sorted", "expect_column_sortd", "did you mean 'expect_column_sorted'?"),
        ("by: 1", "by: one", "SKY-E112 by takes a number"),
        ("by: 1", "with: 1", "SKY-E110 expect_column_sorted takes no 'with'"),
        ("column: score", "column: scores", "SKY-E120 the table has no column 'scores'"),
    ):
        assert any(said in e for e in errors_of(text.replace(old, new, 1))), said


def sorted_check(**arguments: Any) -> Check:
    return Check("near", "expect_column_sorted", json.dumps(arguments), "critical")


def test_what_it_finds_is_a_check_like_any_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the library, if no check asks it."""
    monkeypatch.setattr(checks, "import_gx", lambda: 1 / 0)
    sink = made(tmp_path, sorted_check(column="from_step"), sorted_check(column="score", row_condition="score > 1e9"), sorted_check(by=13))
    steps = sink.writer.read("near", ["from_step"])["from_step"].to_pylist()
    falls = sum(b < a for a, b in itertools.pairwise(steps))
    first, none, broken = [o for o, _ in evaluate(sink.plan, sink.writer, Span(0, 1))]
    assert (first.success, first.observed, first.rows, first.unexpected) == (falls == 0, len(steps), len(steps), falls)
    assert (none.success, none.rows) == (True, 0)
    assert (broken.success, broken.error) == (False, "ValueError: unlucky")


@pytest.mark.long
def test_it_stands_beside_the_librarys(tmp_path: Path) -> None:
    sink = made(tmp_path, NOT_NULL, sorted_check(column="from_step"))
    assert [o.expectation for o, _ in evaluate(sink.plan, sink.writer, Span(0, 1))] == [NOT_NULL.expectation, "expect_column_sorted"]


def test_a_plan_made_elsewhere_hands_over_checked_values_only(tmp_path: Path) -> None:
    sink = made(tmp_path, sorted_check(column=["score"]), sorted_check(column="score", code="x"))
    outcomes = [o for o, _ in evaluate(sink.plan, sink.writer, Span(0, 1))]
    assert [o.error for o in outcomes] == [
        "takes text of at most 1,000 characters",
        "expect_column_sorted has no argument 'code' that Skyband passes on",
    ]
    gone = dataclasses.replace(sink.plan, checks=(Check("near", "expect_gone", "{}", "critical"),))
    assert [o.error for o, _ in evaluate(gone, sink.writer, Span(0, 1))] == ["Great Expectations has no expect_gone"]
