"""Which files a table of queries may be: regular ones below the spec's directory or an allowed root, of a bounded size.

A spec is data: naming a path must neither open a file its writer could not read otherwise, nor hang, nor fill the memory.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from typing import Final

MAX_BYTES: Final = 64 * 2**20
"""Most bytes of a table of queries, all its files together."""
MAX_FILES: Final = 10_000
ROOTS: Final = "SKYBAND_ALLOWED_ROOTS"
"""Environment variable of whoever runs the job: further directories that tables of queries may lie in, separated as in PATH."""


def outside(path: str, directory: str, env: Mapping[str, str]) -> bool:
    """Whether ``path``, links resolved, lies neither below ``directory`` nor below a root that ``env`` allows."""
    if "://" in path or "\0" in path:
        return True
    real = os.path.realpath(path)
    roots = [directory or ".", *(r for r in env.get(ROOTS, "").split(os.pathsep) if os.path.isabs(r))]
    return not any(os.path.commonpath([real, os.path.realpath(root)]) == os.path.realpath(root) for root in roots)


def why_not(path: str, directory_too: bool) -> str | None:
    """Why the file (``directory_too``: or the directory) at ``path`` is not read, or None. FileNotFoundError if it is not there."""
    mode = os.stat(path).st_mode
    if stat.S_ISDIR(mode):
        return _directory(path) if directory_too else "it is a directory, not a CSV file"
    if not stat.S_ISREG(mode):
        return "it is not a regular file"
    return _too_large(os.stat(path).st_size)


def read_bytes(path: str) -> bytes:
    """The content of a regular file. Raises ValueError with the reason if it is none, or too large; never waits for a writer."""
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(handle, "rb") as file:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise ValueError("it is not a regular file")
        content = file.read(MAX_BYTES + 1)
    why = _too_large(len(content))
    if why is not None:
        raise ValueError(why)
    return content


def _too_large(size: int) -> str | None:
    return f"it is larger than {MAX_BYTES >> 20} MB" if size > MAX_BYTES else None


def _directory(path: str) -> str | None:
    """A directory holds regular files and directories only: a link could lead out of it."""
    size, files = 0, 0
    for where, directories, names in os.walk(path):
        for name in (*directories, *names):
            found = os.lstat(os.path.join(where, name))
            files += 1
            if not stat.S_ISREG(found.st_mode) and not stat.S_ISDIR(found.st_mode):
                return "its directory holds links or other things that are no regular files"
            size += found.st_size if stat.S_ISREG(found.st_mode) else 0
            if files > MAX_FILES:
                return f"its directory holds more than {MAX_FILES:,} files"
            if size > MAX_BYTES:
                return _too_large(size)
    return None
