"""Reads Parquet files with Arrow, where that gives the same values as Spark's reader. Imports no Spark.

Everything else is ``UnsupportedFile``: Spark's business, which reads it, or says what is wrong with it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from skyband.framework.base.types import STAMP, arrow_type
from skyband.framework.plan.model import Field
from skyband.framework.sources.files.arrow import UnsupportedFile, local_file

_ROWS: Final = 65_536
"""Rows read at a time."""
_OLD: Final = -2_208_988_800
"""1900-01-01 in seconds: Spark may read older instants by another calendar."""
_DAY: Final = 86_400

# What a file may hold, beside the very type, for a column that is declared as the key.
_WIDENED: Final[dict[pa.DataType, tuple[pa.DataType, ...]]] = {
    pa.int32(): (pa.int8(), pa.int16()),
    pa.int64(): (pa.int8(), pa.int16(), pa.int32()),
    pa.float64(): (pa.float32(),),
    pa.string(): (pa.large_string(),),
}


@dataclass(frozen=True, slots=True)
class ParquetArrowReader:
    """Reads the columns ``fields`` of files in the directory ``root``; ``below``: in its subdirectories too."""

    root: str
    below: bool
    fields: tuple[Field, ...]

    def tables(self, url: str) -> Iterator[pa.Table]:
        """Yield the rows of a file by its URL, in its order, with the names and types of the fields. Raises UnsupportedFile."""
        path = local_file(url, self.root, self.below)
        try:
            with pq.ParquetFile(path, memory_map=False, pre_buffer=False) as file:
                names = self._names(file.schema_arrow)
                for batch in file.iter_batches(_ROWS, columns=[n for n in names if n is not None], use_threads=False):
                    yield self._table(batch, names)
        except (OSError, pa.ArrowException, ValueError) as e:
            raise UnsupportedFile(f"a file cannot be read ({type(e).__name__})", lasting=False) from e

    def _names(self, schema: pa.Schema) -> list[str | None]:
        """Return the name of each field in a file, ignoring case as Spark does; None if it is missing, which reads as null."""
        spelled: dict[str, list[str]] = {}
        for name in schema.names:
            spelled.setdefault(name.lower(), []).append(name)
        names: list[str | None] = []
        for f in self.fields:
            found = spelled.get(str(f.source_name).lower(), [])
            if len(found) > 1 or (found and "." in found[0]):
                raise UnsupportedFile(f"column {f.name} is there twice, or its name has a dot")
            if not found and str(f.source_name).partition(".")[0].lower() in spelled and "." in str(f.source_name):
                raise UnsupportedFile(f"column {f.name} is a member of an object")
            there = schema.field(found[0]).type if found else None
            if there is not None and not _same(there, arrow_type(f.type)):
                raise UnsupportedFile(f"a file has {there} where {f.name} is {f.type}")
            names.append(found[0] if found else None)
        if not any(names):
            raise UnsupportedFile("a file has none of the columns")
        return names

    def _table(self, batch: pa.RecordBatch, names: Sequence[str | None]) -> pa.Table:
        columns = []
        for f, name in zip(self.fields, names, strict=True):
            type_ = arrow_type(f.type)
            column = pa.nulls(batch.num_rows, type_) if name is None else batch.column(name)
            _in_bounds(column, f)
            columns.append(column if column.type == type_ else column.cast(type_))
        return pa.table(columns, [f.name for f in self.fields])


def _same(there: pa.DataType, declared: pa.DataType) -> bool:
    """Return True if Spark reads the one type as the other with the same values as Arrow."""
    if declared == STAMP:
        return pa.types.is_timestamp(there) and there.tz is not None and there.unit in ("ms", "us")
    return bool(there == declared) or there in _WIDENED.get(declared, ())


def _in_bounds(column: pa.Array, f: Field) -> None:
    """Raises UnsupportedFile for what both may read, but not alike."""
    kind = column.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        try:
            column.validate(full=True)
        except pa.ArrowInvalid as e:
            raise UnsupportedFile(f"column {f.name} holds bytes that are no text") from e
    elif pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        if pa.types.is_date(kind):
            whole, least = column.cast(pa.int32()), _OLD // _DAY
        else:
            whole, least = column.cast(pa.int64()), _OLD * (1_000 if kind.unit == "ms" else 1_000_000)
        first = pc.min(whole).as_py()
        if first is not None and first < least:
            raise UnsupportedFile(f"column {f.name} has instants before 1900")
