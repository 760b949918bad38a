"""The writer that commits from the driver with delta-rs, to local or mounted directories (5 to 40 ms per commit) and object storage."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import CommitProperties, DeltaTable, Schema, Transaction, write_deltalake
from deltalake.exceptions import CommitFailedError, DeltaError
from deltalake.transaction import AddAction, RemoveAction

from skyband.framework.base.errors import SkybandError
from skyband.framework.base.system_failures import NOT_WRITABLE_HINT, SYSTEM_FAILURE_HINT, one_line, system_failure
from skyband.framework.storage import delta_read
from skyband.framework.storage.epochs import lease_lost
from skyband.framework.storage.location import Location
from skyband.framework.storage.settings import reached_by_tasks, store_options
from skyband.framework.tables.delta.commits import fence, overtaken
from skyband.framework.tables.delta.data_files import ROWS_PER_FILE, DataFile, missing_files, write
from skyband.framework.tables.delta.ownership import Owner, file_mark
from skyband.framework.tables.schemas import TableSpec
from skyband.framework.tables.writing.table_properties import missing_columns, outdated, partition_text, properties
from skyband.framework.tables.writing.upkeep import CHECKPOINT_INTERVAL, Size, Upkeep, size, tidy
from skyband.framework.tables.writing.writer import Writes, write_table

_AT_ONCE = 4
_MISSING_FILE_HINT = "run the job again; sink.path must be on a file system that all machines of the cluster mount at the same path"


class DriverWriter:
    """Writes the tables below ``root``. It keeps tables open between commits, since it is the only writer."""

    def __init__(self, root: Location) -> None:
        self.root = root
        self._open: dict[str, DeltaTable] = {}
        self._versions: dict[tuple[str, str], int | None] = {}
        self._upkeep = Upkeep()
        self.owner = Owner(root)
        self._spans: dict[str, tuple[int, int]] = {}
        """Table -> the first and last version of a span in which all commits are by this writer."""

    def ensure(self, spec: TableSpec) -> None:
        """See ``Writer.ensure``."""
        path = self.root / spec.name
        self.owner.need_directory(spec.name)
        with _reported_errors(self.root, spec.name):
            if not delta_read.exists(self.root, spec.name):
                self.owner.claim([spec.name])
                self._open[spec.name] = DeltaTable.create(
                    str(path),
                    spec.schema,
                    storage_options=store_options(str(path)),
                    partition_by=list(spec.partition_by),
                    description=spec.comment,
                    configuration=properties(spec, self.owner.made_id()),
                    raise_if_key_not_exists=False,
                )
                return
            table = self._table(spec.name)
            self.owner.need_own(spec.name, table)
            missing = missing_columns(spec, pa.schema(table.schema().to_arrow()), table.metadata().partition_columns)
            if missing:
                table.alter.add_columns(Schema.from_arrow(pa.schema(missing)).fields)
                self._open.pop(spec.name)
            changed = outdated(spec, self.owner.made_id(), self._table(spec.name).metadata().configuration)
            if changed:
                self._table(spec.name).alter.set_table_properties(changed, raise_if_not_exists=False)
                self._open.pop(spec.name)

    def note(self, tables: Sequence[str], new: bool = False) -> None:
        """See ``Writer.note``."""
        said = {}
        for name in tables:
            if not (new and name in self.owner.noted):
                table = self._table(name)
                said[name] = str(table.metadata().id), table.version(), *self._spans[name]
        if said:
            self.owner.note(said)

    @property
    def task_root(self) -> str | None:
        """See ``Writer.task_root``."""
        return str(self.root) if reached_by_tasks(str(self.root)) else None

    @property
    def file_mark(self) -> str:
        """See ``Writer.file_mark``."""
        return file_mark(self.owner.made_id())

    def each(self, writes: Writes) -> Iterator[str]:
        """See ``Writer.each``. Four commits in parallel take half the time."""
        with ThreadPoolExecutor(_AT_ONCE, "tables") as threads:
            yield from threads.map(write_table, writes)

    def append(self, table: str, data: pa.Table, app_id: str, version: int, files: Sequence[DataFile] = ()) -> bool:
        """See ``Writer.append``."""
        return self._put(table, data, "append", app_id, version, files)

    def overwrite(self, table: str, data: pa.Table, app_id: str, version: int, files: Sequence[DataFile] = ()) -> bool:
        """See ``Writer.overwrite``."""
        return self._put(table, data, "overwrite", app_id, version, files)

    def overwrite_partitions(
        self, table: str, data: pa.Table, column: str, values: Sequence[int | bool], app_id: str, version: int,
        files: Sequence[DataFile] = (),
    ) -> bool:  # fmt: skip
        """See ``Writer.overwrite_partitions``. The overwrite of delta-rs refuses rows outside of the replaced partitions."""
        if self._done(table, app_id, version):
            return False
        with _reported_errors(self.root, table):
            made = [*files, *self.files(table, data, column)]
            replaced = [(column, "in", [partition_text(v) for v in values])]
            self._commit(table, made, app_id, version, mode="overwrite", partition_by=[column], partition_filters=replaced)
        self._committed(table, app_id, version)
        return True

    def files(self, table: str, data: pa.Table, column: str | None = None) -> list[DataFile]:
        """See ``Writer.files``."""
        if column is None:
            return self._write(table, data, {})
        values = pc.unique(data[column]).to_pylist()
        parts = ((v, data.filter(pc.equal(data[column], v)).drop_columns([column])) for v in values)
        return [f for v, rows in parts for f in self._write(table, rows, {column: partition_text(v)})]

    def rows(self, table: str, partition: tuple[str, bool]) -> int:
        """See ``Writer.rows``."""
        return delta_read.rows(self._table(table), partition)

    def batches(self, table: str, after: int, upto: int) -> list[tuple[int, int]]:
        """See ``Writer.batches``."""
        return delta_read.batches(self._table(table), after, upto)

    def version(self, table: str, app_id: str) -> int | None:
        """See ``Writer.version``."""
        known = table, app_id
        if known not in self._versions:
            # delta-rs searches the log for it, which takes 2 ms per table.
            self._versions[known] = self._table(table).transaction_version(app_id)
        return self._versions[known]

    def read(self, table: str, columns: Sequence[str] | None = None, where: pc.Expression | None = None) -> pa.Table:
        """See ``Writer.read``."""
        with _reported_errors(self.root, table, "SKY-E400", "read"):
            return delta_read.read(self._table(table), columns, where)

    def opened(self, table: str) -> DeltaTable:
        """See ``Writer.opened``."""
        return delta_read.open_table(self.root, table)

    def maintain(self, spec: TableSpec, gone: Sequence[tuple[int, int]] = ()) -> None:
        """See ``Writer.maintain``."""
        with _reported_errors(self.root, spec.name):
            if self._upkeep.maintain(self._table(spec.name), spec, self.root / spec.name, gone, self.owner.id):
                # The open table reads the log as of its opening, and a part of that may be removed now.
                self._open.pop(spec.name)

    def tidy(self, spec: TableSpec) -> tuple[Size, Size] | None:
        """Do all upkeep of one table at once (``upkeep.tidy``). Return its sizes before and after, None if it does not exist."""
        root = self.root / spec.name
        if not root.exists():
            return None
        self.owner.need_own(spec.name)
        with _reported_errors(self.root, spec.name):
            before = size(self.opened(spec.name), root)
            tidy(self.opened(spec.name), spec, root, self.owner.id)
            self._open.pop(spec.name, None)
            return before, size(self.opened(spec.name), root)

    def _table(self, name: str) -> DeltaTable:
        if name not in self._open:
            self._open[name] = delta_read.open_table(self.root, name)
        version = self._open[name].version()
        self._spans.setdefault(name, (version, version))
        return self._open[name]

    def _transaction(self, table: str, app_id: str, version: int) -> CommitProperties:
        return CommitProperties(app_transactions=[Transaction(app_id, version), *fence(self.root, self._table(table))])

    def _done(self, table: str, app_id: str, version: int) -> bool:
        last = self.version(table, app_id)
        return last is not None and last >= version

    def _put(self, table: str, data: pa.Table, mode: Any, app_id: str, version: int, files: Sequence[DataFile]) -> bool:
        """Commit rows and ``files``. Without ``files``, delta-rs writes the rows, 4 to 6 ms faster per table."""
        if self._done(table, app_id, version):
            return False
        with _reported_errors(self.root, table):
            if files:
                self._commit(table, [*files, *self.files(table, data)], app_id, version, mode=mode)
            else:
                write_deltalake(
                    self._table(table), _without_comments(data), mode=mode, commit_properties=self._transaction(table, app_id, version)
                )
        self._committed(table, app_id, version)
        return True

    def _committed(self, table: str, app_id: str, version: int) -> None:
        """Note a commit. Open the table again after each checkpoint that delta-rs writes: an open table does not use it."""
        self._versions[table, app_id] = version
        opened = self._table(table)
        first, last_own = self._spans[table]
        if opened.version() == last_own + 1:
            self._spans[table] = first, last_own + 1
        if opened.version() % CHECKPOINT_INTERVAL == 0:
            self._open.pop(table)

    def _write(self, table: str, rows: pa.Table, partition: Mapping[str, str]) -> list[DataFile]:
        starts = range(0, rows.num_rows, ROWS_PER_FILE)
        prefix = f"part-{self.file_mark}"
        return [write(self.root, table, rows.slice(n, ROWS_PER_FILE), partition, prefix) for n in starts]

    def _commit(self, table: str, files: Sequence[DataFile], app_id: str, version: int, **how: Any) -> None:
        """Commit ``files``. Raises SkybandError SKY-E620 if one does not exist: a task may have written it to another machine."""
        opened, now = self._table(table), int(time.time() * 1000)
        lacking = missing_files(self.root, table, files)
        if lacking:
            raise SkybandError(
                "SKY-E620",
                f"table {table!r}: the file {lacking[0].path}, which a task has written, does not exist",
                hint=_MISSING_FILE_HINT,
            )
        actions: list[AddAction | RemoveAction] = [AddAction(f.path, f.size, f.partition, now, True, f.stats) for f in files]
        how = {"partition_by": [], **how}
        opened.create_write_transaction(actions, schema=opened.schema(), commit_properties=self._transaction(table, app_id, version), **how)
        opened.update_incremental()


def _without_comments(data: pa.Table) -> pa.Table:
    """Return ``data`` without the comments of its columns: delta-rs refuses others than those that a former version gave the table."""
    return data.cast(pa.schema([f.remove_metadata() for f in data.schema]))


@contextmanager
def _reported_errors(root: Location, table: str, code: str = "SKY-E401", verb: str = "written") -> Iterator[None]:
    """Raise errors of delta-rs as SkybandError: SKY-E306 for a system failure, SKY-E631 if another run has taken over the sink."""
    try:
        yield
    except (DeltaError, OSError) as e:
        if isinstance(e, CommitFailedError) and overtaken(root, table):
            raise lease_lost(root) from e
        what = system_failure(e)
        if what is not None:
            raise SkybandError("SKY-E306", f"table {table!r} cannot be {verb}: {what}", hint=SYSTEM_FAILURE_HINT) from e
        raise SkybandError(code, f"table {table!r} cannot be {verb}: {one_line(e)}", hint=NOT_WRITABLE_HINT) from e
