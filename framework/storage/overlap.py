"""Check that a sink is not at, above or below the source of its job, by their paths alone. Runs also check the disk."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Final

MAX_SPELLINGS: Final = 64
_UNUSABLE: Final = re.compile(r"[\[\]{}*?\\^|]|[\x00-\x1f\x7f]|%[0-9A-Fa-f]{2}")
_BRACES: Final = re.compile(r"\{([^{}]*)\}")


def without_scheme(path: str) -> str:
    """Return a path of a spec without a leading ``file:``; paths of other file systems are unchanged."""
    return path.removeprefix("file://") if path.startswith("file://") else path.removeprefix("file:")


def parts(path: str, real: bool = False) -> tuple[str, ...]:
    """The directories of a path from the root down, ``.`` and ``..`` resolved (``real``: links too); a scheme other than file comes
    first."""
    scheme, mark, rest = path.partition("://")
    if mark and scheme.lower() != "file":
        return (scheme.lower(), *(p for p in os.path.normpath("/" + rest).split("/") if p))
    local = rest if mark else path.removeprefix("file:")
    whole = os.path.realpath(local) if real else os.path.abspath(local)
    return ("file", *(p for p in whole.split("/") if p))


def unusable_characters(path: str) -> list[str]:
    """Return the characters that a sink's path may not have: patterns for Spark, and invalid in a URL of the Delta library."""
    return [m if m.isprintable() else repr(m)[1:-1] for m in dict.fromkeys(_UNUSABLE.findall(path))]


def is_root(path: str) -> bool:
    """Return True if the path is the root of a file system, or of object storage without a bucket."""
    return len(parts(path)) == 1


def overlap(source: str, sink: str, real: bool = False) -> bool:
    """Return True if the sink is at, above or below the source. The source may be a pattern (``*``, ``?``, ``[...]``, ``{a,b}``)."""
    out = parts(sink, real)
    return any(_agree(parts(spelled, real), out) for spelled in _spellings(source))


def _agree(source: Sequence[str], sink: Sequence[str]) -> bool:
    return all(one == other or fnmatchcase(other, one) for one, other in zip(source, sink, strict=False))


def _spellings(pattern: str) -> list[str]:
    """Return the alternatives of a pattern with braces."""
    found = [pattern]
    while len(found) <= MAX_SPELLINGS and (m := next((m for p in found if (m := _BRACES.search(p))), None)):
        whole = m.string
        found.remove(whole)
        found += [whole[: m.start()] + one + whole[m.end() :] for one in m.group(1).split(",")]
    return [_BRACES.sub("*", p) for p in found]
