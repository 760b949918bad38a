"""Durable items and records against their definition, instant by instant, over random changes of tiny results."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from fractions import Fraction
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skyband.framework.base.errors import SkybandError
from skyband.framework.base.items import ItemShape, Part, RankTerm, TimeVarying, Value
from skyband.framework.plan.model import Plan
from skyband.framework.tables.results.reader import Reader
from skyband.framework.tables.results.stays import Durable, Interval, covered, durable, least_micros, records
from skyband.framework.tables.results.timeline import Timeline
from skyband.framework.tables.schemas import changes_schema, results_schema
from skyband.framework.tables.sql.dialects import DIALECTS, limited, plain
from skyband.operators.base import Window
from tests.framework.tables.plans import DAY, make_plan, to_table
from tests.framework.tables.writing.test_sink import instant
from tests.seeds import cases

END = 12
"""The first instant, after DAY, that is not complete."""
ITEMS = 5


def plan_of(keys: Sequence[str], shape: str) -> Plan:
    """One query over single rows, pairs, or objects whose value varies."""
    plan = make_plan("nowhere", keys, ("",) if shape != "pairs" else ("older", "newer"), window=Window(None, 100))
    query = replace(plan.queries[0], carry=("day", "price"))
    if shape == "objects":
        values, rank = (Value("loyalty", "double", ""),), (RankTerm(("loyalty",), "desc"),)
        item = ItemShape((Part("", "the object", ("day",)),), rank, values, time_varying=TimeVarying("loyalty", None))
        query = replace(query, item=item, carry=())
    return replace(plan, queries=(query,))


@dataclass
class Stream:
    """Random changes: (instant, key, item, whether it enters), in the order of steps; of the first ``derived`` the table has results."""

    changes: list[tuple[int, str, int, bool]] = field(default_factory=list)
    derived: int = 0


@st.composite
def streams(draw: st.DrawFn, from_arrival: bool = False) -> Stream:
    made, held, at = Stream(), set[tuple[str, int]](), 0
    for _ in range(draw(st.integers(0, 14))):
        at = min(at + draw(st.sampled_from([0, 0, 1, 1, 2, 4])), END - 1)
        key, item = draw(st.sampled_from("ab")), draw(st.integers(0, ITEMS - 1))
        if from_arrival and at < item:
            continue
        made.changes.append((at, key, item, (key, item) not in held))
        held ^= {(key, item)}
    made.derived = draw(st.sampled_from([0, len(made.changes), len(made.changes) // 2]))
    return made


def item_of(shape: str, item: int, keyed: bool, key: str) -> dict[str, Any]:
    """The columns of an item; ``day`` is shared by two, ``price`` may be null."""
    own = {"grp": key} if keyed else {}
    price = None if item % 3 == 0 else f"{item % 3}.25"
    if shape == "objects":
        return own | {"day": item, "loyalty": 1.5}
    if shape == "pairs":
        first, second = (item, item + 1) if keyed else (item, item + 2)
        sides = {"older": first, "newer": second}
        return (
            own
            | {"score": 1.0}
            | {
                f"{role}_{name}": value
                for role, seq in sides.items()
                for name, value in {"id": seq * 10, "seq": seq, "time": DAY + seq, "day": seq // 2, "price": price}.items()
            }
        )
    return own | {"id": item * 10, "seq": item, "time": DAY + item, "day": item // 2, "price": price, "score": item / 4}


class InMemory(Reader):
    """A reader over a stream's tables in memory."""

    def __init__(self, plan: Plan, shape: str, stream: Stream) -> None:
        super().__init__(plan)
        query = plan.queries[0]
        keyed, number, rows = bool(self.keys), defaultdict[str, int](int), []
        for n, (at, key, item, enters) in enumerate(stream.changes):
            key = key if keyed else "a"
            number[key] += 1
            made = {"changed_at": DAY + at, "step": number[key], "pos": 0, "change": "+" if enters else "-", "cause": "arrival"}
            rows.append(item_of(shape, item, keyed, key) | made | {"batch_id": int(n >= stream.derived)})
        changes = to_table(rows, changes_schema(plan, query))
        empty = results_schema(plan, query).empty_table()
        before = changes.filter(pc.equal(changes["batch_id"], 0))
        made_of = Timeline.of(plan, query).intervals(empty, before)
        self.tables = {"near": made_of, "near_changes": changes}

    def read(self, table: str, columns: list[str] | None = None, where: pc.Expression | None = None) -> pa.Table:
        rows = self.tables[table] if where is None else self.tables[table].filter(where)
        return rows if columns is None else rows.select(columns)

    def complete(self, chosen: pc.Expression | None = None) -> datetime:
        return instant(DAY + END - 1)

    def _versions(self, query: Any) -> tuple[int, int]:
        return (0, 1)

    def _heads_type(self, name: str) -> Any:
        return pa.string()


