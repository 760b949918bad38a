"""The format ``parquet``: files that state the types of their columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Final

from skyband.framework.plan.model import Field, SourceNode
from skyband.framework.sources.columnar.file_columns import parquet_columns
from skyband.framework.sources.duckdb_sql import NEUTRAL, list_of
from skyband.framework.sources.files.format import FileFormat
from skyband.framework.sources.first_rows import FirstRows
from skyband.framework.sources.options import LISTING, PARQUET, Options
from skyband.framework.sources.protocol import ArrowReader, ArrowRules, Columns

_ARROW: Final = ArrowRules(option=lambda name, value: name in LISTING, lists=True)


@dataclass(frozen=True, slots=True)
class ParquetFormat(FileFormat):
    """Reads Parquet files, by Arrow where that gives the values that Spark gives."""

    takes: Options = field(default_factory=lambda: PARQUET)
    preview_options: ClassVar[frozenset[str] | None] = frozenset({"pathglobfilter", "recursivefilelookup", "mergeschema"})
    duckdb_options: ClassVar[frozenset[str] | None] = NEUTRAL

    def arrow_rules(self) -> ArrowRules | None:
        """See ``SourceFormat.arrow_rules``."""
        return _ARROW if type(self) is ParquetFormat else None

    def arrow_reader(self, source: SourceNode, root: str, below: bool, fields: tuple[Field, ...], header: tuple[str, ...]) -> ArrowReader:
        """See ``SourceFormat.arrow_reader``."""
        from skyband.framework.sources.parquet.arrow_reader import ParquetArrowReader

        return ParquetArrowReader(root, below, fields)

    def first_rows(self, source: SourceNode, path: str, most: int, found: FirstRows) -> None:
        """See ``SourceFormat.first_rows``."""
        from skyband.framework.sources.columnar.preview import first_rows

        first_rows(source, path, most, found)

    def file_columns(self, source: SourceNode, path: str) -> Columns | None:
        """See ``SourceFormat.file_columns``: the schema in the footer."""
        return parquet_columns(path)

    def duckdb_call(self, source: SourceNode, files: Sequence[str], header: Sequence[str] | None) -> str | None:
        """See ``SourceFormat.duckdb_call``."""
        return f"read_parquet({list_of(files)}, union_by_name = true)"

    def spark_relation(self, path: str) -> str | None:
        """See ``SourceFormat.spark_relation``."""
        return f"parquet.`{path.replace('`', '``')}`"

    def without_rows(self, source: SourceNode, header: bool, path: Path, data: bytes, keep: Sequence[bool]) -> bytes | None:
        """See ``SourceFormat.without_rows``."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        rows = pq.read_table(path)
        if rows.num_rows != len(keep):
            return None
        sink = pa.BufferOutputStream()
        pq.write_table(rows.filter(pa.array(keep)), sink)
        return bytes(sink.getvalue())
