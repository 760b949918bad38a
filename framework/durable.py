"""Small files that are replaced whole, also when the process or the machine stops in between. Standard library only."""

from __future__ import annotations

import os
from pathlib import Path


def replace(path: Path, content: str | bytes) -> None:
    """The file holds ``content``, or what it held before; it is on the disk when this returns. Its folder must be there. Raises OSError."""
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
