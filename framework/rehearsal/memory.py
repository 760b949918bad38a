"""A ``Writer`` that keeps the tables of a rehearsed job in memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from skyband.framework.base.errors import SkybandError
from skyband.framework.storage.delta_read import to_schema
from skyband.framework.tables.delta.data_files import DataFile
from skyband.framework.tables.schemas import TableSpec
from skyband.framework.tables.writing.writer import Writes, write_table


class MemoryWriter:
    """Implements ``Writer`` over tables in memory."""

    def __init__(self) -> None:
        self.tables: dict[str, pa.Table] = {}
        self._versions: dict[tuple[str, str], int] = {}

    def ensure(self, spec: TableSpec) -> None:
        """See ``Writer.ensure``."""
        self.tables.setdefault(spec.name, spec.schema.empty_table())

    @property
    def task_root(self) -> str | None:
        """See ``Writer.task_root``."""
        return None

    def each(self, writes: Writes) -> Iterator[str]:
        """See ``Writer.each``. Writes one table after the other."""
        return map(write_table, writes)

    def append(self, table: str, data: pa.Table, app_id: str, version: int, files: Sequence[DataFile] = ()) -> bool:
        """See ``Writer.append``. There are no ``files``."""
        return self._replace(table, pa.concat_tables([self.tables[table], self._cast(table, data)]), app_id, version)

    def overwrite(self, table: str, data: pa.Table, app_id: str, version: int, files: Sequence[DataFile] = ()) -> bool:
        """See ``Writer.overwrite``. There are no ``files``."""
        return self._replace(table, self._cast(table, data), app_id, version)

    def overwrite_partitions(
        self, table: str, data: pa.Table, column: str, values: Sequence[int | bool], app_id: str, version: int,
        files: Sequence[DataFile] = (),
    ) -> bool:  # fmt: skip
        """See ``Writer.overwrite_partitions``. There are no ``files``."""
        current = self.tables[table]
        replaced = pc.is_in(current[column], pa.array(list(values), current.schema.field(column).type))
        return self._replace(table, pa.concat_tables([current.filter(pc.invert(replaced)), self._cast(table, data)]), app_id, version)

    def files(self, table: str, data: pa.Table, column: str | None = None) -> list[DataFile]:
        """See ``Writer.files``. Never called, since there is no ``task_root``."""
        raise NotImplementedError

    def rows(self, table: str, partition: tuple[str, bool]) -> int:
        """See ``Writer.rows``."""
        return int(pc.sum(pc.equal(self.tables[table][partition[0]], partition[1])).as_py() or 0)

    def batches(self, table: str, after: int, upto: int) -> list[tuple[int, int]]:
        """See ``Writer.batches``."""
        found = Counter(self.tables[table]["batch_id"].to_pylist())
        return sorted((batch, count) for batch, count in found.items() if after < batch <= upto)

    def version(self, table: str, app_id: str) -> int | None:
        """See ``Writer.version``."""
        return self._versions.get((table, app_id))

    def read(self, table: str, columns: Sequence[str] | None = None, where: pc.Expression | None = None) -> pa.Table:
        """See ``Writer.read``."""
        rows = self.tables[table] if where is None else self.tables[table].filter(where)
        return (rows if columns is None else rows.select(list(columns))).replace_schema_metadata(None)

    def opened(self, table: str) -> Any:
        """Raise SKY-E503: a table is opened only to report a broken invariant of results, which is a defect of Skyband."""
        raise SkybandError("SKY-E503", f"table {table} breaks what always holds of results", hint="please report this spec and its rows")

    def maintain(self, spec: TableSpec, gone: Sequence[tuple[int, int]] = ()) -> None:
        """See ``Writer.maintain``. Does nothing."""

    @property
    def file_mark(self) -> str:
        """See ``Writer.file_mark``. There are no files."""
        return ""

    def note(self, tables: Sequence[str], new: bool = False) -> None:
        """See ``Writer.note``. Does nothing."""

    def _cast(self, table: str, data: pa.Table) -> pa.Table:
        return to_schema(data, self.tables[table].schema)

    def _replace(self, table: str, rows: pa.Table, app_id: str, version: int) -> bool:
        if self._versions.get((table, app_id), -1) >= version:
            return False
        self.tables[table] = rows
        self._versions[table, app_id] = version
        return True
