"""Blocks of many keys without deletions in, columns of changes out: the NumPy ways (``cut``, ``changes_of``) in one pass."""

from __future__ import annotations

from typing import Any

import numpy as np

from skyband.operators.base import F64, I64, AnyArray
from skyband.operators.jit import jit
from skyband.operators.single_rows.blocks import Block


@jit
def block_of(key: I64, seq: I64, time: I64, also: I64, next_seq: I64) -> Block:
    """Return the block of rows sorted by (key, seq), with the keys of ``also`` (sorted), those without rows empty. O(rows + keys)."""
    rows = len(key)
    most: Any = np.int64(len(also) + (1 if rows > 0 else 0))
    for i in range(1, rows):
        most += np.int64(key[i] != key[i - 1])
    keys, begin, end, first_seq = np.zeros(most, np.int64), np.zeros(most, np.int64), np.zeros(most, np.int64), np.zeros(most, np.int64)
    group, other, row = 0, 0, 0
    while row < rows or other < len(also):
        if other < len(also) and (row == rows or also[other] < key[row]):
            keys[group], first_seq[group] = also[other], next_seq[also[other]]
            other += 1
        else:
            if other < len(also) and also[other] == key[row]:
                other += 1
            keys[group], begin[group], first_seq[group] = key[row], row, seq[row]
            row += 1
            while row < rows and key[row] == key[row - 1]:
                row += 1
            end[group] = row
        group += 1
    zeros, none = np.zeros(group, np.int64), np.empty(0, np.int64)
    return Block(keys[:group], begin[:group], end[:group], zeros, zeros, first_seq[:group], time, none, none, none)


@jit
def publish(numbers: I64, internal: F64, rows: int, negate: bool) -> tuple[AnyArray, ...]:
    """Return the first ``rows`` changes (arrays of ``ChangeRows``) as the columns of ``Changes``, with external scores (-0.0 folded)."""
    query, key, at, step = np.empty(rows, np.int16), np.empty(rows, np.int64), np.empty(rows, np.int64), np.empty(rows, np.int64)
    pos, sign, cause = np.empty(rows, np.int32), np.empty(rows, np.int8), np.empty(rows, np.int8)
    score: F64 = np.empty(rows, np.float64)
    items = np.empty((rows, 1), np.int64)
    for i in range(rows):
        query[i], key[i], at[i], step[i] = numbers[i, 0], numbers[i, 1], numbers[i, 2], numbers[i, 3]
        pos[i], sign[i], cause[i], items[i, 0] = numbers[i, 4], numbers[i, 5], numbers[i, 6], numbers[i, 7]
        score[i] = (-internal[i] if negate else internal[i]) + 0.0
    return query, key, at, step, pos, sign, cause, score, items