def in_result(stream: Stream, keyed: bool) -> dict[int, set[tuple[str, int]]]:
    """The items in the result as of every complete instant: after all changes up to it."""
    found = {}
    for t in range(END):
        now: set[tuple[str, int]] = set()
        for at, key, item, enters in stream.changes:
            if at <= t:
                (now.add if enters else now.discard)((key if keyed else "a", item))
        found[t] = now
    return found


def one_key(stream: Stream, keyed: bool) -> Stream:
    """Without key columns, the changes of one key only."""
    kept = [c for c in stream.changes if keyed or c[1] == "a"]
    return Stream(kept, min(stream.derived, len(kept)))


def by_definition(
    now: dict[int, set[tuple[str, int]]], start: int, end: int, share: Fraction, named: Any
) -> dict[Any, tuple[int, int, int | None, int]]:
    """By name: (microseconds in the result, first, last or None, stays), counted instant by instant."""
    names = {named(key, item) for found in now.values() for key, item in found}
    made = {}
    for name in names:
        inside = [any(named(key, item) == name for key, item in now[t]) for t in range(start, end)]
        if not any(inside) or sum(inside) < share * (end - start):
            continue
        last = max(i for i, is_in in enumerate(inside) if is_in) + start + 1
        stays = sum(is_in and not before for is_in, before in zip(inside, [False, *inside], strict=False))
        made[name] = sum(inside), inside.index(True) + start, None if last == end else last, stays
    return made


def figures(rows: pa.Table, *names: str) -> dict[Any, tuple[int, int, int | None, int]]:
    found = {}
    for r in rows.to_pylist():
        micros = lambda at: None if at is None else round((at - instant(DAY)).total_seconds() * 1e6)  # noqa: E731
        found[tuple(r[n] for n in names)] = (round(r["seconds"] * 1e6), micros(r["first_entered"]), micros(r["last_left"]), r["stays"])
    assert len(found) == rows.num_rows
    return found


SHARES = st.sampled_from([Fraction(n, 100) for n in (1, 25, 30, 50, 80, 100)])


@given(streams(), st.integers(-2, END - 1), st.integers(1, END), SHARES, st.booleans(), st.sampled_from(["rows", "pairs", "objects"]))
def test_items_by_definition(stream: Stream, start: int, length: int, share: Fraction, keyed: bool, shape: str) -> None:
    stream, end = one_key(stream, keyed), min(start + length, END)
    plan = plan_of(("grp",) if keyed else (), shape)
    found = durable(InMemory(plan, shape, stream), "near", share, Interval(instant(DAY + start), instant(DAY + end)))
    named = ("grp",) * keyed + ({"rows": ("seq",), "pairs": ("older_seq", "newer_seq"), "objects": ("day",)}[shape])
    now = in_result(stream, keyed) | {t: set() for t in range(start, 0)}

    def name(key: str, item: int) -> tuple[Any, ...]:
        row = to_table([item_of(shape, item, keyed, key)], found.rows.select(named).schema).to_pylist()[0]
        return tuple(row[n] for n in named)

    assert figures(found.rows, *named) == by_definition(now, start, end, share, name)
    assert (found.start, found.end, found.as_of) == (instant(DAY + start), instant(DAY + end), instant(DAY + END - 1))
    seconds = found.rows["seconds"].to_numpy()
    assert (np.diff(seconds) <= 0).all()
    assert found.rows["share"].to_pylist() == [round(s * 1e6) / (end - start) for s in seconds]
    assert ("score" in found.rows.column_names) == (shape != "objects") and "loyalty" not in found.rows.column_names


