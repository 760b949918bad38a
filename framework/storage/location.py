"""The type of a job's paths, which are on this machine or on object storage."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path, PurePath
from typing import IO, Any, Final, Protocol, Self

from skyband.framework.base.errors import SkybandError
from skyband.framework.storage.settings import SCHEMES, scheme_of

# Check that a sink is not at, above or below the source of its job, by their paths alone. Runs also check the disk.

MAX_SPELLINGS: Final = 64
_UNUSABLE: Final = re.compile(r"[\[\]{}*?\\^|]|[\x00-\x1f\x7f]|%[0-9A-Fa-f]{2}")
_BRACES: Final = re.compile(r"\{([^{}]*)\}")


def without_scheme(path: str) -> str:
    """Return a path of a spec without a leading ``file:``; paths of other file systems are unchanged."""
    return path.removeprefix("file://") if path.startswith("file://") else path.removeprefix("file:")


def parts(path: str, real: bool = False) -> tuple[str, ...]:
    """The directories of a path from the root down, ``.`` and ``..`` resolved (``real``: links too); a scheme other than file comes
    first."""
    scheme, mark, rest = path.partition("://")
    if mark and scheme.lower() != "file":
        return (scheme.lower(), *(p for p in os.path.normpath("/" + rest).split("/") if p))
    local = rest if mark else path.removeprefix("file:")
    whole = os.path.realpath(local) if real else os.path.abspath(local)
    return ("file", *(p for p in whole.split("/") if p))


def unusable_characters(path: str) -> list[str]:
    """Return the characters that a sink's path may not have: patterns for Spark, and invalid in a URL of the Delta library."""
    return [m if m.isprintable() else repr(m)[1:-1] for m in dict.fromkeys(_UNUSABLE.findall(path))]


def is_root(path: str) -> bool:
    """Return True if the path is the root of a file system, or of object storage without a bucket."""
    return len(parts(path)) == 1


def overlap(source: str, sink: str, real: bool = False) -> bool:
    """Return True if the sink is at, above or below the source. The source may be a pattern (``*``, ``?``, ``[...]``, ``{a,b}``)."""
    out = parts(sink, real)
    return any(_agree(parts(spelled, real), out) for spelled in _spellings(source))


def _agree(source: Sequence[str], sink: Sequence[str]) -> bool:
    return all(one == other or fnmatchcase(other, one) for one, other in zip(source, sink, strict=False))


def _spellings(pattern: str) -> list[str]:
    """Return the alternatives of a pattern with braces."""
    found = [pattern]
    while len(found) <= MAX_SPELLINGS and (m := next((m for p in found if (m := _BRACES.search(p))), None)):
        whole = m.string
        found.remove(whole)
        found += [whole[: m.start()] + one + whole[m.end() :] for one in m.group(1).split(",")]
    return [_BRACES.sub("*", p) for p in found]


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


# Resolve the paths of specs to local paths or object storage paths.


def location(path: str | Location) -> Location:
    """Return ``path`` as an absolute local path or an ``ObjectPath``.

    Raises SkybandError SKY-E203 for other file systems, SKY-E200 if the library for object storage is not installed.
    """
    local = without_scheme(str(path))
    scheme = scheme_of(local)
    if scheme is not None:
        # Needs an optional library.
        from skyband.framework.storage.paths import ObjectPath

        return ObjectPath(local)
    if "://" in local:
        known = ", ".join(f"{s}://" for s in SCHEMES)
        said = f"{local.partition('://')[0]}://... is not supported for a job's files"
        raise SkybandError("SKY-E203", said, hint=f"use {known}, or a path on a mounted file system")
    # Like Spark, resolve `..` in the text, regardless of links.
    return Path(os.path.abspath(local))


def is_object(path: str | Location) -> bool:
    """Return True if the path is on object storage."""
    return scheme_of(str(path)) is not None


def missing_files(root: Location, names: Sequence[str]) -> list[str]:
    """Return the files of ``names`` that are missing below ``root``. Takes one listing on object storage."""
    if not is_object(root):
        return [n for n in names if not (root / n).exists()]
    found = {p.relative_to(root).as_posix() for p in root.rglob("*")} if names else set()
    return [n for n in names if n not in found]


def require_local(path: str | Location, what: str) -> Path:
    """Return a path of this machine as such. Raise SkybandError SKY-E632 if it is on object storage, where ``what`` does not work."""
    if is_object(path):
        hint = "objects cannot be moved: run the spec into another sink path instead, see docs/how-to/object-storage.md"
        raise SkybandError("SKY-E632", f"{what} does not work on object storage ({path})", hint=hint)
    return Path(str(path))


def remove_tree(path: Location) -> None:
    """Remove ``path`` and everything below it, if it exists."""
    # `ObjectPath` has this method; importing it needs an optional library.
    if not is_object(path):
        shutil.rmtree(str(path), ignore_errors=True)
        return
    # Needs an optional library.
    from skyband.framework.storage.paths import ObjectPath

    ObjectPath(str(path)).remove_below()
