"""Check and write the output files of commands (``report --out``, ``run --outcome``, ``quality --docs``, ...) by one rule.

An output is not at, in or above the job's source or sink, nor in another job's sink or a Delta table. It is a regular file or a
directory, never a link or the spec. Files are written atomically. Uses the standard library only.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from skyband.framework.base.errors import SkybandError
from skyband.framework.storage import durable
from skyband.framework.storage.location import overlap, without_scheme


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
            raise SkybandError("SKY-E202", f"{option} {path} is not a regular file", hint="use another file")
        if own is not None and not own(_head(path)):
            raise SkybandError("SKY-E202", f"{option} {path} exists and was not written by this command", hint="use another file")
    return path


def new_file(path: Path, option: str, places: Sequence[str | None] = (), spec: str | None = None) -> Path:
    """Return ``path`` if the rule allows a file there and there is none. As ``output_file``; SKY-E203 if its directory is not there."""
    if os.path.lexists(path):
        raise SkybandError("SKY-E202", f"{path} already exists", hint="use another file")
    if not path.absolute().parent.is_dir():
        raise SkybandError("SKY-E203", f"there is no directory {path.absolute().parent}", hint="create it, or use another file")
    _need(path, option, places, spec)
    return path


def output_directory(path: Path, option: str, places: Sequence[str | None] = ()) -> Path:
    """Return ``path`` if the rule allows a directory of outputs there, new or not. As ``output_file``."""
    _need(path, option, places, None)
    if path.exists() and not path.is_dir():
        raise SkybandError("SKY-E202", f"{option} {path} is not a directory", hint="use another directory")
    return path


def require_outside_sinks(path: Path, option: str) -> None:
    """Raise SkybandError SKY-E201 if ``path``, links resolved, lies in a job's sink or in a Delta table."""
    real = Path(os.path.realpath(path))
    for above in [real, *real.parents]:
        if os.path.exists(above / "_skyband" / "job.json"):
            raise SkybandError("SKY-E201", f"{option} {path} is in the sink of a job ({above})", hint="use another path")
        if os.path.isdir(above / "_delta_log"):
            raise SkybandError("SKY-E201", f"{option} {path} is in a Delta table ({above})", hint="use another path")


def replace_output(path: Path, option: str, text: str) -> None:
    """Write the file in one step. Raises SkybandError SKY-E203."""
    try:
        durable.replace(path, text)
    except OSError as e:
        raise SkybandError("SKY-E203", f"{option} {path} cannot be written: {(e.strerror or str(e)).lower()}") from e


@contextmanager
def new_output(path: Path) -> Iterator[IO[str]]:
    """Open a text file that becomes ``path`` on success. Raises FileExistsError if ``path`` exists by then, and OSError."""
    temporary, fd = durable.create_temporary(path)
    try:
        with open(fd, "w", encoding="utf-8", newline="") as out:
            yield out
            out.flush()
            os.fsync(out.fileno())
        # Unlike a rename, a link never replaces an existing file.
        os.link(temporary, path)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(temporary)


def write_new(path: Path, text: str) -> None:
    """Write a file that is not there yet, in one step. Raises SkybandError SKY-E202 if there is one, SKY-E203 if it cannot be written."""
    try:
        with new_output(path) as out:
            out.write(text)
    except FileExistsError as e:
        raise SkybandError("SKY-E202", f"{path} already exists", hint="use another file") from e
    except OSError as e:
        raise SkybandError("SKY-E203", f"{path} cannot be written: {(e.strerror or str(e)).lower()}") from e


def _need(path: Path, option: str, places: Sequence[str | None], spec: str | None) -> None:
    try:
        os.lstat(path)
    except FileNotFoundError:
        pass
    except (OSError, ValueError) as e:
        why = (e.strerror if isinstance(e, OSError) else None) or str(e)
        raise SkybandError("SKY-E203", f"{option} {path} cannot be written: {why.lower()}", hint="use another path") from e
    if path.is_symlink():
        raise SkybandError("SKY-E202", f"{option} {path} is a link", hint="name the file or directory itself")
    real = os.path.realpath(path)
    if spec is not None and _same(real, spec):
        raise SkybandError("SKY-E201", f"{option} {path} is the spec itself", hint="use another file")
    for place in places:
        if place is not None and (overlap(place, real, real=True) or _inside(real, place)):
            raise SkybandError(
                "SKY-E201", f"{option} {path} is at, in or above the job's source or sink ({place})", hint="use another path"
            )
    require_outside_sinks(path, option)


def _inside(real: str, place: str) -> bool:
    """Return True if a parent of ``real`` is ``place``, also under another name (case, another mount)."""
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
