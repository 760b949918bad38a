"""Reading Delta tables with delta-rs and Arrow: no Spark, no JVM."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError
from pyarrow import fs

from skyband.framework.errors import SkybandError


def open_table(root: str | Path, name: str) -> DeltaTable:
    """The table ``name`` below ``root``. Raises SkybandError SKY-E400 if there is none or it cannot be opened."""
    path = f"{root}/{name}"
    try:
        return DeltaTable(path)
    except TableNotFoundError as e:
        raise SkybandError("SKY-E400", f"there is no table {name!r} at {root}", hint="run the job first: skyband run SPEC") from e
    except (DeltaError, OSError) as e:
        raise SkybandError("SKY-E400", f"table {name!r} at {root} cannot be read: {e}") from e


def dataset(table: DeltaTable) -> ds.FileSystemDataset:
    """The table as an Arrow dataset. A local folder is read by Arrow itself: Python callbacks in its reading threads are slow, and abort at exit."""
    uri = table.table_uri
    local = uri.removeprefix("file://")
    if "://" in local:
        return table.to_pyarrow_dataset()
    from urllib.parse import unquote

    path = unquote(local) if uri.startswith("file://") else local
    return table.to_pyarrow_dataset(filesystem=fs.SubTreeFileSystem(path.rstrip("/"), fs.LocalFileSystem()))


def read(table: DeltaTable, columns: Sequence[str] | None = None, where: pc.Expression | None = None) -> pa.Table:
    """Rows of the table, with the types of its schema. O(rows of the files that ``where`` cannot rule out)."""
    found = dataset(table).to_table(columns=list(columns) if columns is not None else None, filter=where)
    return found.replace_schema_metadata(None)


def to_schema(data: pa.Table, schema: pa.Schema) -> pa.Table:
    """``data`` with exactly the columns and types of ``schema``, missing ones null. Raises SkybandError SKY-E900 for a column too many."""
    extra = set(data.column_names) - set(schema.names)
    if extra:
        raise SkybandError("SKY-E900", f"rows with columns no table has: {', '.join(sorted(extra))}")
    columns = [
        (data[f.name] if f.name in data.column_names else pa.nulls(data.num_rows, f.type)).cast(f.type) for f in schema
    ]  # fmt: skip
    return pa.table(columns, schema=schema)
