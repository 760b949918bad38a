"""Resolve the paths of specs to local paths or object storage paths."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from skyband.framework.base.errors import SkybandError
from skyband.framework.storage.location import Location
from skyband.framework.storage.overlap import without_scheme
from skyband.framework.storage.settings import SCHEMES, scheme_of


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
