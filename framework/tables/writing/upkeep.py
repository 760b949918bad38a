"""Maintain Delta tables that get a small commit with every batch, so that their size on disk stays bounded.

Replaced files and the log stay readable for ``MINUTES``, by the life of the table; a reader that takes longer must start again. Small files
are merged in two steps (``TIERS``), so that a row is rewritten about twice in its life, never more than 32 MB at a time. With ``r`` batches
a minute, ``m`` minutes, and ``f`` files that a batch writes to the table (for ``heads`` and skybands the buckets it touches), it has

* at most ``2 * MERGE_AT`` small files, one file per 32 MB of rows, and at most ``1.25 m r f + SPARE`` replaced files;
* at most ``1.25 m r + CHECKPOINT_INTERVAL + SPARE`` files of log, and a checkpoint every ``CHECKPOINT_INTERVAL`` commits.

In addition, the files of published versions (``published.readable_versions``) and of exported ones (``iceberg.exported``), and the log
since then, stay.

With a batch every 0.5 s, ``runs`` has about 4,000 files, where a week without upkeep makes 1.2 million. Every step is one commit of the
table, or removes what no commit needs. So a run may be killed at any moment, and the next upkeep does the rest.
"""

from __future__ import annotations

import os
import re
import time as clock
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import unquote

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable

from skyband.framework.base.errors import SkybandError
from skyband.framework.base.failpoints import failpoint
from skyband.framework.storage import delta_read
from skyband.framework.storage.location import Location, is_object
from skyband.framework.tables.delta.commits import MARK, named
from skyband.framework.tables.delta.ownership import file_mark
from skyband.framework.tables.iceberg.exported import exported_versions
from skyband.framework.tables.schemas import Life, TableSpec
from skyband.framework.tables.writing.published import readable_versions, unreadable

MINUTES: Final[dict[Life, int]] = {"history": 4320, "dense": 360, "result": 60, "book": 15}
"""How long replaced files and the files of the log stay, by the life of a table.

Readers may follow the commits of a history as a stream: these stay for three days, unless that makes too many files.
"""
CHECKPOINT_INTERVAL: Final = 20
"""The commits between two Delta checkpoints. Every commit reads the log since the last one, 0.1 to 0.2 ms per commit in it."""
MERGE_AT: Final = 64
"""The number of small files at which they are merged."""
TIERS: Final = (256 << 10, 32 << 20)
"""Bytes below which a file is small: files of commits are merged into files of the first size, those into files of the second."""
SPARE: Final = 200
"""The number of replaced files, and of files of log, that a table may have regardless of age."""
_MARGIN: Final = 60.0
"""The most seconds between the time in a commit and the time at which its file is written."""
_OF_LOG: Final = re.compile(r"\.?(\d{20})\.(.+)")


class Upkeep:
    """Upkeep of the tables of one writer. It remembers when it cleaned each, since listing a directory takes time."""

    def __init__(self) -> None:
        self._cleaned: dict[str, float] = {}

    def maintain(
        self, table: DeltaTable, spec: TableSpec, root: Location, gone: Sequence[tuple[int, int]] = (), owner: str | None = None
    ) -> bool:
        """Merge small files, drop the rows of the batches ``gone`` (first, last), remove files and log that no reader needs.

        ``owner``: the id of the job, which marks the commit that drops rows as the job's own (``commits``). Return True if anything was
        done: then ``table`` must be opened again. O(bytes of small files), and four times per ``MINUTES`` O(files of the directory).
        """
        done = spec.partition_by != ("bucket",) and _merge(table)
        failpoint("upkeep.between")
        if gone:
            dropped = " or ".join(f"(batch_id >= {first} and batch_id <= {last})" for first, last in gone)
            table.delete(dropped, commit_properties=CommitProperties(custom_metadata={MARK: owner or ""}))
            failpoint("upkeep.between")
            done = True
        now = clock.monotonic()
        if spec.name in self._cleaned and now - self._cleaned[spec.name] < 60 * MINUTES[spec.life] / 4:
            return done
        replaced = sum(1 for _ in _files(root)) > len(table.file_uris()) + SPARE
        if replaced or len(_names(root / "_delta_log")) > SPARE + CHECKPOINT_INTERVAL:
            _clean(table, spec, root, owner)
            self._cleaned[spec.name] = now
            done = True
        return done


def tidy(table: DeltaTable, spec: TableSpec, root: Location, owner: str | None = None) -> None:
    """Do all upkeep at once: merge every small file, write a checkpoint of the log, clean.

    It removes only what ``Upkeep`` may remove. O(bytes of small files + files of the directory).
    """
    if spec.partition_by != ("bucket",):
        table.optimize.compact(target_size=TIERS[-1])
    failpoint("upkeep.between")
    table.create_checkpoint()
    failpoint("upkeep.between")
    _clean(table, spec, root, owner)


