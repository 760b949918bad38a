"""Export the published versions of the job's tables as Iceberg tables, over the same Parquet files."""

from __future__ import annotations

import hashlib
import os
import time as clock
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from skyband.framework.base.failpoints import failpoint
from skyband.framework.storage import durable
from skyband.framework.storage.epochs import lease_lost
from skyband.framework.storage.location import Location
from skyband.framework.storage.locations import is_object
from skyband.framework.storage.settings import store_options
from skyband.framework.tables.delta.fence import overtaken
from skyband.framework.tables.iceberg import adapter
from skyband.framework.tables.iceberg.exported import EDITION, Export, Exports, avro_name, directory, metadata_name, properties, uri
from skyband.framework.tables.iceberg.live_files import live_files, paths

MOST_MANIFESTS: Final = 24
"""The number of manifests of a table above which small ones are merged: each publish that adds files adds one."""
SMALL: Final = 1000
"""The number of data files below which a manifest is small."""
_TABLES: Final = uuid.UUID("6b1f7a52-6d3a-4f0e-9d6c-0d6a3f0c8a11")
"""The name space of the tables' ids."""


@dataclass(frozen=True, slots=True)
class TableExport:
    """The export of the table ``name`` below ``root`` at a Delta version, None: the newest. ``owner`` is the id of the job."""

    root: Location
    name: str
    version: int | None
    job: str
    owner: str

    def run(self) -> bool:
        """Make the version the one that Iceberg readers see; return False if it is already.

        O(data files in the log) to compare, O(added data files) to write, and O(data files) if files were removed.
        """
        table = self._opened(self.version)
        exports = Exports(self.root, self.name, self.owner)
        before = next(iter(exports.newest()), None)
        delta_id = str(table.metadata().id)
        if before is not None and self._is_export_of(before, table, delta_id):
            exports.point_to(before.number)
            return False
        self._write(table, delta_id, exports, before)
        return True

    def _opened(self, version: int | None) -> DeltaTable:
        path = str(self.root / self.name)
        return DeltaTable(path, version=version, storage_options=store_options(path))

    @property
    def _home(self) -> Location:
        return directory(self.root, self.name).parent

    def _same_place(self, before: Export, delta_id: str) -> bool:
        return before.edition == EDITION and before.delta_id == delta_id and before.location == uri(self._home)

    def _is_export_of(self, before: Export, table: DeltaTable, delta_id: str) -> bool:
        return self._same_place(before, delta_id) and before.version == table.version()

    def _write(self, table: DeltaTable, delta_id: str, exports: Exports, before: Export | None) -> None:
        number, where, shown = exports.next, exports.directory, exports.shown()
        where.mkdir(parents=True, exist_ok=True)
        try:
            content = self._content(table, delta_id, number, where, before)
        except Exception:
            if before is None:
                raise
            # Whatever is wrong with the metadata of the export before, nothing of it is needed.
            content = self._content(table, delta_id, number, where, None)
        if is_object(self.root) and overtaken(self.root, self.name):
            raise lease_lost(self.root)
        durable.replace(where / metadata_name(number), content)
        failpoint("iceberg.metadata")
        exports.point_to(number)
        Exports(self.root, self.name, self.owner).clean(shown)

    def _content(self, table: DeltaTable, delta_id: str, number: int, where: Location, before: Export | None) -> bytes:
        """Write the manifests of export ``number``, with those of ``before`` that still hold; return the content of its metadata file."""
        version, attempt = table.version(), os.urandom(4).hex()
        partition_by = table.metadata().partition_columns
        shape = adapter.TableShape(pa.schema(table.schema().to_arrow()), partition_by, None if before is None else before.content)
        snapshot_id = self._snapshot_id(delta_id, version)
        manifests = adapter.Manifests(
            shape, where, self.root / self.name, snapshot_id, lambda part: avro_name(self.owner, number, attempt, part)
        )
        now = paths(table)
        earlier = self._earlier(before, delta_id)
        removed = set() if earlier is None else earlier - now
        if before is not None and earlier is not None and earlier & now:
            manifests.take_over(before.content["snapshots"][0]["manifest-list"])
            if removed:
                manifests.drop(removed)
        files = live_files(table, now if earlier is None else now - earlier)
        manifests.add(files)
        manifests.merge(MOST_MANIFESTS, SMALL)
        failpoint("iceberg.manifests")
        listed = manifests.write_list(number)
        failpoint("iceberg.listed")
        totals = self._totals(table, files, removed)
        at = int(clock.time() * 1000)
        own = properties(self.owner, self.name, delta_id, version, [listed.name, *manifests.names])
        summary = {"skyband.delta-version": str(version), "skyband.delta-id": delta_id, "skyband.job": self.job, **totals}
        return adapter.metadata(
            shape, self._home, uuid.uuid5(_TABLES, f"{self.owner}/{self.name}"), snapshot_id, number, at, listed, not removed, summary, own
        )

    def _snapshot_id(self, delta_id: str, version: int) -> int:
        """Return the same positive number for the same version of the same table."""
        text = "\n".join([self.owner, self.job, self.name, delta_id, str(version)])
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1 or 1

    def _earlier(self, before: Export | None, delta_id: str) -> set[str] | None:
        """Return the data files of the export before, None if its manifests cannot be used: another table, place or edition."""
        if before is None or not self._same_place(before, delta_id):
            return None
        if not all((directory(self.root, self.name) / name).exists() for name in before.files):
            return None
        try:
            return paths(self._opened(before.version))
        except (DeltaError, OSError):
            # The log no longer has this version.
            return None

    def _totals(self, table: DeltaTable, added: list[Any], removed: set[str]) -> Mapping[str, str]:
        actions = pa.table(table.get_add_actions())
        rows, sizes = actions["num_records"].to_pylist(), actions["size_bytes"].to_pylist()
        return {
            "added-data-files": str(len(added)), "deleted-data-files": str(len(removed)), "total-data-files": str(len(rows)),
            "total-records": str(sum(rows)), "total-files-size": str(sum(sizes)), "total-delete-files": "0",
        }  # fmt: skip
