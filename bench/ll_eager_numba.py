"""A plain LL-Eager (paper 3, section 4.2) in Numba, as a peer for those without the C++ ones: count window, d columns, strict dominance.

The retained tuples are unordered flat columns; one scan per arrival finds what it evicts and its newest dominator; promotions wait in
lists by the event at which they happen. Changes are only counted and folded into a sum.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from skyband.operators.jit import jit


@jit
def _first(column: Any, value: float, flags: Any) -> None:
    for i in range(len(column)):
        flags[i] = np.int64(column[i] <= value) | (np.int64(column[i] >= value) << 1)


@jit
def _next(column: Any, value: float, flags: Any) -> None:
    for i in range(len(column)):
        flags[i] &= np.int64(column[i] <= value) | (np.int64(column[i] >= value) << 1)


@jit
def ll_eager(x: Any, window: int) -> tuple[int, int]:
    """Run over the rows of ``x`` (n, d): number of changes, and a sum over them (positive for those who enter)."""
    n, d = x.shape
    db = np.empty((d, window + 1))
    flag = np.empty(window + 1, np.int64)
    row = np.empty(window + 1, np.int64)
    place = np.full(n, -1, np.int64)  # position in db, -1 if not there
    inside = np.zeros(n, np.bool_)
    promote = np.full(n + window + 1, -1, np.int64)  # first row promoted at an event
    after = np.full(n, -1, np.int64)
    m = 0
    changes = 0
    total = np.int64(0)
    for t in range(n):
        old = t - window
        if old >= 0 and place[old] >= 0:
            if inside[old]:
                changes += 1
                total -= (old + 1) * (t + 1)
            m -= 1
            p = place[old]
            place[old] = -1
            if p < m:
                for j in range(d):
                    db[j, p] = db[j, m]
                row[p] = row[m]
                place[row[p]] = p
        newest = -1
        flags = flag[:m]  # bit 0: <= the arrival everywhere, bit 1: >= everywhere
        _first(db[0][:m], x[t, 0], flags)
        for j in range(1, d):
            _next(db[j][:m], x[t, j], flags)
        p = m - 1
        while p >= 0:
            if flag[p] == 2:
                r = row[p]
                if inside[r]:
                    changes += 1
                    total -= (r + 1) * (t + 1)
                inside[r] = False
                place[r] = -1
                m -= 1
                for j in range(d):
                    db[j, p] = db[j, m]
                row[p] = row[m]
                if p < m:
                    place[row[p]] = p
            elif flag[p] == 1:
                newest = max(newest, row[p])
            p -= 1
        for j in range(d):
            db[j, m] = x[t, j]
        row[m] = t
        place[t] = m
        m += 1
        if newest < 0:
            inside[t] = True
            changes += 1
            total += (t + 1) * (t + 1)
        else:
            after[t] = promote[newest + window]
            promote[newest + window] = t
        r = promote[t]
        while r >= 0:
            if place[r] >= 0:
                inside[r] = True
                changes += 1
                total += (r + 1) * (t + 1)
            r = after[r]
    return changes, total
