"""Rows of a table that a ``row_condition`` is about, by Skyband's own compiled predicate."""

from __future__ import annotations

from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc

from skyband.framework.streaming.columns import TextCodes, operator_column
from skyband.framework.verify.expressions import holds
from skyband.framework.verify.objects import values_of
from skyband.operators.base import NULL, Kind


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
    met = kernel.passes(columns, table.num_rows)
    # The number that stands for null in the kernel: rows that hold it (ids, carried columns) are looked at by the interpreter.
    least = [pc.fill_null(pc.equal(table[c.name], NULL), False) for c in attributes(node) if table.schema.field(c.name).type == pa.int64()]
    apart = reduce(pc.or_, least).to_numpy().nonzero()[0] if least else ()
    if len(apart):
        values = {c.name: values_of(table[c.name].take(pa.array(apart)), c.kind) for c in attributes(node)}
        met[apart] = holds(node)(values, values)
    return table.filter(pa.array(met))


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
