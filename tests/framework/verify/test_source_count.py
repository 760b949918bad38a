"""The rows of text files counted by lines, apart from any reader of theirs."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from skyband.framework.plan.model import SourceNode
from skyband.framework.sources.registry import source_format

COUNTS = [
    ("csv", {}, b"id,x\n1,2\n\n  \n3,4", 2),
    ("csv", {}, b"\xef\xbb\xbfid,x\r1,2\r\n3,4\r", 2),
    ("csv", {"skip_lines": "2"}, b"a\n\n\nid,x\n1,2\n", 1),
    ("csv", {"comment": "#"}, b"#a\nid,x\n#1,2\n1,2\n", 1),
    ("csv", {"multiLine": "true"}, b'id,x\n1,"a\nb"\n', None),
    ("csv", {}, b"", 0),
    ("json", {}, b'{"a":1}{"a":2}\n\n5\n{"a":3}', 3),
    ("json", {}, b'[{"a":1},{"a":2}]\n', None),
    ("json", {"multiLine": "true"}, b'{"a":1}\n{"a":[2]},[{"a":3},{}]', 4),
    ("json", {"multiLine": "true"}, b'{"a":1} x', None),
]


@pytest.mark.parametrize(("kind", "options", "data", "rows"), COUNTS)
def test_rows_of_files(tmp_path: Path, kind: str, options: dict[str, str], data: bytes, rows: int | None) -> None:
    source = SourceNode(kind, str(tmp_path), tuple(options.items()), ())
    (tmp_path / "a").write_bytes(data)
    assert source_format(source.format).count_rows(source, str(tmp_path / "a"), header=True) == rows
    (tmp_path / "a.gz").write_bytes(gzip.compress(data))
    assert source_format(source.format).count_rows(source, str(tmp_path / "a.gz"), header=True) == rows
