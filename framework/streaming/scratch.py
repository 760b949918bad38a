"""Where the engine keeps what lives no longer than its process: one folder of a process, so that a killed one's can be found and removed.

In the system's temporary folder, not below the sink: shuffles and the open state are written there at every batch, and a sink may be on a
slow or remote disk.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from pathlib import Path
from typing import Final

_PREFIX: Final = "skyband-engine-"
_GRACE: Final = 3600.0
"""Seconds for which the folder of a process that is gone stays: its engine may outlive it a little, on this machine or in a container."""


def scratch_folder(pid: int | None = None) -> Path:
    """The folder of this process (or of ``pid``), made with rights for its owner only; the user is part of its name."""
    folder = Path(tempfile.gettempdir()) / f"{_PREFIX}{os.getuid()}-{os.getpid() if pid is None else pid}"
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.is_symlink() or folder.stat().st_uid != os.getuid():
        # Somebody else's: the engine gets one that nobody knew before.
        return Path(tempfile.mkdtemp(prefix=f"{folder.name}-"))
    return folder


def remove_leftovers() -> list[Path]:
    """Removes the folders of this user's processes that are gone, the empty ones and those untouched for an hour; which."""
    removed = []
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}{os.getuid()}-*"):
        process = folder.name.removeprefix(f"{_PREFIX}{os.getuid()}-").partition("-")[0]
        if folder.is_symlink() or not process.isdigit() or alive(int(process)):
            continue
        try:
            if folder.stat().st_uid == os.getuid() and (not any(folder.iterdir()) or time.time() - folder.stat().st_mtime > _GRACE):
                shutil.rmtree(folder, ignore_errors=True)
                removed.append(folder)
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