@given(streams(), st.integers(0, END - 1), SHARES, st.booleans(), st.sampled_from([("day",), ("price",), ("price", "day"), ("grp", "day")]))
def test_stays_of_rows_with_the_same_values_count_once(
    stream: Stream, start: int, share: Fraction, keyed: bool, by: tuple[str, ...]
) -> None:
    by = tuple(c for c in by if c != "grp" or keyed)
    stream = one_key(stream, keyed)
    plan = plan_of(("grp",) if keyed else (), "rows")
    found = durable(InMemory(plan, "rows", stream), "near", share, Interval(instant(DAY + start)), by)
    named = tuple(dict.fromkeys((*(("grp",) * keyed), *by)))
    schema = results_schema(plan, plan.queries[0])
    known = {i: to_table([item_of("rows", i, keyed, "a")], pa.schema([schema.field(c) for c in by])).to_pylist()[0] for i in range(ITEMS)}

    def name(key: str, item: int) -> tuple[Any, ...]:
        return tuple(key if c == "grp" else known[item][c] for c in named)

    assert figures(found.rows, *named) == by_definition(in_result(stream, keyed), start, END, share, name)
    assert found.rows.column_names == [*named, "seconds", "share", "first_entered", "last_left", "stays"]


@given(streams(), SHARES, st.booleans())
def test_the_interval_begins_with_the_first_entry_and_ends_with_what_is_complete(stream: Stream, share: Fraction, keyed: bool) -> None:
    stream = one_key(stream, keyed)
    found = durable(InMemory(plan_of(("grp",) if keyed else (), "rows"), "rows", stream), "near", share, Interval())
    assert found.end == instant(DAY + END)
    if not stream.changes:
        assert found.rows.num_rows == 0 and found.start == found.end and found.note is not None
        return
    first = min(at for at, *_ in stream.changes)
    assert found.start == instant(DAY + first)
    backwards = durable(InMemory(plan_of(("grp",) if keyed else (), "rows"), "rows", stream), "near", share, Interval(END - first))
    assert backwards.rows.equals(found.rows) and backwards.start == found.start


@given(streams(from_arrival=True), st.integers(0, END - 1), st.integers(1, END), st.sampled_from([None, 0, 1, 3, 7]), st.booleans())
def test_records_by_definition(stream: Stream, start: int, end: int, after: int | None, keyed: bool) -> None:
    stream, end, age = one_key(stream, keyed), max(start + 1, end), after or 0
    reader = InMemory(plan_of(("grp",) if keyed else (), "rows"), "rows", stream)
    found = records(reader, "near", after, Interval(instant(DAY + start), instant(DAY + end)))
    now = in_result(stream, keyed)
    expected = {
        (key, item): (key, item) in now[item]
        for key in ("ab" if keyed else "a")
        for item in range(ITEMS)
        if start <= item < end and item + age < END and (key, item) in now[item + age]
    }
    rows = found.rows.to_pylist()
    assert {(r.get("grp", "a"), r["seq"]) for r in rows} == set(expected) and len(rows) == len(expected)
    assert [-r["seq"] for r in rows] == sorted(-r["seq"] for r in rows)
    if after is not None:
        assert {(r.get("grp", "a"), r["seq"]): r["on_arrival"] for r in rows} == expected
    young = {(key if keyed else "a", item) for _, key, item, _ in stream.changes if start <= item < end and item + age >= END}
    undecided = max(start, END - age) < end
    assert (found.note is not None) == undecided
    assert not undecided or f"; {len(young)} such row" in str(found.note)


def in_duckdb(reader: InMemory, statement: str) -> list[dict[str, Any]]:
    with duckdb.connect() as connection:
        connection.execute("set timezone = 'UTC'")
        connection.register("near", reader.tables["near"])
        return connection.sql(plain(statement, "duckdb")).to_arrow_table().to_pylist()  # type: ignore[no-any-return]


def answers(reader: InMemory, shape: str, key: dict[str, str] | None) -> list[Durable]:
    found = [durable(reader, "near", Fraction(1, 4), Interval(instant(DAY + 3), instant(DAY + 9)), (), key)]
    found.append(durable(reader, "near", Fraction(1, 100), Interval(), (), key))
    if shape == "rows":
        found.append(durable(reader, "near", Fraction(1, 100), Interval(5), ("price",), key))
        found += [records(reader, "near", after, Interval(7), key) for after in (None, 0, 4)]
    return found


