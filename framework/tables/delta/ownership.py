"""Prove which tables below a sink belong to the job. Any other table is neither written, vacuumed, moved nor removed.

The first run of a job draws a random id, which ``_skyband/owner.json`` keeps across generations. Every table has it as a Delta property
(``skyband.job``). ``_skyband/tables.json`` belongs to a generation and moves with it. It has the tables that the job made (``made``: the
Delta id, and the last version known to hold only the job's rows), and those that the job is about to create or remove (``making``, written
first, so that a directory which a killed run left half created is known).

A table of a version of Skyband without these files is proven by a transaction of the generation in ``job.json`` or, if it has no row yet,
by the Delta properties that Skyband sets. The next run sets the property.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, ClassVar, Final, TypeVar

from deltalake import DeltaTable
from pydantic import ConfigDict, Field

from skyband.framework.base.errors import SkybandError
from skyband.framework.base.table_names import JOB_RUNS
from skyband.framework.storage import delta_read
from skyband.framework.storage.location import Location, is_object, location
from skyband.framework.storage.records import TOLERANT, InvalidRecord, Record
from skyband.framework.tables.delta.commits import delta_ids, foreign, has_transaction

PROPERTY: Final = "skyband.job"
"""The Delta property with the job's id."""
OWNER: Final = "owner.json"
TABLES: Final = "tables.json"
_HOME: Final = "_skyband"
_GIVEN: Final = frozenset(
    f"delta.{name}"
    for name in (
        "enableDeletionVectors", "checkpointInterval", "dataSkippingStatsColumns", "logRetentionDuration", "deletedFileRetentionDuration",
    )
)  # fmt: skip
"""Delta properties that every version of Skyband sets."""

T = TypeVar("T")
_Id = Annotated[str, Field(pattern="^[0-9a-f]{32}$")]
_Name = Annotated[str, Field(pattern="^[A-Za-z0-9_]{1,255}$")]


@dataclass(frozen=True, slots=True)
class _Owner:
    id: _Id
    __pydantic_config__: ClassVar[ConfigDict] = TOLERANT


@dataclass(frozen=True, slots=True)
class Made:
    """A table that the job made: its Delta id, and its last version known to be free of changes by other writers."""

    id: Annotated[str, Field(min_length=1, max_length=100)]
    version: Annotated[int, Field(ge=0)]
    __pydantic_config__: ClassVar[ConfigDict] = TOLERANT


@dataclass(frozen=True, slots=True)
class _Tables:
    made: dict[_Name, Made] = field(default_factory=dict)
    making: list[_Name] = field(default_factory=list)
    __pydantic_config__: ClassVar[ConfigDict] = TOLERANT


@dataclass(frozen=True, slots=True)
class _JobOf:
    """The fields of a job file that name its generation."""

    job: str
    generation: str
    __pydantic_config__: ClassVar[ConfigDict] = TOLERANT


_DAMAGED: Final = "{path}, which lists the tables of the job, cannot be read"
_HINT: Final = "restore the whole sink from one backup, or give the job a new sink path"
_OWNER: Final = Record[_Owner](_Owner, _DAMAGED, _HINT, indent=None)
_TABLES: Final = Record[_Tables](_Tables, _DAMAGED, _HINT, sort=True)
_JOB: Final = Record[_JobOf](_JobOf)


