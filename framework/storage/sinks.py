"""Check a sink before it is read or written: no links in it, and no interrupted swap of generations."""

from __future__ import annotations

import os
import time as clock
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from skyband.framework.base.errors import SkybandError
from skyband.framework.storage.location import Location, is_object, location

HOME: Final = "_skyband"
"""Directory of a sink for everything but tables."""
SWAP_JOURNAL: Final = "swap.json"
"""File of ``_skyband`` with the directories that a swap moves; it exists while the swap runs."""
FINISH_SWAP_HINT: Final = "skyband run SPEC, skyband rebuild SPEC or skyband maintain SPEC finishes it"
_SECONDS: Final = 5.0
"""Age after which a swap, which takes milliseconds, counts as interrupted."""


def require_readable(sink: str | Location) -> None:
    """Raise SkybandError SKY-E518 for a link in the sink, SKY-E513 if a swap of generations is half done. Writes nothing.

    Waits for a running swap. O(entries of the sink).
    """
    root = location(sink)
    reject_links(root)
    until = clock.monotonic() + _SECONDS
    while half_swapped(root):
        if clock.monotonic() >= until or _age(Path(str(root / HOME / SWAP_JOURNAL))) > _SECONDS:
            raise SkybandError("SKY-E513", interrupted_swap_message(root), hint=FINISH_SWAP_HINT)
        clock.sleep(0.05)


def half_swapped(root: Location) -> bool:
    """Return True if a swap of generations has begun and not ended. Sinks on object storage have no swaps."""
    return not is_object(root) and os.path.lexists(str(root / HOME / SWAP_JOURNAL))


def interrupted_swap_message(root: Location) -> str:
    """Return the message about a sink with an interrupted swap."""
    return f"a swap of generations in {root} was interrupted: some of its tables are of the old generation, others of the new one"


def reject_links(root: Location) -> None:
    """Raise SkybandError SKY-E518 if ``_skyband``, a table, or anything below them is a link, a pipe or a device. O(their entries).

    Skyband creates none. Through one of them a run would read, write and remove files outside the sink.
    """
    if is_object(root):
        return
    for path in _unsupported(root):
        raise unsupported_entry(path)


def reject_links_below(table: Location) -> None:
    """Raise SkybandError SKY-E518 if the directory ``table``, or anything below it, is a link, a pipe or a device. O(its entries)."""
    if is_object(table):
        return
    for path in [table] if table.is_symlink() else _unsupported_below(str(table)):
        raise unsupported_entry(path)


def unsupported_entry(path: Location) -> SkybandError:
    """Return the error SKY-E518: ``path`` is neither a file nor a directory."""
    what = f"a link to {os.readlink(str(path))}" if path.is_symlink() else "neither a file nor a directory"
    hint = "Skyband makes no such thing in a sink: put the directory or file itself there, or remove it"
    return SkybandError("SKY-E518", f"{path} is {what}", hint=hint)


def _unsupported(root: Location) -> Iterator[Path]:
    for entry in _entries(str(root)):
        if entry.is_symlink():
            # A link to a file is not a table.
            if entry.name == HOME or not os.path.isfile(entry.path):
                yield Path(entry.path)
        elif entry.is_dir(follow_symlinks=False) and (entry.name == HOME or os.path.lexists(os.path.join(entry.path, "_delta_log"))):
            yield from _unsupported_below(entry.path)


def _unsupported_below(directory: str) -> Iterator[Path]:
    for entry in entries_below(directory):
        # Neither, unless it was removed in the meantime.
        if not (entry.is_dir(follow_symlinks=False) or entry.is_file(follow_symlinks=False)) and os.path.lexists(entry.path):
            yield Path(entry.path)


def entries_below(directory: str | Location) -> Iterator[os.DirEntry[str]]:
    """Yield all entries below a directory recursively, without following links."""
    todo = [str(directory)]
    while todo:
        for entry in _entries(todo.pop()):
            if entry.is_dir(follow_symlinks=False):
                todo.append(entry.path)
            yield entry


def _entries(directory: str) -> list[os.DirEntry[str]]:
    # A removed directory, or another kind of file, has no entries.
    with suppress(OSError), os.scandir(directory) as found:
        return list(found)
    return []


def _age(path: Path) -> float:
    """Return the seconds since the file was written."""
    with suppress(OSError):
        return clock.time() - path.lstat().st_mtime
    return 0.0
