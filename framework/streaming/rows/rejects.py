"""Format rejected rows as text: the parsed row as one JSON object, built column by column (no Python per row)."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skyband.framework.base.reasons import REASON
from skyband.framework.base.types import YEARS

SCHEMA = pa.schema([("reason", pa.string()), ("text", pa.string()), ("origin", pa.string()), ("event_time", pa.timestamp("us", "UTC"))])

_CONTROLS = [(chr(c), f"\\u{c:04x}") for c in range(32)]


def with_reasons(rows: pa.Table, reasons: pa.Array) -> pa.Table:
    """Return ``rows`` with ``reasons`` (null: none) for those that have no reason yet. O(rows)."""
    reason = pc.coalesce(rows[REASON], pa.chunked_array([reasons], pa.string()))
    return rows.set_column(rows.column_names.index(REASON), REASON, reason)


def json_rows(rows: pa.Table) -> pa.Array:
    """Return one JSON text per row: numbers exactly (shortest form that reads back the same), times as ISO UTC, the rest as text."""
    if rows.num_rows == 0:
        return pa.array([], pa.string())
    parts: list[pa.Array] = []
    for i, name in enumerate(rows.column_names):
        label = _quote(pa.array([name]))[0].as_py()
        value = pc.fill_null(_json_value(rows[name].combine_chunks()), "null")
        parts.append(pc.binary_join_element_wise(("{" if i == 0 else ",") + label + ":", value, ""))
    return pc.binary_join_element_wise(*parts, "}", "")


def comparable(rows: pa.Table) -> pa.Table:
    """``rows`` with lists as the text they have in ``rejected``: what order compares."""
    for i, f in enumerate(rows.schema):
        if pa.types.is_list(f.type):
            rows = rows.set_column(i, f.name, _json_value(rows[f.name].combine_chunks()))
    return rows


def _json_value(column: pa.Array) -> pa.Array:
    kind = column.type
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind) or pa.types.is_decimal(kind):
        return column.cast(pa.string())
    if pa.types.is_floating(kind):
        text = column.cast(pa.string())
        return pc.if_else(pc.is_finite(column), text, _quote(text))
    if pa.types.is_timestamp(kind):
        return _quote(pc.strftime(column, format="%Y-%m-%dT%H:%M:%SZ"))
    if pa.types.is_list(kind):
        elements = pc.fill_null(_json_value(column.flatten()), "null")
        lengths = pc.fill_null(pc.list_value_length(column), 0).to_numpy()
        joined = pc.binary_join(pa.ListArray.from_arrays(np.append(0, np.cumsum(lengths)).astype(np.int32), elements), ",")
        whole = pc.binary_join_element_wise("[", joined, "]", "")
        return pc.if_else(column.is_valid(), whole, pa.scalar(None, pa.string()))
    return _quote(column.cast(pa.string()))


def _quote(text: pa.Array) -> pa.Array:
    text = pc.replace_substring(text, "\\", "\\\\")
    text = pc.replace_substring(text, '"', '\\"')
    if pc.any(pc.match_substring_regex(text, r"[\x00-\x1f]")).as_py():
        for raw, escaped in _CONTROLS:
            text = pc.replace_substring(text, raw, escaped)
    return pc.binary_join_element_wise('"', text, '"', "")


def rejected(rows: pa.Table, columns: list[str], reason: str | pa.Array, event_time: str, origin: str) -> pa.Table:
    """``rejected`` rows (without batch) for ``rows``: their ``columns`` as JSON."""
    reasons = pa.array([reason]).take(pa.array([0] * rows.num_rows, pa.int8())) if isinstance(reason, str) else reason
    time = rows[event_time].combine_chunks().cast(SCHEMA.field("event_time").type)
    # Readers' calendars have the years 1 to 9999; the text has the time as it came.
    micros, (first, last) = time.cast(pa.int64()), YEARS["timestamp"]
    time = pc.if_else(pc.and_(pc.greater_equal(micros, first), pc.less_equal(micros, last)), time, pa.scalar(None, time.type))
    return pa.table([reasons, json_rows(rows.select(columns)), rows[origin].combine_chunks(), time], schema=SCHEMA)
