"""Format rows as text for a terminal, or as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Collection, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skyband.framework.base.counts import number_text
from skyband.framework.base.errors import printable

MAX_CELL = 40


def instant_text(value: datetime) -> str:
    """Return an instant in UTC, without the parts that are zero: ``2013-07-01 12:00``."""
    text = value.strftime("%Y-%m-%d %H:%M:%S.%f").rstrip("0").rstrip(".") if value.microsecond else value.strftime("%Y-%m-%d %H:%M:%S")
    return text.removesuffix(":00") if not value.microsecond and not value.second else text


def cell_text(value: Any) -> str:
    """Return one value for display: numbers exactly (``number_text``), nothing for null, no control characters."""
    if value is None:
        return ""
    if isinstance(value, datetime):
        return instant_text(value)
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float | Decimal):
        return number_text(value)
    text = "".join(c if c.isprintable() else "?" for c in str(value))
    return text if len(text) <= MAX_CELL else text[: MAX_CELL - 3] + "..."


def values_of(column: pa.ChunkedArray) -> list[Any]:
    """Return the values of a column, those of type ``float`` as the doubles with the same shortest text: 0.1, not 0.10000000149011612."""
    values: list[Any] = column.to_pylist()
    return [None if v is None else float(str(np.float32(v))) for v in values] if pa.types.is_float32(column.type) else values


def text_table(rows: pa.Table, titles: Sequence[str] | None = None, numbers: Collection[str] = ()) -> str:
    """Return the rows below a header line, columns aligned, numbers to the right. No trailing newline.

    ``numbers``: columns of texts that are numbers.
    """
    head = [printable(title) for title in titles or rows.column_names]
    columns = [[cell_text(v) for v in values_of(rows.column(i))] for i in range(rows.num_columns)]
    right = [_is_number(f.type) or f.name in numbers for f in rows.schema]
    width = [max(len(h), *(len(c) for c in column)) if column else len(h) for h, column in zip(head, columns, strict=True)]
    lines = [head, ["-" * w for w in width], *([c[i] for c in columns] for i in range(rows.num_rows))]
    aligned = [
        "  ".join(v.rjust(w) if r else v.ljust(w) for v, w, r in zip(line, width, right, strict=True)).rstrip()
        for line in lines
    ]  # fmt: skip
    return "\n".join(aligned)


def csv_text(rows: pa.Table) -> str:
    r"""Return the rows as CSV with a header line, instants as ISO 8601 in UTC, floats exactly; control characters as ``\u001b``."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(rows.column_names)
    writer.writerows([["" if v is None else _exact(v) for v in row.values()] for row in rows.to_pylist()])
    return printable(out.getvalue().rstrip("\n"))


def _exact(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    if isinstance(value, date):
        return value.isoformat()
    return repr(value) if isinstance(value, float) else str(value).lower() if isinstance(value, bool) else value


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


# Number keys of any column types with integers, so that joins and groups are a few array operations.

I64 = npt.NDArray[np.int64]

_BITS = 63
"""Bits of a non-negative int64."""


def key_numbers(tables: Sequence[pa.Table], columns: Sequence[str]) -> list[I64]:
    """Return one number per row for each table: equal numbers if and only if all ``columns`` are equal. O(n log n); nulls equal nulls."""
    sizes = [t.num_rows for t in tables]
    number = np.zeros(sum(sizes), np.int64)
    span = 1
    for name in columns:
        values = pa.chunked_array([c for t in tables for c in t[name].chunks], tables[0].schema.field(name).type).combine_chunks()
        if isinstance(values, pa.ChunkedArray):
            values = values.combine_chunks() if values.num_chunks == 1 else pa.concat_arrays(values.chunks)
        encoded = values.dictionary_encode(null_encoding="encode")
        codes = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        size = len(encoded.dictionary) + 1
        if span * size >= 2**62:
            _, number = np.unique(number, return_inverse=True)
            number = number.astype(np.int64)
            span = int(number.max(initial=0)) + 1
        number = number * size + codes
        span *= size
    return np.split(number, np.cumsum(sizes)[:-1])


def numbered(first: pa.Table, second: pa.Table, columns: Sequence[str]) -> I64:
    """Return the numbers of the rows of two tables in one array; without ``columns`` all are 0. O(n log n)."""
    if not columns:
        return np.zeros(first.num_rows + second.num_rows, np.int64)
    return np.concatenate(key_numbers([first, second], columns))


def order_by(*columns: I64) -> I64:
    """Return positions in a stable sort by the first column, then the second, and so on. At least one column is needed.

    This is ``np.lexsort`` with fewer columns: adjacent columns whose ranges fit 63 bits are sorted as one number.
    """
    words: list[I64] = []
    free_bits = 0
    for column in columns:
        least, most = (int(column.min()), int(column.max())) if len(column) else (0, 0)
        width = (most - least).bit_length()
        if width > free_bits:
            words.append(column - least if width < _BITS else column)
            free_bits = max(0, _BITS - width)
        elif width:
            words[-1] = (words[-1] << width) | (column - least)
            free_bits -= width
    if not words:
        return np.arange(len(columns[0]))
    return np.argsort(words[0], kind="stable") if len(words) == 1 else np.lexsort(words[::-1])


def last_of_each(number: I64) -> I64:
    """Return the positions of the last row of every number, in increasing order. O(n log n)."""
    if not len(number):
        return np.empty(0, np.int64)
    order = np.argsort(number, kind="stable")
    ends = np.append(np.nonzero(np.diff(number[order]))[0], len(order) - 1)
    return np.sort(order[ends])
