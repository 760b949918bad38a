"""Arrays of the sessions of groups: made empty, with more room, and which rows a restored state has."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from skyband.operators.base import I64, NEVER
from skyband.operators.groups.kernels.tables import Sessions


def empty_sessions(silence: int | None) -> Sessions:
    """Return no sessions. ``silence``: what ends one; None: windows without sessions."""
    none = np.empty(0, np.int64)
    return Sessions(np.array([silence or 0]), *[none] * (len(Sessions._fields) - 1))


def next_ends(sessions: Sessions) -> I64:
    """Return by key the instant at which its next session ends, ``NEVER`` if it has none."""
    group = sessions.soonest
    return np.where(group >= 0, sessions.deadline[np.maximum(group, 0)], NEVER) if len(sessions.deadline) else np.full(len(group), NEVER)


def in_session(group: I64, time: I64, silence: int, until: int) -> npt.NDArray[np.bool_]:
    """Return which rows, in the order of their keys, are of a session that has not ended before ``until``. O(n log n)."""
    order = np.argsort(group, kind="stable")
    g, t = group[order], time[order]
    last = np.append(g[1:] != g[:-1], True) if len(g) else np.empty(0, bool)
    following = np.append(t[1:], until - 1)
    ends = np.where(last, t + silence < until, following - t >= silence)
    # A row is alive if no session ends at it or at a later row of its group.
    upto = np.cumsum(ends)
    of_group = upto[last][np.cumsum(last) - last] if len(g) else upto
    alive = np.empty(len(g), bool)
    alive[order] = of_group - upto + ends == 0
    return alive