class Owner:
    """The job whose tables are below ``root``. Its files are read on first use; a caller that writes holds the job's lock.

    ``generation``: (job, generation) of the job file; None: read it.
    """

    def __init__(self, root: Location | str, generation: tuple[str, str] | None = None) -> None:
        self.root = location(root)
        self._given = generation
        self.home = self.root / _HOME
        # A generation that is being built is in `_skyband` of its job.
        self._id_home = self.root.parent if self.root.parent.name == _HOME else self.home

    @cached_property
    def id(self) -> str | None:
        """The job's id, None before its first run."""
        found = _read(_OWNER, self._id_home / OWNER)
        return None if found is None else found.id

    def made_id(self) -> str:
        """Return the job's id; draw one if it has none."""
        if self.id is None:
            self._id_home.mkdir(parents=True, exist_ok=True)
            made = uuid.uuid4().hex
            _OWNER.write(self._id_home / OWNER, _Owner(made))
            self.id = made
        return self.id

    @cached_property
    def _tables(self) -> _Tables | None:
        return _read(_TABLES, self.home / TABLES)

    @property
    def noted(self) -> Mapping[str, Made]:
        """The tables that the job made, by name."""
        return {} if self._tables is None else self._tables.made

    @property
    def knows(self) -> bool:
        """True if a version of Skyband that keeps ``tables.json`` has written here."""
        return self._tables is not None

    @cached_property
    def _before(self) -> tuple[str, str] | None:
        """(job, generation) of the job file, None before the first run."""
        if self._given is not None:
            return self._given
        with suppress(SkybandError):
            found = _JOB.known(self.home / "job.json")
            return None if found is None else (found.job, found.generation)
        return None

    def stranger(self, name: str, table: DeltaTable | None = None) -> str | None:
        """Return why the directory ``name`` is not proven to be the job's table; None if it is, or if it does not exist.

        ``table``: the table, if it is open already.
        """
        directory = self.root / name
        if (obstacle := _obstacle(directory)) is not None:
            return obstacle
        if not directory.exists():
            return None
        making = self._tables is not None and name in self._tables.making
        if table is None:
            if not delta_read.exists(self.root, name):
                own = not _holds(directory) or (making and _half_a_table(directory))
                return None if own else "holds files, but no table of this job"
            try:
                table = delta_read.open_table(self.root, name)
            except SkybandError:
                known = self.noted.get(name)
                own = (making and _half_a_table(directory)) or (known is not None and known.id in delta_ids(directory / "_delta_log"))
                return None if own else "holds a table that cannot be read"
        return self._not_own(name, table)

    def _not_own(self, name: str, table: DeltaTable) -> str | None:
        metadata = table.metadata()
        known, marked = self.noted.get(name), metadata.configuration.get(PROPERTY)
        if known is not None and known.id != str(metadata.id):
            return "holds a table that was recreated by another writer"
        if marked is not None:
            return None if marked == self.id else "holds a table of another job"
        # The note alone is no proof: whoever can write it could name any table.
        if self._of_generation(name, table):
            return None
        # A version without notes made it: a table without rows, or table `job_runs`.
        of_before = self._before is not None and (known is not None or not self.knows) and set(metadata.configuration) >= _GIVEN
        if of_before and (not table.file_uris() or (name == JOB_RUNS and table.transaction_version(JOB_RUNS) is not None)):
            return None
        return "holds a table that this job did not make"

    def _of_generation(self, name: str, table: DeltaTable) -> bool:
        if self._before is None:
            return False
        job, generation = self._before
        if table.transaction_version(f"{job}/{generation}/{name}") is not None:
            return True
        # Table `checks` has one transaction for each check.
        return has_transaction(self.root / name / "_delta_log", f"{job}/{generation}/{name}/")

    def need_own(self, name: str, table: DeltaTable | None = None) -> None:
        """Raise SkybandError SKY-E205 if the directory ``name`` holds something that is not proven to be the job's table."""
        why = self.stranger(name, table)
        if why is not None:
            raise not_own(self.root / name, why)

    def need_directory(self, name: str) -> None:
        """Raise as ``need_own`` if ``name`` is a link or a file. Opens no table."""
        if (obstacle := _obstacle(self.root / name)) is not None:
            raise not_own(self.root / name, obstacle)

    def claim(self, names: Iterable[str]) -> None:
        """Note that the directories ``names`` are about to be created or removed. SkybandError SKY-E205 if one is not the job's."""
        names = list(names)
        for name in names:
            self.need_own(name)
        now = self._again()
        made = {n: m for n, m in now.made.items() if n not in names}
        self._write(_Tables(made=made, making=sorted({*now.making, *names})))

    def note(self, tables: Mapping[str, tuple[str, int, int, int]]) -> None:
        """Note the tables' versions: by name (Delta id, version, and the first and last version that are known to be the job's).

        A version that another writer made is not noted, nor any after it: the next consistency check reports it.
        """
        now = self._again()
        made = dict(now.made)
        for name, (delta_id, version, first, last) in tables.items():
            before = made.get(name)
            if before is not None and before.id == delta_id:
                spans = [(before.version + 1, min(first, version)), (max(last, before.version) + 1, version)]
                if version < before.version or any(self.changed(name, *span) for span in spans):
                    continue
            if name != JOB_RUNS:
                # `job_runs` belongs to no generation, so it is not in the notes of one.
                made[name] = Made(id=delta_id, version=version)
        written = _Tables(made=made, making=sorted(set(now.making) - set(tables)))
        if written != self._tables:
            self._write(written)

    def changed(self, name: str, first: int, last: int) -> str | None:
        """Return the first of these versions in which another writer changed rows, in words; None if there is none."""
        if first > last:
            return None
        job, generation = self._before or ("", "")
        own = [f"{job}/{generation}/"] if self._before else []
        return foreign(self.root / name / "_delta_log", first, last, [*own, JOB_RUNS], self.id)

    def behind(self, name: str, table: DeltaTable) -> str | None:
        """Return how the table is an older copy of the job's table, in words; None if it is not."""
        known, version = self.noted.get(name), table.version()
        if known is None or version >= known.version:
            return None
        return f"is at version {version}, but the job committed version {known.version}: it is an older copy"

    def altered(self, name: str, table: DeltaTable) -> str | None:
        """Return how another writer has changed rows since the job noted the version, in words; None if none did."""
        known = self.noted.get(name)
        other = None if known is None else self.changed(name, known.version + 1, table.version())
        if known is None or other is None:
            return None
        return f"was changed by another writer: {other}; version {known.version} is the last one known to hold the job's rows only"

    def _again(self) -> _Tables:
        """Read the notes again, since another writer of this process may have written them.

        The first notes contain the tables of a version without notes: once notes exist, nothing else proves an empty table.
        """
        self.__dict__.pop("_tables", None)
        if self._tables is not None or self._before is None:
            return self._tables or _Tables()
        made = {}
        for directory in self.root.iterdir():
            if directory.name.startswith("_") or directory.name == JOB_RUNS or is_link(directory) or not directory.is_dir():
                continue
            # A table that cannot be read is not proven.
            with suppress(SkybandError, OSError):
                table = delta_read.open_table(self.root, directory.name)
                if self.stranger(directory.name, table) is None:
                    made[directory.name] = Made(id=str(table.metadata().id), version=table.version())
        return _Tables(made=made)

    def _write(self, tables: _Tables) -> None:
        self.home.mkdir(parents=True, exist_ok=True)
        _TABLES.write(self.home / TABLES, tables)
        self._tables = tables


