"""Rows that report on objects (``plan.model.ReportNode``): which of them name no object, or do not say whether it is on."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa
import pyarrow.compute as pc

from skyband.framework.base.reasons import NO_UPDATE, NULL_OBJECT, REASON
from skyband.framework.plan.model import ReportNode
from skyband.framework.streaming.rows.columns import TextCodes, operator_column
from skyband.operators.expressions import compile_row, read_columns

_TEXT = pa.string()


def judged(rows: pa.Table, nodes: Iterable[ReportNode], texts: tuple[str, ...]) -> pa.Table:
    """``rows`` with the reason of those that cannot be used, where they have none yet; ``texts`` are the plan's text constants."""
    for node in nodes:
        reason = pc.coalesce(rows[REASON], pa.chunked_array([reasons(node, rows, texts)], _TEXT))
        rows = rows.set_column(rows.column_names.index(REASON), REASON, reason)
    return rows


def reasons(node: ReportNode, rows: pa.Table, texts: tuple[str, ...]) -> pa.Array:
    """Return why each row cannot be used, null where it can. O(rows), one kernel."""
    nothing = pa.scalar(None, _TEXT)
    reason = pa.nulls(rows.num_rows, _TEXT)
    if node.updates is not None:
        said = rows[node.updates].cast(pa.int64()).combine_chunks()
        switches = pc.fill_null(pc.is_in(said, value_set=pa.array([0, 1], pa.int64())), False)
        reason = pc.if_else(switches, nothing, NO_UPDATE + node.updates)
    for name in reversed(node.objects):
        reason = pc.if_else(rows[name].combine_chunks().is_null(), NULL_OBJECT + name, reason)
    if node.where is None:
        return reason
    codes = TextCodes(texts)
    columns = {c.name: operator_column(rows, c, codes) for c in read_columns(node.where)}
    passes = compile_row(None, node.where, False, {t: i for i, t in enumerate(texts)}).passes(columns, rows.num_rows).astype(bool)
    return pc.if_else(pa.array(passes), reason, nothing)
