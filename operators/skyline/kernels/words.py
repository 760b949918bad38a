"""Keys and words of the skyline kernels: keys are compared exactly, words first.

*Keys.* Every attribute becomes an int64 whose order is the attribute's: floats by their bits (sign folded, -0.0 first folded into 0.0),
integers unchanged; a ``max`` dimension is complemented. Exact tests compare keys only, so 64-bit integers never pass through floats.

*Words.* All dimensions of an object also share one int64, a few bits each, rounded monotonically, with a guard bit above each field H.
``p <= r`` everywhere implies ``((r | H) - p) & H == H``: one subtraction tests all dimensions of one object, four or eight objects an
instruction, and keys decide the few hits (docs/algorithms D4). ``equal`` dimensions share a hash and its complement as two fields.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from skyband.operators.base import F64, I64, NULL, AnyArray
from skyband.operators.jit import jit

FOLD: int = 2**63 - 1
MAX_FIELDS: int = 12


COARSE_BITS: int = 30
"""Bits of a coarse word."""


class WordLayout(NamedTuple):
    """The f fields of a word, and how they are reduced to those of a coarse word. Scalars are int64."""

    shifts: I64
    """(f,) int64: place of each field's lowest bit."""
    guard: int
    """The highest bit of each field, which no value has."""
    top: int
    """Largest field value; those of objects are in [1, top - 1]."""
    dead: int
    """``top`` in the first field, 0 in the second: fails both tests against every object's word."""
    ones: int
    """1 in every field."""
    coarse_bits: int
    """Bits of a coarse field: at least 4 up to 7 fields."""
    coarse_drop: int
    """How many low bits a field loses."""
    coarse_guard: int
    """The highest bit of each coarse field."""
    coarse_dead: int
    """The coarse word that fails both tests."""


def layout(dims: int, equals: int) -> WordLayout:
    """Return the fields for ``dims`` ordered and ``equals`` equality dimensions."""
    fields = max(2, min(dims, MAX_FIELDS) + (2 if equals else 0))
    bits = 62 // fields
    shifts = np.arange(fields, dtype=np.int64) * bits
    ones = sum(1 << int(s) for s in shifts)
    guard = ones << (bits - 1)
    top = (1 << (bits - 1)) - 1
    cut = COARSE_BITS // fields
    cut_guard = sum(1 << (j * cut + cut - 1) for j in range(fields))
    return WordLayout(shifts, guard, top, guard + top, ones, cut, max(0, bits - cut), cut_guard, cut_guard + (1 << (cut - 1)) - 1)


@jit
def mix(digest: int, key: int) -> int:
    """Add a key to a small non-negative hash."""
    part = (key ^ (key >> 29) ^ (key >> 47)) & 0xFFFFFFF
    return ((digest * 31 + part) * 40503) & 0xFFFFFFF


@jit
def read_floats(
    values: AnyArray, raw: AnyArray, flip: int, keys: AnyArray, usable: AnyArray, used: bool, field: AnyArray, words: AnyArray
) -> None:
    """Read a float64 column ``values`` with bits ``raw`` (both (n,)): set keys, clear ``usable`` where NaN, add its field if ``used``.

    ``flip`` is -1 for ``max``, else 0; ``field`` (4,) = offset and scale of the minimised value, shift, largest value. O(n), branch free.
    """
    sign, low = -1.0 if flip < 0 else 1.0, field[0]
    scale, most = field[1], field[3] - 1.0
    shift = np.int64(field[2])
    for i in range(len(values)):
        bits = raw[i]
        bits = np.int64(0) if bits == NULL else bits  # -0.0
        keys[i] = bits ^ ((bits >> 63) & FOLD) ^ flip
        usable[i] &= np.uint8(values[i] == values[i])
        if used:
            scaled = (sign * values[i] - low) * scale
            scaled = scaled if scaled > 1.0 else 1.0  # NaN gives 1
            scaled = scaled if scaled < most else most
            words[i] += np.int64(scaled) << shift


