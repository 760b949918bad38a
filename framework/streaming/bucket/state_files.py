"""Write and read a bucket's state in files of the sink. Does not import Spark.

A state is a *list* file with the values of the state by name: small ones themselves, of large ones the names of the files that hold them.
A row of table ``runs`` names the list of every bucket by its token. Nothing that a list names is ever written again: a batch that is
repeated, or whose process was killed, writes files with other tokens, and the ones before stay as they are. What no list of the last rows
of ``runs`` names is removed in the end (``StateFiles.collect``).
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa

from skyband.framework.base.errors import SkybandError
from skyband.framework.sources.logs import AGAIN
from skyband.framework.storage import durable
from skyband.framework.storage.location import Location
from skyband.framework.streaming.bucket.state_names import state_name, state_number, written_once
from skyband.framework.streaming.rows import blocks

_LARGE: Final = 1 << 14
"""The bytes from which a value has a file of its own; of values that are written once, ``_LARGE_ONCE``."""
_LARGE_ONCE: Final = 1 << 10
_DIGEST: Final = 16
"""The bytes of a digest. A list begins with that of the rest."""
_TOKEN: Final = re.compile(r"[0-9a-f]{16}")
_FILE: Final = re.compile(r"[0-9a-f]{16}\.(list|[0-9]{1,9})")
"""Matches the names of all files of states: nothing else is read or removed."""
_UNFINISHED: Final = re.compile(r"\.[0-9a-f]{16}\.list\.[0-9a-f]{12}")
"""Matches the names of lists that a killed process has not finished (``durable.create_temporary``)."""
_LIST: Final = pa.schema([("name", pa.string()), ("file", pa.string()), ("digest", pa.binary()), ("value", pa.large_binary())])


@dataclass(slots=True)
class BucketFiles:
    """The files of one bucket's state in ``directory``: what ``put`` and ``drop`` have made of it since it was read.

    ``small``: values of the list by name. ``large``: (file, digest) by name. ``made``: values that have no file yet.
    """

    directory: Location
    small: dict[str, bytes] = field(default_factory=dict)
    large: dict[str, tuple[str, bytes]] = field(default_factory=dict)
    made: dict[str, bytes] = field(default_factory=dict)

    def put(self, name: str, value: bytes) -> None:
        """Give ``name`` a value. A large one that it has already keeps its file."""
        if name in self.large and self.large[name][1] == _digest(value):
            return
        self.drop(name)
        if len(value) >= (_LARGE_ONCE if written_once(name) else _LARGE):
            self.made[name] = value
        else:
            self.small[name] = value

    def drop(self, name: str) -> None:
        """Remove the value of ``name``, if there is one."""
        self.small.pop(name, None)
        self.large.pop(name, None)
        self.made.pop(name, None)

    def save(self) -> str:
        """Write the state; return the token that names it. All is on the disk then. Raises OSError. O(bytes that changed, values)."""
        token = os.urandom(8).hex()
        if not self.directory.is_dir():
            self.directory.mkdir(parents=True, exist_ok=True)
        for number, (name, value) in enumerate(self.made.items()):
            file = f"{token}.{number}"
            durable.create(self.directory / file, value)
            self.large[name] = file, _digest(value)
        self.made = {}
        rows = [dict(zip(_LIST.names, (n, None, None, v), strict=True)) for n, v in self.small.items()]
        rows += [dict(zip(_LIST.names, (n, f, d, None), strict=True)) for n, (f, d) in self.large.items()]
        body = blocks.table_bytes(pa.Table.from_pylist(rows, _LIST))
        durable.replace(self.directory / f"{token}.list", _digest(body) + body)
        return token


def read_state(directory: Location, token: str) -> tuple[BucketFiles, dict[str, bytes]]:
    """Return the state of the bucket of ``directory`` that ``token`` names, and its values. O(bytes).

    Raises SkybandError SKY-E303 if a file is gone, or is not what Skyband wrote.
    """
    found = _read_list(directory, token)
    values = dict(found.small)
    for name, (file, digest) in found.large.items():
        try:
            values[name] = (directory / file).read_bytes()
        except OSError as e:
            raise _damaged(directory / file, type(e).__name__) from e
        if _digest(values[name]) != digest:
            raise _damaged(directory / file, "it is not what was written")
    return found, values


def _read_list(directory: Location, token: str) -> BucketFiles:
    path = directory / f"{token}.list"
    try:
        if not _TOKEN.fullmatch(token):
            raise ValueError("its name is none of ours")
        data = path.read_bytes()
        if _digest(data[_DIGEST:]) != data[:_DIGEST]:
            raise ValueError("it is not what was written")
        table = blocks.bytes_table(data[_DIGEST:])
        table.validate(full=True)
        if not table.schema.equals(_LIST):
            raise ValueError("it has other columns")
        found = BucketFiles(directory)
        for row in table.to_pylist():
            name, file, digest, value = (row[column] for column in _LIST.names)
            if name is None or name in found.small or name in found.large or (file is None) is (value is None):
                raise ValueError("it has a value without a name, or a name without one value")
            if file is None:
                found.small[name] = value
            elif _FILE.fullmatch(file) and digest is not None:
                found.large[name] = file, digest
            else:
                raise ValueError("it names a file that is none of ours")
    except (OSError, ValueError, TypeError, pa.ArrowException) as e:
        raise _damaged(path, str(e) if type(e) is ValueError else type(e).__name__) from e
    return found


def _digest(value: bytes) -> bytes:
    return hashlib.blake2b(value, digest_size=_DIGEST).digest()


def _damaged(path: Location, said: str) -> SkybandError:
    hint = f"restore the whole sink from one backup, or {AGAIN}"
    return SkybandError("SKY-E303", f"{path} cannot be read, which is a part of the job's state: {said}", hint=hint)


@dataclass(frozen=True, slots=True)
class StateFiles:
    """The states of a job's buckets: a directory for each below ``root``, named by its number."""

    root: Location

    def of(self, bucket: int) -> Location:
        """Return the directory of a bucket."""
        return self.root / state_name(bucket)

    def require(self, states: Mapping[int, str]) -> None:
        """Raise SkybandError SKY-E303 if a file of a state is gone; ``states``: tokens by bucket. Does not read large values. O(files)."""
        for bucket, token in states.items():
            for file, _ in _read_list(self.of(bucket), token).large.values():
                if not (self.of(bucket) / file).is_file():
                    raise _damaged(self.of(bucket) / file, "it is gone")

    def read(self, bucket: int, token: str) -> tuple[BucketFiles, dict[str, bytes]]:
        """Return the state of ``bucket`` that ``token`` names, and its values. Raises as ``read_state``."""
        return read_state(self.of(bucket), token)

    def bytes(self) -> int:
        """Return the size of all files. O(files)."""
        return sum(p.stat().st_size for p in self.root.glob("*/*") if _FILE.fullmatch(p.name))

    def collect(self, kept: Iterable[Mapping[int, str]]) -> int:
        """Remove the files that no state names, and return how many. ``kept``: the tokens of the states to keep, by bucket.

        Only for a moment when no batch runs. Raises SkybandError SKY-E303 if a list to keep cannot be read. O(files).
        """
        tokens: dict[int, set[str]] = {}
        for state in kept:
            for bucket, token in state.items():
                tokens.setdefault(bucket, set()).add(token)
        removed = 0
        # Those of buckets and shards that are no more, too.
        names = {p.parent.name for p in self.root.glob("*/*")} if tokens else set()
        for bucket in sorted(n for name in names if (n := state_number(name)) is not None):
            mine, directory = tokens.get(bucket, set()), self.of(bucket)
            if directory.is_symlink() or not directory.is_dir():
                continue
            ours = [p for p in directory.iterdir() if _FILE.fullmatch(p.name) or _UNFINISHED.fullmatch(p.name)]
            named = {f"{token}.list" for token in mine}
            if {p.name for p in ours} <= named:
                continue
            for token in mine:
                named |= {file for file, _ in _read_list(directory, token).large.values()}
            for path in ours:
                if path.name not in named and path.is_file() and not path.is_symlink():
                    path.unlink(missing_ok=True)
                    removed += 1
        return removed
