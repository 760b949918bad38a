"""Encode names of objects as int64 words that compare like the names, for ``operators.base.Named``.

Whole numbers, instants, days, truth values and floats (their bits, put in order) are one word each, a decimal is two. A text is its UTF-8
bytes, seven to a word, each word ending in how many of its bytes count (8: another word follows), so that no text begins another's words
and texts of several columns stand behind each other. Everything in array operations: O(bytes).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from skyband.operators.base import Ragged

I64 = npt.NDArray[np.int64]

_BYTES = 7
"""Bytes of a text that stand in one word."""
_TOP = np.uint64(1 << 63)
"""Turned over, it makes unsigned words compare like signed ones."""


def names(rows: pa.Table) -> Ragged:
    """The words of each row's columns, one behind the other; no value is null. Raises ValueError for a column that names nothing."""
    parts = [_words(rows[c].combine_chunks()) for c in rows.column_names]
    length = sum((np.diff(p.start) for p in parts), np.zeros(rows.num_rows, np.int64))
    start = np.append(0, np.cumsum(length))
    values = np.empty(int(start[-1]), np.int64)
    at = start[:-1].copy()
    for p in parts:
        mine = np.diff(p.start)
        values[np.repeat(at - p.start[:-1], mine) + np.arange(len(p.values))] = p.values
        at += mine
    return Ragged(start, values)


def _words(column: pa.Array) -> Ragged:
    """Return the words of one column."""
    if isinstance(column, pa.ChunkedArray):
        column = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
    kind, n = column.type, len(column)
    if pa.types.is_string(kind):
        return _texts(column)
    if pa.types.is_decimal128(kind):
        halves = np.frombuffer(column.buffers()[1], np.uint64)[2 * column.offset : 2 * (column.offset + n)].reshape(n, 2)
        words = np.stack([halves[:, 1], halves[:, 0] ^ _TOP], axis=1)
        return Ragged(2 * np.arange(n + 1), words.view(np.int64).reshape(-1))
    if pa.types.is_date32(kind):
        column = column.cast(pa.int32())
    if pa.types.is_floating(kind):
        return Ragged(np.arange(n + 1), _ordered_bits(column.cast(pa.float64()).to_numpy()))
    if not (pa.types.is_integer(column.type) or pa.types.is_boolean(kind) or pa.types.is_timestamp(kind)):
        raise ValueError(f"a column of type {kind} does not name objects")
    return Ragged(np.arange(n + 1), np.require(column.cast(pa.int64()).to_numpy(), requirements=["C", "W"]))


def _ordered_bits(values: npt.NDArray[np.float64]) -> I64:
    bits = np.where(np.isnan(values), np.nan, values).view(np.int64)
    return np.where(bits < 0, bits ^ np.int64(2**63 - 1), bits)


def _texts(column: pa.Array) -> Ragged:
    size = pc.binary_length(column).to_numpy(zero_copy_only=False).astype(np.int64)
    count = np.maximum(-(-size // _BYTES), 1)
    start = np.append(0, np.cumsum(count))
    cells = np.zeros((int(start[-1]), _BYTES + 1), np.uint8)
    cells[:, _BYTES] = _BYTES + 1
    cells[start[1:] - 1, _BYTES] = size - _BYTES * (count - 1)
    if int(size.sum()):
        offsets = np.frombuffer(column.buffers()[1], np.int32)[column.offset : column.offset + len(column) + 1].astype(np.int64)
        data = np.frombuffer(column.buffers()[2], np.uint8)[offsets[0] : offsets[-1]]
        within = np.arange(len(data)) - np.repeat(offsets[:-1] - offsets[0], size)
        cells[np.repeat(start[:-1], size) + within // _BYTES, within % _BYTES] = data
    return Ragged(start, (cells.view(">u8").reshape(-1).astype(np.uint64) ^ _TOP).view(np.int64))
