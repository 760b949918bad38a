"""Reads the data files of a Delta table with Arrow, where that gives the values of Spark's reader. Imports no Spark."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from skyband.framework.base.types import STAMP, arrow_type
from skyband.framework.plan.model import Field
from skyband.framework.sources.columnar.arrow_rows import ROWS, column_names, rows_of
from skyband.framework.sources.files.arrow import UnsupportedFile
from skyband.framework.sources.logs import local_path
from skyband.framework.sources.parquet.arrow_reader import reads


class DeltaReader:
    """Reads ``fields`` of files below ``root``."""

    def __init__(self, root: str, fields: tuple[Field, ...]) -> None:
        self._root, self._fields = root, fields
        self.values: dict[str, Mapping[str, Any]] = {}
        """The URL of a file -> the values of its partition, by column."""

    def tables(self, url: str) -> Iterator[pa.Table]:
        """Yield the rows of a file by its URL, with the names and types of the fields. Raises UnsupportedFile."""
        path = local_path(url)
        if path is None:
            raise UnsupportedFile("a file is not on this machine")
        values = {name.lower(): value for name, value in self.values.get(url, {}).items()}
        own = tuple(f for f in self._fields if str(f.source_name).lower() not in values)
        try:
            # Spark writes instants as INT96, in UTC: as nanoseconds, later ones than 2262 would not fit.
            with pq.ParquetFile(path, memory_map=False, pre_buffer=False, coerce_int96_timestamp_unit="us") as file:
                columns = (file.schema.column(i) for i in range(len(file.schema)))
                int96 = frozenset(c.path for c in columns if c.physical_type == "INT96")
                names = column_names(own, file.schema_arrow, partial(_reads, int96))
                for batch in file.iter_batches(ROWS, columns=[n for n in names if n is not None], use_threads=False):
                    yield self._with_values(rows_of(batch, own, names), values)
        except (OSError, pa.ArrowException, ValueError) as e:
            raise UnsupportedFile(f"a file cannot be read ({type(e).__name__})", lasting=False) from e

    def _with_values(self, rows: pa.Table, values: Mapping[str, Any]) -> pa.Table:
        for i, f in enumerate(self._fields):
            name = str(f.source_name).lower()
            if name in values:
                column = pa.repeat(pa.scalar(values[name], arrow_type(f.type)), rows.num_rows)
                rows = rows.add_column(i, f.name, column)
        return rows


def _reads(int96: frozenset[str], name: str, there: pa.DataType, f: Field) -> bool:
    if name in int96:
        return bool(arrow_type(f.type) == STAMP)
    return reads(name, there, f)
