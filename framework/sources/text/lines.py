"""Reads text files, compressed or not, line by line or whole."""

from __future__ import annotations

import bz2
import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, Final

_LARGEST: Final = 64 << 20
"""Most characters of a JSON document that is read whole."""
_LINE: Final = 16 << 20
"""Most characters of a line."""
COMPRESSED: Final[dict[str, Any]] = {".gz": gzip.open, ".bz2": bz2.open}


def open_text(file: Path, encoding: str, errors: str = "strict") -> IO[str]:
    """Open a text, compressed or not. ``errors``: see ``open``."""
    opener = COMPRESSED.get(file.suffix.lower(), open)
    made: IO[str] = opener(file, "rt", encoding=encoding, errors=errors, newline="")
    return made


def lines_of(file: Path, encoding: str, errors: str = "strict") -> Iterator[str]:
    """Yield the lines of a text. ``errors``: see ``open``. Raises OSError, UnicodeDecodeError, ValueError (over 16 MB)."""
    with open_text(file, encoding, errors) as f:
        while line := f.readline(_LINE):
            if len(line) == _LINE:
                raise ValueError("a line is longer than 16 MB")
            yield line


def whole_text(file: Path, encoding: str = "utf-8-sig", errors: str = "strict") -> str:
    """Return all of a text. ``errors``: see ``open``. Raises OSError, UnicodeDecodeError, ValueError (larger than 64 MB)."""
    with open_text(file, encoding, errors) as f:
        text = f.read(_LARGEST + 1)
    if len(text) > _LARGEST:
        raise ValueError("one JSON document of more than 64 MB; write an object a line instead")
    return text
