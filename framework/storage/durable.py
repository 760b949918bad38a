"""Small files that are replaced whole, also when the process or the machine stops in between. No more than the standard library."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from skyband.framework.storage.settings import scheme_of


def replace(path: Path, content: str | bytes) -> None:
    """The file holds ``content``, or what it held before; it is on the disk when this returns. Its directory must be there. Raises
    OSError."""
    if scheme_of(str(path)) is not None:
        # An object is written whole or not at all, and stays.
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return
    made, fd = create_temporary(path)
    try:
        with open(fd, "wb") as out:
            out.write(content.encode() if isinstance(content, str) else content)
            out.flush()
            os.fsync(out.fileno())
        os.replace(made, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(made)
        raise
    sync_directory(path.parent)


def create_temporary(path: Path) -> tuple[Path, int]:
    """Create a file beside ``path`` for what takes its place; its path and an open descriptor. Raises OSError.

    Hidden: who lists the directory (Spark reads some) passes over it until it is complete. Nobody knows its name before, and no link leads
    it elsewhere.
    """
    made = path.with_name(f".{path.name}.{os.urandom(6).hex()}")
    return made, os.open(made, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)


def sync_directory(directory: Path) -> None:
    """What has been renamed in ``directory`` is on the disk when this returns. Raises OSError."""
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
