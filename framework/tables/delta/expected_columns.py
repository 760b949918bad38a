"""Whether a Delta table at the place of one of a job's tables has that table's columns: it may be of something else."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import pyarrow as pa
from deltalake import DeltaTable

from skyband.framework.base.errors import SkybandError

_KIND: Final = re.compile(r"[\[(<].*")
HINT: Final = (
    "skyband plan SPEC says whether the spec is that of the last run; a run adds columns that a later version of Skyband has; a table of "
    "something else does not belong there"
)


class OtherColumns(SkybandError):
    """SKY-E400: a table's columns are not those that the spec gives it."""


def need_columns(table: DeltaTable, name: str, schema: pa.Schema, columns: Sequence[str] | None = None) -> None:
    """Raise SkybandError SKY-E400 unless ``table`` has ``columns`` (default: all) of ``schema``, of the same kinds of types."""
    wrong = difference(pa.schema(table.schema().to_arrow()), schema, columns)
    if wrong is not None:
        raise OtherColumns("SKY-E400", f"{table.table_uri} is not table {name!r} as Skyband writes it: {wrong}", hint=HINT)


def difference(found: pa.Schema, schema: pa.Schema, columns: Sequence[str] | None = None) -> str | None:
    """The first column that is missing or of another kind, in words; None if there is none."""
    for field in schema if columns is None else (schema.field(c) for c in columns if c in schema.names):
        if field.name not in found.names:
            return f"it has no column {field.name!r}"
        there, wanted = found.field(field.name).type, field.type
        if _kind(there) != _kind(wanted):
            return f"column {field.name!r} is {there}, not {wanted}"
    return None


def _kind(type_: pa.DataType) -> str:
    """The type without its precision, unit, time zone and elements, which say less than that it is another one."""
    return _KIND.sub("", str(type_)).removeprefix("large_")