@pytest.mark.long
@settings(max_examples=cases(25))
@given(streams(from_arrival=True), st.booleans(), st.booleans(), st.sampled_from(["rows", "pairs", "objects"]))
def test_the_sql_gives_the_same_rows(stream: Stream, keyed: bool, one: bool, shape: str) -> None:
    stream = one_key(stream, keyed)
    stream.derived = len(stream.changes)
    reader = InMemory(plan_of(("grp",) if keyed else (), shape), shape, stream)
    for answer in answers(reader, shape, {"grp": "a"} if keyed and one else None):
        assert in_duckdb(reader, answer.sql) == answer.rows.to_pylist(), answer.sql


@pytest.mark.parametrize("dialect", DIALECTS)
def test_other_engines_get_statements_of_their_own(dialect: str) -> None:
    reader = InMemory(plan_of(("grp",), "rows"), "rows", Stream())
    for answer in answers(reader, "rows", None):
        text = limited(reader.plan, answer.sql, dialect, 7)
        assert ("TOP 7" if dialect == "tsql" else "LIMIT 7") in text and "_between" not in text.lower()
        assert dialect in ("duckdb", "spark", "postgres") or "INTERVAL '" not in text


def test_exactly_the_share_is_enough() -> None:
    assert least_micros(Fraction(4, 5), 10) == 8 and least_micros(Fraction(4, 5), 11) == 9 and least_micros(Fraction(1), 3) == 3
    huge = 2**61
    assert least_micros(Fraction("0.000000001") / 100, huge) == -(-huge // 10**11)
    stream = Stream([(0, "a", 1, True), (8, "a", 1, False)])
    ask = InMemory(plan_of((), "rows"), "rows", stream)
    for share, count in ((Fraction(4, 5), 1), (Fraction(800_000_001, 10**9), 0)):
        assert durable(ask, "near", share, Interval(instant(DAY), instant(DAY + 10))).rows.num_rows == count


def test_spans_that_fill_the_range_of_instants() -> None:
    many = 50_000
    number = np.repeat(np.arange(many), 2)
    entered = np.tile(np.array([-(2**61), 0]), many)
    left = np.tile(np.array([2**60, 2**61]), many)
    last, micros, first, end, stays = covered(number, entered, left)
    assert set(micros) == {2**62} and set(first) == {-(2**61)} and set(end) == {2**61} and set(stays) == {1}
    assert last.tolist() == list(range(1, 2 * many, 2))


def test_what_the_tables_cannot_answer_is_refused() -> None:
    rows, pairs = (InMemory(plan_of((), shape), shape, Stream()) for shape in ("rows", "pairs"))
    told_once = plan_of((), "rows")
    told_once = replace(told_once, queries=(replace(told_once.queries[0], item=replace(told_once.queries[0].item, lasting=False)),))
    once = InMemory.__new__(InMemory)
    Reader.__init__(once, told_once)
    half, late = Fraction(1, 2), instant(DAY + END + 1)
    for code, words, ask in (
        ("SKY-E201", "single rows", lambda: records(pairs, "near", None, Interval())),
        ("SKY-E201", "reports every arrival once", lambda: durable(once, "near", half, Interval())),
        ("SKY-E201", "its window is 100 microseconds", lambda: records(rows, "near", 100, Interval())),
        ("SKY-E201", "no column 'dya'", lambda: durable(rows, "near", half, Interval(), ("dya",))),
        ("SKY-E201", "the interval is empty", lambda: durable(rows, "near", half, Interval(instant(DAY + 5), instant(DAY + 5)))),
        ("SKY-E201", "the interval is empty", lambda: durable(rows, "near", half, Interval(0))),
        ("SKY-E201", "no query", lambda: durable(rows, "nearr", half, Interval())),
        ("SKY-E402", "complete only up to", lambda: durable(rows, "near", half, Interval(None, late))),
        ("SKY-E402", "complete only up to", lambda: records(rows, "near", None, Interval(None, late))),
    ):
        with pytest.raises(SkybandError, match=words) as e:
            ask()
        assert e.value.code == code
