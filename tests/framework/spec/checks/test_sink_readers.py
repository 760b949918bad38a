"""What a spec may say of Iceberg metadata and change data feeds, and what comes of it."""

from __future__ import annotations

import pytest

from skyband.framework.plan.explain import explain
from skyband.framework.plan.fingerprint import fingerprint
from skyband.framework.plan.model import Plan
from skyband.framework.spec.load import validate_text
from skyband.framework.tables.schemas import batch_tables
from tests.framework.spec.checks.test_sink import SPEC
from tests.specs import plan_of_text


def plan_of(said: str) -> Plan:
    return plan_of_text(SPEC.replace(" SAID", said), {})


def test_both_are_off_and_may_change_between_runs() -> None:
    off = plan_of("")
    assert (off.iceberg, off.feeds) == (False, ()) and not any(t.feed for t in batch_tables(off))
    on = plan_of(", iceberg: true, change_data_feed: true")
    assert (on.iceberg, on.feeds) == (True, ("best", "rest"))
    assert fingerprint(off) == fingerprint(on) == fingerprint(plan_of(", change_data_feed: [rest]"))
    assert "_iceberg" in explain(on) and "change data feed of the results of best, rest" in explain(on)
    assert "_iceberg" not in explain(off) and "feed" not in explain(off)


@pytest.mark.parametrize(
    "said, tables",
    [
        ("true", {"best", "best_now", "best_changes", "rest", "rest_now", "rest_changes"}),
        ("[rest]", {"rest", "rest_now", "rest_changes"}), ("[]", set()), ("false", set()),
    ],
)  # fmt: skip
def test_tables_with_a_feed(said: str, tables: set[str]) -> None:
    assert {t.name for t in batch_tables(plan_of(f", change_data_feed: {said}")) if t.feed} == tables


@pytest.mark.parametrize(
    "said, code, part",
    [
        (", change_data_feed: [bets]", "SKY-E128", "no query 'bets'"), (", change_data_feed: [best, best]", "SKY-E102", "twice"),
        (", change_data_feed: 7", "SKY-E112", "change_data_feed"), (", iceberg: [best]", "SKY-E112", "iceberg"),
        ("#1, iceberg: true", "SKY-E119", "misread '#' in paths"),
    ],
)  # fmt: skip
def test_what_it_refuses(said: str, code: str, part: str) -> None:
    errors = validate_text(SPEC.replace(" SAID", said).replace("/srv/out#1", "'/srv/out#1'"), {})[1]
    assert [e.code for e in errors] == [code] and part in errors[0].message, errors
    assert errors[0].where is not None and errors[0].where.line == 13
