"""The writer that commits from the driver with delta-rs: 5 to 40 ms a commit, for local (or mounted) folders."""

from __future__ import annotations

import json
import os
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable, Schema, Transaction, write_deltalake
from deltalake.exceptions import DeltaError
from deltalake.transaction import AddAction, RemoveAction

from skyband.framework.errors import SkybandError
from skyband.framework.machine import HINT, gave_out, one_line
from skyband.framework.tables import delta_read
from skyband.framework.tables.schemas import TableSpec
from skyband.framework.tables.upkeep import Size, Upkeep, size, tidy
from skyband.framework.tables.writer_upkeep import missing_columns, outdated, partition_text, properties

_ROWS_PER_FILE = 4_000_000


class DriverWriter:
    """Tables below the local folder ``root``. Keeps tables open between commits: it is the only writer."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._open: dict[str, DeltaTable] = {}
        self._upkeep = Upkeep()

    def ensure(self, spec: TableSpec) -> None:
        """See ``Writer.ensure``."""
        path = self.root / spec.name
        with _told(spec.name):
            if not DeltaTable.is_deltatable(str(path)):
                self._open[spec.name] = DeltaTable.create(
                    str(path),
                    spec.schema,
                    partition_by=list(spec.partition_by),
                    description=spec.comment,
                    configuration=properties(spec),
                )
                return
            table = self._table(spec.name)
            missing = missing_columns(spec, pa.schema(table.schema().to_arrow()), table.metadata().partition_columns)
            if missing:
                table.alter.add_columns(Schema.from_arrow(pa.schema(missing)).fields)
                self._open.pop(spec.name)
            changed = outdated(spec, self._table(spec.name).metadata().configuration)
            if changed:
                self._table(spec.name).alter.set_table_properties(changed)
                self._open.pop(spec.name)

    def append(self, table: str, data: pa.Table, app_id: str, version: int) -> bool:
        """See ``Writer.append``."""
        return self._write(table, data, "append", app_id, version)

    def overwrite(self, table: str, data: pa.Table, app_id: str, version: int) -> bool:
        """See ``Writer.overwrite``."""
        return self._write(table, data, "overwrite", app_id, version)

    def overwrite_partitions(
        self, table: str, data: pa.Table, column: str, values: Sequence[int | bool], app_id: str, version: int
    ) -> bool:
        """See ``Writer.overwrite_partitions``. Writes the files itself: delta-rs' overwrite takes no rows outside what it replaces."""
        if self._done(table, app_id, version):
            return False
        with _told(table):
            opened = self._table(table)
            actions: list[AddAction | RemoveAction] = list(self._partition_files(table, data, column))
            opened.create_write_transaction(
                actions,
                mode="overwrite",
                schema=opened.schema(),
                partition_by=[column],
                partition_filters=[(column, "in", [partition_text(v) for v in values])],
                commit_properties=_transaction(app_id, version),
            )
            opened.update_incremental()
        return True

    def version(self, table: str, app_id: str) -> int | None:
        """See ``Writer.version``."""
        found = self._table(table).transaction_version(app_id)
        return None if found is None else int(found)

    def read(self, table: str, columns: Sequence[str] | None = None, where: pc.Expression | None = None) -> pa.Table:
        """See ``Writer.read``."""
        with _told(table, "SKY-E400", "read"):
            return delta_read.read(self._table(table), columns, where)

    def opened(self, table: str) -> DeltaTable:
        """See ``Writer.opened``."""
        return delta_read.open_table(self.root, table)

    def maintain(self, spec: TableSpec, gone: Sequence[tuple[int, int]] = ()) -> None:
        """See ``Writer.maintain``."""
        with _told(spec.name):
            if self._upkeep.maintain(self._table(spec.name), spec, self.root / spec.name, gone):
                # What is open reads the log it was opened with, of which a part may have gone.
                self._open.pop(spec.name)

    def tidy(self, spec: TableSpec) -> tuple[Size, Size] | None:
        """All upkeep of one table at once (``upkeep.tidy``); its sizes before and after, None if the table is not there yet."""
        root = self.root / spec.name
        if not root.exists():
            return None
        with _told(spec.name):
            before = size(self.opened(spec.name), root)
            tidy(self.opened(spec.name), spec, root)
            self._open.pop(spec.name, None)
            return before, size(self.opened(spec.name), root)

    def _table(self, name: str) -> DeltaTable:
        if name not in self._open:
            self._open[name] = delta_read.open_table(self.root, name)
        return self._open[name]

    def _done(self, table: str, app_id: str, version: int) -> bool:
        last = self.version(table, app_id)
        return last is not None and last >= version

    def _write(self, table: str, data: pa.Table, mode: Any, app_id: str, version: int) -> bool:
        if self._done(table, app_id, version):
            return False
        with _told(table):
            write_deltalake(self._table(table), data, mode=mode, commit_properties=_transaction(app_id, version))
        return True

    def _partition_files(self, table: str, data: pa.Table, column: str) -> Iterator[AddAction]:
        for value in pc.unique(data[column]).to_pylist():
            rows = data.filter(pc.equal(data[column], pa.scalar(value, data[column].type))).drop_columns([column])
            for start in range(0, rows.num_rows, _ROWS_PER_FILE):
                yield self._file(table, rows.slice(start, _ROWS_PER_FILE), column, partition_text(value))

    def _file(self, table: str, rows: pa.Table, column: str, value: str) -> AddAction:
        relative = f"{column}={value}/part-{uuid.uuid4()}.zstd.parquet"
        path = self.root / table / relative
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(rows.replace_schema_metadata(None), path, compression="zstd", coerce_timestamps="us", version="2.6")
        # No bounds: where only some columns have them (infinite scores have none), delta-rs' readers lose rows [measured, 1.6.6].
        return AddAction(
            relative, os.path.getsize(path), {column: value}, int(time.time() * 1000), True, json.dumps({"numRecords": rows.num_rows})
        )


def _transaction(app_id: str, version: int) -> CommitProperties:
    return CommitProperties(app_transactions=[Transaction(app_id, version)])


@contextmanager
def _told(table: str, code: str = "SKY-E401", verb: str = "written") -> Iterator[None]:
    """delta-rs' errors as the user's: SKY-E306 if the machine refused."""
    try:
        yield
    except (DeltaError, OSError) as e:
        what = gave_out(e)
        if what is not None:
            raise SkybandError("SKY-E306", f"table {table!r} cannot be {verb}: {what}", hint=HINT) from e
        raise SkybandError(code, f"table {table!r} cannot be {verb}: {one_line(e)}") from e
