"""The writer that commits with Delta Lake on Spark: any file system, 0.6 to 1 s per commit. No other module of ``tables`` uses Spark."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from delta.tables import DeltaTable
from deltalake import DeltaTable as RawTable
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructField, StructType

from skyband.framework.base.errors import SkybandError
from skyband.framework.base.system_failures import NOT_WRITABLE_HINT
from skyband.framework.spark_adapter.driver import spark_type
from skyband.framework.spark_adapter.failures import log_file, system_failure_error
from skyband.framework.storage import delta_read
from skyband.framework.tables.delta.data_files import DataFile
from skyband.framework.tables.delta.ownership import Owner, file_mark
from skyband.framework.tables.schemas import TableSpec
from skyband.framework.tables.writing.table_properties import missing_columns, outdated, partition_text, properties
from skyband.framework.tables.writing.upkeep import Upkeep
from skyband.framework.tables.writing.writer import Writes, write_table

_CHECK = "spark.databricks.delta.replaceWhere.constraintCheck.enabled"


class SparkWriter:
    """Writes the tables below ``root``, a path or URL that the session can access. Data are Arrow tables or DataFrames."""

    def __init__(self, root: str, spark: SparkSession) -> None:
        local = root.removeprefix("file://")
        self.root = root if "://" in local else str(Path(local).absolute())
        self.spark = spark
        self._upkeep = Upkeep()
        self.owner = Owner(self.root)
        # Saves an action per commit, and accepts rows outside of the replaced partitions.
        spark.conf.set(_CHECK, "false")
        spark.conf.set("spark.databricks.delta.schema.autoMerge.enabled", "false")

    def ensure(self, spec: TableSpec) -> None:
        """See ``Writer.ensure``."""
        self.owner.need_directory(spec.name)
        with _reported_errors(spec.name):
            path = self._path(spec.name)
            if DeltaTable.isDeltaTable(self.spark, path):
                table = delta_read.open_table(self.root, spec.name)
                self.owner.need_own(spec.name, table)
                missing = missing_columns(spec, pa.schema(table.schema().to_arrow()), table.metadata().partition_columns)
                if missing:
                    added = ", ".join(f"`{f.name}` {spark_type(f.type).simpleString()} comment {_quoted(_comment(f))}" for f in missing)
                    self.spark.sql(f"alter table delta.`{path}` add columns ({added})")
                changed = outdated(spec, self.owner.made_id(), table.metadata().configuration)
                if changed:
                    values = ", ".join(f"{_quoted(n)} = {_quoted(v)}" for n, v in changed.items())
                    self.spark.sql(f"alter table delta.`{path}` set tblproperties ({values})")
                return
            self.owner.claim([spec.name])
            builder = DeltaTable.create(self.spark).location(path).addColumns(spark_schema(spec.schema)).comment(spec.comment)
            for name, value in properties(spec, self.owner.made_id()).items():
                builder = builder.property(name, value)
            if spec.partition_by:
                builder = builder.partitionedBy(*spec.partition_by)
            builder.execute()

    def note(self, tables: Sequence[str], new: bool = False) -> None:
        """See ``Writer.note``."""
        opened = {n: delta_read.open_table(self.root, n) for n in tables if not (new and n in self.owner.noted)}
        if opened:
            self.owner.note({n: (str(t.metadata().id), t.version(), t.version(), t.version()) for n, t in opened.items()})

    @property
    def task_root(self) -> str | None:
        """See ``Writer.task_root``."""
        return None

    @property
    def file_mark(self) -> str:
        """See ``Writer.file_mark``."""
        return file_mark(self.owner.made_id())

    def each(self, writes: Writes) -> Iterator[str]:
        """See ``Writer.each``. Tables are written one after the other."""
        return map(write_table, writes)

    def append(self, table: str, data: pa.Table | DataFrame, app_id: str, version: int, files: Sequence[DataFile] = ()) -> bool:
        """See ``Writer.append``. ``files`` is empty."""
        return self._write(table, data, "append", {}, app_id, version)

    def overwrite(self, table: str, data: pa.Table | DataFrame, app_id: str, version: int, files: Sequence[DataFile] = ()) -> bool:
        """See ``Writer.overwrite``. ``files`` is empty."""
        return self._write(table, data, "overwrite", {}, app_id, version)

    def overwrite_partitions(
        self, table: str, data: pa.Table | DataFrame, column: str, values: Sequence[int | bool], app_id: str, version: int,
        files: Sequence[DataFile] = (),
    ) -> bool:  # fmt: skip
        """See ``Writer.overwrite_partitions``. ``files`` is empty."""
        where = f"`{column}` in ({', '.join(partition_text(v) for v in values)})"
        return self._write(table, data, "overwrite", {"replaceWhere": where}, app_id, version)

    def files(self, table: str, data: pa.Table, column: str | None = None) -> list[DataFile]:
        """See ``Writer.files``. Never called, because ``task_root`` is None."""
        raise NotImplementedError

    def rows(self, table: str, partition: tuple[str, bool]) -> int:
        """See ``Writer.rows``."""
        return delta_read.rows(delta_read.open_table(self.root, table), partition)

    def batches(self, table: str, after: int, upto: int) -> list[tuple[int, int]]:
        """See ``Writer.batches``."""
        return delta_read.batches(delta_read.open_table(self.root, table), after, upto)

    def version(self, table: str, app_id: str) -> int | None:
        """See ``Writer.version``."""
        found = delta_read.open_table(self.root, table).transaction_version(app_id)
        return None if found is None else int(found)

    def read(self, table: str, columns: Sequence[str] | None = None, where: pc.Expression | None = None) -> pa.Table:
        """See ``Writer.read``."""
        return delta_read.read(delta_read.open_table(self.root, table), columns, where)

    def opened(self, table: str) -> RawTable:
        """See ``Writer.opened``."""
        return delta_read.open_table(self.root, table)

    def maintain(self, spec: TableSpec, gone: Sequence[tuple[int, int]] = ()) -> None:
        """See ``Writer.maintain``. Only local file systems: others have their own services for this."""
        if "://" not in self.root:
            self._upkeep.maintain(delta_read.open_table(self.root, spec.name), spec, Path(self.root) / spec.name, gone, self.owner.id)

    def _path(self, table: str) -> str:
        return f"{self.root}/{table}"

    def _write(self, table: str, data: pa.Table | DataFrame, mode: str, options: dict[str, Any], app_id: str, version: int) -> bool:
        # Delta skips a repeated version itself, but only after running the write.
        last = self.version(table, app_id)
        if last is not None and last >= version:
            return False
        with _reported_errors(table):
            frame = self.spark.createDataFrame(data, spark_schema(data.schema)).coalesce(1) if isinstance(data, pa.Table) else data
            writer = frame.write.format("delta").mode(mode).option("txnAppId", app_id).option("txnVersion", version)
            writer.options(**options).save(self._path(table))
        return True


def spark_schema(schema: pa.Schema) -> StructType:
    """Return the Spark schema of an Arrow schema, with comments."""
    return StructType([StructField(f.name, spark_type(f.type), True, {"comment": c} if (c := _comment(f)) else None) for f in schema])


def _comment(field: pa.Field) -> str:
    return bytes((field.metadata or {}).get(b"comment", b"")).decode()


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


@contextmanager
def _reported_errors(table: str) -> Iterator[None]:
    """Raise Spark's errors as SkybandError."""
    try:
        yield
    except PySparkException as e:
        refused = system_failure_error(e, f"table {table!r}", log_file())
        raise refused or SkybandError(
            "SKY-E401", f"table {table!r} cannot be written: {str(e).splitlines()[0]}", hint=NOT_WRITABLE_HINT
        ) from e
