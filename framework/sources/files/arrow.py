"""Files that Arrow reads in place of Spark: which of them it may read. Imports no Spark."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final

from skyband.framework.base.counts import counted
from skyband.framework.sources.logs import local_path

PACKED: Final = (".gz", ".bz2", ".zst", ".lz4", ".snappy", ".deflate", ".xz")
"""Endings of files that Spark unpacks, or cannot."""


class UnsupportedFile(Exception):
    """Raised for a file that Arrow may read otherwise than Spark. ``lasting``: more such files will come; else this one may be damaged."""

    def __init__(self, why: str, lasting: bool = True) -> None:
        super().__init__(why)
        self.lasting = lasting


def local_file(url: str, root: str, below: bool) -> str:
    """Return the local path of a file in ``root`` (``below``: or below it). Raise UnsupportedFile if Spark would treat it otherwise."""
    path = local_path(url)
    if path is None:
        raise UnsupportedFile("a file is not on this machine")
    directory, name = os.path.split(path)
    if not below and directory != root:
        raise UnsupportedFile("files are in subdirectories")
    if name.startswith("_") or os.path.exists(os.path.join(directory, f".{name}.crc")):
        # Spark checks the sums that Hadoop's file systems keep beside a file.
        raise UnsupportedFile("files have sums of their own beside them")
    return path


def spark_starts_for(files: Mapping[str, str]) -> str:
    """Return the warning that Spark starts to read ``files``: URL -> why Arrow does not read it. At least one."""
    (url, why), more = next(iter(files.items())), len(files) - 1
    others = f" and {counted(more, 'other file')}" if more else ""
    return f"{os.path.basename(str(local_path(url)))}{others} can only be read by Spark, which starts for it: {why}"
