"""Rows of a change feed (``source.op``): what each does, and which have an unknown kind of change."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from skyband.framework.base.reasons import BAD_OP
from skyband.framework.plan.model import OperationNode
from skyband.framework.streaming.rows.rejects import with_reasons


def among(node: OperationNode, rows: pa.Table, values: Sequence[str]) -> pa.Array:
    """Return which rows have one of ``values`` as their kind of change. O(rows)."""
    return pc.is_in(rows[node.column].cast(pa.string()).combine_chunks(), value_set=pa.array(values, pa.string()))


def reasons(node: OperationNode, rows: pa.Table) -> pa.Array:
    """Return BAD_OP for rows with an unknown value or none, null for the others. O(rows)."""
    known = among(node, rows, (*node.insert, *node.update, *node.delete))
    return pc.if_else(known, pa.scalar(None, pa.string()), BAD_OP)


def judged(rows: pa.Table, node: OperationNode | None) -> pa.Table:
    """Return ``rows`` with the reasons of ``node`` for those that have none yet."""
    return rows if node is None else with_reasons(rows, reasons(node, rows))
