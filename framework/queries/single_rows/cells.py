"""Reads a table of queries (``queries_from``): CSV, Parquet or Delta, a row per query, every cell as it stands there.

What the cells mean is in ``list_rows``.
"""

from __future__ import annotations

import csv
import io
import os
import re
import stat
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from skyband.framework.base.counts import counted
from skyband.framework.base.errors import SkybandError
from skyband.framework.queries.single_rows.model import QueriesFrom
from skyband.framework.storage.location import without_scheme

# Which files a table of queries may be: regular ones below the spec's directory or an allowed root, of a bounded size.
#
# A spec is data: naming a path must neither open a file its writer could not read otherwise, nor hang, nor fill the memory.

MAX_BYTES: Final = 64 * 2**20
"""Most bytes of a table of queries, all its files together."""
MAX_FILES: Final = 10_000
ROOTS: Final = "SKYBAND_ALLOWED_ROOTS"
"""Environment variable of whoever runs the job: further directories that tables of queries may lie in, separated as in PATH."""


def outside(path: str, directory: str, env: Mapping[str, str]) -> bool:
    """Whether ``path``, links resolved, lies neither below ``directory`` nor below a root that ``env`` allows."""
    if "://" in path or "\0" in path:
        return True
    real = os.path.realpath(path)
    roots = [directory or ".", *(r for r in env.get(ROOTS, "").split(os.pathsep) if os.path.isabs(r))]
    return not any(os.path.commonpath([real, os.path.realpath(root)]) == os.path.realpath(root) for root in roots)


def why_not(path: str, directory_too: bool) -> str | None:
    """Why the file (``directory_too``: or the directory) at ``path`` is not read, or None. FileNotFoundError if it is not there."""
    mode = os.stat(path).st_mode
    if stat.S_ISDIR(mode):
        return _directory(path) if directory_too else "it is a directory, not a CSV file"
    if not stat.S_ISREG(mode):
        return "it is not a regular file"
    return _too_large(os.stat(path).st_size)


def read_bytes(path: str) -> bytes:
    """The content of a regular file. Raises ValueError with the reason if it is none, or too large; never waits for a writer."""
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(handle, "rb") as file:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise ValueError("it is not a regular file")
        content = file.read(MAX_BYTES + 1)
    why = _too_large(len(content))
    if why is not None:
        raise ValueError(why)
    return content


def _too_large(size: int) -> str | None:
    return f"it is larger than {MAX_BYTES >> 20} MB" if size > MAX_BYTES else None


def _directory(path: str) -> str | None:
    """A directory holds regular files and directories only: a link could lead out of it."""
    size, files = 0, 0
    for where, directories, names in os.walk(path):
        for name in (*directories, *names):
            found = os.lstat(os.path.join(where, name))
            files += 1
            if not stat.S_ISREG(found.st_mode) and not stat.S_ISDIR(found.st_mode):
                return "its directory holds links or other things that are no regular files"
            size += found.st_size if stat.S_ISREG(found.st_mode) else 0
            if files > MAX_FILES:
                return f"its directory holds more than {MAX_FILES:,} files"
            if size > MAX_BYTES:
                return _too_large(size)
    return None


MAX_ROWS = 30_000
"""Queries of one table: their numbers have to fit 16 bits."""
MAX_COLUMNS = 2_000


_NAME: Final = re.compile(r"[^\W\d]\w{0,63}")


@dataclass(frozen=True, slots=True)
class Cells:
    """``columns``: name -> cells, None for an empty one; text in a CSV file. ``places``: what to call each row in a message.

    ``heads``: where the name of a column stands, of a CSV file.
    """

    columns: dict[str, list[Any]]
    places: list[str]
    heads: dict[str, str] = field(default_factory=dict)

    def column(self, name: str) -> str:
        """What to call a column in a message."""
        place = self.heads.get(name)
        return f"the column {shown(name)}" if place is None else f"{place}: the column {shown(name)}"


class _Unusable(ValueError):
    """Why a table cannot be used, in words that hold nothing of its content."""


def shown(column: str) -> str:
    """A column's name in quotes, if it looks like one: a file that is no table of queries is not to be read through messages."""
    return repr(column) if _NAME.fullmatch(column) else "(not a name)"


def _known(column: str) -> str:
    """A column of a file of which nothing is known yet: in quotes if its name is one that tables of queries have."""
    return repr(column) if re.fullmatch(r"name|k|window|where|direction|(weight|min|max)_\w{1,60}", column) else "(not shown)"


