"""Borrow arrays without reference counts, so that kernels pass named tuples of arrays free of charge.

Numba counts references to an array atomically wherever it is bound to a name, and a named tuple of ten arrays is ten arrays: in a loop
over arrivals that costs more than the work. A borrowed array has no owner to count for, so the compiler drops all of it.
"""

from __future__ import annotations

from typing import Any

from skyband.operators.jit import HAVE_NUMBA

borrowed: Any
"""``borrowed(x)``: the same array, or the same named tuple (of named tuples) with arrays, without owners. The caller must hold ``x`` as
long as the borrowed arrays are in use, and must not return them. A function that is compiled by itself borrows its arguments once more:
the compiler cannot know that they have no owner. Without Numba ``x`` itself. O(1)."""

if HAVE_NUMBA:
    from llvmlite import ir
    from numba.core import types
    from numba.extending import intrinsic

    def _without_owner(context: Any, builder: Any, kind: Any, value: Any) -> Any:
        if isinstance(kind, types.BaseTuple):
            members: Any = kind
            parts = [_without_owner(context, builder, member, builder.extract_value(value, i)) for i, member in enumerate(members)]
            return context.make_tuple(builder, kind, parts)
        if isinstance(kind, types.Array):
            array = context.make_array(kind)(context, builder, value)
            array.meminfo = ir.Constant(array.meminfo.type, None)
            array.parent = ir.Constant(array.parent.type, None)
            return array._getvalue()
        return value

    @intrinsic
    def _borrowed(typingctx: Any, arrays: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return _without_owner(context, builder, signature.args[0], args[0])

        return arrays(arrays), generate

    borrowed = _borrowed
else:

    def _same(arrays: Any) -> Any:
        return arrays

    borrowed = _same
