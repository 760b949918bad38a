"""Where a command may write what a user names: one rule for all of them (``report --out``, ``run --outcome``, ``quality --docs``, ...).

An output lies neither at, in nor above a job's source or sink, nor in another job's sink or a Delta table. It is a regular file or a
directory, never a link, never the spec, and a file is there whole or not at all. Standard library only.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from skyband.framework.base.errors import SkybandError
from skyband.framework.storage import durable
from skyband.framework.storage.overlap import overlap, without_scheme


def output_file(
    path: Path, option: str, places: Sequence[str | None] = (), spec: str | None = None, own: Callable[[bytes], bool] | None = None
) -> Path:
    """Return ``path`` if the rule allows a file there, new or replaced.

    ``places``: source and sink of the job; ``own``: whether an existing file's content may be replaced, None for any. Raises SkybandError
    SKY-E201 (source, sink, spec), SKY-E202 (a link, something else than a file, content that may not be replaced).
    """
    _need(path, option, places, spec)
    if path.exists():
        if not path.is_file():
            raise SkybandError("SKY-E202", f"{option} {path} is not a regular file", hint="name another file")
        if own is not None and not own(_head(path)):
            raise SkybandError("SKY-E202", f"{option} {path} is there already, and not by this command", hint="name another file")
    return path


def new_file(path: Path, option: str, places: Sequence[str | None] = (), spec: str | None = None) -> Path:
    """Return ``path`` if the rule allows a file there and there is none. As ``output_file``; SKY-E203 if its directory is not there."""
    if os.path.lexists(path):
        raise SkybandError("SKY-E202", f"{path} is there already", hint="name another file")
    if not path.absolute().parent.is_dir():
        raise SkybandError("SKY-E203", f"there is no directory {path.absolute().parent}", hint="create it, or name another file")
    _need(path, option, places, spec)
    return path


def output_directory(path: Path, option: str, places: Sequence[str | None] = ()) -> Path:
    """Return ``path`` if the rule allows a directory of outputs there, new or not. As ``output_file``."""
    _need(path, option, places, None)
    if path.exists() and not path.is_dir():
        raise SkybandError("SKY-E202", f"{option} {path} is not a directory", hint="name another directory")
    return path


def require_outside_sinks(path: Path, option: str) -> None:
    """Raise SkybandError SKY-E201 if ``path``, links resolved, lies in a job's sink or in a Delta table."""
    real = Path(os.path.realpath(path))
    for above in [real, *real.parents]:
        if os.path.exists(above / "_skyband" / "job.json"):
            raise SkybandError("SKY-E201", f"{option} {path} lies in the sink of a job ({above})", hint="name another place")
        if os.path.isdir(above / "_delta_log"):
            raise SkybandError("SKY-E201", f"{option} {path} lies in a Delta table ({above})", hint="name another place")


def replace_output(path: Path, option: str, text: str) -> None:
    """Write the file in one step. Raises SkybandError SKY-E203."""
    try:
        durable.replace(path, text)
    except OSError as e:
        raise SkybandError("SKY-E203", f"{option} {path} cannot be written: {(e.strerror or str(e)).lower()}") from e


@contextmanager
def new_output(path: Path) -> Iterator[IO[str]]:
    """A text file for what becomes ``path`` at the end, if nothing raises. Raises FileExistsError if there is one by then, and OSError."""
    temporary, fd = durable.create_temporary(path)
    try:
        with open(fd, "w", encoding="utf-8", newline="") as out:
            yield out
            out.flush()
            os.fsync(out.fileno())
        # Unlike a renamed file, a linked one takes no other's place.
        os.link(temporary, path)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(temporary)


def _need(path: Path, option: str, places: Sequence[str | None], spec: str | None) -> None:
    try:
        os.lstat(path)
    except FileNotFoundError:
        pass
    except (OSError, ValueError) as e:
        why = (e.strerror if isinstance(e, OSError) else None) or str(e)
        raise SkybandError("SKY-E203", f"{option} {path} cannot be written: {why.lower()}", hint="name another place") from e
    if path.is_symlink():
        raise SkybandError("SKY-E202", f"{option} {path} is a link", hint="name the file or directory itself")
    real = os.path.realpath(path)
    if spec is not None and _same(real, spec):
        raise SkybandError("SKY-E201", f"{option} {path} is the spec itself", hint="name another file")
    for place in places:
        if place is not None and (overlap(place, real, real=True) or _inside(real, place)):
            raise SkybandError(
                "SKY-E201", f"{option} {path} is at, in or above the job's source or sink ({place})", hint="name another place"
            )
    require_outside_sinks(path, option)


def _inside(real: str, place: str) -> bool:
    """Whether a directory above ``real`` is ``place``, however it is spelled (upper and lower case, another mount)."""
    local = without_scheme(place)
    return "://" not in local and any(_same(str(above), local) for above in [real, *Path(real).parents])


def _same(one: str, other: str) -> bool:
    try:
        return os.path.samefile(one, other)
    except (OSError, ValueError):
        return False


def _head(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(1 << 26)
    except OSError as e:
        raise SkybandError("SKY-E203", f"{path} cannot be written: {(e.strerror or str(e)).lower()}") from e
