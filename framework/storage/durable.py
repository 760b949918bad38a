"""Replace small files atomically, so that a crash leaves the old or the new content. Uses the standard library only."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from skyband.framework.storage.location import Location
from skyband.framework.storage.settings import scheme_of


def replace(path: Location, content: str | bytes) -> None:
    """Replace the file's content atomically and durably. Its directory must exist. Raises OSError."""
    if scheme_of(str(path)) is not None:
        # Object storage writes are atomic and durable.
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return
    path = Path(str(path))
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
    """Create a temporary file beside ``path``; return its path and an open descriptor. Raises OSError.

    The file is hidden, so that readers of the directory such as Spark ignore it. Its name is random, so that no link can redirect it.
    """
    made = path.with_name(f".{path.name}.{os.urandom(6).hex()}")
    return made, os.open(made, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)


def sync_directory(directory: Path) -> None:
    """Flush renames in ``directory`` to the disk. Raises OSError."""
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def create(path: Location, content: bytes) -> None:
    """Write a new file, whose content is on the disk when this returns; its name is once the directory is flushed. Raises OSError.

    Raises FileExistsError on this machine if there is one. Its directory must exist.
    """
    if scheme_of(str(path)) is not None:
        path.write_bytes(content)
        return
    with open(os.open(str(path), os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666), "wb") as out:
        out.write(content)
        out.flush()
        os.fsync(out.fileno())
