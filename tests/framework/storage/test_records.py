"""Small JSON files of a sink: what is written is read again, and whatever else is in their place is reported by one coded error."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pytest
from pydantic import ConfigDict

from skyband.framework.base.errors import SkybandError
from skyband.framework.storage.records import STRICT, InvalidRecord, Record, Whole


@dataclass(frozen=True, slots=True)
class Noted:
    name: str
    batches: dict[str, Whole]
    __pydantic_config__: ClassVar[ConfigDict] = STRICT


NOTED = Record[Noted](Noted, "{path} cannot be read: {why}. It says what was noted", "remove {path}", "SKY-E400")
GOOD = Noted("a", {"b": 1, "a": -(2**63)})


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "noted.json"
    assert NOTED.read(path) is None and NOTED.known(path) is None and NOTED.need(path) is None
    NOTED.write(path, GOOD)
    assert NOTED.read(path) == NOTED.known(path) == NOTED.need(path) == GOOD
    assert [p.name for p in tmp_path.iterdir()] == ["noted.json"]


def test_keys_are_sorted_where_that_is_asked() -> None:
    assert NOTED.text(GOOD).index('"b"') < NOTED.text(GOOD).rindex('"a":')
    assert Record[Noted](Noted, sort=True, indent=None).text(GOOD) == '{"batches": {"a": -9223372036854775808, "b": 1}, "name": "a"}'


@pytest.mark.parametrize(
    "content",
    [
        b"", b"{", b"[]", b"null", b'{"name": "a"}', b'{"name": 1, "batches": {}}', b'{"name": "a", "batches": {"a": 1.5}}',
        b'{"name": "a", "batches": {"a": 9223372036854775808}}', b'{"name": "a", "batches": {}, "more": 1}', b"\xff\xfe",
    ],
)  # fmt: skip
def test_content_that_does_not_fit_has_one_error(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "{noted}.json"
    path.write_bytes(content)
    with pytest.raises(InvalidRecord):
        NOTED.read(path)
    assert NOTED.known(path) is None
    with pytest.raises(SkybandError, match="SKY-E400") as e:
        NOTED.need(path)
    assert e.value.message.startswith(f"{path} cannot be read: ") and e.value.message.endswith(". It says what was noted")
    assert e.value.hint == f"remove {path}"


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    directory, pipe, link = tmp_path / "directory", tmp_path / "pipe", tmp_path / "link"
    directory.mkdir()
    os.mkfifo(pipe)
    NOTED.write(tmp_path / "noted.json", GOOD)
    link.symlink_to(tmp_path / "noted.json")
    for path, why in ((directory, "is a directory"), (pipe, "it is not a regular file")):
        with pytest.raises(InvalidRecord, match=why):
            NOTED.read(path)
        assert NOTED.known(path) is None
    for read in (NOTED.read, NOTED.known, NOTED.need):
        with pytest.raises(SkybandError, match="SKY-E518"):
            read(link)