@jit
def read_ints(raw: AnyArray, flip: int, keys: AnyArray, usable: AnyArray) -> None:
    """Read an int64 column as ``read_floats`` does, without words. O(n)."""
    for i in range(len(raw)):
        keys[i] = raw[i] ^ flip
        usable[i] &= np.uint8(raw[i] != NULL)


@jit
def add_field(values: AnyArray, low: float, scale: float, shift: int, top: int, words: AnyArray) -> None:
    """Add a dimension's field, its minimised ``values`` (n,) rounded, to the words. O(n)."""
    for i in range(len(values)):
        scaled = (values[i] - low) * scale
        scaled = scaled if scaled > 1.0 else 1.0  # NaN gives 1
        scaled = scaled if scaled < top - 1.0 else top - 1.0
        words[i] += np.int64(scaled) << shift


@jit
def add_digest(keys: AnyArray, shift: int, shift2: int, top: int, words: AnyArray) -> None:
    """Add the two fields of the equality dimensions with ``keys`` (e, n). O(e n)."""
    for i in range(keys.shape[1]):
        digest: Any = np.int64(7)
        for j in range(keys.shape[0]):
            digest = mix(digest, keys[j, i])
        value = 1 + digest % (top - 1)
        words[i] += (value << shift) + ((top - value) << shift2)


def used_fields(dims: int, all_dims: int, shifts: I64) -> int:
    """Return how many ordered dimensions have a field."""
    return min(dims, len(shifts) - (2 if all_dims > dims else 0))


def empty_word(used: int, ordered_only: bool, shifts: I64) -> int:
    """Return a word without fields: it has a second field if there is only one dimension (the dead word needs two)."""
    return 1 << int(shifts[1]) if used == 1 and ordered_only else 0


def words_of(keys: I64, values: F64, low: F64, scale: F64, shifts: I64, top: int) -> I64:
    """Return the words (n,) of objects with ``keys`` (D, n) and minimised ``values`` (dims, n). O(n D)."""
    dims, all_dims = len(values), len(keys)
    used = used_fields(dims, all_dims, shifts)
    words = np.full(keys.shape[1], empty_word(used, all_dims == dims, shifts), np.int64)
    for j in range(used):
        add_field(values[j], low[j], scale[j], shifts[j], top, words)
    if all_dims > dims:
        add_digest(keys[dims:], shifts[used], shifts[used + 1], top, words)
    return words


def minimised(keys: I64, is_float: AnyArray, sign: AnyArray, dims: int) -> F64:
    """Return the float values (dims, n) of the ordered attributes from their keys (D, n), so that small is good."""
    values = np.empty((dims, keys.shape[1]), np.float64)
    for j in range(dims):
        bits = keys[j]
        if sign[j] < 0:
            bits = ~bits
        values[j] = sign[j] * ((bits ^ ((bits >> 63) & FOLD)).view(np.float64) if is_float[j] else bits.astype(np.float64))
    return values


def fit(sample: F64, top: int) -> tuple[F64, F64]:
    """Return offset and scale per dimension that spread ``sample`` (dims, n) over the fields: its range, outliers cut off."""
    low, scale = np.zeros(len(sample)), np.ones(len(sample))
    for j, column in enumerate(sample):
        column = np.sort(column[np.isfinite(column)])  # noqa: PLW2901
        if not len(column):
            continue
        inner_low, inner_high = column[len(column) // 64], column[-1 - len(column) // 64]
        with np.errstate(over="ignore", invalid="ignore"):
            margin = 2 * (inner_high - inner_low)
            lowest, highest = max(column[0], inner_low - margin), min(column[-1], inner_high + margin)
            factor = (top - 1) / (highest - lowest) if highest > lowest else 0.0
        if np.isfinite(lowest) and np.isfinite(factor) and factor > 0:
            low[j], scale[j] = lowest - 1.0 / factor, factor
        else:
            low[j], scale[j] = (lowest if np.isfinite(lowest) else 0.0), 1.0
    return low, scale
