"""Find text files that no reader could hold: a line, or a packed file, that is too large. Imports no Spark.

Spark holds a line in memory, several times over; a packed file of some kilobytes may unpack to a line of gigabytes.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator
from functools import lru_cache
from typing import IO, Final

from skyband.framework.base.counts import counted
from skyband.framework.plan.model import SourceNode
from skyband.framework.sources.files.bad_files import opened
from skyband.framework.sources.text.options import WIDE, codec_of, encoding_of, folded

UNPACKED: Final = 1_000
"""Most lines of the greatest length to which a packed file may unpack."""
WHOLE: Final = 16
"""The same for a JSON file that is read as a whole."""
_RATIO: Final = 1_100
"""No deflate stream unpacks to more bytes for each of its own."""
_BLOCK: Final = 1 << 20
_TAIL: Final = 1 << 16
_REMEMBERED: Final = 1 << 16
"""The number of files whose verdict is remembered: each is judged with the backlog, before its batch and by whoever sets it aside."""
_PACKED: Final = (".gz", ".bz2", ".zst", ".deflate")


def too_large(source: SourceNode, path: str) -> str | None:
    """Return what makes the CSV or JSON file at ``path`` too large to be read; None if it can be, or is no such file.

    Looks only at some of the bytes of a plain file, and unpacks a packed one block by block: once in a process, unless the file has changed
    since. A file that cannot be read raises no error.
    """
    if source.format not in ("csv", "json"):
        return None
    try:
        found = os.stat(path)
        return _too_large(source.format, source.options, source.max_line, path, found.st_size, found.st_mtime_ns)
    except (OSError, EOFError, zlib.error, ValueError):
        # Whoever reads the file says why it cannot be read.
        return None


@lru_cache(_REMEMBERED)
def _too_large(form: str, given: tuple[tuple[str, str], ...], limit: int, path: str, size: int, _modified: int) -> str | None:
    options = folded(given)
    whole = options.get("multiline", "false").lower() == "true"
    ends = _ends(options)
    lines = not whole and ends is not None
    if not path.endswith(_PACKED):
        if whole and form == "json" and size > WHOLE * limit:
            return _said(f"it is read as a whole, and has more than {_bytes(WHOLE * limit)}")
        if size > limit and lines and _plain_line(path, limit, ends or ()):
            return _line(limit)
        return None
    if not path.endswith(".bz2") and size * _RATIO <= limit:
        return None
    most = (WHOLE if whole and form == "json" else UNPACKED) * limit
    unpacked = run = 0
    for block in _unpacked(path):
        unpacked += len(block)
        if unpacked > most:
            return _said(f"it unpacks to more than {_bytes(most)}")
        if lines:
            for part in _parts(block, limit):
                first, last = _first(part, ends or ()), _last(part, ends or ())
                if run + (len(part) if first < 0 else first) > limit:
                    return _line(limit)
                run = run + len(part) if last < 0 else len(part) - last - 1
    return None


def _ends(options: dict[str, str]) -> tuple[bytes, ...] | None:
    """Return what ends a line, None where the bytes of a line feed may be part of a character."""
    if encoding_of(options) in WIDE:
        return None
    given = options.get("linesep")
    return (b"\n", b"\r") if given is None else (given.encode(codec_of(options).removesuffix("-sig"), "replace")[-1:],)


def _plain_line(path: str, limit: int, ends: tuple[bytes, ...]) -> bool:
    """Return True if a line has more than ``limit`` bytes: from the end of one, look back from where the next has to have ended."""
    with open(path, "rb") as file:
        size, start = os.fstat(file.fileno()).st_size, 0
        while size - start > limit:
            found, stop = -1, start + limit + 1
            while found < 0 and stop > start:
                begin = max(start, stop - _TAIL)
                file.seek(begin)
                found = _last(file.read(stop - begin), ends)
                found, stop = (begin + found if found >= 0 else -1), begin
            if found < 0:
                return True
            start = found + 1
    return False


def _unpacked(path: str) -> Iterator[bytes]:
    with _opened(path) as file:
        while block := file.read(_BLOCK):
            yield bytes(block)


def _opened(path: str) -> IO[bytes]:
    if path.endswith(".zst"):
        import pyarrow as pa

        made: IO[bytes] = pa.CompressedInputStream(pa.OSFile(path), "zstd")
        return made
    return _Deflated(path) if path.endswith(".deflate") else opened(path)  # type: ignore[return-value]


class _Deflated:
    """A file of one deflate stream, unpacked block by block."""

    def __init__(self, path: str) -> None:
        self._file = open(path, "rb")  # noqa: SIM115 - closed by the block that uses it
        self._stream = zlib.decompressobj()

    def __enter__(self) -> _Deflated:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def read(self, most: int) -> bytes:
        """Return at most so many bytes, none at the end."""
        while True:
            packed = self._stream.unconsumed_tail or self._file.read(_TAIL)
            if not packed:
                return b""
            if made := self._stream.decompress(packed, most):
                return made


def _parts(block: bytes, limit: int) -> Iterator[bytes]:
    """Yield a block in parts no longer than a line, so that none holds one that is too long."""
    return (block[i : i + limit] for i in range(0, len(block), limit))


def _first(data: bytes, ends: tuple[bytes, ...]) -> int:
    return min((at for end in ends if (at := data.find(end)) >= 0), default=-1)


def _last(data: bytes, ends: tuple[bytes, ...]) -> int:
    return max(data.rfind(end) for end in ends)


def _line(limit: int) -> str:
    return _said(f"it has a line of more than {_bytes(limit)}")


def _said(what: str) -> str:
    return f"{what}: source.max_line"


def _bytes(size: int) -> str:
    return f"{size >> 20:,} MB" if size >= 1 << 20 else counted(size, "byte")
