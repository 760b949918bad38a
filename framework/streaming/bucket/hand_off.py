"""State hand-off: pass a bucket's state from one worker process to another on this machine, by files.

Spark gives a bucket's task to any free worker, and reading a value from the state store takes several times as long as writing it, because
Spark encodes every byte as text. So a worker that saves a bucket also writes its values to files in the scratch directory, and a worker
without the bucket reads them from there. A list file, named by the token that is saved in the state store, makes them one state. Missing or
incomplete files are read from the state store instead. Does not import Spark.
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
"""The size in bytes from which a value has a file of its own; smaller ones are in the list file."""


class HandOff:
    """The hand-off files of one bucket, in ``directory``; None: hand nothing off. A directory that cannot be written is given up."""

    def __init__(self, directory: Path | None) -> None:
        self._directory = directory
        self._small: dict[str, bytes] = {}
        self._files: dict[str, str] = {}
        self._old: list[str] = []
        """Files that the last list file does not name."""
        self._list = ""

    @classmethod
    def new(cls, directory: Path | None) -> HandOff:
        """Return an empty hand-off; remove the files in the directory."""
        if directory is not None:
            shutil.rmtree(directory, ignore_errors=True)
            with contextlib.suppress(OSError):
                directory.mkdir(mode=0o700, parents=True)
        return cls(directory)

    @classmethod
    def read(cls, directory: Path | None, token: str) -> tuple[HandOff, dict[str, bytes]] | None:
        """Return the hand-off of ``token`` with its values; None if files are missing. O(bytes)."""
        if directory is None:
            return None
        hand_off = cls(directory)
        try:
            table = blocks.bytes_table((directory / token).read_bytes())
            for name, file, value in zip(*(table[c].to_pylist() for c in ("name", "file", "value")), strict=True):
                if file is None:
                    hand_off._small[name] = value
                else:
                    hand_off._files[name] = file
            values = hand_off._small | {name: (directory / file).read_bytes() for name, file in hand_off._files.items()}
        except (OSError, pa.ArrowException):
            return None
        hand_off._list = token
        return hand_off, values

    def put(self, name: str, value: bytes) -> None:
        """Set a value, as in the state store."""
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
        """Remove a value, as in the state store."""
        self._small.pop(name, None)
        file = self._files.pop(name, None)
        if file is not None:
            self._old.append(file)

    def commit(self, token: str) -> None:
        """Write the list file of the state that is saved with ``token``, and remove the files that it replaces."""
        if self._directory is None:
            return
        names = [*self._small, *self._files]
        files = [None] * len(self._small) + list(self._files.values())
        values = [*self._small.values(), *[None] * len(self._files)]
        columns = {"name": pa.array(names, pa.string()), "file": pa.array(files, pa.string()), "value": pa.array(values, pa.binary())}
        try:
            # Rename the list file last, so that readers find only complete ones.
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


def hand_off_directory(context: SparkContext, job: str) -> Path | None:
    """Return the directory of the hand-off files of ``job`` (the name of its checkpoint).

    None if tasks do not share this machine's files, or there is only one worker.
    """
    if not (context.master or "").startswith("local") or context.defaultParallelism < 2:
        return None
    return scratch_directory() / "states" / hashlib.sha256(job.encode()).hexdigest()[:16]


@contextmanager
def hand_off_during(spark: SparkSession, job: str) -> Iterator[None]:
    """Remove the hand-off files of ``job`` after the block, in which its queries run."""
    directory = hand_off_directory(spark.sparkContext, job)
    try:
        yield
    finally:
        if directory is not None:
            shutil.rmtree(directory, ignore_errors=True)
