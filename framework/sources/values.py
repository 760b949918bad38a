"""Convert values of rows that people wrote: to those that Spark reads from files, and to columns of Arrow."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from skyband.framework.base.types import arrow_type
from skyband.framework.plan.model import Field

_DAY: Final = 86_400_000_000
"""Microseconds of a day."""


def in_spark(value: Any, type_: str) -> Any:
    """Convert a value of ``cells.cell``: dates to days. Raise ValueError if the type cannot hold it."""
    if value is None:
        return None
    if type_ == "date":
        if value % _DAY:
            raise ValueError("takes a date, without a time of day")
        return value // _DAY
    if type_ == "int" and not -(2**31) <= value < 2**31:
        raise ValueError("takes a whole number of 32 bits")
    if type_ == "float":
        with np.errstate(over="ignore"):  # values that are too large become infinite, as in Spark
            return float(np.float32(value))
    if type_.startswith("array<"):
        return [in_spark(x, type_.removeprefix("array<").removesuffix(">")) for x in value]
    return value


def arrow_table(rows: Sequence[Mapping[str, Any]], fields: Iterable[Field]) -> pa.Table:
    """Convert rows to a table with the columns ``fields``, null where a row lacks one."""
    return pa.table({f.name: arrow_column([row.get(f.name) for row in rows], f.type) for f in fields})


def arrow_column(values: list[Any], type_: str) -> pa.Array:
    """Convert values of rows to a column of a table."""
    to = arrow_type(type_)
    if type_ == "timestamp":
        return pa.array(values, pa.int64()).cast(to)
    return pa.array(values, pa.int32()).cast(to) if type_ == "date" else pa.array(values, to)
