"""JSON lines that are read without Spark, against Python's own parser: all rows of a file, or none."""

from __future__ import annotations

import json
import re
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skyband.framework.plan.model import Field, SourceNode
from skyband.framework.sources.csv.cells import READABLE
from skyband.framework.sources.files.arrow import UnsupportedFile
from skyband.framework.sources.json import arrow_reader
from skyband.framework.sources.json.arrow_reader import JsonArrowReader

TYPES = {"id": "bigint", "ts": "timestamp", "s": "string", "b": "boolean", "d": "date", "x": "double"}
FIELDS = (*(Field(n, t, "text", n) for n, t in TYPES.items()), Field("m", "string", "text", "u.m"), Field("n", "bigint", "text", "u.w.n"))
PATHS = {"m": ("u", "m"), "n": ("u", "w", "n")}


def reader(directory: Path, fields: tuple[Field, ...] = FIELDS) -> JsonArrowReader:
    return JsonArrowReader(str(directory), False, SourceNode("json", str(directory), (), fields), fields)


def read(directory: Path, data: bytes, fields: tuple[Field, ...] = FIELDS, name: str = "a.json") -> list[dict[str, Any]]:
    (directory / name).write_bytes(data)
    return [row for table in reader(directory, fields).tables((directory / name).as_uri()) for row in table.to_pylist()]


def refused(directory: Path, data: str | bytes, fields: tuple[Field, ...] = FIELDS) -> str:
    with pytest.raises(UnsupportedFile) as found:
        read(directory, data.encode() if isinstance(data, str) else data, fields)
    assert found.value.lasting
    return str(found.value)


def by_definition(line: str) -> dict[str, Any]:
    """The row of a line, by Python's parser."""
    row = json.loads(line)
    values: dict[str, Any] = {}
    for f in FIELDS:
        value: Any = row
        for part in PATHS.get(f.name, (f.name,)):
            value = None if value is None else value.get(part)
        if value is not None and f.type == "timestamp":
            value = datetime.fromisoformat(value.removesuffix("Z")).replace(tzinfo=UTC)
        elif value is not None and f.type in ("date", "double"):
            value = date.fromisoformat(value) if f.type == "date" else float(value)
        values[f.name] = value
    return values


texts = st.text(st.characters(exclude_categories=("Cs",)), max_size=4) | st.sampled_from(["1.10", "-5", "\\", '"', "\0", "é\U0001f600"])
numbers = st.integers(-(10**18) + 1, 10**18 - 1)
instants = st.datetimes(datetime(1900, 1, 1), datetime(9999, 12, 31))
anything = st.recursive(
    st.none() | st.booleans() | numbers | texts, lambda v: st.lists(v, max_size=3) | st.dictionaries(texts, v, max_size=3)
)
rows = st.fixed_dictionaries(
    {},
    optional={
        "id": numbers | st.none(),
        "ts": instants.map(lambda t: t.isoformat() + "Z") | instants.map(lambda t: t.isoformat(sep=" ")),
        "s": texts | st.none(),
        "b": st.booleans(),
        "d": st.dates(date(1900, 1, 1)).map(str),
        "x": st.floats(allow_nan=False).filter(lambda v: re.fullmatch(r"-?[0-9.]+(e-[0-9]{2})?", repr(v)) is not None),
        "u": st.none() | st.fixed_dictionaries({}, optional={"m": texts, "w": st.fixed_dictionaries({}, optional={"n": numbers})}),
        "other": anything,
    },
)


@given(st.lists(rows, max_size=4), st.booleans(), st.sampled_from(["\n", "\r\n", "\n \n\t\n"]), st.sampled_from([1, 2, 1 << 16]))
def test_rows_are_read_as_python_reads_them(
    tmp_path_factory: pytest.TempPathFactory, found: list[dict[str, Any]], ascii_: bool, end: str, most: int
) -> None:
    directory = tmp_path_factory.getbasetemp()
    lines = [json.dumps(row, ensure_ascii=ascii_) for row in found]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(arrow_reader, "_ROWS", most)
        patch.setattr(arrow_reader, "_PIECE", 16 * most)
        try:
            made = read(directory, end.join(lines).encode())
        except UnsupportedFile:
            # Names with escapes, and texts like numbers beside a number of their name.
            assert any("other" in row for row in found)
            return
    assert made == [by_definition(line) for line in lines]


