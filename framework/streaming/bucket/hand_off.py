"""A bucket's state on its way from one worker process to another of this machine.

Spark gives a bucket's task to whichever worker is free, and when it gives a value of its store to a worker it spells out every byte,
which takes several times as long as to write it. So who saves a bucket's state leaves its values in files of Spark's scratch directory
too, and a worker that does not have the bucket takes them from there. They are those of one state: a list of them bears the name of the
token that is saved in the store with it. Whatever is not there, or not whole, is read from the store. Imports no Spark.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from skyband.framework.streaming.rows import blocks
from skyband.framework.streaming.spark.scratch import scratch_directory

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

_LARGE: Final = 1 << 14
"""Bytes of the smallest value that has a file of its own; others stand in the list."""


class Handed:
    """Values of one bucket by name, as in the store, in ``directory``; None: nobody is to take them. A directory that cannot be written is
    given up."""

    def __init__(self, directory: Path | None) -> None:
        self._directory = directory
        self._small: dict[str, bytes] = {}
        self._files: dict[str, str] = {}
        self._old: list[str] = []
        """Files that the last list does not need, and that list."""
        self._list = ""

    @classmethod
    def new(cls, directory: Path | None) -> Handed:
        """Nothing yet: what is in the directory is removed."""
        if directory is not None:
            shutil.rmtree(directory, ignore_errors=True)
            with contextlib.suppress(OSError):
                directory.mkdir(mode=0o700, parents=True)
        return cls(directory)

    @classmethod
    def taken(cls, directory: Path | None, token: str) -> tuple[Handed, dict[str, bytes]] | None:
        """The values that were handed with ``token``; None if they are not there (any more). O(bytes)."""
        if directory is None:
            return None
        handed = cls(directory)
        try:
            table = blocks.bytes_table((directory / token).read_bytes())
            for name, file, value in zip(*(table[c].to_pylist() for c in ("name", "file", "value")), strict=True):
                if file is None:
                    handed._small[name] = value
                else:
                    handed._files[name] = file
            values = handed._small | {name: (directory / file).read_bytes() for name, file in handed._files.items()}
        except (OSError, pa.ArrowException):
            return None
        handed._list = token
        return handed, values

    def put(self, name: str, value: bytes) -> None:
        """A value that the store has now."""
        if self._directory is None:
            return
        self.drop(name)
        if len(value) < _LARGE:
            self._small[name] = value
            return
        file = f"{os.urandom(8).hex()}.value"
        try:
            (self._directory / file).write_bytes(value)
        except OSError:
            self._give_up()
        else:
            self._files[name] = file

    def drop(self, name: str) -> None:
        """A value that the store has no more."""
        self._small.pop(name, None)
        file = self._files.pop(name, None)
        if file is not None:
            self._old.append(file)

    def hand(self, token: str) -> None:
        """All values are those of the state that is saved with ``token``; what they replace is removed."""
        if self._directory is None:
            return
        names = [*self._small, *self._files]
        files = [None] * len(self._small) + list(self._files.values())
        values = [*self._small.values(), *[None] * len(self._files)]
        columns = {"name": pa.array(names, pa.string()), "file": pa.array(files, pa.string()), "value": pa.array(values, pa.binary())}
        try:
            # Only a whole list has a name that somebody asks for.
            unfinished = self._directory / f"{token}.list"
            unfinished.write_bytes(blocks.table_bytes(pa.table(columns)))
            unfinished.rename(self._directory / token)
        except OSError:
            self._give_up()
            return
        for file in [*self._old, *([self._list] if self._list else [])]:
            with contextlib.suppress(OSError):
                (self._directory / file).unlink()
        self._old, self._list = [], token

    def _give_up(self) -> None:
        assert self._directory is not None
        shutil.rmtree(self._directory, ignore_errors=True)
        self._directory, self._small, self._files, self._old = None, {}, {}, []


def handing(context: SparkContext, job: str) -> Path | None:
    """The directory below which the buckets of ``job`` (by the name of its checkpoint) are handed on; None where tasks do not share this
    machine's files, or there is one worker only."""
    if not (context.master or "").startswith("local") or context.defaultParallelism < 2:
        return None
    return scratch_directory() / "states" / hashlib.sha256(job.encode()).hexdigest()[:16]


@contextmanager
def handed_on(spark: SparkSession, job: str) -> Iterator[None]:
    """When the queries of ``job`` that are run inside have ended, nothing is handed on any more."""
    directory = handing(spark.sparkContext, job)
    try:
        yield
    finally:
        if directory is not None:
            shutil.rmtree(directory, ignore_errors=True)
