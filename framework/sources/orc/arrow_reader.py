"""Reads ORC files with Arrow, where that gives the same values as Spark's reader. Imports no Spark.

Everything else is ``UnsupportedFile``. A timestamp of ORC is the time on a clock: Spark takes it for one of the JVM's time zone, Arrow for
one of UTC. So Arrow reads it only where the time zone of this process, which is the JVM's, is UTC.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.orc

from skyband.framework.base.types import STAMP, arrow_type
from skyband.framework.plan.model import Field
from skyband.framework.sources.columnar.arrow_rows import ROWS, WIDENED, column_names, rows_of
from skyband.framework.sources.files.arrow import UnsupportedFile, local_file

_EPOCH: Final = pa.scalar(0, STAMP)
_TEXT: Final = 7
_CLOCK: Final = 9
_CATALYST: Final = b"spark.sql.catalyst.type"


class OrcType(NamedTuple):
    """A column's type in the footer: its ``kind`` (``Type.Kind`` of ORC's format), and the type that Spark wrote beside it, if any."""

    kind: int
    written: bytes


@dataclass(frozen=True, slots=True)
class OrcArrowReader:
    """Reads the columns ``fields`` of files in the directory ``root``; ``below``: in its subdirectories too."""

    root: str
    below: bool
    fields: tuple[Field, ...]

    def tables(self, url: str) -> Iterator[pa.Table]:
        """Yield the rows of a file by its URL, in its order, with the names and types of the fields. Raises UnsupportedFile."""
        path = local_file(url, self.root, self.below)
        try:
            with pa.OSFile(path) as source:
                file = pa.orc.ORCFile(source)
                names = self._names(file)
                for stripe in range(file.nstripes):
                    rows = _stripe(file, stripe, [n for n in names if n is not None])
                    for start in range(0, rows.num_rows, ROWS):
                        yield rows_of(_in_micros(rows.slice(start, ROWS)), self.fields, names)
        except (OSError, pa.ArrowException, ValueError, IndexError) as e:
            raise UnsupportedFile(f"a file cannot be read ({type(e).__name__})", lasting=False) from e

    def _names(self, file: pa.orc.ORCFile) -> list[str | None]:
        types = column_types(file.reader.serialized_file_tail())
        if all(name.startswith("_col") for name in types):
            raise UnsupportedFile("the columns of a file have only numbers")
        return column_names(self.fields, file.schema, lambda name, there, f: _reads(types[name], there, f))


def _stripe(file: pa.orc.ORCFile, number: int, names: list[str]) -> pa.RecordBatch:
    try:
        return file.read_stripe(number, columns=names)
    except pa.ArrowInvalid as e:
        if "nanosecond" not in str(e):
            raise
        raise UnsupportedFile("a file has instants after 2262") from e


def _reads(found: OrcType, there: pa.DataType, f: Field) -> bool:
    declared = arrow_type(f.type)
    if declared == STAMP:
        utc = found.kind != _CLOCK or time.tzname == ("UTC", "UTC")
        return pa.types.is_timestamp(there) and utc and found.written in (b"", b"timestamp")
    if declared == pa.string() and found.kind != _TEXT:
        return False
    return bool(there == declared) or there in WIDENED.get(declared, ())


def _in_micros(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Return ``rows`` with microseconds for Arrow's nanoseconds. Raises UnsupportedFile for instants that Spark may read otherwise."""
    columns = [_micros(c, f.name) if pa.types.is_timestamp(f.type) else c for c, f in zip(rows.columns, rows.schema, strict=True)]
    return pa.RecordBatch.from_arrays(columns, rows.schema.names)


def _micros(column: pa.Array, name: str) -> pa.Array:
    try:
        column = column.cast(STAMP)
    except pa.ArrowInvalid as e:
        raise UnsupportedFile(f"column {name} has instants in nanoseconds") from e
    # Arrow writes such a fraction with another sign than Spark, which then cannot read it.
    early = pc.and_(pc.less(column, _EPOCH), pc.not_equal(pc.subsecond(column), 0.0))
    if pc.any(early).as_py():
        raise UnsupportedFile(f"column {name} has fractions of seconds before 1970")
    return column


def column_types(tail: bytes) -> dict[str, OrcType]:
    """Return the types of a file's columns by name. ``tail``: ORC's message ``FileTail``. Raises ValueError or IndexError. O(bytes).

    Arrow's own schema does not distinguish ``char`` and ``varchar``, which pad and cut texts, from ``string``.
    """
    footer = _part(tail, 2)
    types = [list(_message(value)) for number, value in _message(footer) if number == 4 and isinstance(value, bytes)]
    numbers: list[int] = []
    for number, value in types[0]:
        if number == 2:
            numbers += [value] if isinstance(value, int) else _packed(value)
    names = [value.decode() for number, value in types[0] if number == 3 and isinstance(value, bytes)]
    return {name: _column_type(types[number]) for name, number in zip(names, numbers, strict=True)}


def _column_type(fields: list[tuple[int, int | bytes]]) -> OrcType:
    kind = next((value for number, value in fields if number == 1 and isinstance(value, int)), 0)
    attributes = [dict(_message(value)) for number, value in fields if number == 7 and isinstance(value, bytes)]
    written = next((a.get(2, b"") for a in attributes if a.get(1) == _CATALYST), b"")
    return OrcType(kind, written if isinstance(written, bytes) else b"")


def _part(data: bytes, wanted: int) -> bytes:
    found = next((value for number, value in _message(data) if number == wanted), None)
    if not isinstance(found, bytes):
        raise ValueError("a file has no footer")
    return found


def _message(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield (number, value) of the fields of a message of Protocol Buffers that are whole numbers, texts or messages."""
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        if tag & 7 == 0:
            value, at = _varint(data, at)
            yield tag >> 3, value
        elif tag & 7 == 2:
            size, at = _varint(data, at)
            yield tag >> 3, data[at : at + size]
            at += size
        elif tag & 7 in (1, 5):
            at += 8 if tag & 7 == 1 else 4
        else:
            raise ValueError("a field of an unknown type")


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """Return (a whole number of Protocol Buffers, the position after it). Raises IndexError."""
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, at


def _packed(data: bytes) -> list[int]:
    found, at = [], 0
    while at < len(data):
        value, at = _varint(data, at)
        found.append(value)
    return found
