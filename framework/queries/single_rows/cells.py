"""Reads a table of queries (``queries_from``): CSV, Parquet or Delta, a row per query, every cell as it stands there.

What the cells mean is in ``list_rows``.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from skyband.framework.base.counts import counted
from skyband.framework.base.errors import SkybandError
from skyband.framework.queries.single_rows.model import QueriesFrom
from skyband.framework.queries.single_rows.table_file import read_bytes, why_not
from skyband.framework.storage.overlap import without_scheme

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
