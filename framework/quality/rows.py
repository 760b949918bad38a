"""Rows of a table that a ``row_condition`` is about, by Skyband's own compiled predicate."""

from __future__ import annotations

import pyarrow as pa

from skyband.framework.streaming.columns import TextCodes, operator_column
from skyband.operators.base import Kind


def kinds_of(table: pa.Table) -> dict[str, Kind]:
    """The kinds that expressions know, of every column that has one."""
    return {f.name: kind for f in table.schema if (kind := _kind(f.type)) is not None}


def rows_where(table: pa.Table, condition: str) -> pa.Table:
    """The rows for which ``condition`` is true. Raises ExpressionErrors if it does not fit the table's columns. O(rows)."""
    from skyband.operators.expressions import compile_row
    from skyband.operators.expressions.canonical import attributes, text_constants
    from skyband.operators.expressions.parser import parse

    node = parse(condition, kinds_of(table), ("",), "predicate")
    constants = tuple(dict.fromkeys(text_constants(node)))
    codes = TextCodes(constants)
    columns = {c.name: operator_column(table[c.name], c.kind, codes) for c in attributes(node)}
    kernel = compile_row(None, node, False, {text: i for i, text in enumerate(constants)})
    return table.filter(pa.array(kernel.passes(columns, table.num_rows)))


def _kind(type_: pa.DataType) -> Kind | None:
    if pa.types.is_string(type_) or pa.types.is_large_string(type_):
        return "text"
    if pa.types.is_boolean(type_):
        return "bool"
    if pa.types.is_integer(type_):
        return "int"
    if pa.types.is_timestamp(type_) or pa.types.is_date(type_):
        return "time"
    return "float" if pa.types.is_floating(type_) or pa.types.is_decimal(type_) else None
