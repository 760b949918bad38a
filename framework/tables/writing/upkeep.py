"""Upkeep of a Delta table that gets a small commit with every batch: what it leaves on disk stays bounded at a steady rate of batches.

Replaced files and the log stay readable for ``MINUTES`` of the table's life; a reader that takes longer starts again. Small files are
merged in two steps (``TIERS``), so that a row is rewritten about twice in its life, never more than 32 MB at a time. With ``r`` batches a
minute, ``m`` minutes, and ``f`` files that a batch writes into the table (for ``heads`` and skybands the buckets it touches), it has

* at most ``2 * MERGE_AT`` small files, one file for every 32 MB of its rows, and no more than ``1.25 m r f + SPARE`` replaced ones;
* at most ``1.25 m r + CHECKPOINT_INTERVAL + SPARE`` files of log, and a checkpoint of it for every 20 to ``CHECKPOINT_INTERVAL`` of them,
  the fewer the more it names (``log_checkpoints``).

What the versions that table ``published`` names are read from stays besides (``published.kept``): their files, and the log since then.

At a batch every 0.5 s that is about 4,000 files of ``runs``, where a week of them were 1.2 million. Every step is one commit of the table
(or only removes what no commit needs), so it may be killed anywhere and is done at the next upkeep.
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

from skyband.framework.base.failpoints import failpoint
from skyband.framework.storage.locations import is_object
from skyband.framework.tables.delta import delta_read
from skyband.framework.tables.delta.commits import MARK, named
from skyband.framework.tables.delta.ownership import file_mark
from skyband.framework.tables.schemas import Life, TableSpec
from skyband.framework.tables.writing.published import kept

MINUTES: Final[dict[Life, int]] = {"history": 4320, "dense": 360, "result": 60, "book": 15}
"""How long files that a commit replaced and the log's own files stay, by the life of a table.

A history's are also for those who follow its commits as a stream: three days, where that does not make too many of them.
"""
CHECKPOINT_INTERVAL: Final = 100
"""Commits between two Delta checkpoints, at the most: no longer a log is read. A checkpoint also names every replaced file."""
MERGE_AT: Final = 64
"""Small files from which they are merged."""
TIERS: Final = (256 << 10, 32 << 20)
"""Bytes below which a file is small: files of commits are merged into files of the first size, those into files of the second."""
SPARE: Final = 200
"""Replaced files, and files of log, that a table may have whatever their age."""
_MARGIN: Final = 60.0
"""Seconds within which a commit says that it replaces a file and is written itself."""
_OF_LOG: Final = re.compile(r"\.?(\d{20})\.(.+)")


class Upkeep:
    """Of the tables of one writer. Remembers when it last cleaned which: looking through a directory is not for every minute."""

    def __init__(self) -> None:
        self._cleaned: dict[str, float] = {}

    def maintain(
        self, table: DeltaTable, spec: TableSpec, root: Path, gone: Sequence[tuple[int, int]] = (), owner: str | None = None
    ) -> bool:
        """Merges small files, drops the rows of batches ``gone`` (first, last), removes files and log nobody needs any more.

        ``owner``: the job's id, by which the commit that drops rows is known to be the job's (``commits``).

        Whether there was anything to do: then ``table`` has to be opened again. O(bytes of small files + files of the directory), the
        latter
        four times per ``MINUTES`` of the table.
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


def tidy(table: DeltaTable, spec: TableSpec, root: Path, owner: str | None = None) -> None:
    """All of the upkeep at once, however little there is to do: merges every small file, writes a checkpoint of the log, cleans.

    What may go is what ``Upkeep`` would remove, and no more. O(bytes of small files + files of the directory).
    """
    if spec.partition_by != ("bucket",):
        table.optimize.compact(target_size=TIERS[-1])
    failpoint("upkeep.between")
    table.create_checkpoint()
    failpoint("upkeep.between")
    _clean(table, spec, root, owner)


@dataclass(frozen=True, slots=True)
class Size:
    """Of a table: ``files`` and ``bytes`` of its present version, of all that lies on disk (``all_files``, ``all_bytes``), files of log."""

    files: int
    bytes: int
    all_files: int
    all_bytes: int
    log_files: int


def size(table: DeltaTable, root: Path) -> Size:
    """O(files of the directory)."""
    live = pa.table(table.get_add_actions())["size_bytes"].to_pylist()
    there = [f.stat().st_size for f in _files(root)]
    return Size(len(live), sum(live), len(there), sum(there), len(_names(root / "_delta_log")))


def _clean(table: DeltaTable, spec: TableSpec, root: Path, owner: str | None) -> None:
    """Removes replaced files and log: the one place that decides what may go.

    Of data files only those that the log once named, or that have the job's mark in their names (``ownership.file_mark``: of an attempt
    that failed). What else lies in the directory may be anybody's. A file that was replaced before the time to which the log goes back is
    named nowhere any more: so the log is cleaned after the files, as of the same moment.
    """
    held = kept(root.parent, spec.name) if spec.published else []
    before = clock.time() - 60 * MINUTES[spec.life]
    gone = table.vacuum(retention_hours=None, dry_run=True, enforce_retention_duration=False, full=True, keep_versions=held or None)
    if gone:
        _remove(spec, root, {unquote(name) for name in gone}, before, owner)
    failpoint("upkeep.between")
    _clean_log(root / "_delta_log", before, held)


def _remove(spec: TableSpec, root: Path, gone: set[str], before: float, owner: str | None) -> None:
    """Removes replaced files. Another run may have taken over a sink on object storage while this one stood still, at whatever moment:

    the newest version is read after the files were found: none that was so old then and is not in it will be part of a later one.
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
        if path.parent.resolve().is_relative_to(inside) and (not is_object(root) or _written(path) < before):
            path.unlink(missing_ok=True)


def _merge(table: DeltaTable) -> bool:
    """Whether anything was merged."""
    for n, size in enumerate(TIERS):
        if sum(s < size for s in pa.table(table.get_add_actions())["size_bytes"].to_pylist()) <= MERGE_AT:
            return n > 0
        table.optimize.compact(target_size=size)
    return True


def _clean_log(log: Path, before: float, held: Sequence[int]) -> None:
    """Removes the log before the checkpoint from which the oldest version that has to stay is read: that of time ``before``, or ``held``.

    The engines' own cleaning knows nothing of versions that are held. O(files of the log).
    """
    files = {m[0]: (int(m[1]), m[2]) for name in _names(log) if (m := _OF_LOG.fullmatch(name)) is not None}
    # A file that went between the listing and here (a reader's engine cleans too) is none of ours to count.
    past = [v for name, (v, kind) in files.items() if kind == "json" and _written(log / name) < before]
    oldest = min([max(past, default=-1), *held])
    first = max((v for v, kind in files.values() if kind.startswith("checkpoint") and v <= oldest), default=-1)
    for name, (version, _) in files.items():
        if version < first:
            (log / name).unlink(missing_ok=True)


def _written(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return clock.time()


def _names(directory: Path) -> list[str]:
    return [p.name for p in directory.iterdir()]


def _files(root: Path) -> Iterator[Path]:
    """Data files of a table's directory, whether they are still part of it or not."""
    if is_object(root):
        yield from (f for f in root.rglob("*.parquet") if f.relative_to(root).parts[0] != "_delta_log")
        return
    for directory, directories, names in os.walk(root):
        directories[:] = [f for f in directories if f != "_delta_log"]
        yield from (Path(directory, n) for n in names if n.endswith(".parquet"))
