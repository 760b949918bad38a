"""Which rows of a window are on which side of a pair, by definition."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from skyband.framework.verify.objects import Objects

I64 = npt.NDArray[np.int64]


def side_of(op: Any, data: Objects, texts: dict[str, int]) -> I64 | None:
    """1 for side a, 2 for side b, 0 for neither; None without ``between``."""
    if op.between is None:
        return None
    column = data.columns[op.between.column]
    a, b = (texts[v] if isinstance(v, str) else v for v in (op.between.a, op.between.b))
    return np.where(column == a, 1, np.where(column == b, 2, 0)).astype(np.int64)
