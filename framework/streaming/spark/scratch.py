"""Where Spark keeps what lives no longer than its process: one directory of a process, so that a killed one's can be found and removed.

In the system's temporary directory, not below the sink: shuffles and the open state are written there at every batch, and a sink may be
on a
slow or remote disk.
"""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

_PREFIX: Final = "skyband-engine-"
_made: dict[int, Path] = {}
"""By process: a forked one has a directory of its own."""
_GRACE: Final = 3600.0
"""Seconds for which the directory of a process that is gone stays: its engine may outlive it a little, on this machine or in a
container."""


def scratch_directory(pid: int | None = None) -> Path:
    """The directory of this process (or of ``pid``), for its owner only; nobody knows its name before it is there.

    The user and the process are part of the name, so that what a killed process left can be found.
    """
    process = os.getpid() if pid is None else pid
    made = _made.get(process)
    if made is None or not _own(made):
        made = _made[process] = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getuid()}-{process}-"))
    return made


def _own(directory: Path) -> bool:
    """Whether the directory is still this user's; one that went with its engine is made again, as settings name it."""
    with suppress(FileExistsError):
        directory.mkdir(mode=0o700)
    found = directory.lstat()
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid()


def remove_leftovers() -> list[Path]:
    """Removes the directories of this user's processes that are gone, the empty ones and those untouched for an hour; which."""
    removed = []
    for directory in Path(tempfile.gettempdir()).glob(f"{_PREFIX}{os.getuid()}-*"):
        process = directory.name.removeprefix(f"{_PREFIX}{os.getuid()}-").partition("-")[0]
        if directory.is_symlink() or not process.isdigit() or alive(int(process)):
            continue
        try:
            if directory.stat().st_uid == os.getuid() and (
                not any(directory.iterdir()) or time.time() - directory.stat().st_mtime > _GRACE
            ):
                shutil.rmtree(directory, ignore_errors=True)
                removed.append(directory)
        except OSError:
            continue
    return removed


def alive(process: int) -> bool:
    """Whether there is a process of that number on this machine."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True
