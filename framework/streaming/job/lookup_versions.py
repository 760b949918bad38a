"""The versions of look-up tables that a job's batches have used, kept in ``_skyband/lookups`` for repeated batches and for readers.

``versions.json`` says which batches, and which of the source's files, have used which version. A version of a table is a Parquet file of
the columns that rows need, named by the hash of its bytes.
"""

from __future__ import annotations

import hashlib
import io
import re
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, Final

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import ConfigDict, StringConstraints

from skyband.framework.base.errors import SkybandError
from skyband.framework.base.failpoints import failpoint
from skyband.framework.base.system_failures import raising_system_failures
from skyband.framework.lookups.join import Tables
from skyband.framework.lookups.table import nodes, schema
from skyband.framework.plan.model import Plan
from skyband.framework.sources.logs import AGAIN, last_batch, offset, taken
from skyband.framework.sources.registry import source_format
from skyband.framework.sources.watermark_caps import WatermarkCaps
from skyband.framework.storage import durable
from skyband.framework.storage.location import Location, is_object
from skyband.framework.storage.records import STRICT, Count, InvalidRecord, Name, Record, Whole, read_regular_file
from skyband.framework.storage.sinks import unsupported_entry
from skyband.framework.streaming.job.layout import Layout

_HASH: Final = "[0-9a-f]{64}"
_SNAPSHOT: Final = re.compile(rf"({_HASH})\.parquet")


@dataclass(slots=True)
class Version:
    """The tables from ``batch`` on, up to the next version: look-up -> hash. ``after``: the last number of the source's log of files before
    that batch (-1: none, or the source has no files)."""

    batch: Count
    after: Whole
    tables: dict[Name, Annotated[str, StringConstraints(pattern=f"^{_HASH}$")]]
    __pydantic_config__: ClassVar[ConfigDict] = STRICT


@dataclass(slots=True)
class _File:
    versions: list[Version]
    __pydantic_config__: ClassVar[ConfigDict] = STRICT


_VERSIONS: Final = Record[_File](
    _File,
    "{path}, which keeps the look-up tables that batches have used, cannot be used: {why}",
    f"restore it from a backup, or {AGAIN}",
    sort=True,
)


class LookupVersions:
    """The versions of one job. Raises SkybandError SKY-E303 if a file is gone or damaged, SKY-E518 for a link in the place of one."""

    def __init__(self, plan: Plan, layout: Layout) -> None:
        self.plan, self.layout = plan, layout
        self.home = layout.lookups
        self.file = self.home / "versions.json"

    def load(self) -> list[Version]:
        """Return the versions in the order of their batches; none before the first run."""
        if not is_object(self.home) and self.home.is_symlink():
            raise unsupported_entry(self.home)
        found = _VERSIONS.need(self.file)
        return [] if found is None else found.versions

    def known(self) -> list[Version]:
        """Return the versions of a job that has planned a batch."""
        found = self.load()
        if not found:
            raise _VERSIONS.error(self.file, "it is gone")
        return found

    def tables(self, version: Version) -> Tables:
        """Return the tables of a version."""
        return {node.name: self._read(version.tables.get(node.name), schema(node, source)) for node, source in nodes(self.plan)}

    def pin(self, read: Callable[[], Tables], warn: Callable[[str], object]) -> Tables:
        """Return the tables for a run, durably recorded before its first batch is planned.

        ``read`` returns the tables as they are now. They are not read while a batch, or a backlog with caps, is unfinished: its rows
        have to be those of its beginning, so the run goes on with the version that it began with. ``warn`` reports that.
        """
        checkpoint = self.layout.checkpoint
        planned, done = (last_batch(checkpoint / log) for log in ("offsets", "commits"))
        versions = [v for v in (self.known() if planned >= 0 else self.load()) if v.batch <= planned]
        if versions and (planned > done or WatermarkCaps.load(self.layout.home).capped):
            warn("look-up tables stay as they were in the last run, whose input has not been processed to its end")
            return self.tables(versions[-1])
        found = read()
        with raising_system_failures(self.home):
            self.home.mkdir(parents=True, exist_ok=True)
            made = {name: self._write(table) for name, table in found.items()}
            if not versions or versions[-1].tables != made:
                versions.append(Version(planned + 1, offset(checkpoint, planned), made))
            versions = self._needed(versions)
            _VERSIONS.write(self.file, _File(versions))
            failpoint("lookups.pinned")
            self._clean({of for v in versions for of in v.tables.values()})
        return found

    def _needed(self, versions: list[Version]) -> list[Version]:
        """Return the last version and those with which rows may be read again.

        Without files, and with several sources, it matters only whether the tables have changed: the first version stands for all.
        """
        if len(versions) < 3:
            return versions
        if not source_format(self.plan.source.format).of_files:
            return [versions[0], versions[-1]]
        used = {version_of(versions, t.number) for t in taken(self.layout.checkpoint / "sources" / str(self.plan.source.number))}
        return [v for i, v in enumerate(versions) if i in used or i + 1 == len(versions)]

    def _write(self, table: pa.Table) -> str:
        """Write a version of a table unless it is there, and return its hash."""
        out = io.BytesIO()
        pq.write_table(table, out, compression="zstd")
        data = out.getvalue()
        name = hashlib.sha256(data).hexdigest()
        path = self.home / f"{name}.parquet"
        if not _holds(path, name):
            durable.replace(path, data)
        return name

    def _read(self, name: str | None, to: pa.Schema) -> pa.Table:
        if name is None:
            raise _VERSIONS.error(self.file, "it lacks a look-up of the spec")
        path = self.home / f"{name}.parquet"
        try:
            data = read_regular_file(path)
        except FileNotFoundError as e:
            raise _VERSIONS.error(path, "it is gone") from e
        except InvalidRecord as e:
            raise _VERSIONS.error(path, str(e)) from e
        if hashlib.sha256(data).hexdigest() != name:
            raise _VERSIONS.error(path, "its content has changed")
        try:
            return pq.read_table(io.BytesIO(data)).cast(to)
        except (pa.ArrowException, ValueError, OSError) as e:
            raise _VERSIONS.error(path, "it does not hold the columns that rows take from the table") from e

    def _clean(self, used: set[str]) -> None:
        """Remove tables that no version names. A file is one of this class only if its name is the hash of its content."""
        for path in self.home.iterdir():
            name = _SNAPSHOT.fullmatch(path.name)
            if name is not None and name[1] not in used and _holds(path, name[1]):
                path.unlink()


def version_of(versions: Sequence[Version], number: int) -> int:
    """Return the index of the version with which a file was read that has ``number`` in the source's log of files."""
    return bisect_left([v.after for v in versions[1:]], number)


def _holds(path: Location, name: str) -> bool:
    """Return True if the regular file at ``path`` has the content whose hash is ``name``."""
    try:
        return hashlib.sha256(read_regular_file(path)).hexdigest() == name
    except (OSError, InvalidRecord, SkybandError):
        return False
