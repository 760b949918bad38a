"""The first rows of a Parquet file, an ORC file or a Delta table, read without Spark."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from skyband.framework.base.errors import SkybandError
from skyband.framework.plan.model import Field, SourceNode
from skyband.framework.sources.columnar import column_types
from skyband.framework.sources.columnar.files import opened
from skyband.framework.sources.files import preflight
from skyband.framework.sources.files.listing import values_of
from skyband.framework.sources.first_rows import FirstRows
from skyband.framework.sources.preview_values import add_row, value_of_text

_WIDER: Final = {"bigint": ("int",), "double": ("float", "int"), "timestamp": ()}


def first_rows(source: SourceNode, path: str, most: int, found: FirstRows) -> None:
    """Add the first ``most`` rows of the file or table at ``path``. See ``SourceFormat.first_rows``."""
    file = opened(source.format, path)
    wrong = [e for e in preflight.types(source, file, every=False)]
    if wrong:
        raise wrong[0]
    rows = file.head(most)
    held = values_of(source, path)
    columns: dict[Field, Sequence[Any]] = {}
    for f in source.fields:
        name = str(f.source_name)
        if name in held:
            text = held[name]
            columns[f] = (None if text is None else value_of_text(text, f),) * rows.num_rows
            continue
        there = file.column(source, f)
        column = None if there is None else column_types.take(rows, there[0])
        values = (None,) * rows.num_rows if column is None else column_types.values(column, f.type)
        if column is not None and (values is None or not _alike(source, column.type, f.type)):
            said = f"column {f.source_name!r} of {path} is {column.type}, and {f.type} in the spec: Spark alone knows whether it fits"
            raise SkybandError("SKY-E531", said, hint="declare the type in the file, or run skyband preview --engine to see the result")
        columns[f] = values or ()
    for i in range(rows.num_rows):
        add_row(found, {f: values[i] for f, values in columns.items()}, lambda value, f: value)


def _alike(source: SourceNode, there: Any, type_: str) -> bool:
    """Whether values are read here as Spark reads them: of Parquet all that it reads at all, of others what is of the very type."""
    return source.format == "parquet" or column_types.declare(there, column_types.INT96) in (type_, *_WIDER.get(type_, ()))
