"""Look-up tables by definition: one row for a key and an instant, and what each row takes, whatever the order of the table's rows."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skyband.framework.base.errors import SkybandError
from skyband.framework.lookups import table as lookup_table
from skyband.framework.lookups.column_join import ColumnJoin
from skyband.framework.lookups.in_memory import of_rows
from skyband.framework.lookups.join import Join
from skyband.framework.plan.model import Field, SourceNode
from skyband.framework.plan.nodes import LookupNode
from skyband.framework.sources.values import arrow_column

TYPES = {"host": "string", "part": "int", "since": "timestamp", "until": "timestamp", "region": "string"}
SOURCE = SourceNode("csv", "/nowhere", (), tuple(Field(name, type_, "text", name) for name, type_ in TYPES.items()))
Row = dict[str, Any]

KEYS = st.sampled_from([None, "a", "b"])
PARTS = st.sampled_from([None, 0, 1])
INSTANTS = st.one_of(st.none(), st.integers(0, 6))
TABLES = st.lists(st.fixed_dictionaries({"host": KEYS, "part": PARTS, "since": INSTANTS, "until": INSTANTS, "region": KEYS}), max_size=6)


def node(timed: bool, missing: str = "null") -> LookupNode:
    valid = ("since", "until") if timed else None
    return LookupNode("site", (("own", "host"), ("number", "part")), (("place", "region"),), valid, missing)  # type: ignore[arg-type]


def valid(row: Row, at: int | None) -> bool:
    return at is not None and (row["since"] is None or row["since"] <= at) and (row["until"] is None or at < row["until"])


def matches(rows: list[Row], timed: bool, host: str | None, part: int | None, at: int | None) -> list[Row]:
    """The rows of the table that a row of the source matches, by definition."""
    equal = [r for r in rows if None not in (host, part) and (r["host"], r["part"]) == (host, part)]
    return [r for r in equal if not timed or valid(r, at)]


@given(rows=TABLES, timed=st.booleans(), data=st.data())
def test_a_table_is_taken_if_a_key_has_one_row_at_each_instant(rows: list[Row], timed: bool, data: st.DataObject) -> None:
    of = node(timed)
    instants = [-(2**62), *range(7)]
    clash = any(
        len(matches([a, b], timed, a["host"], a["part"], at)) == 2 for a, b in combinations(rows, 2) for at in (instants if timed else [0])
    )
    if clash:
        with pytest.raises(SkybandError) as e:
            of_rows(of, SOURCE, rows)
        assert e.value.code == "SKY-E320" and "look-up site" in e.value.message and "host = " in e.value.message
        return
    made = of_rows(of, SOURCE, rows)
    assert made == of_rows(of, SOURCE, data.draw(st.permutations(rows)))
    assert made == lookup_table.checked(of, SOURCE, pa.concat_tables([_raw(rows[:2]), _raw(rows[2:])]))
    for missing in ("null", "reject"):
        join = Join([node(timed, missing)], {"site": made}, "at")
        for host in (None, "a", "b", "c"):
            for part in (None, 0, 1):
                for at in (None, *instants):
                    row = {"own": host, "number": part, "at": at}
                    found = matches(rows, timed, host, part, at)
                    assert join.add(row) == ("no_match:site" if missing == "reject" and not found else None)
                    assert row["place"] == (found[0]["region"] if found else None)
        assert_columns_take_what_rows_take([node(timed, missing)], {"site": made})


def assert_columns_take_what_rows_take(nodes: list[LookupNode], tables: dict[str, pa.Table]) -> None:
    """Compare ``ColumnJoin`` with ``Join`` for all keys and instants, in one table, parts of it, and none."""
    rows: list[Row] = [
        {"own": host, "number": part, "at": at}
        for host in (None, "a", "b", "c")
        for part in (None, 0, 1)
        for at in (None, -(2**62), *range(7))
    ]
    given = {
        "own": pa.array([r["own"] for r in rows], pa.string()),
        "number": pa.array([r["number"] for r in rows], pa.int32()),
        "at": pa.array([r["at"] for r in rows], pa.int64()).cast(pa.timestamp("us", "UTC")),
    }
    join, by_column = Join(nodes, tables, "at"), ColumnJoin(nodes, tables, "at")
    reasons = [join.add(row) for row in rows]
    for part in (slice(0, len(rows)), slice(5, 30), slice(0, 0)):
        columns = {name: column[part] for name, column in given.items()}
        made = by_column.add(columns)
        assert (made.to_pylist() if made is not None else [None] * len(rows[part])) == reasons[part]
        for of in nodes:
            for name in of.taken:
                assert columns[name].type == tables[of.name].schema.field(name).type
                assert columns[name].to_pylist() == [r[name] for r in rows[part]]


def test_a_table_is_looked_up_by_what_another_gave() -> None:
    first = of_rows(
        node(True, "reject"), SOURCE, [{"host": "a", "part": 0, "region": "b", "until": 3}, {"host": "b", "part": 1, "region": "c"}]
    )
    then = LookupNode("next", (("place", "host"),), (("after", "region"),), None, "reject")
    second = of_rows(then, SOURCE, [{"host": "b", "part": 0, "region": "x"}])
    assert_columns_take_what_rows_take([node(True, "reject"), then], {"site": first, "next": second})


def _raw(rows: list[Row]) -> pa.Table:
    types = {"string": pa.string(), "int": pa.int32(), "timestamp": pa.timestamp("us", "UTC")}
    return pa.table({name: pa.array([r[name] for r in rows], types[type_]) for name, type_ in TYPES.items()})


def test_the_error_names_the_key_and_the_intervals() -> None:
    row = {"host": "a" * 99, "part": 1, "since": 0, "until": 10, "region": "x"}
    with pytest.raises(SkybandError) as e:
        of_rows(node(True), SOURCE, [row, row | {"since": 5_000_000, "until": None}, row | {"until": None}])
    assert f"host = '{'a' * 56}..., part = 1" in e.value.message
    assert "[1970-01-01 00:00:00, 1970-01-01 00:00:00.000010) and [1970-01-01 00:00:00, ...)" in e.value.message
    assert len(of_rows(node(True), SOURCE, [row, row | {"since": 10, "until": None}])) == 2


def test_a_table_that_is_too_large_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [{"host": str(i), "part": 1} for i in range(3)]
    monkeypatch.setattr(lookup_table, "MOST_ROWS", 3)
    assert len(of_rows(node(False), SOURCE, rows)) == 3
    monkeypatch.setattr(lookup_table, "MOST_ROWS", 2)
    with pytest.raises(SkybandError) as e:
        of_rows(node(False), SOURCE, rows)
    assert e.value.code == "SKY-E321"


@pytest.mark.parametrize(
    ("type_", "values"),
    [
        ("boolean", [True, False]),
        ("date", [3, -3]),
        ("bigint", [2**62, -(2**62)]),
        ("timestamp", [5, 6]),
        ("decimal(5,2)", ["1.5", "-1.5"]),
    ],
)
def test_keys_of_every_type(type_: str, values: list[Any]) -> None:
    from decimal import Decimal

    values = [Decimal(v) if isinstance(v, str) else v for v in values]
    source = SourceNode("csv", "/nowhere", (), (Field("key", type_, "int", "key"), Field("region", "string", "text", "region")))
    of = LookupNode("site", (("own", "key"),), (("place", "region"),))
    tables = {"site": of_rows(of, source, [{"key": v, "region": str(v)} for v in values])}
    join = Join([of], tables, "at")
    columns = {"own": arrow_column([*values[::-1], None, *values], type_)}
    ColumnJoin([of], tables, "at").add(columns)
    assert columns["place"].to_pylist() == [str(v) if v is not None else None for v in (*values[::-1], None, *values)]
    for value in values:
        row: Row = {"own": value, "at": 0}
        join.add(row)
        assert row["place"] == str(value)