def not_own(directory: Location, why: str) -> SkybandError:
    """Return SKY-E205: the directory has the name of a table and is not proven to be the job's."""
    hint = (
        "use another directory in sink.path, rename the query, or move that directory away; "
        "if it belongs to the job, restore the whole sink from one backup, including _skyband"
    )
    return SkybandError("SKY-E205", f"{directory} {why}: the job neither writes nor removes it", hint=hint)


def file_mark(owner: str) -> str:
    """Return the mark in the names of data files that the job ``owner`` writes without a library."""
    return owner[:16]


def is_link(directory: Location) -> bool:
    """Return True if the directory of a table, or its log, is a link."""
    return directory.is_symlink() or (directory / "_delta_log").is_symlink()


def _obstacle(directory: Location) -> str | None:
    """Return what prevents a directory here, in words; None if nothing does. An object of that name is no obstacle."""
    if is_object(directory):
        return None
    if is_link(directory):
        return "is a link"
    return "is not a directory" if directory.exists() and not directory.is_dir() else None


def _half_a_table(directory: Location) -> bool:
    """Return True if the directory holds only what a killed run leaves of a table: data files and parts of a log."""
    for path in directory.rglob("*"):
        inside = path.relative_to(directory).parts[0] == "_delta_log"
        if path.is_symlink() or not (inside or path.is_dir() or path.name.endswith((".parquet", ".parquet.crc"))):
            return False
    return True


def _holds(directory: Location) -> bool:
    """Return True if the directory is not empty, or cannot be listed."""
    try:
        return next(directory.iterdir(), None) is not None
    except OSError:
        return True


def _read(record: Record[T], path: Location) -> T | None:
    """Return the parsed file, None if it does not exist. Raises SkybandError SKY-E303 if it is not of this model."""
    try:
        return record.read(path)
    except InvalidRecord as e:
        if isinstance(e.__cause__, NotADirectoryError):
            return None
        raise record.error(path, e) from e
