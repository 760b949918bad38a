"""The kernel of ``hashes`` for texts."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from skyband.framework.streaming.rows.hash_primes import P1, P2, P3, P4, P5, U64
from skyband.operators.jit import jit


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
def hash_texts(offsets: npt.NDArray[np.int32], data: npt.NDArray[np.uint8], seeds: U64, out: U64) -> None:
    """``out[i]`` = the hash of text i, whose bytes are ``data[offsets[i]:offsets[i + 1]]``, from ``seeds[i]``; shapes (n + 1,), (n,)."""
    p1, p2, p3, p4, p5 = P1, P2, P3, P4, P5
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
