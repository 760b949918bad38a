"""Number keys of any column types with integers, so that joins and groups are a few array operations."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

I64 = npt.NDArray[np.int64]

_BITS = 63
"""Bits of a non-negative int64."""


def key_numbers(tables: Sequence[pa.Table], columns: Sequence[str]) -> list[I64]:
    """Return one number per row for each table: equal numbers if and only if all ``columns`` are equal. O(n log n); nulls equal nulls."""
    sizes = [t.num_rows for t in tables]
    number = np.zeros(sum(sizes), np.int64)
    span = 1
    for name in columns:
        values = pa.chunked_array([c for t in tables for c in t[name].chunks], tables[0].schema.field(name).type).combine_chunks()
        if isinstance(values, pa.ChunkedArray):
            values = values.combine_chunks() if values.num_chunks == 1 else pa.concat_arrays(values.chunks)
        encoded = values.dictionary_encode(null_encoding="encode")
        codes = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        size = len(encoded.dictionary) + 1
        if span * size >= 2**62:
            _, number = np.unique(number, return_inverse=True)
            number = number.astype(np.int64)
            span = int(number.max(initial=0)) + 1
        number = number * size + codes
        span *= size
    return np.split(number, np.cumsum(sizes)[:-1])


def numbered(first: pa.Table, second: pa.Table, columns: Sequence[str]) -> I64:
    """Return the numbers of the rows of two tables in one array; without ``columns`` all are 0. O(n log n)."""
    if not columns:
        return np.zeros(first.num_rows + second.num_rows, np.int64)
    return np.concatenate(key_numbers([first, second], columns))


def order_by(*columns: I64) -> I64:
    """Return positions in a stable sort by the first column, then the second, and so on. At least one column is needed.

    This is ``np.lexsort`` with fewer columns: adjacent columns whose ranges fit 63 bits are sorted as one number.
    """
    words: list[I64] = []
    free_bits = 0
    for column in columns:
        least, most = (int(column.min()), int(column.max())) if len(column) else (0, 0)
        width = (most - least).bit_length()
        if width > free_bits:
            words.append(column - least if width < _BITS else column)
            free_bits = max(0, _BITS - width)
        elif width:
            words[-1] = (words[-1] << width) | (column - least)
            free_bits -= width
    if not words:
        return np.arange(len(columns[0]))
    return np.argsort(words[0], kind="stable") if len(words) == 1 else np.lexsort(words[::-1])


def last_of_each(number: I64) -> I64:
    """Return the positions of the last row of every number, in increasing order. O(n log n)."""
    if not len(number):
        return np.empty(0, np.int64)
    order = np.argsort(number, kind="stable")
    ends = np.append(np.nonzero(np.diff(number[order]))[0], len(order) - 1)
    return np.sort(order[ends])
