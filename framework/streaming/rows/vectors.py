"""Check the lists of numbers that are to be vectors."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skyband.framework.base.reasons import BAD_VECTOR
from skyband.framework.plan.model import VectorNode
from skyband.framework.streaming.rows.rejects import with_reasons


def reasons(node: VectorNode, column: pa.ChunkedArray) -> pa.Array:
    """Return why each row is rejected for its vector, null where it is not. O(elements)."""
    lists = column.combine_chunks()
    size = pc.list_value_length(lists)
    finite = pc.fill_null(pc.is_finite(lists.flatten()), False)
    bad = pc.not_equal(size, node.dimension)
    if not pc.all(finite).as_py():
        rows = pc.list_parent_indices(lists).filter(pc.invert(finite)).to_numpy()
        unsound = np.zeros(len(lists), bool)
        unsound[rows] = True
        bad = pc.or_kleene(bad, pa.array(unsound))
    return pc.if_else(pc.fill_null(bad, False), BAD_VECTOR + node.column, pa.scalar(None, pa.string()))


def judged(rows: pa.Table, nodes: Sequence[VectorNode]) -> pa.Table:
    """Return ``rows`` with the reasons of ``nodes`` for those that have none yet."""
    for node in nodes:
        rows = with_reasons(rows, reasons(node, rows[node.column]))
    return rows
