"""Reads a table of queries (``queries_from``): CSV, Parquet or Delta, a row per query, every cell as it stands there.

What the cells mean is in ``list_rows``.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from skyband.framework.errors import SkybandError
from skyband.framework.queries.single_rows.model import QueriesFrom

MAX_ROWS = 30_000
"""Queries of one table: their numbers have to fit 16 bits."""


@dataclass(frozen=True, slots=True)
class Cells:
    """``columns``: name -> cells, None for an empty one; text in a CSV file. ``places``: what to call each row in a message."""

    columns: dict[str, list[Any]]
    places: list[str]


def read_cells(source: QueriesFrom) -> Cells:
    """All rows of the table. SkybandError SKY-E145 if it cannot be read, is empty, or too long."""
    path = source.path.removeprefix("file://")
    try:
        cells = _csv(Path(path)) if source.format == "csv" else _arrow(source.format, path)
    except SkybandError:
        raise
    except FileNotFoundError as e:
        raise _unreadable("there is no such file") from e
    except IsADirectoryError as e:
        raise _unreadable("it is a folder, not a CSV file") from e
    except UnicodeDecodeError as e:
        raise _unreadable("it is not UTF-8 text") from e
    except Exception as e:  # the libraries' own classes differ; what they say is what a user needs
        raise _unreadable(str(e).splitlines()[0] if str(e) else type(e).__name__) from e
    if not cells.places:
        raise _unreadable("it has no rows")
    if len(cells.places) > MAX_ROWS:
        raise _unreadable(f"it has {len(cells.places):,} rows; a table of queries holds at most {MAX_ROWS:,}")
    return cells


def _unreadable(why: str) -> SkybandError:
    hint = "a CSV or Parquet file or a Delta table with a row per query, and the columns name, k, weight_<column>, ..."
    return SkybandError("SKY-E145", f"the table of queries cannot be used: {why}", hint)


def _csv(path: Path) -> Cells:
    with open(path, encoding="utf-8-sig", newline="") as f:
        reader = csv.reader(f, strict=True)
        header = [c.strip() for c in next(reader, [])]
        if len(header) == 1 and any(c in header[0] for c in ";\t|"):
            raise ValueError("its columns are not separated by commas")
        twice = {c for c in header if header.count(c) > 1}
        if twice or "" in header:
            raise ValueError(f"the column {sorted(twice)[0]!r} is there twice" if twice else "a column has no name")
        columns: dict[str, list[Any]] = {c: [] for c in header}
        places = []
        try:
            for row in reader:
                if not row:
                    continue
                if len(row) != len(header):
                    raise ValueError(f"line {reader.line_num} has {len(row)} cells, the header {len(header)}")
                places.append(f"line {reader.line_num}")
                for name, cell in zip(header, row, strict=True):
                    columns[name].append(cell.strip() or None)
        except csv.Error as e:
            raise ValueError(f"line {reader.line_num} is not CSV ({e})") from e
    return Cells(columns, places)


def _arrow(format_: str, path: str) -> Cells:
    if format_ == "delta":
        from deltalake import DeltaTable

        table = DeltaTable(path).to_pyarrow_table()
    else:
        import pyarrow.parquet as pq

        table = pq.read_table(path)
    columns = {n: table[n].to_pylist() for n in table.column_names}
    return Cells(columns, [f"row {i + 1}" for i in range(table.num_rows)])
