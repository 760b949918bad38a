"""Where a sink may lie: not at, above or below what the job reads. Tells from the paths alone; the run looks at the disk too."""

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
    """A path of a spec without the ``file:`` it may begin with; one of another file system as it is."""
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
    """What a sink's path may not have, as it is to be shown: marks of patterns to Spark, and what the Delta library cannot put in a URL."""
    return [m if m.isprintable() else repr(m)[1:-1] for m in dict.fromkeys(_UNUSABLE.findall(path))]


def is_root(path: str) -> bool:
    """Whether the path is the root of a file system (or of a store: its bucket alone does not count)."""
    return len(parts(path)) == 1


def overlap(source: str, sink: str, real: bool = False) -> bool:
    """Whether the sink is what is read, or above it, or below it. The source may be a pattern (``*``, ``?``, ``[...]``, ``{a,b}``)."""
    out = parts(sink, real)
    return any(_agree(parts(spelled, real), out) for spelled in _spellings(source))


def _agree(source: Sequence[str], sink: Sequence[str]) -> bool:
    return all(one == other or fnmatchcase(other, one) for one, other in zip(source, sink, strict=False))


def _spellings(pattern: str) -> list[str]:
    """A pattern without its braces: one for each of their alternatives."""
    found = [pattern]
    while len(found) <= MAX_SPELLINGS and (m := next((m for p in found if (m := _BRACES.search(p))), None)):
        whole = m.string
        found.remove(whole)
        found += [whole[: m.start()] + one + whole[m.end() :] for one in m.group(1).split(",")]
    return [_BRACES.sub("*", p) for p in found]
