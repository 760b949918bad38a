"""Reads the schema and the first rows of a Parquet file, an ORC file or a Delta table without Spark."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import pyarrow as pa

from skyband.framework.plan.model import Field, SourceNode
from skyband.framework.sources.columnar import column_types
from skyband.framework.sources.nested import path_of
from skyband.framework.storage.delta_logs import library_errors, open_table

READ_ERRORS = (OSError, pa.ArrowException, ValueError)
"""Errors of files that cannot be read."""


@dataclass(frozen=True, slots=True)
class TypedFile:
    """``physical``: the types of Parquet's columns below Arrow's, by path."""

    format: str
    path: str
    schema: pa.Schema
    physical: dict[str, str] = field(default_factory=dict)

    def column(self, source: SourceNode, f: Field) -> tuple[tuple[str, ...], pa.Field] | None:
        """Return (path, column or member) of the field ``f``; None if the file has none."""
        name = str(f.source_name)
        for path in ((name,), path_of(source, name)):
            found = column_types.member(self.schema, path) if path is not None else None
            if path is not None and found is not None:
                return path, found
        return None

    def physical_of(self, path: tuple[str, ...]) -> str:
        """Return the physical type at ``path``, "" if it is not known."""
        return self.physical.get(".".join(path).lower(), "")

    def head(self, most: int) -> pa.Table:
        """Return the first ``most`` rows. Raises what ``opened`` raises."""
        if self.format == "delta":
            return _delta_head(self.path, most)
        parts: list[pa.RecordBatch] = []
        for part in _batches(self.format, self.path, most):
            parts.append(part)
            if sum(p.num_rows for p in parts) >= most:
                break
        return pa.Table.from_batches(parts).cast(self.schema, safe=False).slice(0, most) if parts else self.schema.empty_table()


def opened(format_: str, path: str) -> TypedFile:
    """Open the file or table at ``path``.

    Raises OSError, ArrowException or ValueError if it cannot be read, SkybandError SKY-E208 (see ``delta_logs``).
    """
    if format_ == "delta":
        table = open_table(path)
        with library_errors():
            return TypedFile(format_, path, pa.schema(table.schema().to_arrow()))
    if format_ == "orc":
        import pyarrow.orc

        # Arrow has nanoseconds of ORC's instants, Spark microseconds.
        fields = [
            f.with_type(pa.timestamp("us", f.type.tz)) if pa.types.is_timestamp(f.type) else f for f in pyarrow.orc.ORCFile(path).schema
        ]
        return TypedFile(format_, path, pa.schema(fields))
    import pyarrow.parquet as pq

    with pq.ParquetFile(path, coerce_int96_timestamp_unit="us") as file:
        leaves = [file.schema.column(i) for i in range(len(file.schema))]
        return TypedFile(format_, path, file.schema_arrow.remove_metadata(), {c.path.lower(): c.physical_type for c in leaves})


def _batches(format_: str, path: str, most: int) -> Iterator[pa.RecordBatch]:
    if format_ == "orc":
        import pyarrow.orc

        file = pyarrow.orc.ORCFile(path)
        for n in range(file.nstripes):
            yield file.read_stripe(n)
        return
    import pyarrow.parquet as pq

    with pq.ParquetFile(path, coerce_int96_timestamp_unit="us") as parquet:
        yield from parquet.iter_batches(min(most, 65_536), use_threads=False)


def _delta_head(path: str, most: int) -> pa.Table:
    """Read with the Delta library: Arrow supports neither deletion vectors nor column mapping."""
    from deltalake import QueryBuilder

    table = open_table(path)
    with library_errors():
        found = QueryBuilder().register("rows", table).execute(f"select * from rows limit {int(most)}")
        return pa.table(found.read_all())
