"""Test blocks of words: bit masks of the retained objects that may dominate an arrival, and of those it may dominate.

The block tests are written in LLVM's vector operations (any CPU; on AVX2 and AVX-512 a few instructions per 4 to 8 objects): Numba's own
vectoriser spends most of its time moving comparison masks. With A = arrival's word + guard bits, an object's word p (stored with its
guard bits set) may dominate it iff ``(p - A - guard - 1) & guard == 0``, and may be dominated iff ``(A - guard - 1 - p) & guard == 0``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from skyband.operators.base import AnyArray
from skyband.operators.jit import HAVE_NUMBA

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
"""``any_hit`` on 32-bit coarse words (``scan.coarsen``): twice as many a step, sometimes true where ``any_hit`` is not."""

highest: Any
"""``highest(x)``: index of the highest set bit of a positive int64. O(1)."""

if HAVE_NUMBA:
    from llvmlite import ir
    from numba.core import cgutils, types
    from numba.extending import intrinsic

    def _tests(context: Any, builder: Any, signature: Any, args: Any, lanes: int, blocks: int, width: int = 64) -> tuple[Any, Any]:
        """Return vectors of ``lanes`` truths: may dominate, may be dominated; or-ed over ``blocks`` consecutive vectors."""
        word, at, above, below, guard = args
        array = context.make_array(signature.args[0])(context, builder, word)
        vector = ir.VectorType(ir.IntType(width), lanes)
        if width < 64:
            above, below, guard = (builder.trunc(value, ir.IntType(width)) for value in (above, below, guard))

        def splat(value: Any) -> Any:
            one = builder.insert_element(ir.Constant(vector, ir.Undefined), value, ir.Constant(ir.IntType(32), 0))
            return builder.shuffle_vector(
                one, ir.Constant(vector, ir.Undefined), ir.Constant(ir.VectorType(ir.IntType(32), lanes), [0] * lanes)
            )

        over, under, bits = splat(above), splat(below), splat(guard)
        zero = ir.Constant(vector, [0] * lanes)
        dominating = dominated = None
        for i in range(blocks):
            place = builder.gep(array.data, [builder.add(at, ir.Constant(ir.IntType(64), i * lanes))])
            load = builder.load(builder.bitcast(place, vector.as_pointer()))
            load.align = width // 8
            dominating_now = builder.icmp_signed("==", builder.and_(builder.sub(load, over), bits), zero)
            dominated_now = builder.icmp_signed("==", builder.and_(builder.sub(under, load), bits), zero)
            dominating = dominating_now if i == 0 else builder.or_(dominating, dominating_now)
            dominated = dominated_now if i == 0 else builder.or_(dominated, dominated_now)
        return dominating, dominated

    def _bits(builder: Any, truths: Any, lanes: int) -> Any:
        return builder.zext(builder.bitcast(truths, ir.IntType(lanes)), ir.IntType(64))

    tuple_of: Any = types.Tuple
    pair_type = tuple_of((types.int64, types.int64))

    def _masks(lanes: int) -> Any:
        @intrinsic
        def masks(typingctx: Any, word: Any, at: Any, above: Any, below: Any, guard: Any) -> Any:
            def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
                dominating, dominated = _tests(context, builder, signature, args, lanes, 1)
                pair = [_bits(builder, dominating, lanes), _bits(builder, dominated, lanes)]
                return context.make_tuple(builder, signature.return_type, pair)

            return pair_type(word, types.int64, types.int64, types.int64, types.int64), generate

        return masks

    near_masks, far_masks = _masks(NEAR), _masks(LANES)

    @intrinsic
    def _any_hit(typingctx: Any, word: Any, at: Any, above: Any, below: Any, guard: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            dominating, dominated = _tests(context, builder, signature, args, NEAR, CHUNK // NEAR)
            return builder.icmp_unsigned("!=", _bits(builder, builder.or_(dominating, dominated), NEAR), ir.Constant(ir.IntType(64), 0))

        return types.boolean(word, types.int64, types.int64, types.int64, types.int64), generate

    @intrinsic
    def _highest(typingctx: Any, x: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            zeros = builder.ctlz(args[0], cgutils.true_bit)
            return builder.sub(ir.Constant(ir.IntType(64), 63), zeros)

        return types.int64(types.int64), generate

    @intrinsic
    def _any_coarse(typingctx: Any, word: Any, at: Any, above: Any, below: Any, guard: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            dominating, dominated = _tests(context, builder, signature, args, LANES, CHUNK // LANES, 32)
            return builder.icmp_unsigned("!=", _bits(builder, builder.or_(dominating, dominated), LANES), ir.Constant(ir.IntType(64), 0))

        return types.boolean(word, types.int64, types.int64, types.int64, types.int64), generate

    any_hit, any_coarse, highest = _any_hit, _any_coarse, _highest

else:

    def _truths(word: AnyArray, at: int, size: int, above: int, below: int, guard: int) -> tuple[AnyArray, AnyArray]:
        words = word[at : at + size]
        return ((words - above) & guard) == 0, ((below - words) & guard) == 0

    def _numpy_masks(word: AnyArray, at: int, above: int, below: int, guard: int, lanes: int) -> tuple[int, int]:
        dominating, dominated = _truths(word, at, lanes, above, below, guard)
        bits = np.int64(1) << np.arange(lanes)
        return int(bits[dominating].sum()), int(bits[dominated].sum())

    def _near(word: AnyArray, at: int, above: int, below: int, guard: int) -> tuple[int, int]:
        return _numpy_masks(word, at, above, below, guard, NEAR)

    def _far(word: AnyArray, at: int, above: int, below: int, guard: int) -> tuple[int, int]:
        return _numpy_masks(word, at, above, below, guard, LANES)

    def _any(word: AnyArray, at: int, above: int, below: int, guard: int) -> bool:
        dominating, dominated = _truths(word, at, CHUNK, above, below, guard)
        return bool(dominating.any() or dominated.any())

    def _bit(x: int) -> int:
        return int(x).bit_length() - 1

    near_masks, far_masks, any_hit = _near, _far, _any
    any_coarse, highest = _any, _bit
