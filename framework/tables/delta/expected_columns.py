"""Check that a Delta table has the columns that a table of the job must have: it may belong to something else."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import pyarrow as pa
from deltalake import DeltaTable

from skyband.framework.base.errors import SkybandError

_KIND: Final = re.compile(r"[\[(<].*")
HINT: Final = (
    "run skyband plan SPEC to see whether the spec is that of the last run; a run adds the columns of a later version of Skyband; move a "
    "table of something else away"
)


class OtherColumns(SkybandError):
    """SKY-E400: the columns of a table are not those that the spec defines."""


def need_columns(table: DeltaTable, name: str, schema: pa.Schema, columns: Sequence[str] | None = None) -> None:
    """Raise SkybandError SKY-E400 unless ``table`` has ``columns`` (default: all) of ``schema``, of the same kinds of types."""
    problem = difference(pa.schema(table.schema().to_arrow()), schema, columns)
    if problem is not None:
        raise OtherColumns("SKY-E400", f"{table.table_uri} is not table {name!r} as Skyband writes it: {problem}", hint=HINT)


def difference(found: pa.Schema, schema: pa.Schema, columns: Sequence[str] | None = None) -> str | None:
    """Return the first column that is missing or of another kind, in words; None if there is none."""
    for field in schema if columns is None else (schema.field(c) for c in columns if c in schema.names):
        if field.name not in found.names:
            return f"it has no column {field.name!r}"
        actual, expected = found.field(field.name).type, field.type
        if _kind(actual) != _kind(expected):
            return f"column {field.name!r} is {actual}, not {expected}"
    return None


def _kind(type_: pa.DataType) -> str:
    """Return the type without precision, unit, time zone and element type."""
    return _KIND.sub("", str(type_)).removeprefix("large_")
