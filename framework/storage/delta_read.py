"""Read Delta tables with delta-rs and Arrow, without Spark."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError
from deltalake.fs import DeltaStorageHandler
from pyarrow import fs

from skyband.framework.base.errors import SkybandError
from skyband.framework.base.system_failures import one_line
from skyband.framework.storage.delta_logs import of_library, outside
from skyband.framework.storage.location import Location
from skyband.framework.storage.settings import store_options


def open_table(root: str | Location, name: str) -> DeltaTable:
    """Open the table ``name`` below ``root``. Raises SkybandError SKY-E400 if it does not exist or cannot be opened."""
    path = f"{root}/{name}"
    try:
        return DeltaTable(path, storage_options=store_options(path))
    except TableNotFoundError as e:
        raise SkybandError("SKY-E400", f"there is no table {name!r} at {root}", hint="run the job first: skyband run SPEC") from e
    except BaseException as e:
        if not of_library(e):
            raise
        raise unreadable(path, e) from e


def unreadable(path: str, e: BaseException) -> SkybandError:
    """Return SKY-E400 in one line: the table cannot be read."""
    said = one_line(e)[:300] or type(e).__name__
    hint = "check that you may read its files; if it is damaged, restore the whole sink from one backup, or run skyband rebuild SPEC"
    return SkybandError("SKY-E400", f"the table at {path} cannot be read: {said}", hint=hint)


def transaction(table: DeltaTable, app_id: str) -> int | None:
    """Return the version of a transaction in the table's log, None if it has none. SkybandError SKY-E400 for an unreadable log."""
    try:
        found = table.transaction_version(app_id)
    except BaseException as e:
        if not of_library(e):
            raise
        raise unreadable(table.table_uri, e) from e
    return None if found is None else int(found)


def exists(root: str | Location, name: str) -> bool:
    """Return True if there is a table ``name`` below ``root``."""
    path = f"{root}/{name}"
    return bool(DeltaTable.is_deltatable(path, store_options(path)))


def versions(root: str | Location, names: Iterable[str]) -> dict[str, tuple[int, str] | None]:
    """Return the version and the id of each table, None if it does not exist. Raises SkybandError SKY-E400 if one cannot be opened."""
    return {n: _version(open_table(root, n)) if exists(root, n) else None for n in names}


def _version(table: DeltaTable) -> tuple[int, str]:
    try:
        return table.version(), str(table.metadata().id)
    except BaseException as e:
        if not of_library(e):
            raise
        raise unreadable(table.table_uri, e) from e


def dataset(table: DeltaTable) -> ds.FileSystemDataset:
    """Return the table as an Arrow dataset whose files are pruned by partition values and by ``batch_id``.

    The dataset of delta-rs compares a bound that a file lacks (infinite scores, text) with null, and so loses the rows of that file
    [measured, 1.6.6]. Local directories are read by Arrow itself: Python callbacks in Arrow's reading threads may abort at exit.

    Raises SkybandError SKY-E400 for a log that names a file outside of the table, or that has values of another type.
    """
    try:
        return _dataset(table)
    except BaseException as e:
        if not of_library(e):
            raise
        raise unreadable(table.table_uri, e) from e


def _dataset(table: DeltaTable) -> ds.FileSystemDataset:
    schema = pa.schema(table.schema().to_arrow())
    uri = table.table_uri
    local = unquote(uri.removeprefix("file://")) if uri.startswith("file://") else uri
    if "://" in local:
        place: fs.FileSystem = fs.PyFileSystem(DeltaStorageHandler.from_table(table._table))
    else:
        place = fs.SubTreeFileSystem(local.rstrip("/"), fs.LocalFileSystem())
    form = ds.ParquetFileFormat()
    files = pa.table(table.get_add_actions(flatten=True))
    partitions = [(n, f"partition.{n}") for n in table.metadata().partition_columns]
    columns = {
        n: files[n].to_pylist() for n in ("path", "min.batch_id", "max.batch_id", *(c for _, c in partitions)) if n in files.column_names
    }
    fragments = []
    for i, path in enumerate(columns["path"]):
        if outside(path):
            raise ValueError(f"its log names a file outside of the table: {path[:200]}")
        known = ds.scalar(True)
        for name, column in partitions:
            known = known & (ds.field(name) == pa.scalar(columns[column][i], schema.field(name).type))
        for column, bounds in (("min.batch_id", ds.Expression.__ge__), ("max.batch_id", ds.Expression.__le__)):
            if columns.get(column, [None] * len(columns["path"]))[i] is not None:
                known = known & bounds(ds.field("batch_id"), columns[column][i])
        fragments.append(form.make_fragment(unquote(path), filesystem=place, partition_expression=known))
    return ds.FileSystemDataset(fragments, schema, form, place)


def read(table: DeltaTable, columns: Sequence[str] | None = None, where: pc.Expression | None = None) -> pa.Table:
    """Return rows of the table, with the types of its schema. O(rows of the files that ``where`` does not prune)."""
    try:
        found = dataset(table).to_table(columns=list(columns) if columns is not None else None, filter=where)
    except BaseException as e:
        if not of_library(e):
            raise
        raise unreadable(table.table_uri, e) from e
    return found.replace_schema_metadata(None)


def rows(table: DeltaTable, partition: tuple[str, bool]) -> int:
    """Return the number of rows of a partition, from the statistics of its files. O(files)."""
    column, value = partition
    files = pa.table(table.get_add_actions(flatten=True))
    if not files.num_rows:
        return 0
    return int(pc.sum(files.filter(pc.equal(files[f"partition.{column}"], value))["num_records"]).as_py() or 0)


def batches(table: DeltaTable, after: int, upto: int) -> list[tuple[int, int]]:
    """Return (batch, number of rows) for the batches after ``after`` up to ``upto`` that have rows, in order.

    O(files) while each of these files is of one batch, that is until upkeep merges files; otherwise O(rows) in constant memory.
    """
    files = pa.table(table.get_add_actions(flatten=True))
    first, last = "min.batch_id", "max.batch_id"
    found: Counter[int] = Counter()
    bounded = {first, last} <= set(files.column_names) and not files[first].null_count + files[last].null_count
    if bounded:
        files = files.filter((pc.field(last) > after) & (pc.field(first) <= upto))
    if bounded and files[first].equals(files[last]):
        for batch, count in zip(files[first].to_pylist(), files["num_records"].to_pylist(), strict=True):
            found[batch] += count
    else:
        for rows in dataset(table).to_batches(columns=["batch_id"], filter=(pc.field("batch_id") > after) & (pc.field("batch_id") <= upto)):
            found.update({x["values"]: x["counts"] for x in pc.value_counts(rows["batch_id"]).to_pylist()})
    return sorted((batch, count) for batch, count in found.items() if after < batch <= upto and count)


def to_schema(data: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return ``data`` with the columns and types of ``schema``, missing columns null. SkybandError SKY-E900 for an unknown column."""
    extra = set(data.column_names) - set(schema.names)
    if extra:
        raise SkybandError("SKY-E900", f"rows have columns that their table does not have: {', '.join(sorted(extra))}")
    columns = [
        (data[f.name] if f.name in data.column_names else pa.nulls(data.num_rows, f.type)).cast(f.type) for f in schema
    ]  # fmt: skip
    return pa.table(columns, schema=schema)
