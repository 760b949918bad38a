"""Rules over runs, scopes of checks and ``every``: what a spec may say, what is refused and where."""

from __future__ import annotations

import re

import pytest

from skyband.framework.plan.nodes import RunRule
from skyband.framework.spec.load import validate_text
from tests.framework.plan.test_compile import plan_of
from tests.framework.spec.examples import ENV, SENSORS

MINUTE = 60_000_000


def quality(text: str) -> str:
    """The example with more in its ``quality:``."""
    return SENSORS.replace("quality:\n", "quality:\n" + "".join(f"  {line}\n" for line in text.splitlines()), 1)


def test_rules_over_runs_reach_the_plan() -> None:
    plan = plan_of(
        quality("runs:\n  - {max_delay: 10 minutes, severity: warning}\n  - {min_rows: 1000, per: 1 day}\ncheck_every: 100 batches")
    )
    assert plan.run_rules == (RunRule("warning", 10 * MINUTE), RunRule("critical", None, 1000, 1440 * MINUTE))
    assert plan.check_every == 100
    assert plan_of(SENSORS).run_rules == () and plan_of(SENSORS).check_every is None


@pytest.mark.parametrize(
    "rule, code, place, said",
    [
        ("{severity: warning}", "SKY-E111", "{severity", "exactly one of 'max_delay' and 'min_rows'"),
        ("{max_delay: 1 hour, min_rows: 3, per: 1 day}", "SKY-E111", "{max_delay", "exactly one of"),
        ("{min_rows: 3}", "SKY-E111", "{min_rows", "must be used together"),
        ("{max_delay: 1 hour, per: 1 day}", "SKY-E111", "{max_delay", "must be used together"),
        ("{min_rows: 3, per: 91 days}", "SKY-E114", "91 days", "kept for 90 days"),
        ("{min_rows: 0, per: 1 day}", "SKY-E114", "0", "at least 1"),
        ("{max_delay: 10}", "SKY-E115", "10", "duration"),
        ("{max_delay: 1 hour, severity: info}", "SKY-E113", "info", "severity"),
    ],
)
def test_a_rule_that_says_nothing_usable_is_refused_at_its_place(rule: str, code: str, place: str, said: str) -> None:
    text = quality(f"runs:\n  - {rule}")
    _, (error,) = validate_text(text, ENV)
    assert error.code == code and said in error.message and error.where is not None
    line = text.splitlines()[error.where.line - 1]
    assert line[error.where.col - 1 :].startswith(place), line


@pytest.mark.parametrize("every, right", [("1 batch", True), ("0 batches", False), ("5", False), ("5 minutes", False)])
def test_every_is_a_number_of_batches(every: str, right: bool) -> None:
    _, errors = validate_text(quality(f"check_every: {every}"), ENV)
    assert [e.code for e in errors] == ([] if right else ["SKY-E115"])


def test_only_a_table_that_is_added_to_has_rows_that_are_new() -> None:
    check = "  - {table: TABLE, expectation: expect_table_row_count_to_be_between, min_value: 1, scope: new}"
    name = next(iter(plan_of(SENSORS).queries)).name
    tables = re.split(r"  tables:.*\n", SENSORS)
    for table, right in (
        (f"{name}_changes", True),
        ("runs", True),
        ("rejected", True),
        (name, False),
        (f"{name}_now", False),
        ("heads", False),
    ):
        text = f"{tables[0]}  tables:\n  {check.replace('TABLE', table)}\n{tables[1]}"
        _, errors = validate_text(text, ENV)
        assert [e.code for e in errors] == ([] if right else ["SKY-E117"]), table
        if not right:
            where = errors[0].where
            assert where is not None and text.splitlines()[where.line - 1][where.col - 1 :].startswith("new")


def test_what_is_only_added_to_is_looked_at_where_it_is_new_if_the_spec_does_not_say() -> None:
    name = next(iter(plan_of(SENSORS).queries)).name
    tables = re.split(r"  tables:.*\n", SENSORS)
    rows = "expectation: expect_table_row_count_to_be_between"
    more = (
        f"    - {{table: {name}_changes, {rows}}}\n    - {{table: {name}_changes, {rows}, scope: whole}}\n    - {{table: heads, {rows}}}\n"
    )
    assert [c.scope for c in plan_of(f"{tables[0]}  tables:\n{more}{tables[1]}").checks[:3]] == ["new", "whole", "whole"]
