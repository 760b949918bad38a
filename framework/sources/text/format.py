"""What the formats of text files share: CSV and JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from skyband.framework.plan.model import SourceNode
from skyband.framework.sources.files.format import FileFormat
from skyband.framework.sources.protocol import Mistake, Section
from skyband.framework.sources.text.options import folded, skipped, wrong


@dataclass(frozen=True, slots=True)
class TextFileFormat(FileFormat):
    """Reads files whose rows are texts, which may fail to parse."""

    text: bool = True
    counts_rows: ClassVar[bool] = True

    def check(self, section: Section) -> Iterator[Mistake]:
        """See ``SourceFormat.check``."""
        yield from FileFormat.check(self, section)
        yield from wrong(section)

    def without_rows(self, source: SourceNode, header: bool, path: Path, data: bytes, keep: Sequence[bool]) -> bytes | None:
        """See ``SourceFormat.without_rows``: only for files with one row per line."""
        options = folded(source.options)
        titles = data.splitlines(keepends=True)[: skipped(options)]
        top, lines = _lines(data[sum(map(len, titles)) :], header, options.get("comment", "").encode())
        if len(lines) != len(keep):
            return None
        return b"".join([*titles, *top, *(line for line, kept in zip(lines, keep, strict=True) if kept)])


def _lines(data: bytes, header: bool, comment: bytes) -> tuple[list[bytes], list[bytes]]:
    """Return (the header's line, the lines that are rows), each with its line feed."""
    rows = [line if line.endswith(b"\n") else line + b"\n" for line in data.splitlines(keepends=True) if _is_row(line, comment)]
    return (rows[:1], rows[1:]) if header else ([], rows)


def _is_row(line: bytes, comment: bytes) -> bool:
    return bool(line.strip()) and not (comment and line.startswith(comment))
