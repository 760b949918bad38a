"""Prefetch memory, so that cache misses overlap instead of following one another."""

from __future__ import annotations

from typing import Any

from skyband.operators import jit


def _prefetch() -> Any:
    """Return an intrinsic for LLVM's ``prefetch`` instruction; a function that does nothing without Numba."""
    if not jit.HAVE_NUMBA:
        return lambda array, at: None
    from llvmlite import ir
    from numba.core import cgutils, types
    from numba.extending import intrinsic

    def prefetch(context: Any, array: Any, at: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            data = context.make_array(signature.args[0])(context, builder, args[0]).data
            address = builder.bitcast(builder.gep(data, [args[1]]), cgutils.voidptr_t)
            number = ir.IntType(32)
            kind = ir.FunctionType(ir.VoidType(), [cgutils.voidptr_t, number, number, number])
            function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")  # type: ignore[no-untyped-call]
            builder.call(function, [address, number(0), number(3), number(1)])
            return context.get_dummy_value()

        return types.void(array, types.int64), generate

    return intrinsic(prefetch)


prefetch = _prefetch()
"""``prefetch(array, at)``: load the cache line of the contiguous ``array`` at the flat index ``at``, which may be out of bounds."""
