"""Lists the files of a local source: those that Spark reads and those that it ignores. Imports no Spark.

Spark reads the files of the source's directory and, if there are directories such as ``year=2024`` below it, those of these; with the
option ``recursiveFileLookup`` those of all directories. What else lies below is ``unread``: never read, so it has to be reported.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import unquote

from skyband.framework.base.counts import counted
from skyband.framework.plan.model import SourceNode
from skyband.framework.storage.location import without_scheme

PATTERN: Final = "[]{}*?\\"
"""Characters that make Spark take a path for a pattern."""
_MOST_ALTERNATIVES: Final = 1_000
Failed = Callable[[OSError], object]
_NO_VALUE: Final = "__HIVE_DEFAULT_PARTITION__"
RECURSIVE: Final = "recursiveFileLookup"


@dataclass(slots=True)
class Listing:
    """The files of a source. ``files``: absolute paths that Spark reads, ``unread``: paths that it ignores, both sorted.

    ``partitioned``: directories such as ``year=2024`` have values. ``linked``: a directory is a symbolic link, which may lead anywhere.
    ``conflict``: two files with which Spark refuses the source, as their directories do not have the same columns.
    """

    files: list[str] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)
    partitioned: bool = False
    linked: bool = False
    conflict: tuple[str, str] | None = None


def marked(path: str) -> bool:
    """Return True if Spark takes the path for a pattern."""
    return any(c in path for c in PATTERN)


def hidden(name: str) -> bool:
    """Return True if Spark ignores a file or directory of that name. A partition directory (``day=1``) is never ignored."""
    return name.startswith(".") or (name.startswith("_") and "=" not in name) or name.endswith("._COPYING_")


def root_of(source: SourceNode) -> str | None:
    """Return the source's path as an absolute local path, possibly a pattern; None if it is remote."""
    if source.path is None or "://" in (local := without_scheme(source.path)):
        return None
    return os.path.abspath(local)


def recursive(source: SourceNode) -> bool:
    """Return True if the files of all subdirectories are read."""
    return any(n.lower() == RECURSIVE.lower() and v.lower() == "true" for n, v in source.options)


def listing(source: SourceNode, failed: Failed | None = None) -> Listing | None:
    """Return the files of a local source as Spark finds them; None if its path is remote. O(files below the path).

    ``failed`` is called for a directory that cannot be listed; without it, its files are left out.
    """
    root = root_of(source)
    if root is None:
        return None
    named = next((v for n, v in source.options if n.lower() == "pathglobfilter"), None)
    wanted = None if named is None else [re.compile(_regex(p)) for p in _alternatives(named)]
    found, top, deep = Listing(), list[str](), list[tuple[str, str]]()
    for start in _roots(root):
        if os.path.isfile(start):
            top += [start] if _wanted(os.path.basename(start), wanted) else []
            continue
        for where, names, linked in _walk(start, failed):
            found.linked |= linked
            paths = [os.path.join(where, n) for n in names if _wanted(n, wanted)]
            top += paths if where == start else []
            deep += [(start, p) for p in paths] if where != start else []
    if recursive(source):
        found.files = [*top, *(p for _, p in deep)]
    else:
        valued = {p for start, p in deep if partition_values(start, p)}
        found.partitioned = bool(valued)
        found.conflict = _conflict(deep) if valued else None
        # Beside directories with values Spark notes other files as taken, and reads none of them.
        found.files = list(valued) if valued else top
        found.unread = [p for p in ([*top, *(q for _, q in deep)] if valued else [q for _, q in deep]) if p not in valued]
    found.files.sort()
    found.unread.sort()
    return found


def _conflict(deep: list[tuple[str, str]]) -> tuple[str, str] | None:
    """Return two files of ``deep``, (root, path), at different depths or with different partition columns; None if there are none."""
    seen: dict[tuple[str, ...], str] = {}
    for start, path in deep:
        columns = list(partition_values(start, path))
        parts = os.path.relpath(os.path.dirname(path), start).split(os.sep)
        seen.setdefault((start, *parts[: len(parts) - len(columns)], "", *columns), path)
    first, second, *_ = [*seen.values(), "", ""]
    return (first, second) if second else None


def partition_values(root: str, path: str) -> dict[str, str | None]:
    """Return the values of the partition directories between ``root`` and the file ``path``, such as ``year=2024``, by column."""
    values: dict[str, str | None] = {}
    for name in reversed(os.path.relpath(os.path.dirname(path), root).split(os.sep)):
        column, mark, value = name.partition("=")
        if not mark or not column or not value:
            if values:
                break
            continue
        values = {unquote(column): None if value == _NO_VALUE else unquote(value), **values}
    return values


def values_of(source: SourceNode, path: str) -> dict[str, str | None]:
    """Return the ``partition_values`` of a file of ``source``; none if Spark takes no columns from directories."""
    root = root_of(source)
    if root is None or recursive(source) or not os.path.isdir(root) or not path.startswith(root + os.sep):
        return {}
    return partition_values(root, path)


