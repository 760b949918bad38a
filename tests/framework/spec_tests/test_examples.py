"""The examples in ``specs/`` carry tests, which pass without Spark and through it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from skyband.framework.base.errors import SpecErrors
from skyband.framework.spec.models.job import SpecTest
from skyband.framework.spec_tests import by_spark, in_memory
from skyband.framework.spec_tests.loading import load_tests
from skyband.framework.spec_tests.tables import compare_tables
from tests.conftest import ROOT
from tests.framework.spec_tests.small import SMALL, test_command

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SPECS = sorted((ROOT / "specs").glob("*.yaml"))


def carried(path: str) -> tuple[SpecTest, ...]:
    job = load_tests(path)[0].job
    assert job is not None
    return job.tests


@pytest.mark.parametrize("path", SPECS, ids=lambda p: p.stem)
def test_every_example_carries_tests_that_expect_something_of_every_query(path) -> None:
    _, plan = load_tests(str(path))
    tests = carried(str(path))
    expected = {table for test in tests for table, rows in test.expect.items() if rows}
    silent = {"mostly_late", "fastest", "watch"}  # two days on; a boundary after a day; forty queries
    assert {q.name for q in plan.queries if not {q.name, f"{q.name}_changes", f"{q.name}_now"} & expected} <= silent


@pytest.mark.parametrize("path", SPECS, ids=lambda p: p.stem)
def test_they_pass_without_the_engine(path) -> None:
    _, plan = load_tests(str(path))
    for test in carried(str(path)):
        assert compare_tables(plan, test, in_memory.tables_of(plan, test)) == [], test.name


def test_the_one_of_the_page_for_authors_passes(tmp_path) -> None:
    page = (ROOT / "docs" / "how-to" / "test-a-spec.md").read_text(encoding="utf-8")
    text = page.split("## Test it\n", 1)[1].split("```yaml\n", 1)[1].split("```", 1)[0]
    flights = (ROOT / "specs" / "flights.yaml").read_text(encoding="utf-8")
    spec = tmp_path / "job.yaml"
    spec.write_text(flights.split("\ntests:\n", 1)[0] + "\n" + text)
    (test,) = carried(str(spec))
    _, plan = load_tests(str(spec))
    assert compare_tables(plan, test, in_memory.tables_of(plan, test)) == []


WHERE = """\
job: book
source: {id: [id], event_time: {column: at}}
sources:
  asks: {format: csv, path: "${NOT_SET}/asks", options: {sep: "${NOT_SET}"}, schema: {id: bigint, at: timestamp, host: string, x: double}}
  bids: {format: json, path: "${NOT_SET}/bids", schema: {id: bigint, at: timestamp, host: string, x: double}}
lookups:
  site:
    format: csv
    path: "${NOT_SET}/sites"
    options: {sep: "${NOT_SET}"}
    schema: {host: string, zone: string}
    match: {host: host}
    take: [zone]
window: {count: 4}
scoring: {x: {expression: x, direction: max}}
queries: {best: {type: topk, scoring: x, k: 2, where: "zone <> '${WHICH}'"}}
sink: {path: "${NOT_SET}/out"}
tests:
  - name: own
    lookups: {site: [{host: a, zone: far}]}
    rows: [{source: asks, id: 1, at: 2024-01-01, host: a, x: 1}]
    expect: {best_now: [{id: 1}]}
"""


def test_variables_of_where_rows_and_tables_are_need_not_be_set(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = tmp_path / "job.yaml"
    spec.write_text(WHERE)
    with pytest.raises(SpecErrors) as e:
        load_tests(str(spec))
    assert any("WHICH" in error.message for error in e.value.errors)
    monkeypatch.setenv("WHICH", "near")
    _, plan = load_tests(str(spec))
    (test,) = carried(str(spec))
    assert compare_tables(plan, test, in_memory.tables_of(plan, test)) == []


PAIRS = [
    text for text in re.findall(r"```yaml\n(.*?)```", (ROOT / "docs/how-to/pairs.md").read_text(encoding="utf-8"), re.S) if "tests:" in text
]


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize("text", PAIRS, ids=lambda text: re.search(r"job: (.*)", text)[1])
def test_the_cases_of_the_page_about_pairs_pass_through_the_engine(text: str, tmp_path, spark: SparkSession) -> None:
    spec = tmp_path / "job.yaml"
    spec.write_text(text)
    _, plan = load_tests(str(spec))
    for test in carried(str(spec)):
        assert compare_tables(plan, test, by_spark.tables_of(plan, test, spark)) == [], test.name


@pytest.mark.parametrize("text", PAIRS, ids=lambda text: re.search(r"job: (.*)", text)[1])
def test_the_cases_of_the_page_about_pairs_pass(text: str, tmp_path) -> None:
    spec = tmp_path / "job.yaml"
    spec.write_text(text)
    _, plan = load_tests(str(spec))
    for test in carried(str(spec)):
        assert test.expect and compare_tables(plan, test, in_memory.tables_of(plan, test)) == [], test.name


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize("path", SPECS, ids=lambda p: p.stem)
def test_they_pass_through_the_engine(path, spark: SparkSession) -> None:
    _, plan = load_tests(str(path))
    for test in carried(str(path)):
        assert compare_tables(plan, test, by_spark.tables_of(plan, test, spark)) == [], test.name


@pytest.mark.spark
@pytest.mark.slow
def test_the_command_runs_them_through_the_engine(tmp_path, spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    tests = """\
transform: [{derive: {wave: "sin(x)"}}]   # what is not evaluated without Spark
tests:
  - name: right
    rows: [{id: 1, ts: 2020-01-01 00:00, x: 1}, drop, {id: 2, ts: 2020-01-01 00:01, x: 3}]
    expect: {best_now: [{id: 2, rank: 1, score: 3}]}
  - name: wrong
    rows: [{id: 1, ts: 2020-01-01 00:00, x: 1}]
    expect: {best_now: [{id: 2}], rejected: []}
"""
    spec = tmp_path / "job.yaml"
    spec.write_text(SMALL + tests)
    assert test_command("--engine", str(spec)) == 1
    told = capsys.readouterr().out
    assert "ok  right" in told and "FAILED  wrong" in told and "best_now: expected 1 row (-), got 1 (+)" in told
    assert test_command(str(spec)) == 1 and "SKY-E531" in capsys.readouterr().out
    assert list(tmp_path.iterdir()) == [spec]


CLOCK = """\
tests:
  - name: no clock
    rows: [{id: 1, ts: 2020-01-01, x: 1}, {id: 2, ts: 9998-01-01, x: 2}]
    expect: {rejected: [], best_now: [{id: 2}]}
  - name: a clock
    clock: 2020-01-01 10:00
    rows: [{id: 1, ts: 2020-01-02 10:00, x: 1}, {id: 2, ts: 2020-01-02 10:00:00.000001, x: 2}]
    expect: {rejected: [{id: 2, reason: too_far_ahead}], best_now: [{id: 1}]}
"""


def test_a_test_gives_the_clock_of_its_rows_or_none_is_too_far_ahead(tmp_path, capsys) -> None:
    spec = tmp_path / "job.yaml"
    spec.write_text(SMALL + CLOCK)
    assert test_command(str(spec)) == 0, capsys.readouterr()
    spec.write_text(SMALL + CLOCK.replace("2020-01-01 10:00\n", "soon\n"))
    assert test_command(str(spec)) == 2
    assert "SKY-E530 'clock'" in capsys.readouterr().err
