"""Hash Arrow columns, with the same bits as Spark's ``xxhash64``: ids and keys are identified by hashes, whichever reader is used.

A row's hash runs from a seed through its columns: each is hashed with what came before as its seed, a null changes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from skyband.framework.streaming.rows.hash_primes import P1, P2, P3, P4, P5, U64

SEED: Final = 42
"""Spark's."""
SECOND: Final = 936675635048305179
"""The hash of the text ``skyband``: the seed of the second, independent hash."""


def xxhash64(columns: Sequence[pa.Array], rows: int, seed: int = SEED) -> npt.NDArray[np.int64]:
    """Return one hash per row of ``columns`` (each of length ``rows``). Raise ValueError for unsupported types. O(bytes)."""
    seeds = np.full(rows, seed, np.int64).view(np.uint64)
    for column in columns:
        made = _hashed(column, seeds)
        seeds = made if not column.null_count else np.where(column.is_valid().to_numpy(zero_copy_only=False), made, seeds)
    return seeds.view(np.int64)


def _hashed(column: pa.Array, seeds: U64) -> U64:
    kind = column.type
    if pa.types.is_string(kind):
        return _texts(column, seeds)
    if pa.types.is_boolean(kind) or pa.types.is_date32(kind):
        column = column.cast(pa.int32())
    if pa.types.is_timestamp(kind):
        column = column.cast(pa.int64())
    if not (pa.types.is_int32(column.type) or pa.types.is_int64(column.type)):
        raise ValueError(f"columns of type {kind} are not hashed here")
    values = (pc.fill_null(column, 0) if column.null_count else column).to_numpy()
    return _eight(values.view(np.uint64), seeds) if values.dtype == np.int64 else _four(values.view(np.uint32).astype(np.uint64), seeds)


def _eight(values: U64, seeds: U64) -> U64:
    hashed = (seeds + (P5 + np.uint64(8))) ^ (_turned(values * P2, 31) * P1)
    return _mixed(_turned(hashed, 27) * P1 + P4)


def _four(values: U64, seeds: U64) -> U64:
    hashed = (seeds + (P5 + np.uint64(4))) ^ (values * P1)
    return _mixed(_turned(hashed, 23) * P2 + P3)


def _turned(values: U64, bits: int) -> U64:
    return (values << np.uint64(bits)) | (values >> np.uint64(64 - bits))


def _mixed(hashed: U64) -> U64:
    hashed = (hashed ^ (hashed >> np.uint64(33))) * P2
    hashed = (hashed ^ (hashed >> np.uint64(29))) * P3
    return hashed ^ (hashed >> np.uint64(32))


def _texts(column: pa.Array, seeds: U64) -> U64:
    offsets = np.frombuffer(column.buffers()[1], np.int32)[column.offset : column.offset + len(column) + 1]
    data = column.buffers()[2]
    bytes_ = np.frombuffer(data, np.uint8) if data is not None and data.size else np.zeros(1, np.uint8)
    made = np.empty(len(column), np.uint64)
    # Imported here, because only texts need the compiler.
    from skyband.framework.streaming.rows.text_hashes import hash_texts

    hash_texts(offsets, bytes_, seeds, made)
    return made
