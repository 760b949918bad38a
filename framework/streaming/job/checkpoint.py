"""Check that a checkpoint is complete before Spark reads it.

Spark would report damage by a stack trace, or not at all: with a truncated file source log it skips new files.
"""

from __future__ import annotations

import re
import uuid
import zipfile
import zlib
from collections.abc import Sequence

from skyband.framework.base.errors import SkybandError
from skyband.framework.base.plain_json import mapping, number
from skyband.framework.base.plain_json import whole as whole_number
from skyband.framework.sources.logs import files_log_damage, last_batch, offset, partitions_of, unusable
from skyband.framework.storage.location import Location

_LARGEST = 64 << 20
"""Bytes of the largest list of a snapshot's files."""
CONTROL = 1
"""The control source's number among the query's sources; the spec's is 0."""


def whole(checkpoint: Location, control: Location, partitions: int, finishes: Sequence[Sequence[int]], steps: int = 1) -> None:
    """Raise SkybandError SKY-E303 if a part of the checkpoint or of the control source is gone. ``finishes``: those of the job file.

    ``partitions``: the tasks of a stateful step, where the last batch does not say. ``steps``: how many have state
    in the checkpoint.

    The log of the spec's own source is looked at by its format. O(files of the checkpoint).
    """
    planned, done = (last_batch(checkpoint / log) for log in ("offsets", "commits"))
    damage = _spark_logs(checkpoint, planned, done) or _control(checkpoint, control, planned, finishes)
    if damage is None and done >= 0:
        tasks = partitions_of(checkpoint, done) or partitions
        damage = next((d for step in range(steps) if (d := _state(checkpoint / "state" / str(step), tasks, done + 1))), None)
    if damage is not None:
        raise unusable(checkpoint, damage)


def _spark_logs(checkpoint: Location, planned: int, done: int) -> str | None:
    if not _filled(checkpoint / "metadata"):
        return "its file metadata is gone"
    try:
        uuid.UUID(str(mapping((checkpoint / "metadata").read_text())["id"]))
    except (OSError, ValueError, KeyError):
        return "its file metadata cannot be read"
    if done > planned:
        return f"offsets/{done} is gone"
    if planned > done + 1:
        return "commits is gone" if done < 0 else f"commits/{planned - 1} is gone"
    for log, batch in (("offsets", planned), ("offsets", done), ("commits", done)):
        if batch >= 0 and not _filled(checkpoint / log / str(batch)):
            return f"{log}/{batch} is gone or empty"
    for batch in (planned, done):
        # Raises if the entry cannot be read.
        offset(checkpoint, batch)
    try:
        mapping((checkpoint / "commits" / str(done)).read_text().partition("\n")[2] if done >= 0 else "{}")
    except (OSError, ValueError):
        return f"commits/{done} cannot be read"
    return None


def _control(checkpoint: Location, control: Location, planned: int, finishes: Sequence[Sequence[int]]) -> str | None:
    if not control.is_dir():
        return f"the directory {control} of the job's finishes is gone"
    known = {f"finish-{frontier}.json" for _, frontier in finishes}
    there = {p.name for p in control.glob("finish-*.json")}
    if there - known:
        return "job.json is older than the checkpoint: it does not know of a finish that was ordered"
    # The last finish may have been declared without its row in the control source yet.
    lacking = [f"finish-{frontier}.json" for _, frontier in list(finishes)[:-1] if f"finish-{frontier}.json" not in there]
    if lacking:
        return f"{control / lacking[0]} is gone"
    return files_log_damage(checkpoint / "sources" / str(CONTROL), offset(checkpoint, planned, CONTROL))


def _state(state: Location, partitions: int, version: int) -> str | None:
    """Return what is missing to load the state of ``version``: a snapshot with its files, and every changelog after it."""
    for part in ("_metadata", "_stateSchema"):
        if not any(p.is_file() for p in (state / part).rglob("*")):
            return f"state/{state.name}/{part} is gone"
    for partition in range(partitions):
        directory = state / str(partition)
        snapshots = [n for p in directory.glob("*.zip") if (n := number(p.stem)) is not None and n <= version]
        first = max(snapshots, default=0)
        lacking = [f"{n}.changelog" for n in range(first + 1, version + 1) if not _filled(directory / f"{n}.changelog")]
        if first:
            lacking += _snapshot_lacks(directory, first)
        if lacking:
            return f"state/{state.name}/{partition}/{lacking[0]} is gone"
    return None


def _snapshot_lacks(directory: Location, version: int) -> list[str]:
    """Return the missing files of a snapshot, or the snapshot itself if it cannot be read."""
    try:
        with (directory / f"{version}.zip").open("rb") as file, zipfile.ZipFile(file) as packed:
            if packed.getinfo("metadata").file_size > _LARGEST:
                raise ValueError("no list of files is so long")
            listed = mapping(packed.read("metadata").decode().partition("\n")[2]).get("sstFiles", [])
        names = [(str(f["dfsSstFileName"]), whole_number(f.get("sizeBytes", -1))) for f in listed]
        if any("/" in name or name in ("", ".", "..") for name, _ in names):
            raise ValueError("a file elsewhere")
        named = [(directory / "SSTs" / name, size) for name, size in names]
    except (
        OSError,
        ValueError,
        KeyError,
        TypeError,
        AttributeError,
        EOFError,
        NotImplementedError,
        RuntimeError,
        zlib.error,
        zipfile.BadZipFile,
    ):
        return [f"{version}.zip"]
    return [f"SSTs/{p.name}" for p, size in named if not p.is_file() or (size >= 0 and p.stat().st_size != size)]


def _filled(path: Location) -> bool:
    return path.is_file() and path.stat().st_size > 0


_OF_CHECKPOINT = re.compile(
    r"STREAMING_CHECKPOINT|STREAMING_STATEFUL_OPERATOR_MISSING|STDS_FAILED|CANNOT_LOAD_STATE_STORE|CANNOT_READ_CHECKPOINT|CONCURRENT_STREAM_LOG"
)
_MISSING = re.compile(r"FileNotFoundException|does not exist|doesn't exist|EOFException|ChecksumException|[Cc]orrupt")


def failure(said: str, checkpoint: Location) -> SkybandError | None:
    """Return SKY-E303 if Spark's error ``said`` is about a missing or damaged part of the checkpoint; else None."""
    about = [line.strip() for line in said.splitlines() if str(checkpoint) in line and _MISSING.search(line)]
    if not about and not _OF_CHECKPOINT.search(said):
        return None
    first = about[0] if about else next(line.strip() for line in said.splitlines() if _OF_CHECKPOINT.search(line))
    what = first.removeprefix("Caused by:").strip()
    return unusable(checkpoint, re.sub(r"^([a-zA-Z_$]+\.)+", "", what)[:300])
