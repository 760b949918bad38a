"""Prunes Spark's file source log (``checkpoint/sources/0``), which would otherwise grow without bound.

Spark writes a file per batch and merges all there are into ``<n>.compact`` now and then, a line of JSON per source file; it reads the
newest of these and all later ones. It never removes a line and keeps all of them in memory (about 200 bytes each). A deleted file whose
name is never used again needs no line: ``prune`` removes it.

The log itself records how many lines were removed, in one more line with a path that no file has: log and number are replaced in one
step.
"""

from __future__ import annotations

import glob
import json
import os
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from skyband.framework.base import plain_json
from skyband.framework.base.plain_json import loads, mapping, whole
from skyband.framework.sources.logs import FORGOTTEN, last_batch, local_path, offset, unusable
from skyband.framework.storage import durable
from skyband.framework.storage.location import Location, without_scheme

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MARKS: Final = 64
"""Marks kept for the time that names are kept."""


def pruned(checkpoint: Location, source: int = 0) -> int:
    """Return how many lines have been removed from the log of source ``source``. O(lines)."""
    log = checkpoint / "sources" / str(source)
    return max((_count(line["path"]) for path in _compacts(log) for line in _lines(path)), default=0)


def prune(checkpoint: Location, source: str, marks: Location, keep: timedelta, now: datetime, number: int = 0) -> int:
    """Remove the lines of deleted files that were taken longer than ``keep`` ago, and return how many. No query may be running.

    Keeps the files of an unfinished batch, and those of a missing or empty directory, which may be a failed mount. ``marks``, a list of
    [instant, last number of the log then], tells by when a file had been taken; without it no file is old enough. If the process is killed,
    the old or the new log remains. ``number``: of the source in the checkpoint. O(lines), at most 64 times in ``keep``.
    """
    since = now - min(keep, now - _EPOCH)
    log = checkpoint / "sources" / str(number)
    numbers = sorted(_number(p) for p in log.glob("[0-9]*")) if log.is_dir() else []
    if not numbers or not _mark(marks, numbers[-1], since, now):
        return 0
    old = max((upto for at, upto in _read_marks(marks) if datetime.fromisoformat(at) <= since), default=-1)
    compacts = _compacts(log)
    upto = min(old, offset(checkpoint, last_batch(checkpoint / "commits"), number))
    if not compacts or upto < 0 or not _holds_files(source):
        return 0
    kept, before, dropped = [], 0, 0
    for line in _lines(compacts[-1]):
        if line["path"].startswith(FORGOTTEN):
            before = _count(line["path"])
        elif line["batchId"] <= upto and _gone(line["path"]):
            dropped += 1
        else:
            kept.append(line)
    if dropped:
        # The lines of a list are in the order of their numbers.
        first = {"path": f"{FORGOTTEN}{before + dropped}", "timestamp": 0, "batchId": 0}
        older = [p for p in log.glob("[0-9]*") if _number(p) < _number(compacts[-1]) and _number(p) <= upto]
        _replace_list(compacts[-1], older, [first, *kept])
    return dropped


def _number(path: Location) -> int:
    found = plain_json.number(path.name.removesuffix(".compact"))
    return -1 if found is None else found


def _compacts(log: Location) -> list[Location]:
    """Return the merged logs, oldest first: only the last one counts."""
    return sorted(log.glob("[0-9]*.compact"), key=_number)


def _count(path: str) -> int:
    return (plain_json.number(path.removeprefix(FORGOTTEN)) or 0) if path.startswith(FORGOTTEN) else 0


def _lines(path: Location) -> Iterator[dict[str, Any]]:
    try:
        with path.open(encoding="utf-8") as lines:
            for line in lines:
                if line.startswith("{"):
                    said = mapping(line)
                    yield {**said, "path": str(said["path"]), "batchId": whole(said["batchId"])}
    except (OSError, ValueError, KeyError) as e:
        raise unusable(path.parent.parent.parent, f"sources/{path.parent.name}/{path.name} cannot be read") from e


def _read_marks(marks: Location) -> list[tuple[str, int]]:
    # Without marks, no line is old enough to be removed.
    try:
        found = [(str(at), whole(upto)) for at, upto in loads(marks.read_text())]
        return found if all(datetime.fromisoformat(at).tzinfo is not None for at, _ in found) else []
    except (OSError, ValueError, TypeError):
        return []


def _mark(marks: Location, upto: int, since: datetime, now: datetime) -> bool:
    """Record the last number of the log; return False if that was done just now."""
    noted = _read_marks(marks)
    if noted and timedelta(0) <= now - datetime.fromisoformat(noted[-1][0]) < (now - since) / _MARKS:
        return False
    # Of those before ``since`` only the last one says anything; later ones than now are of a clock that was wrong.
    past = [m for m in noted if datetime.fromisoformat(m[0]) <= since]
    recent = [m for m in noted if since < datetime.fromisoformat(m[0]) <= now]
    durable.replace(marks, json.dumps([*past[-1:], *recent, (now.isoformat(), upto)]))
    return True


def _holds_files(source: str) -> bool:
    """Return True if there is a file at or below the source, a local path or pattern."""
    local = without_scheme(source)
    if "://" in local:
        return False
    for place in [local] if os.path.exists(local) else glob.iglob(local):
        if os.path.isfile(place) or any(names for _, _, names in os.walk(place)):
            return True
    return False


def _gone(url: str) -> bool:
    """Return True if the file was deleted from a directory that still has other entries."""
    local = local_path(url)
    if local is None:
        return False
    path = Path(local)
    try:
        if path.exists():
            return False
        directory = next(f for f in path.parents if f.exists())
        return any(directory.iterdir())
    except OSError:
        return False  # it cannot be known


def _replace_list(newest: Location, older: list[Location], lines: list[dict[str, Any]]) -> None:
    # Spark checks a list against this file if there is one: with the wrong one it would not read it.
    _crc(newest).unlink(missing_ok=True)
    durable.replace(newest, "\n".join(["v1", *(json.dumps(line, separators=(",", ":")) for line in lines)]))
    # All that is in them is in the newest one; Spark would remove them a little later.
    for path in older:
        path.unlink()
        _crc(path).unlink(missing_ok=True)


def _crc(path: Location) -> Location:
    return path.with_name(f".{path.name}.crc")