@dataclass(frozen=True, slots=True)
class Size:
    """The size of a table: ``files`` and ``bytes`` of the newest version, of everything on disk (``all_...``), and the files of log."""

    files: int
    bytes: int
    all_files: int
    all_bytes: int
    log_files: int


def size(table: DeltaTable, root: Location) -> Size:
    """Return the size of a table. O(files of the directory)."""
    live = pa.table(table.get_add_actions())["size_bytes"].to_pylist()
    on_disk = [f.stat().st_size for f in _files(root)]
    return Size(len(live), sum(live), len(on_disk), sum(on_disk), len(_names(root / "_delta_log")))


def _clean(table: DeltaTable, spec: TableSpec, root: Location, owner: str | None) -> None:
    """Remove replaced files and old log. Only this function decides what may be removed.

    A data file is removed if the log once named it, or if its name has the job's mark (``ownership.file_mark``: it is of a failed attempt).
    Any other file may belong to somebody else. Once the log is cleaned, it no longer names the files replaced before: so the log is cleaned
    after the files, as of the same moment.
    """
    kept = readable_versions(root.parent, spec.name) if spec.published else []
    try:
        exported = exported_versions(root.parent, spec.name, str(table.metadata().id), owner)
    except SkybandError:
        # A link in the place of an export, which every publish reports: what readers need is not known.
        return
    kept = sorted({*kept, *(v for v in exported if unreadable(root.parent, spec.name, v) is None)})
    before = clock.time() - 60 * MINUTES[spec.life]
    gone = table.vacuum(retention_hours=None, dry_run=True, enforce_retention_duration=False, full=True, keep_versions=kept or None)
    if gone:
        _remove(spec, root, {unquote(name) for name in gone}, before, owner)
    failpoint("upkeep.between")
    _clean_log(root / "_delta_log", before, kept)


def _remove(spec: TableSpec, root: Location, gone: set[str], before: float, owner: str | None) -> None:
    """Remove replaced files.

    On object storage another run may take over the sink while this one is paused. So the newest version is read after the files are listed:
    a file that was old then and is not in that version cannot be part of a later one.
    """
    log = root / "_delta_log"
    past = [name for name in _names(log) if _OF_LOG.fullmatch(name) and name.endswith(".json") and _written(log / name) < before + _MARGIN]
    mark = None if owner is None else f"-{file_mark(owner)}-"
    gone &= named(log, past) | {name for name in gone if mark is not None and mark in name.rpartition("/")[2]}
    needed = {unquote(p) for p in pa.table(delta_read.open_table(root.parent, spec.name).get_add_actions())["path"].to_pylist()}
    inside = root.resolve()
    for name in gone - needed:
        path = root / name
        # A link in the directory may lead anywhere.
        if inside in (path.parent.resolve(), *path.parent.resolve().parents) and (not is_object(root) or _written(path) < before):
            path.unlink(missing_ok=True)


def _merge(table: DeltaTable) -> bool:
    """Merge small files; return True if any were merged."""
    for n, size in enumerate(TIERS):
        if sum(s < size for s in pa.table(table.get_add_actions())["size_bytes"].to_pylist()) <= MERGE_AT:
            return n > 0
        table.optimize.compact(target_size=size)
    return True


def _clean_log(log: Location, before: float, kept: Sequence[int]) -> None:
    """Remove the log before the checkpoint that the oldest readable version needs: the version at ``before``, or one of ``kept``.

    The cleaning of other engines does not know ``kept``. O(files of the log).
    """
    files = {m[0]: (int(m[1]), m[2]) for name in _names(log) if (m := _OF_LOG.fullmatch(name)) is not None}
    # A file may disappear after the listing, since readers' engines clean too.
    past = [v for name, (v, kind) in files.items() if kind == "json" and _written(log / name) < before]
    oldest = min([max(past, default=-1), *kept])
    first = max((v for v, kind in files.values() if kind.startswith("checkpoint") and v <= oldest), default=-1)
    for name, (version, _) in files.items():
        if version < first:
            (log / name).unlink(missing_ok=True)


def _written(path: Location) -> float:
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return clock.time()


def _names(directory: Location) -> list[str]:
    return [p.name for p in directory.iterdir()]


def _files(root: Location) -> Iterator[Location]:
    """Yield the data files in a table's directory, also those that are no longer part of the table."""
    if is_object(root):
        yield from (f for f in root.rglob("*.parquet") if f.relative_to(root).parts[0] != "_delta_log")
        return
    for directory, directories, names in os.walk(str(root)):
        directories[:] = [f for f in directories if f != "_delta_log"]
        yield from (Path(directory, n) for n in names if n.endswith(".parquet"))
