"""Small files that are replaced whole, also when the process or the machine stops in between. Standard library only."""

from __future__ import annotations

import os
from pathlib import Path


def replace(path: Path, text: str) -> None:
    """The file holds ``text``, or what it held before; it is on the disk when this returns. Its folder must be there. Raises OSError."""
    # Hidden: who lists the folder (the engine reads some) passes over it until it is complete.
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    with temporary.open("w", encoding="utf-8") as out:
        out.write(text)
        out.flush()
        os.fsync(out.fileno())
    os.replace(temporary, path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
