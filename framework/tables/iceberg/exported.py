"""The Iceberg metadata that the job has written: ``_iceberg/<table>/metadata`` of the sink. This module does not import pyiceberg.

The layout is that of Iceberg's file-system catalog: ``version-hint.text`` has the number N of ``vN.metadata.json``, which names a manifest
list, which names manifests. Every file is written once, under a name that no file had, and the hint last. So a reader sees one complete
export, and a killed one is repeated.

A file is the job's if it is a metadata file with the id of the job (``ownership``), or has the job's mark in its name (``file_mark``). No
other file is removed.
"""

from __future__ import annotations

import json
import os
import re
import time as clock
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from typing import Any, Final

from skyband.framework.base.failpoints import failpoint
from skyband.framework.base.plain_json import loads, mapping, number
from skyband.framework.storage import durable
from skyband.framework.storage.location import Location, is_object
from skyband.framework.storage.records import InvalidRecord, read_regular_file
from skyband.framework.storage.sinks import reject_links_below
from skyband.framework.tables.delta.ownership import Owner, file_mark

HOME: Final = "_iceberg"
"""Directory of a sink for the metadata of all tables. No query may have such a name."""
EDITION: Final = "1"
"""Of the way in which tables are exported: metadata of another edition is written again from scratch."""
GRACE: Final = 1800.0
"""Seconds that files of an earlier export stay, for readers that have begun. The export before the current one always stays."""
_HINT: Final = "version-hint.text"
_METADATA: Final = re.compile(r"v([1-9][0-9]{0,8})\.metadata\.json")
_AVRO: Final = re.compile(r"skyband-([0-9a-f]{16})-[0-9]+(?:-[0-9a-f]{8})?-[a-z0-9]+\.avro")
_LAST: Final = 999_999_999
_MOST: Final = 16 << 20
"""Bytes of a metadata file above which it is not the job's: one of ten thousand columns has about two million."""
_LEFTOVER: Final = re.compile(r"\.(.+)\.[0-9a-f]{12}")
"""A file that a killed process has not finished (``durable``)."""

_JOB: Final = "skyband.job"
_TABLE: Final = "skyband.table"
_EDITION: Final = "skyband.edition"
_DELTA_ID: Final = "skyband.delta-id"
_VERSION: Final = "skyband.delta-version"
_FILES: Final = "skyband.files"
"""Properties of a metadata file. ``_FILES`` is a JSON list of the names of its Avro files."""


@dataclass(frozen=True, slots=True)
class Export:
    """One export of a table: ``number`` as in its file's name, ``files`` the names of its Avro files, ``content`` its metadata."""

    number: int
    edition: str
    delta_id: str
    version: int
    location: str
    files: frozenset[str]
    content: dict[str, Any]


def directory(root: Location, table: str) -> Location:
    """Return the directory of a table's metadata files."""
    return root / HOME / table / "metadata"


def uri(path: Location) -> str:
    """Return a path as Iceberg metadata names it: with a scheme, not percent-encoded."""
    return str(path) if is_object(path) else f"file://{path}"


def properties(owner: str, table: str, delta_id: str, version: int, files: list[str]) -> dict[str, str]:
    """Return the properties of a metadata file, by which it is known as the job's."""
    return {
        _JOB: owner, _TABLE: table, _EDITION: EDITION, _DELTA_ID: delta_id, _VERSION: str(version), _FILES: json.dumps(sorted(files))
    }  # fmt: skip


def avro_name(owner: str, number: int, attempt: str, part: str) -> str:
    """Return the name of a manifest or manifest list of export ``number``.

    ``attempt``: eight random hexadecimal digits. Readers such as pyiceberg remember manifests by name, also after a reset.
    """
    return f"skyband-{file_mark(owner)}-{number}-{attempt}-{part}.avro"


def metadata_name(number: int) -> str:
    """Return the name of the metadata file of export ``number``."""
    return f"v{number}.metadata.json"


