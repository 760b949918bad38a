"""Last stage: the changes and points of all queries, in the order of the contract."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from skyband.operators.base import F64, I64, AnyArray, Changes, Traces
from skyband.operators.groups.kernels.rank import UNSORTED, Output

VALUE = "score"
"""The time-varying value of ``Traces``."""


def changes_of(out: Output, ends: Sequence[tuple[int, int]], number: I64, name: I64, sign: float) -> Changes:
    """Return changes by (query, key, step, pos) and points by (query, key, at, name).

    ``ends``: changes and points up to the end of each query. ``sign`` is -1 for direction min.
    """
    (query, n), (point_query, m) = (_queries([end[i] for end in ends]) for i in range(2))
    side, cause, value, group = out.sign[:n], out.cause[:n], out.value[:n], out.group[:n]
    point_group, point_value = out.point_group[:m], out.point_value[:m]
    if out.counts[UNSORTED]:
        order = np.lexsort((name[group], -value, side, out.step[:n], out.key[:n], query))
        side, cause, value, group = side[order], cause[order], value[order], group[order]
        order = np.lexsort((name[point_group], out.point_at[:m], out.point_key[:m], point_query))
        point_group, point_value = point_group[order], point_value[order]
    points = {VALUE: _as_written(point_value, sign)}
    traces = Traces(point_query, out.point_key[:m], out.point_at[:m], number[point_group].reshape(-1, 1), points)
    return Changes(
        query=query, key=out.key[:n], at=out.at[:n], step=out.step[:n], pos=out.pos[:n], sign=side, cause=cause,
        score=_as_written(value, sign), items=number[group].reshape(-1, 1), traces=traces,
    )  # fmt: skip


def _queries(ends: Sequence[int]) -> tuple[AnyArray, int]:
    """Return the query of each row, and the number of rows."""
    counts = np.diff([0, *ends])
    return np.repeat(np.arange(len(ends), dtype=np.int16), counts), int(counts.sum())


def _as_written(value: F64, sign: float) -> F64:
    """Return internal values as the user wrote the score."""
    written: F64 = sign * value + 0.0
    return written
