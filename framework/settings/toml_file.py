"""Read a small TOML file of the operator's, with the lines of its mistakes. Standard library only."""

from __future__ import annotations

import os
import re
import stat
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from skyband.framework.base.errors import SkybandError, Where

MOST: Final = 1 << 16
"""The largest size of such a file in bytes."""
_AT: Final = re.compile(r"\s*\(at (?:line (\d+), column (\d+)|end of document)\)$")


def read_text(path: Path, code: str, hint: str, untrusted: str | None) -> str:
    """Return the file's text. Raises SkybandError ``code`` if it is no readable regular file.

    ``untrusted``: the hint for a file that another user owns, or that all users may write; None: such a file is accepted.
    """
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode) or found.st_size > MOST:
                raise SkybandError(code, f"{path} is not a file of at most {MOST >> 10} KB")
            if untrusted is not None and (found.st_uid not in (os.geteuid(), 0) or found.st_mode & stat.S_IWOTH):
                raise SkybandError(code, f"{path} belongs to another user, or all users may write it", untrusted)
            return file.read().decode("utf-8")
    except OSError as e:
        raise SkybandError(code, f"{path} cannot be read: {e.strerror}", hint) from e
    except UnicodeDecodeError as e:
        raise SkybandError(code, f"{path} is not UTF-8") from e


def parse(path: Path, text: str, code: str) -> dict[str, Any]:
    """Return the content of the file. Raises SkybandError ``code`` with line and column."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as e:
        at = _AT.search(str(e))
        line, col = (int(at[1]), int(at[2])) if at and at[1] else (max(1, text.count("\n")), 1)
        raise SkybandError(code, f"TOML syntax: {_AT.sub('', str(e))}", where=Where(str(path), line, col)) from e
    except (RecursionError, ValueError) as e:  # a number of thousands of digits
        raise SkybandError(code, f"{path} is nested too deeply, or has a number that is too long") from e


def line_of(text: str, place: Sequence[str]) -> int:
    """Return the line of the key ``place``, 1-based: the first one up to which the file contains it. O(lines x length)."""
    lines = text.splitlines(keepends=True)
    for n in range(1, len(lines) + 1):
        try:
            found: Any = tomllib.loads("".join(lines[:n]))
        except tomllib.TOMLDecodeError:
            continue  # inside a value of several lines
        for key in place:
            found = found.get(key) if isinstance(found, dict) else None
        if found is not None:
            return n
    return 1
