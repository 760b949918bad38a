"""The position of a row in its source, for data without an id (``source.id: position``). Imports no Spark.

A record of a Kafka topic is identified by its partition and offset, a row of a file by the file's name below the source's path and the
row's number in the file, from 1. Every row that a reader returns counts, also one that does not parse. Headers, title lines, comments and
blank lines are not rows.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Final, NamedTuple
from urllib.parse import unquote

from skyband.framework.plan.model import Field, SourceNode
from skyband.framework.sources.files.listing import marked, root_of
from skyband.framework.sources.logs import local_path

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