def partition_columns(source: SourceNode) -> list[str]:
    """Return the partition columns of the source in their order. O(files)."""
    found = listing(source)
    return list(values_of(source, found.files[0])) if found is not None and found.partitioned and found.files else []


def not_read(source: SourceNode) -> str | None:
    """Return a warning about files below the source's path that are not read, with the way to read them; None if there are none."""
    found = None if source.format == "delta" else listing(source)
    if found is None or not found.unread:
        return None
    n = len(found.unread)
    said = f"{counted(n, 'file')} below {source.path} {'is' if n == 1 else 'are'} not read (first: {found.unread[0]})"
    if found.partitioned:
        return f"{said}: beside directories such as year=2024 Spark reads only the files in these; move {'it' if n == 1 else 'them'} there"
    return f"{said}: set source.options {RECURSIVE}: true to read all subdirectories"


def without_marks(named: str | None) -> str:
    """``pathGlobFilter`` for those files of ``named`` (a glob; None: all) whose names Spark does not take for patterns.

    Globs have no repetition: the longest name has 255 characters, each of which may be left out with all that follow.
    """
    other, many = "[^" + "".join("\\" + c for c in PATTERN) + "]", ""
    for _ in range(255):
        many = "{," + other + many + "}"
    if named is None:
        return many
    return re.sub(r"\\.|\[[^\]]*\]|[*?]", lambda m: {"*": many, "?": other}.get(m[0], m[0]), named)


def _wanted(name: str, patterns: list[re.Pattern[str]] | None) -> bool:
    return not hidden(name) and (patterns is None or any(p.fullmatch(name) for p in patterns))


def _walk(start: str, failed: Failed | None = None) -> Iterator[tuple[str, list[str], bool]]:
    """Yield (directory, names of its files, whether it contains a link) of all that are not hidden. Follows each link once."""
    seen = {os.path.realpath(start)}
    for where, directories, names in os.walk(start, onerror=failed, followlinks=True):
        directories[:] = [f for f in directories if not hidden(f)]
        links = [f for f in directories if os.path.islink(os.path.join(where, f))]
        for f in links:
            real = os.path.realpath(os.path.join(where, f))
            if real in seen:
                directories.remove(f)
            seen.add(real)
        yield where, names, bool(links)


def _roots(pattern: str) -> list[str]:
    """Return the files and directories that Spark finds for ``pattern``, an absolute path."""
    if not marked(pattern):
        return [pattern] if os.path.exists(pattern) else []
    found: dict[str, None] = {}
    for one in _alternatives(pattern):
        there = ["/"]
        for part in (p for p in one.split("/") if p):
            if not marked(part):
                there = [p for t in there if os.path.lexists(p := os.path.join(t, part))]
                continue
            regex = re.compile(_regex(part))
            there = [os.path.join(t, n) for t in there for n in _names(t) if regex.fullmatch(n)]
        found |= dict.fromkeys(there)
    return list(found)


def _names(directory: str) -> list[str]:
    try:
        return sorted(os.listdir(directory))
    except OSError:
        return []


def _alternatives(pattern: str) -> list[str]:
    """Return the patterns without braces, one for each alternative."""
    made = [pattern]
    while len(made) <= _MOST_ALTERNATIVES:
        at, span = next(((i, s) for i, p in enumerate(made) if (s := _braces(p))), (-1, None))
        if span is None:
            return made
        whole, (begin, end, cuts) = made[at], span
        parts = [whole[a + 1 : b] for a, b in zip([begin, *cuts], [*cuts, end], strict=True)]
        made[at : at + 1] = [whole[:begin] + p + whole[end + 1 :] for p in parts]
    return made[:_MOST_ALTERNATIVES]


def _braces(pattern: str) -> tuple[int, int, list[int]] | None:
    """(where the first group of braces begins, where it ends, where its commas are), what follows a backslash apart."""
    depth, begin, cuts, i = 0, -1, list[int](), 0
    while i < len(pattern):
        c = pattern[i]
        if c == "\\":
            i += 1
        elif c == "{":
            depth += 1
            begin = i if depth == 1 else begin
        elif c == "}" and depth:
            depth -= 1
            if not depth:
                return begin, i, cuts
        elif c == "," and depth == 1:
            cuts.append(i)
        i += 1
    return None


def _regex(glob: str) -> str:
    """Return a glob of one name, without braces, as a regular expression."""
    made, i = "", 0
    while i < len(glob):
        c = glob[i]
        end = glob.find("]", i + 2)
        if c == "\\" and i + 1 < len(glob):
            i += 1
            made += re.escape(glob[i])
        elif c == "[" and end > 0:
            inside = glob[i + 1 : end]
            negated = inside[0] in "^!"
            made += f"[{'^' if negated else ''}{inside[negated:].replace('[', chr(92) + '[')}]"
            i = end
        else:
            made += {"*": ".*", "?": "."}.get(c, re.escape(c))
        i += 1
    return made
