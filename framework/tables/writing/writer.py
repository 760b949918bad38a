"""Writing Delta tables exactly once: one interface, two back ends.

Every commit carries a Delta ``txn`` (app id, version); a commit whose version is not above the table's last one for that app id is skipped.
Each operation is one Delta commit, so it is there whole or not at all. One process writes a job's tables at a time (the runner's lock).
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
"""Tables by name, each with what writes it when called with the name."""


class Writer(Protocol):
    """Tables below one directory, by name. Methods that write return False if the commit was there already. Raise SkybandError SKY-E4xx."""

    def ensure(self, spec: TableSpec) -> None:
        """Makes the table if it is not there; adds columns it lacks.

        SKY-E401 if what is there does not fit, SKY-E205 if it is not proven to be the job's (``ownership``).
        """
        ...

    def note(self, tables: Sequence[str], new: bool = False) -> None:
        """Note the tables' versions as the job's (``ownership.Owner.note``); with ``new`` only of tables that have no note yet."""
        ...

    @property
    def task_root(self) -> str | None:
        """The directory, or the URL of one, below which tasks may write files of tables (``data_files``), None if they may not."""
        ...

    @property
    def file_mark(self) -> str:
        """What the names of files that tasks write have in them (``ownership.file_mark``)."""
        ...

    def each(self, writes: Writes) -> Iterator[str]:
        """Writes every table, no two of which are one, several at a time if that is quicker; those that are written.

        What one of them raises is raised once none is at work any more.
        """
        ...

    def append(self, table: str, data: pa.Table, app_id: str, version: int, files: Sequence[DataFile] = ()) -> bool:
        """Adds rows, and those of ``files``, which lie in the table's directory."""
        ...

    def overwrite(self, table: str, data: pa.Table, app_id: str, version: int, files: Sequence[DataFile] = ()) -> bool:
        """Replaces all rows by ``data`` and those of ``files``."""
        ...

    def overwrite_partitions(
        self, table: str, data: pa.Table, column: str, values: Sequence[int | bool], app_id: str, version: int,
        files: Sequence[DataFile] = (),
    ) -> bool:  # fmt: skip
        """Removes the partitions whose ``column`` (the one partition column) is in ``values`` and adds ``data`` and ``files``, which

        may also have rows of other partitions: those are added to what is there.
        """
        ...

    def files(self, table: str, data: pa.Table, column: str | None = None) -> list[DataFile]:
        """Writes rows to files for a commit to come; ``column`` is the partition column, if there is one."""
        ...

    def rows(self, table: str, partition: tuple[str, bool]) -> int:
        """Rows of a partition (its column and value), by what the table's log says of its files."""
        ...

    def batches(self, table: str, after: int, upto: int) -> list[tuple[int, int]]:
        """(batch, its rows) for the batches after ``after`` up to ``upto`` that have any, in order."""
        ...

    def version(self, table: str, app_id: str) -> int | None:
        """The last version committed under ``app_id``, or None."""
        ...

    def read(self, table: str, columns: Sequence[str] | None = None, where: pc.Expression | None = None) -> pa.Table:
        """Rows of the table's newest state. ``where`` prunes files by partition values and statistics before it filters rows."""
        ...

    def opened(self, table: str) -> DeltaTable:
        """The table's newest state, held fast: to be read in pieces (``delta_read.dataset``), and named by its version."""
        ...

    def maintain(self, spec: TableSpec, gone: Sequence[tuple[int, int]] = ()) -> None:
        """Keeps the table small after thousands of small commits (``upkeep``): merges small files, removes files nobody needs.

        ``gone``: (first, last) of the batches whose rows are dropped. ``txn`` versions stay, and so do the versions that table
        ``published`` names. Off the hot path.
        """
        ...


def written(one: tuple[str, Callable[[str], None]]) -> str:
    """The table of ``one``, once it is written."""
    table, write = one
    write(table)
    return table