def read_cells(source: QueriesFrom) -> Cells:
    """All rows of the table. SkybandError SKY-E145 if it cannot be read, is empty, or too long."""
    path = without_scheme(source.path)
    try:
        table = _FORMATS[source.format]
        why = why_not(path, directory_too=table.directory)
        if why is not None:
            raise _Unusable(why)
        cells = table.read(path)
    except _Unusable as e:
        raise _unreadable(str(e)) from e
    except FileNotFoundError as e:
        raise _unreadable("there is no such file") from e
    except UnicodeDecodeError:
        raise _unreadable("it is not UTF-8 text") from None
    except Exception as e:  # the libraries' own classes differ, and what they say may quote the file
        raise _unreadable(f"it cannot be read as a {table.kind} ({type(e).__name__})") from None
    if not cells.places:
        raise _unreadable("it has no rows")
    return cells


def _unreadable(why: str) -> SkybandError:
    hint = "a CSV or Parquet file or a Delta table with a row per query, and the columns name, k, weight_<column>, ..."
    return SkybandError("SKY-E145", f"the table of queries cannot be used: {why}", hint)


def _csv(path: str) -> Cells:
    try:
        text = read_bytes(path).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise
    except ValueError as e:
        raise _Unusable(str(e)) from None
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        header = [c.strip() for c in next(reader, [])]
        if len(header) == 1 and any(c in header[0] for c in ";\t|"):
            raise _Unusable("its columns are not separated by commas")
        twice = {c for c in header if header.count(c) > 1} if len(header) <= MAX_COLUMNS else set()
        if len(header) > MAX_COLUMNS:
            raise _Unusable(f"it has more than {MAX_COLUMNS:,} columns")
        if twice or "" in header:
            raise _Unusable(f"the column {_known(sorted(twice)[0])} is there twice" if twice - {""} else "a column has no name")
        columns: dict[str, list[Any]] = {c: [] for c in header}
        places: list[str] = []
        rows = 0
        for row in reader:
            if not row:
                continue
            rows += 1
            if len(row) != len(header):
                raise _Unusable(f"line {reader.line_num} has {counted(len(row), 'cell')}, the header {len(header)}")
            if rows > MAX_ROWS:
                continue
            places.append(f"line {reader.line_num}")
            for name, cell in zip(header, row, strict=True):
                columns[name].append(cell.strip() or None)
    except csv.Error as e:
        raise _Unusable(f"line {reader.line_num} is not CSV ({e})") from None
    _few(rows)
    return Cells(columns, places, _heads(text, header))


def _heads(text: str, header: list[str]) -> dict[str, str]:
    """Line and column of each name of the header, which may span lines if it is quoted. O(header)."""
    found, at = {}, 0
    for name in header:
        at = max(at, text.find(name, at))
        line = text.count("\n", 0, at) + 1
        found[name] = f"line {line}, column {at - text.rfind(chr(10), 0, at)}"
        at += len(name)
    return found


def _few(rows: int) -> None:
    if rows > MAX_ROWS:
        raise _Unusable(f"it has {counted(rows, 'row')}; a table of queries holds at most {MAX_ROWS:,}")


def _parquet(path: str) -> Cells:
    import pyarrow.dataset as ds

    return _arrow(ds.dataset(path, format="parquet"))


def _delta(path: str) -> Cells:
    from skyband.framework.storage.delta_logs import library_errors, open_table

    try:
        table = open_table(path)
        with library_errors():
            data = table.to_pyarrow_dataset()
        return _arrow(data)
    except SkybandError as e:
        raise _Unusable(e.message) from e


def _arrow(data: Any) -> Cells:
    _few(data.count_rows())
    table = data.to_table()
    columns = {n: table[n].to_pylist() for n in table.column_names}
    return Cells(columns, [f"row {i + 1}" for i in range(table.num_rows)])


@dataclass(frozen=True, slots=True)
class _TableFormat:
    """A format of tables of queries. ``kind``: its name in messages; ``directory``: whether the table may be a directory."""

    kind: str
    read: Callable[[str], Cells]
    directory: bool = True


_FORMATS: Final = {
    "csv": _TableFormat("CSV file", _csv, directory=False),
    "parquet": _TableFormat("Parquet file", _parquet),
    "delta": _TableFormat("Delta table", _delta),
}
