"""The position of a row in its source, for data without an id (``source.id: position``). Imports no Spark.

A record of a Kafka topic is identified by its partition and offset, a row of a file by the file's name below the source's path and the
row's number in the file, from 1. Every row that a reader returns counts, also one that does not parse. Headers, title lines, comments and
blank lines are not rows.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import unquote

from skyband.framework.plan.model import Field, SourceNode
from skyband.framework.sources.files.listing import marked, root_of
from skyband.framework.sources.logs import local_path

if TYPE_CHECKING:
    import pyarrow as pa

    from skyband.framework.sources.protocol import ArrowReader

PREFIX: Final = "$position/"
"""Begins the source name of columns that readers make of a row's position."""
FILE: Final = f"{PREFIX}file"
ROW: Final = f"{PREFIX}row"
PARTITION: Final = f"{PREFIX}partition"
OFFSET: Final = f"{PREFIX}offset"


class PositionColumn(NamedTuple):
    """A column that ``id: position`` adds. ``source_name``: begins with ``PREFIX``."""

    name: str
    type: str
    source_name: str


OF_FILES: Final = (PositionColumn("file", "string", FILE), PositionColumn("file_row", "bigint", ROW))
"""The position of a row of a file, in the order of the id."""
OF_RECORDS: Final = (PositionColumn("topic_partition", "int", PARTITION), PositionColumn("topic_offset", "bigint", OFFSET))
"""The position of a record of a Kafka topic."""


def is_position(f: Field) -> bool:
    """Return True if readers make the column ``f`` of a row's position."""
    return f.source_name is not None and f.source_name.startswith(PREFIX)


@dataclass(frozen=True, slots=True)
class FileNames:
    """Names files relative to ``base``, a directory without a slash at its end: a local one, or the path of a URL."""

    base: str

    @classmethod
    def of(cls, source: SourceNode) -> FileNames:
        """Return the names of the files of ``source``: below its directory, or below the part of a pattern that names one directory."""
        root = root_of(source)
        path = root if root is not None else _path(str(source.path))
        parts = path.split("/")
        pattern = next((i for i, part in enumerate(parts) if marked(part)), None)
        if pattern is not None:
            return cls("/".join(parts[:pattern]))
        return cls(os.path.dirname(path) if root is not None and os.path.isfile(root) else path.rstrip("/"))

    def name(self, place: str) -> str:
        """Return the name of the file at ``place``, a URL or a local path. A file that is not below the base has its whole path."""
        local = place if place.startswith("/") else local_path(place)
        path = local if local is not None else unquote(_path(place))
        return path.removeprefix(self.base + "/")


def _path(url: str) -> str:
    """Return the path of a URL with a host: ``/a/b`` of ``s3a://bucket/a/b``."""
    return "/" + url.partition("://")[2].partition("/")[2]


def position_values(position: tuple[Field, ...], file: str, row: int) -> dict[str, str | int]:
    """Return the values of the columns ``position`` of row number ``row`` of ``file``, or of record ``row`` of the first partition."""
    values: dict[str, str | int] = {FILE: file, ROW: row, PARTITION: 0, OFFSET: row - 1}
    return {f.name: values[str(f.source_name)] for f in position}


@dataclass(frozen=True, slots=True)
class NumberedFiles:
    """Reads files by ``reader``, with the columns ``position`` of ``source`` behind those of the reader."""

    reader: ArrowReader
    names: FileNames
    position: tuple[Field, ...]

    def tables(self, url: str) -> Iterator[pa.Table]:
        """Yield the rows of a file in its order. Raises UnsupportedFile."""
        before = 0
        for rows in self.reader.tables(url):
            yield numbered(rows, self.position, self.names.name(url), before)
            before += rows.num_rows


def numbered(rows: pa.Table, position: tuple[Field, ...], file: str, before: int) -> pa.Table:
    """Return ``rows`` of ``file``, which has ``before`` rows before them, with the columns ``position``. O(rows)."""
    import numpy as np
    import pyarrow as pa

    values = {
        FILE: pa.repeat(pa.scalar(file, pa.string()), rows.num_rows),
        ROW: pa.array(np.arange(before + 1, before + 1 + rows.num_rows, dtype=np.int64)),
    }
    for f in position:
        rows = rows.append_column(f.name, values[str(f.source_name)])
    return rows
