"""Scans with filters, which readers answer by bounds and partition values, give the rows that filtering all rows gives."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from pyiceberg import expressions as ice
from pyiceberg.table import StaticTable

from skyband.framework.tables.iceberg import export
from skyband.framework.tables.iceberg.export import TableExport
from skyband.framework.tables.schemas import TableSpec
from skyband.framework.tables.writing.driver_writer import DriverWriter
from tests.framework.tables.iceberg.readers import delta_rows, opened, rows

STAMP = pa.timestamp("us", "UTC")
SCHEMA = pa.schema(
    [
        ("n", pa.int64()), ("i", pa.int32()), ("y", pa.int8()), ("s", pa.string()), ("x", pa.float64()), ("f", pa.float32()), ("t", STAMP),
        ("d", pa.date32()), ("b", pa.bool_()), ("m", pa.decimal128(20, 3)), ("l", pa.list_(pa.string())), ("v", pa.list_(pa.float32())),
        ("raw", pa.binary()),
    ]
)  # fmt: skip
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
LONG = ["", "a", "ab", "b" * 31, "b" * 32, "b" * 33, "b" * 200, "b" * 200 + "c", "ä" * 40, "𝄞" * 40, "\U0010ffff" * 40, "z'\"\\\n"]
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "n": st.integers(-(2**63), 2**63 - 1) | st.integers(-3, 3),
    "i": st.integers(-(2**31), 2**31 - 1),
    "y": st.integers(-128, 127),
    "s": st.sampled_from(LONG) | st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"), max_size=40),
    "x": st.floats() | st.sampled_from([0.0, -0.0, math.nan, math.inf]),
    "f": st.floats(width=32),
    "t": st.integers(-(10**15), 4 * 10**15).map(lambda m: EPOCH + timedelta(microseconds=m)),
    "d": st.dates(date(1, 1, 1), date(9999, 12, 31)),
    "b": st.booleans(),
    "m": st.integers(-(10**19), 10**19).map(lambda m: Decimal(m).scaleb(-3)),
    "l": st.lists(st.none() | st.text("ab", max_size=3), max_size=3),
    "v": st.lists(st.floats(width=32), max_size=3),
    "raw": st.binary(max_size=4),
}
COMPARED = ("n", "i", "y", "s", "x", "t", "d", "m")
OPERATORS: dict[str, tuple[Callable[..., ice.BooleanExpression], Callable[[Any, Any], bool]]] = {
    "==": (ice.EqualTo, lambda a, b: a == b),
    "<": (ice.LessThan, lambda a, b: a < b),
    "<=": (ice.LessThanOrEqual, lambda a, b: a <= b),
    ">": (ice.GreaterThan, lambda a, b: a > b),
    ">=": (ice.GreaterThanOrEqual, lambda a, b: a >= b),
}
ROW = st.fixed_dictionaries({n: st.none() | s for n, s in VALUES.items()})


def table_of(found: list[dict[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist(found, SCHEMA)


def exported(root: Path, parts: list[list[dict[str, Any]]], by: str | None = None) -> StaticTable:
    """A table with a file for each part (or one for each value of ``by``), by turns written by delta-rs and as tasks write files."""
    writer = DriverWriter(root)
    spec = TableSpec("t", SCHEMA, "", (by,) if by else ())
    writer.ensure(spec)
    for n, part in enumerate(parts):
        data = table_of(part)
        if by:
            writer.append("t", SCHEMA.empty_table(), "a", n, writer.files("t", data, by))
        elif n % 2:
            writer.append("t", SCHEMA.empty_table(), "a", n, writer.files("t", data))
        else:
            writer.append("t", data, "a", n)
        TableExport(root, "t", None, "job", writer.owner.made_id()).run()
    return opened(root, "t")


def literal(value: Any) -> Any:
    return value.isoformat() if isinstance(value, (date, datetime)) else value


def names(found: list[dict[str, Any]]) -> list[str]:
    return sorted(map(repr, found))


@settings(max_examples=15, deadline=None, phases=[Phase.generate])
@given(st.lists(st.lists(ROW, min_size=1, max_size=4), min_size=1, max_size=3), st.data())
def test_bounds_lose_no_row(parts: list[list[dict[str, Any]]], data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as directory:
        table = exported(Path(directory), parts)
        everything = table.scan().to_arrow().to_pylist()
        assert names(everything) == names(table_of([r for part in parts for r in part]).to_pylist())
        tried = st.lists(st.tuples(st.sampled_from(COMPARED), st.sampled_from([*OPERATORS])), min_size=12, max_size=12, unique=True)
        for column, name in data.draw(tried):
            make, holds = OPERATORS[name]
            held = [r[column] for r in everything if r[column] is not None]
            value = data.draw(st.sampled_from(held) | VALUES[column] if held else VALUES[column], column)
            if not (isinstance(value, float) and math.isnan(value)):
                found = table.scan(row_filter=make(column, literal(value))).to_arrow().to_pylist()
                expected = [r for r in everything if r[column] is not None and holds(r[column], value)]
                assert names(found) == names(expected), (name, column, value)
        column = data.draw(st.sampled_from([n for n in VALUES if n not in ("l", "v")]))
        for make_null, null in ((ice.IsNull, True), (ice.NotNull, False)):
            found = table.scan(row_filter=make_null(column)).to_arrow().to_pylist()
            assert names(found) == names([r for r in everything if (r[column] is None) == null]), column
        found = table.scan(row_filter=ice.StartsWith("s", "b" * 32)).to_arrow().to_pylist()
        assert names(found) == names([r for r in everything if (r["s"] or "").startswith("b" * 32)])


def row(**given: Any) -> dict[str, Any]:
    return dict.fromkeys(VALUES) | given


def test_bounds_prune_files(tmp_path: Path) -> None:
    parts = [[row(n=10 * k + j, s=f"{'abcd'[k]}{j}", t=EPOCH + timedelta(days=k)) for j in range(3)] for k in range(4)]
    table = exported(tmp_path, parts)
    for condition in (
        ice.EqualTo("n", 21),
        ice.StartsWith("s", "c"),
        ice.GreaterThan("t", "1970-01-03T12:00:00+00:00"),
        ice.LessThan("n", 5),
    ):
        assert len(list(table.scan(row_filter=condition).plan_files())) == 1, condition
    assert len(list(table.scan(row_filter=ice.EqualTo("x", 1.0)).plan_files())) == 4


@pytest.mark.parametrize("by", ["i", "b"])
def test_partition_values_are_not_in_the_files(tmp_path: Path, by: str) -> None:
    values = [3, -1, 7] if by == "i" else [True, False]
    table = exported(tmp_path, [[row(n=k, s=str(k)) | {by: values[k % len(values)]} for k in range(6)]], by)
    for value in values:
        scan = table.scan(row_filter=ice.EqualTo(by, value))
        assert sorted(r["n"] for r in scan.to_arrow().to_pylist()) == [k for k in range(6) if values[k % len(values)] == value]
        assert len(list(scan.plan_files())) == 1
    assert rows(tmp_path, "t") == delta_rows(tmp_path, "t")


def test_removed_files_leave_their_manifests(tmp_path: Path) -> None:
    writer = DriverWriter(tmp_path)
    writer.ensure(TableSpec("t", SCHEMA, "", ("i",)))
    for n in range(4):
        made = table_of([row(n=10 * n + k, i=k) for k in range(3)])
        writer.append("t", SCHEMA.empty_table(), "a", n, writer.files("t", made, "i"))
        TableExport(tmp_path, "t", None, "job", writer.owner.made_id()).run()
    for n, which in enumerate(([1], [0, 2], [0, 1, 2])):
        writer.overwrite_partitions("t", table_of([row(n=100 * n + k, i=k) for k in which]), "i", which, "b", n)
        assert TableExport(tmp_path, "t", None, "job", writer.owner.made_id()).run()
        assert rows(tmp_path, "t") == delta_rows(tmp_path, "t") != []
    writer.overwrite("t", SCHEMA.empty_table(), "c", 0)
    TableExport(tmp_path, "t", None, "job", writer.owner.made_id()).run()
    assert rows(tmp_path, "t") == []


def test_an_added_column_keeps_the_ids_of_the_others(tmp_path: Path) -> None:
    writer = DriverWriter(tmp_path)
    first = pa.schema([("a", pa.int64()), ("l", pa.list_(pa.string()))])
    more = pa.schema([("a", pa.int64()), ("l", pa.list_(pa.string())), ("z", pa.list_(pa.float64())), ("c", pa.string())])
    writer.ensure(TableSpec("t", first, ""))
    writer.append("t", pa.table({"a": [1], "l": [["x"]]}, first), "a", 0)
    TableExport(tmp_path, "t", None, "job", writer.owner.made_id()).run()
    before = opened(tmp_path, "t")
    writer.ensure(TableSpec("t", more, ""))
    writer.append("t", pa.table({"a": [2], "l": [None], "z": [[0.5]], "c": ["y"]}, more), "a", 1)
    TableExport(tmp_path, "t", None, "job", writer.owner.made_id()).run()
    after = opened(tmp_path, "t")
    assert (
        rows(tmp_path, "t")
        == delta_rows(tmp_path, "t")
        == sorted([repr({"a": 1, "l": ["x"], "z": None, "c": None}), repr({"a": 2, "l": None, "z": [0.5], "c": "y"})])
    )
    assert after.schema().fields[:2] == before.schema().fields and before.metadata.table_uuid == after.metadata.table_uuid
    numbers = [f.field_id for f in after.schema().fields] + [after.schema().find_field(f"{n}.element").field_id for n in "lz"]
    assert len(set(numbers)) == len(numbers) and after.metadata.last_column_id == max(numbers)
    assert (before.schema().schema_id, after.schema().schema_id) == (0, 1)


def test_types_that_iceberg_does_not_have_are_named() -> None:
    assert export.unsupported(SCHEMA) is None
    assert export.unsupported(pa.schema([("a", pa.list_(pa.struct([("b", pa.timestamp("us"))])))])) is None
    for kind in (pa.uint64(), pa.duration("us"), pa.timestamp("ns"), pa.list_(pa.uint32())):
        said = export.unsupported(pa.schema([("a", pa.int64()), ("odd", kind)]))
        assert said is not None and "'odd'" in said


def test_the_parts_of_pyiceberg_that_the_adapter_uses_write_what_readers_of_the_format_need(tmp_path: Path) -> None:
    """Fails if another version of pyiceberg writes other metadata than that of format version 2."""
    table = exported(tmp_path, [[row(n=1, s="a", x=math.nan, y=2)]])
    found = table.metadata.model_dump(by_alias=True)
    assert found["format-version"] == 2 and found["current-snapshot-id"] == found["snapshots"][0]["snapshot-id"]
    assert found["location"] == f"file://{tmp_path}/_iceberg/t"
    snapshot = table.current_snapshot()
    assert snapshot is not None and snapshot.sequence_number == 1
    (manifest,) = snapshot.manifests(table.io)
    assert (manifest.added_files_count, manifest.added_rows_count, manifest.sequence_number, manifest.min_sequence_number) == (1, 1, 1, 1)
    assert Path(manifest.manifest_path.removeprefix("file://")).stat().st_size == manifest.manifest_length
    (entry,) = manifest.fetch_manifest_entry(table.io)
    file, field = entry.data_file, {f.name: f.field_id for f in table.schema().fields}
    assert Path(file.file_path.removeprefix("file://")).stat().st_size == file.file_size_in_bytes
    assert set(file.lower_bounds) == set(file.upper_bounds) == {field[n] for n in ("n", "y", "s")}
    assert file.lower_bounds[field["n"]] == (1).to_bytes(8, "little") and file.upper_bounds[field["s"]] == b"a"
    assert file.lower_bounds[field["y"]] == (2).to_bytes(4, "little")
    assert file.null_value_counts[field["t"]] == file.value_counts[field["t"]] == 1 and file.null_value_counts[field["n"]] == 0