class Exports:
    """The exports of one table below ``root``, newest first; ``owner`` is the id of the job, None if it has none yet.

    Raises SkybandError SKY-E518 for a link below the directory.
    """

    def __init__(self, root: Location, table: str, owner: str | None) -> None:
        self.root, self.table, self.owner = root, table, owner
        self.directory = directory(root, table)
        for above in (root / HOME, root / HOME / table):
            if not is_object(root) and above.is_symlink():
                reject_links_below(above)
        reject_links_below(self.directory)
        self._names = _names(self.directory)
        numbers = sorted((int(m[1]) for n in self._names if (m := _METADATA.fullmatch(n))), reverse=True)
        self.numbers = numbers
        self.next = numbers[0] + 1 if numbers else 1
        """The number of the next export: greater than that of any metadata file here, whoever wrote it, unless that has the last number."""
        if self.next > _LAST:
            first = next((e.number for e in self.newest()), 0) + 1
            self.next = next(n for n in count(first) if n not in set(numbers))

    def newest(self, most: int = 1) -> list[Export]:
        """Return up to ``most`` exports of the job, newest first."""
        found: list[Export] = []
        for n in self.numbers:
            export = self._read(n)
            if export is not None:
                found.append(export)
                if len(found) == most:
                    break
        return found

    def in_use(self) -> list[Export]:
        """Return the exports that readers may be reading: the newest two, and the one that they see if it is neither."""
        found = self.newest(2)
        shown = self.shown()
        older = None if shown is None or any(e.number == shown for e in found) else self._read(shown)
        return found if older is None else [*found, older]

    def point_to(self, number: int) -> None:
        """Make export ``number`` the one that readers see, if it is not yet."""
        if self.shown() != number:
            durable.replace(self.directory / _HINT, str(number))
            failpoint("iceberg.pointed")

    def clean(self, before_it: int | None) -> None:
        """Remove the job's files of exports that no reader needs, ``GRACE`` after they were written.

        The newest two stay, and ``before_it``, the one that readers saw before.
        """
        former = None if before_it is None else self._read(before_it)
        kept = [*self.newest(2), *([] if former is None else [former])]
        needed = {name for e in kept for name in (metadata_name(e.number), *e.files)}
        before = clock.time() - GRACE
        for name in sorted(_names(self.directory) - needed):
            with suppress(FileNotFoundError):
                if self._own(name) and (self.directory / name).stat().st_mtime < before:
                    (self.directory / name).unlink()

    def remove(self) -> None:
        """Remove every file of the job here, and the directories if that leaves them empty. The hint goes first."""
        own = [name for name in sorted(self._names) if self._own(name)]
        hint = self.shown()
        if hint is not None and metadata_name(hint) in own:
            (self.directory / _HINT).unlink(missing_ok=True)
        for name in own:
            failpoint("iceberg.removed")
            (self.directory / name).unlink(missing_ok=True)
        if not is_object(self.root):
            for path in (self.directory, self.directory.parent, self.root / HOME):
                with suppress(OSError):
                    os.rmdir(str(path))

    def _own(self, name: str) -> bool:
        if (leftover := _LEFTOVER.fullmatch(name)) is not None:
            name = leftover[1]
            return self.owner is not None and (name == _HINT or _METADATA.fullmatch(name) is not None or self._marked(name))
        number = _METADATA.fullmatch(name)
        return self._read(int(number[1])) is not None if number is not None else self._marked(name)

    def _marked(self, name: str) -> bool:
        made = _AVRO.fullmatch(name)
        return made is not None and self.owner is not None and made[1] == file_mark(self.owner)

    def shown(self) -> int | None:
        """Return the number of the export that readers see, None if the hint names none."""
        with suppress(OSError, ValueError):
            return int(read_regular_file(self.directory / _HINT)[:20])
        return None

    def _read(self, export: int) -> Export | None:
        """Return the export of that number, None if its file is not one that this job wrote for this table."""
        if self.owner is None:
            return None
        try:
            text = read_regular_file(self.directory / metadata_name(export))
            if len(text) > _MOST:
                return None
            content = mapping(text)
            said = content.get("properties")
            if not isinstance(said, dict) or (said.get(_JOB), said.get(_TABLE)) != (self.owner, self.table):
                return None
            files, version = loads(str(said.get(_FILES))), number(str(said.get(_VERSION)))
        except (OSError, InvalidRecord, ValueError):
            return None
        if version is None or not isinstance(files, list) or not all(isinstance(f, str) and self._marked(f) for f in files):
            return None
        edition, delta_id, location = str(said.get(_EDITION)), str(said.get(_DELTA_ID)), str(content.get("location"))
        return Export(export, edition, delta_id, version, location, frozenset(files), content)


def exported_versions(root: Location, table: str, delta_id: str, owner: str | None) -> list[int]:
    """Return the Delta versions of a table whose files Iceberg readers may be reading (``Exports.in_use``)."""
    if not directory(root, table).is_dir():
        return []
    return sorted({e.version for e in Exports(root, table, owner).in_use() if e.delta_id == delta_id})


def exported_tables(root: Location) -> list[str]:
    """Return the names of the tables below ``root`` with a directory of Iceberg metadata."""
    home = root / HOME
    return sorted(_names(home)) if home.is_dir() else []


def remove_exports(root: Location, tables: list[str] | None = None) -> None:
    """Remove the Iceberg metadata of ``tables``, by default of all; only what is proven to be the job's. O(its files)."""
    owner = Owner(root).id
    for table in exported_tables(root) if tables is None else tables:
        Exports(root, table, owner).remove()


def _names(directory: Location) -> set[str]:
    try:
        return {path.name for path in directory.iterdir()}
    except (FileNotFoundError, NotADirectoryError):
        return set()
