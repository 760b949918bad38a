"""The type of a job's paths, which are on this machine or on object storage."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import PurePath
from typing import IO, Any, Protocol, Self


class Location(Protocol):
    """A path on this machine or on object storage, with the methods that work in both. ``pathlib.Path`` is one.

    It is none that ``os``, ``shutil`` or ``open`` take, so that a type checker finds code that would work on this machine only. Such
    code takes a ``Path``: see ``framework.storage.locations.require_local``.
    """

    @property
    def name(self) -> str:
        """Return the last segment."""

    @property
    def stem(self) -> str:
        """Return the last segment without its extension."""

    @property
    def parts(self) -> tuple[str, ...]:
        """Return the segments."""

    @property
    def parent(self) -> Self:
        """Return the directory of this path."""

    @property
    def parents(self) -> Sequence[Self]:
        """Return the directories above, the nearest first."""

    def __truediv__(self, name: str | PurePath) -> Self: ...
    def __lt__(self, other: Self) -> bool: ...
    def __hash__(self) -> int: ...

    def resolve(self) -> Self:
        """Return the path without links and relative parts."""

    def with_name(self, name: str) -> Self:
        """Return the path with another last segment."""

    def relative_to(self, other: Self) -> PurePath:
        """Return the part of the path below ``other``. Raises ValueError if it is not below."""

    def exists(self) -> bool:
        """Return True if there is a file or a directory."""

    def is_file(self) -> bool:
        """Return True if there is a file."""

    def is_dir(self) -> bool:
        """Return True if there is a directory."""

    def is_symlink(self) -> bool:
        """Return True if it is a link."""

    def stat(self) -> os.stat_result:
        """Return size and modification time, at least. Raises FileNotFoundError."""

    def read_bytes(self) -> bytes:
        """Return the content. Raises FileNotFoundError."""

    def read_text(self, encoding: str | None = None, errors: str | None = None) -> str:
        """Return the content as text. Raises FileNotFoundError."""

    def write_bytes(self, data: bytes) -> int:
        """Write the file, replacing an existing one."""

    def write_text(self, data: str) -> int:
        """Write the text, replacing an existing file."""

    def open(self, mode: Any = "r", *, encoding: str | None = None) -> IO[Any]:
        """Open the file: ``rb``, ``r``, or ``wb``, which replaces it once it is closed."""

    def unlink(self, missing_ok: bool = False) -> None:
        """Remove the file. Raises FileNotFoundError if there is none, unless ``missing_ok``."""

    def mkdir(self, mode: int = 0o777, parents: bool = False, exist_ok: bool = False) -> None:
        """Create the directory, where directories are created."""

    def iterdir(self) -> Iterator[Self]:
        """Yield the entries of the directory."""

    def glob(self, pattern: str) -> Iterator[Self]:
        """Yield the paths below that match the pattern."""

    def rglob(self, pattern: str) -> Iterator[Self]:
        """Yield the paths below, at any depth, whose names match the pattern."""
