"""A Delta table that changes as a source: what a spec has to say for it."""

from __future__ import annotations

import pytest

from skyband.framework.plan.compile import compile_job
from skyband.framework.sources.delta.format import DeltaFormat
from skyband.framework.spec.load import validate_text
from skyband.framework.tables.sql.source_rows import why_not
from tests.specs import spec_text

SPEC = spec_text(
    "open",
    "{ident: string, amount: double, op: {type: string, from: $change}, at: {type: timestamp, from: $committed}OTHER}",
    path="/srv/in",
    format="delta",
    options="{OPTIONS}",
    id="[ident]",
    event_time="{column: at, tie_break: [TIES]}",
    sink="{path: /srv/out}",
    deletes="\"op = 'delete'\"",
    window="{time: 7 days}",
    scoring="{amount: {expression: amount, direction: max}}",
    queries={"largest": "{type: topk, scoring: amount, k: 2}"},
)
GOOD = 'changes: "true"'


def found(text: str) -> list[tuple[str, str]]:
    return [(e.code, e.message) for e in validate_text(text, {})[1]]


def spec(options: str = GOOD, other: str = "", ties: str = "op") -> str:
    return SPEC.replace("OPTIONS", options).replace("OTHER", other).replace("TIES", ties)


@pytest.mark.parametrize("options", [GOOD, GOOD + ", startingVersion: '3'"])
def test_what_it_takes(options: str) -> None:
    assert found(spec(options, ", v: {type: bigint, from: $version}")) == []


@pytest.mark.parametrize(
    "text, code, said",
    [
        (spec("changes: maybe"), "SKY-E114", "true or false"), (spec(""), "SKY-E114", "is of a change"),
        (spec(GOOD + ", ignoreDeletes: 'true'"), "SKY-E119", "are deletions"),
        (spec("readChangeFeed: 'true'"), "SKY-E119", "does not take"),
        (spec(ties=""), "SKY-E111", "tie_break"), (spec().replace("deletes: \"op = 'delete'\"\n", ""), "SKY-E111", "need 'deletes'"),
        (spec().replace(", from: $change", ""), "SKY-E111", "from $change"),
        (spec(other=", v: {type: int, from: $version}"), "SKY-E114", "bigint"),
    ],
)  # fmt: skip
def test_what_it_refuses(text: str, code: str, said: str) -> None:
    errors = found(text)
    assert errors[0][0] == code and said in errors[0][1], errors


FEED = "op: {column: op, insert: [insert], update: [update_postimage], delete: [delete], ignore: [update_preimage]}"


def typed(other: str = "", ties: str = "op", feed: str = FEED) -> str:
    """A spec that reads the kinds of change as Delta names them."""
    text = spec(other=other, ties=ties).replace("$change", "$change_type").replace("deletes: \"op = 'delete'\"\n", "")
    return text.replace("  id: [ident]\n", f"  id: [ident]\n  {feed}\n")


VERSION_AND_TIME = ", v: {type: bigint, from: $version}, own: timestamp"


@pytest.mark.parametrize(
    "text", [typed(), typed(VERSION_AND_TIME, "v, op"), typed(VERSION_AND_TIME, "v, op").replace("column: at", "column: own")]
)
def test_kinds_of_change_as_delta_names_them(text: str) -> None:
    assert found(text) == []


@pytest.mark.parametrize(
    "text, said",
    [
        (typed(ties=""), "the order of the commits"),
        (typed(VERSION_AND_TIME, "op, v").replace("column: at", "column: own"), "the order of the commits"),
        (typed(", own: timestamp").replace("column: at", "column: own"), "the order of the commits"),
        (typed(feed="on_duplicate: replace"), "needs 'op'"),
    ],
)
def test_kinds_of_change_need_their_meaning_and_order(text: str, said: str) -> None:
    errors = found(text)
    assert [e[0] for e in errors] == ["SKY-E111"] and said in errors[0][1], errors


def test_a_table_without_a_feed_is_told() -> None:
    error = DeltaFormat().failure("[DELTA_MISSING_CHANGE_DATA] Error getting change data for range [0 , 3]", None)
    assert error is not None and error.code == "SKY-E301" and "delta.enableChangeDataFeed" in str(error.hint)
    assert DeltaFormat().failure("something else", None) is None


def test_its_rows_are_in_no_view() -> None:
    job, _ = validate_text(spec(), {})
    assert job is not None
    assert "changes" in str(why_not(compile_job(job)))
    plain = spec("").replace("{type: string, from: $change}", "string").replace("{type: timestamp, from: $committed}", "timestamp")
    job, errors = validate_text(plain, {})
    assert job is not None and errors == [] and why_not(compile_job(job)) is None
