"""Scans over words: which of a block of retained objects may dominate an arrival, and which it may dominate, as bit masks.

The block tests are written in LLVM's vector operations (any CPU; on AVX2 and AVX-512 a few instructions per 4 to 8 objects): Numba's own
vectoriser spends most of its time moving comparison masks. With A = arrival's word + guard bits, an object's word p (stored with its
guard bits set) may dominate it iff ``(p - A - guard - 1) & guard == 0``, and may be dominated iff ``(A - guard - 1 - p) & guard == 0``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from skyband.operators.base import AnyArray
from skyband.operators.jit import HAVE_NUMBA, jit, prepare_numba

NEAR: int = 16
"""The newest objects, where most scans end, are tested in a block of this size."""

LANES: int = 32
"""Objects per mask further on; word arrays carry this many dead words in front."""

CHUNK: int = 128
"""Still further on whole chunks are tested for any hit first."""

near_masks: Any
"""``near_masks(word, at, above, below, guard)``: bits i of objects at + i that may dominate the arrival, and of those it may dominate;
``NEAR`` objects. Branch free."""

far_masks: Any
"""As ``near_masks``, for ``LANES`` objects."""

any_hit: Any
"""Whether one of ``CHUNK`` objects from ``at`` on may dominate the arrival or be dominated (arguments as ``near_masks``). Branch free."""

any_coarse: Any
"""``any_hit`` on 32-bit coarse words (``coarsen``): twice as many a step, sometimes true where ``any_hit`` is not."""

highest: Any
"""``highest(x)``: index of the highest set bit of a positive int64. O(1)."""

if HAVE_NUMBA:
    prepare_numba()
    from llvmlite import ir
    from numba.core import cgutils, types
    from numba.extending import intrinsic

    def _tests(context: Any, builder: Any, signature: Any, args: Any, lanes: int, blocks: int, width: int = 64) -> tuple[Any, Any]:
        """Vectors of ``lanes`` truths: may dominate, may be dominated; or-ed over ``blocks`` consecutive vectors."""
        word, at, above, below, guard = args
        array = context.make_array(signature.args[0])(context, builder, word)
        vector = ir.VectorType(ir.IntType(width), lanes)
        if width < 64:
            above, below, guard = (builder.trunc(x, ir.IntType(width)) for x in (above, below, guard))

        def splat(x: Any) -> Any:
            one = builder.insert_element(ir.Constant(vector, ir.Undefined), x, ir.Constant(ir.IntType(32), 0))
            return builder.shuffle_vector(
                one, ir.Constant(vector, ir.Undefined), ir.Constant(ir.VectorType(ir.IntType(32), lanes), [0] * lanes)
            )

        over, under, bits = splat(above), splat(below), splat(guard)
        zero = ir.Constant(vector, [0] * lanes)
        up = down = None
        for i in range(blocks):
            place = builder.gep(array.data, [builder.add(at, ir.Constant(ir.IntType(64), i * lanes))])
            load = builder.load(builder.bitcast(place, vector.as_pointer()))
            load.align = width // 8
            u = builder.icmp_signed("==", builder.and_(builder.sub(load, over), bits), zero)
            d = builder.icmp_signed("==", builder.and_(builder.sub(under, load), bits), zero)
            up, down = (u, d) if up is None else (builder.or_(up, u), builder.or_(down, d))
        return up, down

    def _bits(builder: Any, truths: Any, lanes: int) -> Any:
        return builder.zext(builder.bitcast(truths, ir.IntType(lanes)), ir.IntType(64))

    tuple_of: Any = types.Tuple
    pair_type = tuple_of((types.int64, types.int64))

    def _masks(lanes: int) -> Any:
        @intrinsic
        def masks(typingctx: Any, word: Any, at: Any, above: Any, below: Any, guard: Any) -> Any:
            def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
                up, down = _tests(context, builder, signature, args, lanes, 1)
                pair = [_bits(builder, up, lanes), _bits(builder, down, lanes)]
                return context.make_tuple(builder, signature.return_type, pair)

            return pair_type(word, types.int64, types.int64, types.int64, types.int64), generate

        return masks

    near_masks, far_masks = _masks(NEAR), _masks(LANES)

    @intrinsic
    def _any_hit(typingctx: Any, word: Any, at: Any, above: Any, below: Any, guard: Any) -> Any:
        """Whether one of ``CHUNK`` objects from ``at`` on may dominate the arrival or be dominated. O(CHUNK), branch free."""

        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            up, down = _tests(context, builder, signature, args, NEAR, CHUNK // NEAR)
            return builder.icmp_unsigned("!=", _bits(builder, builder.or_(up, down), NEAR), ir.Constant(ir.IntType(64), 0))

        return types.boolean(word, types.int64, types.int64, types.int64, types.int64), generate

    @intrinsic
    def _highest(typingctx: Any, x: Any) -> Any:
        """Index of the highest set bit of a positive int64. O(1)."""

        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            zeros = builder.ctlz(args[0], cgutils.true_bit)
            return builder.sub(ir.Constant(ir.IntType(64), 63), zeros)

        return types.int64(types.int64), generate

    @intrinsic
    def _any_coarse(typingctx: Any, word: Any, at: Any, above: Any, below: Any, guard: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            up, down = _tests(context, builder, signature, args, LANES, CHUNK // LANES, 32)
            return builder.icmp_unsigned("!=", _bits(builder, builder.or_(up, down), LANES), ir.Constant(ir.IntType(64), 0))

        return types.boolean(word, types.int64, types.int64, types.int64, types.int64), generate

    any_hit, any_coarse, highest = _any_hit, _any_coarse, _highest

else:

    def _truths(word: AnyArray, at: int, size: int, above: int, below: int, guard: int) -> tuple[AnyArray, AnyArray]:
        p = word[at : at + size]
        return ((p - above) & guard) == 0, ((below - p) & guard) == 0

    def _numpy_masks(word: AnyArray, at: int, above: int, below: int, guard: int, lanes: int) -> tuple[int, int]:
        up, down = _truths(word, at, lanes, above, below, guard)
        bits = np.int64(1) << np.arange(lanes)
        return int(bits[up].sum()), int(bits[down].sum())

    def _near(word: AnyArray, at: int, above: int, below: int, guard: int) -> tuple[int, int]:
        """Bits i of objects at + i that may dominate the arrival, and of those it may dominate. O(NEAR), branch free."""
        return _numpy_masks(word, at, above, below, guard, NEAR)

    def _far(word: AnyArray, at: int, above: int, below: int, guard: int) -> tuple[int, int]:
        """As ``near_masks``, for ``LANES`` objects."""
        return _numpy_masks(word, at, above, below, guard, LANES)

    def _any(word: AnyArray, at: int, above: int, below: int, guard: int) -> bool:
        """Whether one of ``CHUNK`` objects from ``at`` on may dominate the arrival or be dominated. O(CHUNK)."""
        up, down = _truths(word, at, CHUNK, above, below, guard)
        return bool(up.any() or down.any())

    def _bit(x: int) -> int:
        """Index of the highest set bit of a positive integer."""
        return int(x).bit_length() - 1

    near_masks, far_masks, any_hit, any_coarse, highest = _near, _far, _any, _any, _bit


@jit
def compare(obj: AnyArray, a: int, b: int, first: int, dims: int) -> int:
    """1 if slot a is <= slot b in every dimension, 2 if >=, 3 if equal, 0 if neither or not comparable. Branch free in the dimensions."""
    le: Any = np.int64(1)
    ge: Any = np.int64(2)
    p = np.uint64(a)
    q = np.uint64(b)
    for j in range(first, first + dims):
        x = obj[p, np.uint64(j)]
        y = obj[q, np.uint64(j)]
        le &= np.int64(x <= y)
        ge &= np.int64(x >= y) << 1
    for j in range(first + dims, obj.shape[1]):
        if obj[p, np.uint64(j)] != obj[q, np.uint64(j)]:
            return 0
    both: int = le + ge
    return both


@jit
def close_gap(word: AnyArray, slot: AnyArray, at: int, hi: int) -> None:
    """Remove position ``at``: everything up to ``hi`` moves down by one, in steps of 16 (the arrays reach at least 16 beyond ``hi``)."""
    p = np.uint64(at)
    end = np.uint64(hi)
    while p < end:
        for i in range(16):
            word[p + np.uint64(i)] = word[p + np.uint64(i) + np.uint64(1)]
        for i in range(16):
            slot[p + np.uint64(i)] = slot[p + np.uint64(i) + np.uint64(1)]
        p += np.uint64(16)


@jit
def coarsen(word: int, shifts: AnyArray, top: int, drop: int, bits: int) -> int:
    """A word without guard bits cut to ``bits`` bits a field, guard included: monotone, so it tests the same way, only coarser."""
    w: Any = np.int64(0)
    for j in range(shifts.shape[0]):
        w += (((word >> shifts[j]) & top) >> drop) << (j * bits)
    cut: int = w
    return cut


@jit
def squeeze(word: AnyArray, coarse: AnyArray, slot: AnyArray, lo: int, hi: int, queries: AnyArray, position: int) -> int:
    """Close all holes in [lo, hi) and correct the queries' field ``position``; returns the new end. O(hi - lo)."""
    for w in range(queries.shape[0]):
        c = lo
        for p in range(lo, queries[w, position]):
            if slot[p] >= 0:
                c += 1
        queries[w, position] = c
    c = lo
    for p in range(lo, hi):
        if slot[p] >= 0:
            slot[c] = slot[p]
            word[c] = word[p]
            coarse[c] = coarse[p]
            c += 1
    return c


@jit
def find(obj: AnyArray, n: int, seq: int) -> int:
    """The row of ``seq`` among the first n rows, or -1. O(log n)."""
    a = 0
    b = n
    while a < b:
        m = (a + b) >> 1
        if obj[m, 0] < seq:
            a = m + 1
        else:
            b = m
    return a if a < n and obj[a, 0] == seq else -1
