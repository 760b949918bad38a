"""Rows of changes as columns, internal scores as the user wrote them."""

from __future__ import annotations

import numpy as np

from skyband.operators.base import F64, Changes
from skyband.operators.single_rows.kernels.emit import ChangeRows

_NO_CHANGES = Changes.empty(1)


def changes_of(found: ChangeRows, rows: int, negate: bool) -> Changes:
    """Return the first ``rows`` change rows as columns. Scores leave as the user wrote them: negated again if ``negate``."""
    if rows == 0:
        return _NO_CHANGES
    cols = found.numbers[:rows]
    score = found.score[:rows]
    return Changes(
        query=cols[:, 0].astype(np.int16), key=cols[:, 1].copy(), at=cols[:, 2].copy(), step=cols[:, 3].copy(),
        pos=cols[:, 4].astype(np.int32), sign=cols[:, 5].astype(np.int8), cause=cols[:, 6].astype(np.int8),
        score=external(score, negate), items=cols[:, 7:8].copy(),
    )  # fmt: skip


def external(score: F64, negate: bool) -> F64:
    """Return internal scores as the user wrote them, -0.0 folded."""
    out: F64 = (-score if negate else score) + 0.0
    return out
