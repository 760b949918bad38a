"""What a row does to the object of its id: insert, update or delete (``deletes:`` and ``source.op`` of a spec)."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skyband.framework.plan.model import IntakeNode
from skyband.framework.streaming.rows.columns import TextCodes, operator_column
from skyband.framework.streaming.rows.operations import among
from skyband.operators.expressions import compile_row, read_columns

I8 = npt.NDArray[np.int8]

OPERATION: Final = "__operation"
"""Column of rows: what each does. Among rows of one id that tie on everything before it, the smaller comes first."""
INSERT, UPDATE, DELETE = range(3)

REJECT, REPLACE, KEEP_FIRST = range(3)
"""What an insertion does if an object with its id is alive, as kernels take it."""
ON_DUPLICATE: Final = {"reject": REJECT, "replace": REPLACE, "keep_first": KEEP_FIRST}


class Operations:
    """Reads what rows do. In a job in which every row inserts, rows have no such column."""

    def __init__(self, intake: IntakeNode, texts: tuple[str, ...]) -> None:
        self.node = intake.operations
        self.on_duplicate = ON_DUPLICATE[intake.on_duplicate]
        self._columns = () if intake.deletes is None else read_columns(intake.deletes)
        codes = {t: i for i, t in enumerate(texts)}
        self._deletes = None if intake.deletes is None else compile_row(None, intake.deletes, False, codes)

    def marked(self, rows: pa.Table, codes: TextCodes) -> pa.Table:
        """Return ``rows`` with the column ``OPERATION``, int8; unchanged if all rows of the job insert. O(rows)."""
        if self._deletes is not None:
            columns = {c.name: operator_column(rows, c, codes) for c in self._columns}
            passes = self._deletes.passes(columns, rows.num_rows).astype(np.int8)
            return rows.append_column(OPERATION, pa.array(DELETE * passes))
        if self.node is not None:
            deletes, updates = (among(self.node, rows, v).to_numpy(zero_copy_only=False) for v in (self.node.delete, self.node.update))
            return rows.append_column(OPERATION, pa.array(np.select([deletes, updates], [DELETE, UPDATE], INSERT).astype(np.int8)))
        return rows

    def of(self, rows: pa.Table) -> I8:
        """Return what marked rows do, shape (rows,); shape (0,) if every row inserts."""
        # A copy: kernels would be compiled again for arrays that may not be written to.
        return rows[OPERATION].to_numpy().copy() if OPERATION in rows.column_names else np.empty(0, np.int8)
