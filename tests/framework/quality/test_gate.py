"""The gate at the end of a run: what it looks at, what it records once, what it publishes and what it withholds."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from skyband.framework.console.lines import Lines
from skyband.framework.plan.nodes import Check, RunRule
from skyband.framework.quality import checks, gate
from skyband.framework.quality.checks import Span, evaluate
from skyband.framework.quality.gate import Gate, unchecked
from skyband.framework.quality.rejections import RunRows
from skyband.framework.quality.run_rules import evaluate as rules
from skyband.framework.tables.results.derive import derive
from skyband.framework.tables.writing.driver_writer import DriverWriter
from skyband.framework.tables.writing.sink import Sink
from tests.framework.tables.plans import batch_blocks, make_plan, random_changes

NOW = datetime(2026, 1, 2, tzinfo=UTC)
COUNT = "expect_table_row_count_to_be_between"
NOT_NULL = "expect_column_values_to_not_be_null"


class Job:
    """A job without a JVM: batches are committed, results derived, the gate is passed or not."""

    def __init__(self, directory: Path, *checks: Check, rules: tuple[RunRule, ...] = (), batches: int = 8) -> None:
        plan = replace(make_plan(str(directory), ("grp",), checks=checks), run_rules=rules)
        self.sink = Sink(plan, DriverWriter(directory), "g")
        self.sink.ensure_all()
        self.changes = random_changes(plan, seed=4, batches=batches, steps=60)

    def ask(self, *checks: Check) -> None:
        self.sink.plan = replace(self.sink.plan, checks=checks)

    def batch(self, number: int, rows: int = 10, at: datetime = NOW, newest: datetime | None = NOW) -> None:
        row = {"batch_id": number, "batch_time": at, "rows_in": rows, "frontier": NOW, "newest": newest, "counters": "{}"}
        self.sink.commit(number, batch_blocks(self.sink.plan, self.changes[number], number) | {"runs": self.sink.runs_row(row)})
        derive(self.sink, number)

    def gate(self, run: RunRows | None = None) -> tuple[int, str]:
        err = io.StringIO()
        code = Gate(self.sink.plan, Lines(err)).look(self.sink, run)
        return code, err.getvalue()

    def rows(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.sink.writer.read("checks").to_pylist()
        return sorted(found, key=lambda r: (r["batch_id"], r["run_id"]))

    def published(self) -> dict[str, int]:
        return {r["table_name"]: r["version"] for r in self.sink.writer.read("published").to_pylist()}

    def added(self, table: str, first: int, last: int) -> int:
        query = table.removesuffix("_changes")
        return sum(len(self.changes[n][query]) for n in range(first, last + 1))


def new(expectation: str = COUNT, table: str = "near_changes", severity: Any = "critical", scope: Any = "new", **given: Any) -> Check:
    return Check(table, expectation, json.dumps(given), severity, scope)


@pytest.mark.long
def test_of_tables_that_are_added_to_only_what_is_new_is_looked_at(tmp_path: Path) -> None:
    job = Job(tmp_path, new(), new(scope="whole"), new(table="near", scope="whole"), new(NOT_NULL, column="score"))
    for n in range(3):
        job.batch(n)
    assert job.gate()[0] == 0
    job.batch(3)
    assert job.gate()[0] == 0
    first, second = job.rows()[:4], job.rows()[4:]
    added = job.added("near_changes", 3, 3)
    assert added > 0
    assert [json.loads(r["observed"]) for r in first[:2]] == [job.added("near_changes", 0, 2)] * 2
    assert [json.loads(r["observed"]) for r in second[:2]] == [added, job.added("near_changes", 0, 3)]
    assert second[3]["rows_checked"] == added
    assert [(r["first_batch_id"], r["batch_id"]) for r in second] == [(3, 3), (None, 3), (None, 3), (3, 3)]
    assert [r["table_version"] for r in second] == [job.sink.writer.opened(r["table_name"]).version() for r in second]
    assert all(r["check_ms"] > 0 for r in second)
    # What a killed run has not looked at is new to the next.
    job.batch(4)
    job.batch(5)
    assert unchecked(job.sink, 5) == Span(4, 5)
    job.gate()
    assert json.loads(job.rows()[8]["observed"]) == job.added("near_changes", 4, 5)


@pytest.mark.long
def test_asked_again_for_the_same_batch_the_gate_adds_nothing(tmp_path: Path) -> None:
    job = Job(tmp_path, new(max_value=0))
    job.batch(0)
    code, told = job.gate()
    assert code == 1 and "SKY-E500 critical check failed on table near_changes" in told and "not published: critical expect_table" in told
    before = job.rows()
    for _ in range(2):
        assert job.gate()[0] == 1
    assert job.rows() == before and job.published() == {}
    # Nothing was added since: a look at what is new has nothing to object to, one at its number of rows sees none.
    job.ask(new())
    assert job.gate()[0] == 0
    assert json.loads(job.rows()[1]["observed"]) == job.added("near_changes", 0, 0)
    assert set(job.published()) == {"near_changes", "near", "near_now", "near3_changes", "near3", "near3_now"}


@pytest.mark.long
def test_what_fails_withholds_the_marker_and_what_passes_moves_it(tmp_path: Path) -> None:
    fails, passes = new(max_value=0, scope="whole"), new()
    job = Job(tmp_path, passes)
    job.batch(0)
    assert job.gate()[0] == 0
    held = job.published()
    job.ask(fails)
    for n in (1, 2):
        job.batch(n)
        assert job.gate()[0] == 1 and job.published() == held
    job.ask(replace(fails, severity="warning"))
    code, told = job.gate()
    assert code == 0 and "SKY-E500 warning check failed" in told and "the results up to batch 2 are published" in told
    assert all(v > held[t] for t, v in job.published().items() if "changes" in t)


@pytest.mark.long
def test_too_many_rejected_rows_withhold_the_marker_until_a_run_has_fewer(tmp_path: Path) -> None:
    job = Job(tmp_path)
    job.batch(0)
    # The run itself tells of them, and has an exit code of its own.
    code, told = job.gate(RunRows(0, 0, 100, 2))
    assert code == 0 and "not published: critical skyband_max_rejected" in told and "SKY-E504" not in told
    assert job.gate(None)[0] == 0 and job.published() == {}
    (row,) = job.rows()
    assert (row["expectation"], row["success"], row["unexpected"], row["rows_checked"]) == ("skyband_max_rejected", False, 2, 100)
    job.batch(1)
    assert job.gate(RunRows(1, 1, 100, 1)) == (0, "")
    assert len(job.published()) == 6


@pytest.mark.long
def test_one_that_crashes_does_not_stop_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = Job(tmp_path, new(NOT_NULL, column="score"), new(table="heads", scope="whole"), new(table="near_now", scope="whole"), new())
    job.batch(0)
    whole = job.sink.writer.opened

    def opened(table: str) -> Any:
        if table == "heads":
            raise MemoryError("no room")
        return whole(table)

    monkeypatch.setattr(job.sink.writer, "opened", opened)
    assert [(o.success, o.error) for o, _ in evaluate(job.sink.plan, job.sink.writer, Span(0, 0))] == [
        (True, None), (False, "MemoryError: no room"), (True, None), (True, None),
    ]  # fmt: skip


@pytest.mark.long
def test_a_look_at_rows_in_pieces_finds_what_one_look_finds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    several = [
        new(NOT_NULL, column="older_price"),
        new(NOT_NULL, column="older_price", mostly=0.1),
        new(NOT_NULL, column="older_price", mostly=0.99),
        new("expect_column_values_to_be_between", column="score", max_value=2),
        new("expect_column_values_to_be_in_set", column="change", value_set=["+", "-"]),
        new(COUNT, min_value=0),
        new("expect_column_values_to_be_between", column="score", max_value=3, row_condition="change = '+'"),
        new("expect_column_pair_values_a_to_be_greater_than_b", column_A="newer_seq", column_B="older_seq"),
    ]
    job = Job(tmp_path, *several)
    for n in range(6):
        job.batch(n)
    plan, writer = job.sink.plan, job.sink.writer
    one = [o for o, _ in evaluate(plan, writer, Span(0, 5))]
    monkeypatch.setattr(checks, "MOST", 7)
    many = [o for o, _ in evaluate(plan, writer, Span(0, 5))]
    shown = [(o.success, o.rows, o.unexpected, o.percent and round(o.percent, 6)) for o in many]
    assert shown[:5] + shown[6:] == [(o.success, o.rows, o.unexpected, o.percent and round(o.percent, 6)) for o in one[:5] + one[6:]]
    assert [o.success for o in one] == [False, True, False, False, True, True, False, True]
    # Numbers of rows are counted over all of them at once, or not at all.
    assert not many[5].success and "scope: new" in str(many[5].error)


@pytest.mark.long
def test_a_look_at_no_rows_says_nothing_of_their_columns(tmp_path: Path) -> None:
    job = Job(
        tmp_path,
        new("expect_column_max_to_be_between", table="rejected", column="batch_id", min_value=0),
        new(COUNT, "rejected", min_value=1),
    )
    job.batch(0)
    found = [o for o, _ in evaluate(job.sink.plan, job.sink.writer, Span(0, 0))]
    assert [(o.success, o.rows, o.observed) for o in found] == [(True, 0, None), (False, None, 0)]


def test_no_batch_may_be_written_later_than_allowed_after_the_newest_event(tmp_path: Path) -> None:
    job = Job(tmp_path, rules=(RunRule("warning", max_delay_micros=600_000_000),))
    minute = timedelta(minutes=1)
    job.batch(0, newest=NOW - 11 * minute)
    job.batch(1, newest=NOW - 10 * minute)
    job.batch(2, rows=0, newest=NOW - 30 * minute)
    job.batch(3, newest=None, rows=0)
    (first,) = rules(job.sink.plan, job.sink.writer, Span(0, 3), None, NOW)
    assert (first.success, first.observed, first.rows, first.unexpected, first.examples) == (False, "11 minutes", 2, 1, ["batch 0"])
    (second,) = rules(job.sink.plan, job.sink.writer, Span(1, 3), None, NOW)
    assert (second.success, second.observed, second.severity) == (True, "10 minutes", "warning")
    (third,) = rules(job.sink.plan, job.sink.writer, Span(2, 3), None, NOW)
    assert (third.success, third.observed) == (True, None)
    code, told = job.gate()
    assert code == 0 and "SKY-E504 warning rule over runs failed: skyband_max_delay" in told and len(job.published()) == 6


@pytest.mark.parametrize("seen, success", [(timedelta(hours=23), True), (timedelta(days=1), True), (timedelta(hours=25), False)])
def test_so_many_rows_a_day_once_the_job_is_a_day_old(tmp_path: Path, seen: timedelta, success: bool) -> None:
    rule = RunRule("critical", min_rows=1000, per_micros=86_400_000_000)
    job = Job(tmp_path, rules=(rule,))
    job.batch(0, rows=5000, at=NOW - seen + timedelta(microseconds=1) if seen == timedelta(days=1) else NOW - seen)
    job.batch(1, rows=600, at=NOW - timedelta(hours=2))
    job.batch(2, rows=399, at=NOW)
    (found,) = rules(job.sink.plan, job.sink.writer, Span(2, 2), None, NOW)
    assert found.success == success
    assert found.observed == (999 if seen > timedelta(days=1) else 5999)
    job.batch(3, rows=1, at=NOW)
    (found,) = rules(job.sink.plan, job.sink.writer, Span(3, 3), None, NOW)
    assert found.success


def test_a_source_that_has_dried_up_is_noticed_without_a_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = Job(tmp_path, rules=(RunRule("critical", min_rows=10, per_micros=86_400_000_000),))
    now = [NOW]
    monkeypatch.setattr(gate, "_now", lambda: now[0])
    job.batch(0, at=NOW - timedelta(days=2))
    job.batch(1, at=NOW - timedelta(hours=1))
    codes = []
    for hours in (0, 1, 22, 23, 40, 41):
        now[0] = NOW + timedelta(hours=hours)
        codes.append(job.gate()[0])
    assert codes == [0, 0, 0, 1, 1, 1]
    rows = sorted(job.rows(), key=lambda r: r["success"], reverse=True)
    assert [(r["success"], json.loads(r["observed"])) for r in rows] == [(True, 10), (False, 0)]
    assert len(job.published()) == 6
