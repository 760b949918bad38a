"""The temporary directory of a process: one per process, so that those of killed processes can be found and removed.

It is in the system's temporary directory, not below the sink: every batch writes shuffle files and open state to it, and a sink may be on
a slow or remote disk.
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

from skyband.framework.base.plain_json import number

_PREFIX: Final = "skyband-engine-"
_made: dict[int, Path] = {}
"""Directory by process id: a forked process has its own."""
_GRACE: Final = 3600.0
"""Seconds for which the directory of an ended process stays: its JVM may outlive it a little, on this machine or in a container."""


def scratch_directory(pid: int | None = None) -> Path:
    """Return the private directory of this process (or of ``pid``); create it, with an unpredictable name, on the first call.

    The name contains the user and the process, so that the directory of a killed process can be found.
    """
    process = os.getpid() if pid is None else pid
    made = _made.get(process)
    if made is None or not _own(made):
        made = _made[process] = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getuid()}-{process}-"))
    return made


def _own(directory: Path) -> bool:
    """Return True if the directory is this user's. Recreate one that was removed with its JVM, because settings contain its path."""
    with suppress(FileExistsError):
        directory.mkdir(mode=0o700)
    found = directory.lstat()
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid()


def remove_leftovers() -> list[Path]:
    """Remove the directories of this user's ended processes that are empty or unchanged for an hour; return them."""
    removed = []
    for directory in Path(tempfile.gettempdir()).glob(f"{_PREFIX}{os.getuid()}-*"):
        process = number(directory.name.removeprefix(f"{_PREFIX}{os.getuid()}-").partition("-")[0])
        if directory.is_symlink() or process is None or alive(process):
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
    """Return True if a process with this id runs on this machine."""
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:
        return True
    return True
