"""Rows that report on objects (``plan.model.ReportNode``): which of them name no object, or do not say whether it is on."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from skyband.framework.base.reasons import NO_UPDATE, NULL_OBJECT
from skyband.framework.plan.model import IntakeNode, ReportNode
from skyband.framework.streaming.rows import operations
from skyband.framework.streaming.rows.columns import TextCodes, operator_column
from skyband.framework.streaming.rows.rejects import with_reasons
from skyband.operators.expressions import Node, compile_row, read_columns

_TEXT = pa.string()


def judged(rows: pa.Table, intake: IntakeNode, texts: tuple[str, ...]) -> pa.Table:
    """``rows`` with the reason of those that cannot be used, where they have none yet; ``texts`` are the plan's text constants.

    Rows that delete others are no reports.
    """
    for node in intake.reports:
        rows = with_reasons(rows, reasons(node, rows, texts, intake))
    return rows


def reasons(node: ReportNode, rows: pa.Table, texts: tuple[str, ...], intake: IntakeNode) -> pa.Array:
    """Return why each row cannot be used, null where it can. O(rows), a kernel per condition."""
    nothing = pa.scalar(None, _TEXT)
    reason = pa.nulls(rows.num_rows, _TEXT)
    if node.updates is not None:
        said = rows[node.updates].cast(pa.int64()).combine_chunks()
        switches = pc.fill_null(pc.is_in(said, value_set=pa.array([0, 1], pa.int64())), False)
        reason = pc.if_else(switches, nothing, NO_UPDATE + node.updates)
    for name in reversed(node.objects):
        reason = pc.if_else(rows[name].combine_chunks().is_null(), NULL_OBJECT + name, reason)
    if node.where is not None:
        reason = pc.if_else(_holds(node.where, rows, texts), reason, nothing)
    if intake.deletes is not None:
        reason = pc.if_else(_holds(intake.deletes, rows, texts), nothing, reason)
    if intake.operations is not None:
        reason = pc.if_else(operations.among(intake.operations, rows, intake.operations.delete), nothing, reason)
    return reason


def _holds(condition: Node, rows: pa.Table, texts: tuple[str, ...]) -> pa.Array:
    codes = TextCodes(texts)
    columns = {c.name: operator_column(rows, c, codes) for c in read_columns(condition)}
    kernel = compile_row(None, condition, False, {t: i for i, t in enumerate(texts)})
    return pa.array(kernel.passes(columns, rows.num_rows).astype(bool))
