"""Small files that are replaced whole, also when the process or the machine stops in between. No more than the standard library."""

from __future__ import annotations

import os
from pathlib import Path

from skyband.framework.storage.settings import scheme_of


def replace(path: Path, content: str | bytes) -> None:
    """The file holds ``content``, or what it held before; it is on the disk when this returns. Its folder must be there. Raises OSError."""
    if scheme_of(str(path)) is not None:
        # An object is written whole or not at all, and stays.
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return
    # Hidden: who lists the folder (the engine reads some) passes over it until it is complete.
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    with temporary.open("wb") as out:
        out.write(content.encode() if isinstance(content, str) else content)
        out.flush()
        os.fsync(out.fileno())
    os.replace(temporary, path)
    sync(path.parent)


def sync(folder: Path) -> None:
    """What has been renamed in ``folder`` is on the disk when this returns. Raises OSError."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
