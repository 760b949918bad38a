"""Tables in memory: a ``Writer`` for a job that is rehearsed. Nothing is written anywhere."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from skyband.framework.base.errors import SkybandError
from skyband.framework.tables.delta.data_files import DataFile
from skyband.framework.tables.delta.delta_read import to_schema
from skyband.framework.tables.schemas import TableSpec
from skyband.framework.tables.writing.writer import Writes, write_table


class MemoryWriter:
    """Tables by name, as a ``Writer`` keeps them."""

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
        """See ``Writer.each``: one after the other."""
        return map(write_table, writes)

    def append(self, table: str, data: pa.Table, app_id: str, version: int, files: Sequence[DataFile] = ()) -> bool:
        """See ``Writer.append``; ``files`` are none."""
        return self._put(table, pa.concat_tables([self.tables[table], self._fitting(table, data)]), app_id, version)

    def overwrite(self, table: str, data: pa.Table, app_id: str, version: int, files: Sequence[DataFile] = ()) -> bool:
        """See ``Writer.overwrite``; ``files`` are none."""
        return self._put(table, self._fitting(table, data), app_id, version)

    def overwrite_partitions(
        self, table: str, data: pa.Table, column: str, values: Sequence[int | bool], app_id: str, version: int,
        files: Sequence[DataFile] = (),
    ) -> bool:  # fmt: skip
        """See ``Writer.overwrite_partitions``; ``files`` are none."""
        there = self.tables[table]
        gone = pc.is_in(there[column], pa.array(list(values), there.schema.field(column).type))
        return self._put(table, pa.concat_tables([there.filter(pc.invert(gone)), self._fitting(table, data)]), app_id, version)

    def files(self, table: str, data: pa.Table, column: str | None = None) -> list[DataFile]:
        """See ``Writer.files``: only who has a directory for tasks is asked for them."""
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
        """Only what breaks a result's own rules asks for a table's identity: that is a defect, whatever the rows."""
        raise SkybandError("SKY-E503", f"table {table} breaks what always holds of results", hint="please report this spec and its rows")

    def maintain(self, spec: TableSpec, gone: Sequence[tuple[int, int]] = ()) -> None:
        """See ``Writer.maintain``: nothing to do."""

    @property
    def file_mark(self) -> str:
        """See ``Writer.file_mark``: there are no files."""
        return ""

    def note(self, tables: Sequence[str], new: bool = False) -> None:
        """See ``Writer.note``: nothing to do."""

    def _fitting(self, table: str, data: pa.Table) -> pa.Table:
        return to_schema(data, self.tables[table].schema)

    def _put(self, table: str, rows: pa.Table, app_id: str, version: int) -> bool:
        if self._versions.get((table, app_id), -1) >= version:
            return False
        self.tables[table] = rows
        self._versions[table, app_id] = version
        return True
