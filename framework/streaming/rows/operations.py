"""Rows of a change feed (``source.op``): what each does, and which have an unknown kind of change."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from skyband.framework.base.reasons import BAD_OP, REASON
from skyband.framework.plan.model import OperationNode


def kinds(node: OperationNode, rows: pa.Table) -> pa.ChunkedArray:
    """Return the values of the column that says what a row does, as text. O(rows)."""
    return rows[node.column].cast(pa.string())


def reasons(node: OperationNode, rows: pa.Table) -> pa.Array:
    """Return BAD_OP for rows with an unknown value or none, null for the others. O(rows)."""
    known = pc.is_in(kinds(node, rows).combine_chunks(), value_set=pa.array([*node.insert, *node.update, *node.delete], pa.string()))
    return pc.if_else(known, pa.scalar(None, pa.string()), BAD_OP)


def deleting(node: OperationNode, rows: pa.Table) -> pa.Array:
    """Return which rows delete. O(rows)."""
    return pc.is_in(kinds(node, rows).combine_chunks(), value_set=pa.array(node.delete, pa.string()))


def judged(rows: pa.Table, node: OperationNode | None) -> pa.Table:
    """Return ``rows`` with the reasons of ``node`` for those that have none yet."""
    if node is None:
        return rows
    reason = pc.coalesce(rows[REASON], pa.chunked_array([reasons(node, rows)]))
    return rows.set_column(rows.column_names.index(REASON), REASON, reason)
