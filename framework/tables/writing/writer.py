"""The interface for writing Delta tables exactly once. It has two implementations.

Every commit has a Delta ``txn`` (app id, version). A commit whose version is not above the table's last one for that app id is skipped.
Each operation is one Delta commit, so it is atomic. One process at a time writes the tables of a job (the run's lock).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from skyband.framework.tables.delta.data_files import DataFile
from skyband.framework.tables.schemas import TableSpec

Writes = Sequence[tuple[str, Callable[[str], None]]]
"""Tables by name, each with a function that writes it when called with the name."""


class Writer(Protocol):
    """Writes the tables below one directory, by name. Methods that write return False if the commit exists. Raise SkybandError SKY-E4xx."""

    def ensure(self, spec: TableSpec) -> None:
        """Create the table if it does not exist; add the columns it lacks.

        Raises SKY-E401 if the existing table does not fit, SKY-E205 if it is not proven to be the job's (``ownership``).
        """
        ...

    def note(self, tables: Sequence[str], new: bool = False) -> None:
        """Note the tables' versions as the job's (``ownership.Owner.note``); with ``new`` only those of tables without a note."""
        ...

    @property
    def task_root(self) -> str | None:
        """The path or URL below which tasks may write files of tables (``data_files``); None if they may not."""
        ...

    @property
    def file_mark(self) -> str:
        """The mark in the names of files that tasks write (``ownership.file_mark``)."""
        ...

    def each(self, writes: Writes) -> Iterator[str]:
        """Write every table, several at a time if that is faster; yield each table that is written. No table may occur twice.

        An exception is raised once all writes have ended.
        """
        ...

    def append(self, table: str, data: pa.Table, app_id: str, version: int, files: Sequence[DataFile] = ()) -> bool:
        """Append ``data`` and the rows of ``files``, which are in the table's directory."""
        ...

    def overwrite(self, table: str, data: pa.Table, app_id: str, version: int, files: Sequence[DataFile] = ()) -> bool:
        """Replace all rows by ``data`` and the rows of ``files``."""
        ...

    def overwrite_partitions(
        self, table: str, data: pa.Table, column: str, values: Sequence[int | bool], app_id: str, version: int,
        files: Sequence[DataFile] = (),
    ) -> bool:  # fmt: skip
        """Replace the partitions whose ``column`` (the only partition column) is in ``values`` by ``data`` and ``files``.

        Their rows of other partitions are appended.
        """
        ...

    def files(self, table: str, data: pa.Table, column: str | None = None) -> list[DataFile]:
        """Write rows to files for a later commit; ``column`` is the partition column, if there is one."""
        ...

    def rows(self, table: str, partition: tuple[str, bool]) -> int:
        """Return the number of rows of a partition (column, value), from the statistics in the table's log."""
        ...

    def batches(self, table: str, after: int, upto: int) -> list[tuple[int, int]]:
        """Return (batch, number of rows) for the batches after ``after`` up to ``upto`` that have rows, in order."""
        ...

    def version(self, table: str, app_id: str) -> int | None:
        """Return the last version committed under ``app_id``, or None."""
        ...

    def read(self, table: str, columns: Sequence[str] | None = None, where: pc.Expression | None = None) -> pa.Table:
        """Return rows of the newest version. ``where`` prunes files by partition values and statistics before it filters rows."""
        ...

    def opened(self, table: str) -> DeltaTable:
        """Return a snapshot of the newest version, to read it in pieces (``delta_read.dataset``) and to know its number."""
        ...

    def maintain(self, spec: TableSpec, gone: Sequence[tuple[int, int]] = ()) -> None:
        """Keep the table small after many small commits (``upkeep``): merge small files, remove files that no reader needs.

        ``gone``: spans (first, last) of batches whose rows are dropped. ``txn`` versions stay, and so do the versions in table
        ``published``. Not on the hot path.
        """
        ...


def write_table(table_write: tuple[str, Callable[[str], None]]) -> str:
    """Write one table; return its name."""
    table, write = table_write
    write(table)
    return table