@given(
    st.lists(st.sampled_from([*'{}[]:,"\\ \n\r\t-0.eEtfnu', '"id"', '"s"', "null", "true", '"\\ud83d\\ude00"']), max_size=12).map("".join)
)
def test_what_python_does_not_read_is_refused(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    for data in (text, f'{{"id":1,"s":{text}}}', f'{{"id":1,"o":{text},"s":""}}\n{{}}'):
        try:
            made = read(tmp_path_factory.getbasetemp(), data.encode())
        except UnsupportedFile:
            continue
        assert made == [by_definition(line) for line in data.split("\n") if line.strip(" \t\r")]


ODD = {
    "two objects in a line": '{"id":1}{"id":2}',
    "an object in two lines": '{"id":\n1}',
    "a comma behind": '{"id":1},',
    "a list": '[{"id":1}]',
    "no object": "null",
    "a name twice": '{"id":1,"id":1}',
    "an object twice": '{"u":{"m":"a"},"u":null}',
    "a member twice": '{"u":{"m":null,"m":"a"}}',
    "a name with an escape": '{"\\u0069d":1}',
    "a column of the name of a member": '{"u.m":"a"}',
    "no object where a member is": '{"u":[]}',
    "a return": '{"id":1}\r{"id":2}',
    "a mark within": '{"id":1}\n\ufeff{"id":2}',
    "half a character": '{"o":"\\ud800"}',
    "too deep": '{"o":' + "[" * 200 + "]" * 200 + "}",
    "a long number": '{"o":' + "9" * 301 + "}",
    "a long name": '{"' + "n" * 10_001 + '":1}',
    "a comment": '{"id":1}//',
    "a control character": '{"o":"\x1f"}',
    "a zero": '{"id":1}\n\0',
    "no JSON": '{"o":NaN}',
    "a minus zero": '{"x":-0}',
    "an empty instant": '{"ts":""}',
    "a number for a text": '{"s":1}',
    "a text for a number": '{"id":"1"}',
    "a fraction for a number": '{"id":1.0}',
    "a number of its name elsewhere": '{"s":"1.10","o":{"s":1.1}}',
}


@pytest.mark.parametrize("odd", ODD)
def test_a_file_with_one_odd_line_is_left_to_spark(tmp_path: Path, odd: str) -> None:
    assert refused(tmp_path, f'{{"id":1}}\n{ODD[odd]}\n{{"id":3}}\n')


def test_ordinary_files_are_read(tmp_path: Path) -> None:
    deep = "[" * 199 + "]" * 199
    line = f'{{"id":1,"o":{deep},"{"n" * 9_999}":{"9" * 300},"s":"{"long " * 10_000}"}}\n'
    assert [r["id"] for r in read(tmp_path, b"\xef\xbb\xbf" + line.encode() * 3)] == [1, 1, 1]
    assert read(tmp_path, b"") == read(tmp_path, b"\n \r\n") == []
    assert read(tmp_path, b'{"id":5}', FIELDS[:1], "part-0000") == [{"id": 5}]
    assert refused(tmp_path, b'{"s":"\xfc"}') == "a file has bytes that are no UTF-8, or a very long line"


def test_files_and_columns_that_are_left_to_spark(tmp_path: Path) -> None:
    (tmp_path / "a.json.gz").write_bytes(b"")
    for path in (tmp_path / "a.json.gz", tmp_path / "sub" / "a.json"):
        with pytest.raises(UnsupportedFile):
            list(reader(tmp_path).tables(path.as_uri()))
    with pytest.raises(UnsupportedFile, match="cannot be read") as found:
        list(reader(tmp_path).tables((tmp_path / "gone.json").as_uri()))
    assert not found.value.lasting
    twice = (Field("a", "string", "text", "s"), Field("b", "string", "text", "s"))
    assert refused(tmp_path, "{}", twice) == "two columns have one name"
    inside = (Field("a", "string", "text", "u.w"), Field("b", "string", "text", "u.w.n"))
    assert refused(tmp_path, "{}", inside) == "two columns have one name"


def test_every_type_of_cells_has_a_kind(tmp_path: Path) -> None:
    fields = tuple(Field(t, t, "text", t) for t in READABLE)
    assert read(tmp_path, b"{}", fields) == [dict.fromkeys(READABLE)]
