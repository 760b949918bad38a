"""Format rows as text for a terminal, or as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Collection, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
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
