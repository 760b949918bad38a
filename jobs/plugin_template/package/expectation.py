"""An expectation of tables, for ``quality.tables``: no value makes up more than a share of the rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from skyband.framework.quality.expectations import Found


class NoValueDominates:
    """``column``: whose values are counted; ``most``: the largest share, from 0 to 1 (default: a half). Nulls do not count."""

    arguments: Final = {"column": "column", "most": "share"}

    def look(self, rows: pa.Table, arguments: Mapping[str, Any]) -> Found:
        """Finds the share of the commonest value. O(rows)."""
        values = rows[arguments["column"]].drop_null()
        counts = pc.value_counts(values).to_pylist()
        if not counts:
            return Found(True, 0.0)
        top = max(counts, key=lambda c: c["counts"])
        share = top["counts"] / len(values)
        return Found(share <= arguments.get("most", 0.5), share, examples=[top["values"]])


NO_VALUE_DOMINATES: Final = NoValueDominates()
