"""What happens to a key's state around its events: copied over when it is not active, put back when it is; the layout of coarse words."""

from __future__ import annotations

from typing import Any

import numpy as np

from skyband.operators.base import AnyArray
from skyband.operators.jit import jit
from skyband.operators.skyline.kernels.events import COUNT, MICROS, NEWER, PRED, link
from skyband.operators.skyline.kernels.scan import find


@jit
def sizes(
    nk: int, nq: int, active: AnyArray, lo_row: AnyArray, hi_row: AnyArray, start: AnyArray, shown_start: AnyArray
) -> tuple[int, int, int]:
    """(most objects an active key can hold, rows of all keys together, longest shown list) after the arrivals."""
    biggest = 1
    total = start[nk]
    shown_most = 0
    for k in range(nk):
        if active[k]:
            m = start[k + 1] - start[k] + hi_row[k] - lo_row[k]
            biggest = max(biggest, m)
            total += hi_row[k] - lo_row[k]
            if shown_start.shape[0] > 1:
                for w in range(nq):
                    shown_most = max(shown_most, m + shown_start[k * nq + w + 1] - shown_start[k * nq + w])
    return biggest, total, shown_most


@jit
def smallest_window(nk: int, nq: int, state_count: int, per_query: AnyArray) -> tuple[int, int]:
    """(count, micros) of the smallest windows of the queries; micros is 0 if none has an end in time."""
    count = state_count
    micros: Any = np.int64(0)
    for w in range(nq if nk > 0 else 0):
        count = min(count, per_query[0, w, COUNT])
        if per_query[0, w, MICROS] > 0:
            micros = per_query[0, w, MICROS] if micros == 0 else min(micros, per_query[0, w, MICROS])
    return count, micros


@jit
def one_in_each(shifts: AnyArray) -> int:
    """A word with 1 in every field."""
    ones: Any = np.int64(0)
    for j in range(shifts.shape[0]):
        ones += np.int64(1) << shifts[j]
    return int(ones)


@jit
def take_shown(w: int, first: int, end: int, shown_rows: AnyArray, shown: AnyArray) -> None:
    """Query w's shown list, its length before it."""
    shown[w, 0, 0] = end - first
    shown[w, 1 : 1 + end - first] = shown_rows[first:end]


@jit
def tie_up(
    m: int, band: int, lo: int, obj: AnyArray, slot: AnyArray, pred: AnyArray, old: AnyArray, new: AnyArray,
    child: AnyArray, after: AnyArray, before_of: AnyArray,
) -> None:  # fmt: skip
    """Places of a key's m objects, their dominators by place, and each object among the children of the one that decides."""
    for i in range(m):
        slot[lo + i] = i
        child[i] = -1
    for i in range(m):
        for j in range(band):
            pred[i, j] = find(obj, i, obj[i, PRED + j]) if obj[i, PRED + j] >= 0 else -1
        j = band - 1 - obj[i, NEWER]
        old[i] = new[i] = obj[i, PRED + j]
        link(i, pred[i, j], child, after, before_of)


@jit
def carry_over(
    k: int, nk: int, nq: int, active: AnyArray, start: AnyArray, rows: AnyArray, words: AnyArray, shown_start: AnyArray,
    shown_rows: AnyArray, new_start: AnyArray, new_rows: AnyArray, new_words: AnyArray, new_shown_start: AnyArray, new_shown: AnyArray,
    r: int, b_rows: int,
) -> tuple[int, int, int]:  # fmt: skip
    """Copy the run of inactive keys from ``k`` on; returns the next key and the ends of the new rows and shown rows."""
    end = k
    while end < nk and not active[end]:
        new_start[end + 1] = start[end + 1] - start[k] + r
        end += 1
    size = start[end] - start[k]
    new_rows[r : r + size] = rows[start[k] : start[end]]
    new_words[r : r + size] = words[start[k] : start[end]]
    r += size
    if shown_start.shape[0] > 1:
        for i in range(k * nq, end * nq):
            new_shown_start[i + 1] = shown_start[i + 1] - shown_start[k * nq] + b_rows
        b0 = shown_start[k * nq]
        size = shown_start[end * nq] - b0
        new_shown[b_rows : b_rows + size] = shown_rows[b0 : b0 + size]
        b_rows += size
    return end, r, b_rows


@jit
def put_back(
    k: int, nq: int, lo: int, hi: int, slot: AnyArray, obj: AnyArray, word: AnyArray, shown: AnyArray, new_start: AnyArray,
    new_rows: AnyArray, new_words: AnyArray, new_shown_start: AnyArray, new_shown: AnyArray, r: int, b_rows: int,
) -> tuple[int, int]:  # fmt: skip
    """Write an active key's retained objects and shown lists; returns the ends of the new rows and shown rows."""
    for p in range(lo, hi):
        if slot[p] >= 0:
            new_rows[r] = obj[slot[p]]
            new_words[r] = word[p]
            r += 1
    new_start[k + 1] = r
    if new_shown_start.shape[0] > 1:
        for w in range(nq):
            size = shown[w, 0, 0]
            new_shown[b_rows : b_rows + size] = shown[w, 1 : 1 + size]
            b_rows += size
            new_shown_start[k * nq + w + 1] = b_rows
    return r, b_rows


@jit
def coarse_layout(count: int, top_field: int) -> tuple[int, int, int, int]:
    """(bits of a coarse field, bits a field loses, guard bits, a word nothing beats) for ``count`` fields in 30 bits.

    At least 4 bits a field up to 7 dimensions.
    """
    bits = 30 // max(1, count)
    drop = 0
    while (top_field >> drop) >= (1 << (bits - 1)):
        drop += 1
    guard: Any = np.int64(0)
    for j in range(count):
        guard += np.int64(1) << (j * bits + bits - 1)
    return bits, drop, guard, guard + (1 << (bits - 1)) - 1
