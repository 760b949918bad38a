"""Durable items and records of every query type: over the tables of real jobs, against a replay of their changes and in SQL."""

from __future__ import annotations

from collections import defaultdict
from datetime import datetime, timedelta
from fractions import Fraction
from typing import Any

import pytest

from skyband.framework.base.items import ROW
from skyband.framework.plan.model import Plan, QueryNode
from skyband.framework.queries.registry import QUERY_TYPES
from skyband.framework.tables.results.reader import Reader
from skyband.framework.tables.results.stays import Interval, durable, records
from skyband.framework.tables.schemas import changes_name, identity_columns, stream_columns
from skyband.framework.tables.sql.dialects import limited
from tests.framework.tables.sql.elsewhere import in_duckdb
from tests.framework.verify.test_corruptions import job

KINDS = ("pairs", "keyed", "deletions", "skylines", "sets", "loyalty", "groups")
pytestmark = pytest.mark.long
MICRO = timedelta(microseconds=1)
MINUTE = timedelta(minutes=1)

Spans = dict[tuple[Any, ...], list[tuple[datetime, datetime | None]]]


@pytest.fixture(scope="module")
def plans() -> dict[str, Plan]:
    return {kind: job(kind) for kind in KINDS}


def spans(reader: Reader, query: QueryNode, named: tuple[str, ...]) -> Spans:
    """When each item was in the result, by its changes one by one."""
    streams = stream_columns(reader.plan, query)
    order = [(c, "ascending") for c in (*streams, "step", "pos")]
    found: Spans = defaultdict(list)
    for row in reader.read(changes_name(query.name)).sort_by(order).to_pylist():
        mine = found[tuple(row[c] for c in named)]
        if row["change"] == "+":
            mine.append((row["changed_at"], None))
        else:
            mine[-1] = mine[-1][0], row["changed_at"]
    return found


def seconds(of: list[tuple[datetime, datetime | None]], start: datetime, end: datetime) -> timedelta:
    """The time of [start, end) in stays that do not overlap."""
    return sum((max(timedelta(0), min(b or end, end) - max(a, start)) for a, b in of), timedelta(0))


@pytest.mark.parametrize("kind", KINDS)
def test_items_are_in_the_result_as_long_as_their_changes_say(plans: dict[str, Plan], kind: str) -> None:
    reader, seen = Reader(plans[kind]), 0
    for query in plans[kind].queries:
        if not query.item.lasting:
            continue
        named = tuple(dict.fromkeys((*stream_columns(reader.plan, query), *identity_columns(reader.plan, query))))
        whole = durable(reader, query.name, Fraction(1, 10**9), Interval())
        expected = spans(reader, query, named)
        middle = whole.start + (whole.end - whole.start) // 2
        for start, end, share in (
            (whole.start, whole.end, Fraction(1, 10)), (middle, whole.end, Fraction(4, 5)),
            (middle - 30 * MINUTE, middle + 31 * MICRO, Fraction(1, 3)),
        ):  # fmt: skip
            found = durable(reader, query.name, share, Interval(start, end))
            lasted = {item: seconds(of, start, end) for item, of in expected.items()}
            enough = {item: t for item, t in lasted.items() if t > timedelta(0) and (t // MICRO) >= share * ((end - start) // MICRO)}
            assert {tuple(r[c] for c in named): timedelta(seconds=r["seconds"]) for r in found.rows.to_pylist()} == enough, query.name
            assert in_duckdb(limited(reader.plan, found.sql, "duckdb")) == found.rows.to_pylist(), query.name
            seen += len(enough)
    assert seen > 20


@pytest.mark.parametrize("kind", ["keyed", "deletions", "skylines"])
def test_records_were_in_the_result_as_of_their_age(plans: dict[str, Plan], kind: str) -> None:
    reader, seen = Reader(plans[kind]), 0
    for query in plans[kind].queries:
        if query.item.parts != ROW or not query.item.lasting:
            continue
        named = (*stream_columns(reader.plan, query), *identity_columns(reader.plan, query))
        for after in (None, 0, 7 * 60_000_000):
            found, age = records(reader, query.name, after, Interval()), timedelta(microseconds=after or 0)
            expected = {
                item
                for item, of in spans(reader, query, (*named, "time")).items()
                if item[-1] + age <= found.as_of and any(a <= item[-1] + age < (b or datetime.max.replace(tzinfo=a.tzinfo)) for a, b in of)
            }
            assert {tuple(r[c] for c in (*named, "time")) for r in found.rows.to_pylist()} == expected, query.name
            assert in_duckdb(limited(reader.plan, found.sql, "duckdb")) == found.rows.to_pylist(), query.name
            seen += len(expected)
    assert seen > 20


def test_every_query_type_is_there(plans: dict[str, Plan]) -> None:
    asked = {q.type for plan in plans.values() for q in plan.queries if q.item.lasting}
    assert set(QUERY_TYPES.all()) - asked == {"matches"}
