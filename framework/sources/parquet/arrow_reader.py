"""Reads Parquet files with Arrow, where that gives the same values as Spark's reader. Imports no Spark.

Everything else is ``UnsupportedFile``: Spark's business, which reads it, or says what is wrong with it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq

from skyband.framework.base.types import STAMP, arrow_type
from skyband.framework.plan.model import Field
from skyband.framework.sources.columnar.arrow_rows import ROWS, WIDENED, column_names, rows_of
from skyband.framework.sources.files.arrow import UnsupportedFile, local_file


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
                names = column_names(self.fields, file.schema_arrow, reads)
                for batch in file.iter_batches(ROWS, columns=[n for n in names if n is not None], use_threads=False):
                    yield rows_of(batch, self.fields, names)
        except (OSError, pa.ArrowException, ValueError) as e:
            raise UnsupportedFile(f"a file cannot be read ({type(e).__name__})", lasting=False) from e


def reads(name: str, there: pa.DataType, f: Field) -> bool:
    """Return whether Spark reads a column of that type in a file as ``f``, with the values of Arrow."""
    declared = arrow_type(f.type)
    if declared == STAMP:
        return pa.types.is_timestamp(there) and there.tz is not None and there.unit in ("ms", "us")
    return bool(there == declared) or there in WIDENED.get(declared, ())
