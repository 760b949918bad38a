"""Select the rows of a table that a ``row_condition`` is about: a predicate of Skyband's expression language."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from skyband.framework.verify.brute_force.expressions import holds
from skyband.framework.verify.brute_force.objects import values_of
from skyband.operators.base import Kind


def kinds_of(table: pa.Table) -> dict[str, Kind]:
    """Return the kind, in expressions, of every column that has one."""
    return {f.name: kind for f in table.schema if (kind := _kind(f.type)) is not None}


def rows_where(table: pa.Table, condition: str) -> pa.Table:
    """Return the rows for which ``condition`` is true. Raises ExpressionErrors if it does not fit the table's columns. O(rows)."""
    from skyband.operators.expressions.canonical import attributes
    from skyband.operators.expressions.parser import parse

    node = parse(condition, kinds_of(table), ("",), "predicate")
    values = {c.name: values_of(table[c.name], c.kind) for c in attributes(node)}
    return table.filter(pa.array(np.broadcast_to(holds(node)(values, values), table.num_rows)))


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
