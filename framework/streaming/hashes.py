"""Hashes of Arrow columns, bit for bit those of the engine's ``xxhash64``: ids and keys are known by them, whoever reads the source.

A row's hash runs from a seed through its columns: each is hashed with what came before as its seed, a null changes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from skyband.operators.jit import jit

U64 = npt.NDArray[np.uint64]

SEED: Final = 42
"""The engine's."""
SECOND: Final = 936675635048305179
"""The hash of the text ``skyband``: what a second hash of the same columns runs from, which has it in front."""
_P1: Final = np.uint64(0x9E3779B185EBCA87)
_P2: Final = np.uint64(0xC2B2AE3D27D4EB4F)
_P3: Final = np.uint64(0x165667B19E3779F9)
_P4: Final = np.uint64(0x85EBCA77C2B2AE63)
_P5: Final = np.uint64(0x27D4EB2F165667C5)


def xxhash64(columns: Sequence[pa.Array], rows: int, seed: int = SEED) -> npt.NDArray[np.int64]:
    """One hash a row of ``columns`` (each of length ``rows``). ValueError for a type not hashed here (``plan.reader``). O(bytes)."""
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
    hashed = (seeds + (_P5 + np.uint64(8))) ^ (_turned(values * _P2, 31) * _P1)
    return _mixed(_turned(hashed, 27) * _P1 + _P4)


def _four(values: U64, seeds: U64) -> U64:
    hashed = (seeds + (_P5 + np.uint64(4))) ^ (values * _P1)
    return _mixed(_turned(hashed, 23) * _P2 + _P3)


def _turned(values: U64, bits: int) -> U64:
    return (values << np.uint64(bits)) | (values >> np.uint64(64 - bits))


def _mixed(hashed: U64) -> U64:
    hashed = (hashed ^ (hashed >> np.uint64(33))) * _P2
    hashed = (hashed ^ (hashed >> np.uint64(29))) * _P3
    return hashed ^ (hashed >> np.uint64(32))


def _texts(column: pa.Array, seeds: U64) -> U64:
    offsets = np.frombuffer(column.buffers()[1], np.int32)[column.offset : column.offset + len(column) + 1]
    data = column.buffers()[2]
    bytes_ = np.frombuffer(data, np.uint8) if data is not None and data.size else np.zeros(1, np.uint8)
    made = np.empty(len(column), np.uint64)
    _hash_texts(offsets, bytes_, seeds, made)
    return made


@jit
def _turn(value: np.uint64, bits: np.uint64) -> np.uint64:
    return np.uint64((value << bits) | (value >> (np.uint64(64) - bits)))


@jit
def _word(data: npt.NDArray[np.uint8], at: int) -> np.uint64:
    word = np.uint64(0)
    for i in range(8):
        word |= np.uint64(data[at + i]) << np.uint64(8 * i)
    return word


@jit
def _hash_texts(offsets: npt.NDArray[np.int32], data: npt.NDArray[np.uint8], seeds: U64, out: U64) -> None:
    p1, p2, p3, p4, p5 = _P1, _P2, _P3, _P4, _P5
    for row in range(len(out)):
        at, end, seed = offsets[row], offsets[row + 1], seeds[row]
        length = end - at
        if length >= 32:
            v1, v2, v3, v4 = seed + p1 + p2, seed + p2, seed, seed - p1
            while at <= end - 32:
                v1 = _turn(v1 + _word(data, at) * p2, np.uint64(31)) * p1
                v2 = _turn(v2 + _word(data, at + 8) * p2, np.uint64(31)) * p1
                v3 = _turn(v3 + _word(data, at + 16) * p2, np.uint64(31)) * p1
                v4 = _turn(v4 + _word(data, at + 24) * p2, np.uint64(31)) * p1
                at += 32
            h = _turn(v1, np.uint64(1)) + _turn(v2, np.uint64(7)) + _turn(v3, np.uint64(12)) + _turn(v4, np.uint64(18))
            for v in (v1, v2, v3, v4):
                h = (h ^ (_turn(v * p2, np.uint64(31)) * p1)) * p1 + p4
        else:
            h = seed + p5
        h += np.uint64(length)
        while at <= end - 8:
            h = _turn(h ^ (_turn(_word(data, at) * p2, np.uint64(31)) * p1), np.uint64(27)) * p1 + p4
            at += 8
        if at <= end - 4:
            four = np.uint64(data[at]) | np.uint64(data[at + 1]) << np.uint64(8)
            four |= np.uint64(data[at + 2]) << np.uint64(16) | np.uint64(data[at + 3]) << np.uint64(24)
            h = _turn(h ^ (four * p1), np.uint64(23)) * p2 + p3
            at += 4
        while at < end:
            h = _turn(h ^ (np.uint64(data[at]) * p5), np.uint64(11)) * p1
            at += 1
        h = (h ^ (h >> np.uint64(33))) * p2
        h = (h ^ (h >> np.uint64(29))) * p3
        out[row] = h ^ (h >> np.uint64(32))
