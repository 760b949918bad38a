"""How far the input is complete that a finish declares complete (docs/semantics 5)."""

from __future__ import annotations

from typing import Literal, TypeAlias

import numpy as np

from skyband.framework.plan.model import Plan, QueryNode
from skyband.operators.calendar import window_ends

FinishAt: TypeAlias = int | Literal["newest", "end"]
"""How far a finish declares the input complete: to an instant, the newest row, or the end of what that has opened."""


def finished_frontier(plan: Plan, newest: int, at: FinishAt = "newest") -> int:
    """Return the frontier after a finish, where the newest row has the instant ``newest``: 1 microsecond after ``at``. O(queries).

    ``newest`` does not let sliding windows run empty; an instant before the newest row is as ``newest``. ``end``: the latest end of a
    tumbling window or session that holds that row, and boundary of a query with ``every`` at it or after it.
    """
    if at == "newest":
        return newest + 1
    if at == "end":
        return max([newest, *(last for query in plan.every_query for last in _closing(query, newest))]) + 1
    return max(newest, at) + 1


def _closing(query: QueryNode, newest: int) -> list[int]:
    window, found = query.window, []
    if window.tumbling is not None:
        found.append(int(window_ends(window.tumbling, np.array([newest], np.int64))[0]))
    if window.session is not None:
        found.append(newest + window.session)
    if query.every_micros is not None:
        # A boundary ends the windows of a hop: a row of that instant is in the next one.
        found.append(-(-(newest + window.hopping) // query.every_micros) * query.every_micros)
    return found
