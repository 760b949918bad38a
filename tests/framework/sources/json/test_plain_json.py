"""JSON files that Spark's own reader may read: those alone whose lines are one object each, and whose values have one reading."""

from __future__ import annotations

from pathlib import Path

import pytest

from skyband.framework.plan.model import Field, SourceNode
from skyband.framework.sources.json.plain import may_be_plain, why_not_plain
from skyband.framework.sources.json.syntax import pieces

TYPES = {"id": "bigint", "t": "timestamp", "day": "date", "x": "double", "s": "string"}
PLAIN = [
    '{"id":1,"t":"2024-01-01T00:00:00Z","x":1.5,"s":"}{"}',
    '{"a":{"b":[1,{"c":"]"}]},"id":123456789012345678}',
    "",
    "  ",
    '{"s":"\\ud83d\\ude00"}',
    '{"s":"c:\\\\ud800"}',
    ' {"x":null,"t":1706954400,"day":"2024-01-01"} ',
    '{"x":"nothing"}'.replace('"nothing"', "-1.5e-300"),
    '{"id":"x"}',
]
ODD = [
    '{"id":1}{"id":2}',
    '{"id":1},',
    '{"id":1}]',
    '[{"id":1}]',
    "5",
    "null",
    '{"id":1',
    '{"s":"a',
    "{'s':'}{'}",
    '{"x":1e309}',
    '{"x":Infinity}',
    '{"x":"NaN"}',
    '{"t":"10:00"}',
    '{"t":"2024"}',
    '{"t":1706954400000000}',
    '{"day":"2024-01-01 99"}',
    '{"day":2024}',
    '{"s":"\\ud800"}',
    '{"s":"\\udc00"}',
    '{"id":1}/*a*/',
    '{"id":1}\r{"id":2}',
    '{"\\u0078":1e309}',
    "\0",
    '{"x" : 1e99}',
    '{"x":[1e309]}',
    '{"s":"\\ud83dx"}',
    '{"s":"x\\\n{"id":2} {"id":3} "}',
    '{"s":"x\r{"id":2} {"id":3} "}',
    f'{{"x":{"9" * 400}e1}}',
]


def source(**options: str) -> SourceNode:
    return SourceNode("json", "in", tuple(options.items()), tuple(Field(n, t, "text", n) for n, t in TYPES.items()))


@pytest.mark.parametrize("end", ["\n", "\r\n", ""])
def test_plain_lines_and_others(tmp_path: Path, end: str) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(("\n".join(PLAIN) + end).encode())
    assert why_not_plain(source(), str(path)) is None
    for line in ODD:
        path.write_bytes((f'{{"id":1}}\n{line}{end}').encode())
        assert why_not_plain(source(), str(path)) is not None, line
    path.write_bytes(b'\xef\xbb\xbf{"id":1}' + end.encode())
    assert why_not_plain(source(), str(path)) is None
    path.write_bytes(b'{"s":"\xfc"}' + end.encode())
    assert why_not_plain(source(), str(path)) == "a file has bytes that are no UTF-8"


def test_options_leave_files_to_the_exact_reader() -> None:
    assert may_be_plain(source())
    assert may_be_plain(source(pathGlobFilter="*.json"))
    assert not may_be_plain(source(multiLine="true"))
    assert not may_be_plain(source(encoding="windows-1252"))


def test_pieces_lose_nothing() -> None:
    assert list(pieces(b'{"a":[1,2]} {"b":"}"}\n x [5,{"c":1}] "open')) == [b'{"a":[1,2]}', b'{"b":"}"}', b"x", b"5", b'{"c":1}', b'"open']


def test_members_of_objects_are_looked_at_like_columns(tmp_path: Path) -> None:
    fields = (Field("x", "double", "text", "u.x"), Field("t", "timestamp", "text", "u.t"))
    node = SourceNode("json", "in", (), fields)
    path = tmp_path / "a.json"
    path.write_text('{"u":{"x":1.5,"t":"2024-01-01"}}\n')
    assert why_not_plain(node, str(path)) is None
    for text in ('{"u":{"x":1e309}}', '{"u":{"t":"10:00"}}', '{"u":{"t":1706954400000000}}'):
        path.write_text(text + "\n")
        assert why_not_plain(node, str(path)) is not None
    both = SourceNode("json", "in", (), (*fields, Field("x2", "date", "text", "v.x")))
    assert why_not_plain(both, str(path)) is not None
