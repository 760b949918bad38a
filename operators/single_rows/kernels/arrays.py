"""Arrays in kernels: more room, moving places, searching sorted ones. Every loop has a NumPy twin with equal results."""

from __future__ import annotations

from typing import Any

import numpy as np

from skyband.operators.base import AnyArray
from skyband.operators.jit import HAVE_NUMBA, jit


@jit
def grown(a: AnyArray, size: int) -> AnyArray:
    """Return a copy of the vector ``a`` with room for ``size``."""
    b = np.empty(size, a.dtype)
    for i in range(len(a)):  # not one slice to another: checking their shapes takes a second to compile
        b[i] = a[i]
    return b


@jit
def grown_rows(a: AnyArray, size: int) -> AnyArray:
    """Return a copy of the matrix ``a`` with room for ``size`` rows."""
    b = np.empty((size, a.shape[1]), a.dtype)
    for i in range(len(a)):
        for j in range(a.shape[1]):
            b[i, j] = a[i, j]
    return b


def _lower_bound_np(a: AnyArray, lo: int, hi: int, x: int) -> int:
    return lo + int(np.searchsorted(a[lo:hi], x)) if lo < hi else lo


@jit
def _lower_bound_nb(a: AnyArray, lo: int, hi: int, x: int) -> int:
    while lo < hi:
        mid = (lo + hi) >> 1
        if a[mid] < x:
            lo = mid + 1
        else:
            hi = mid
    return lo


lower_bound = _lower_bound_nb if HAVE_NUMBA else _lower_bound_np
"""First position in the ascending a[lo:hi] with value >= x."""


def _shift_np(a: AnyArray, begin: int, end: int, by: int) -> None:
    a[begin + by : end + by] = a[begin:end].copy()


def _memmove_shift() -> Any:
    """Build ``shift`` as one memmove: Numba does not vectorise its own loop over overlapping places."""
    from numba.core import cgutils, types
    from numba.extending import intrinsic

    raw_memmove: Any = cgutils.raw_memmove

    def move(typing: Any, a: Any, begin: Any, end: Any, by: Any) -> Any:
        def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            array = signature.args[0]
            view = context.make_array(array)(context, builder, args[0])
            begin, end, by = (
                context.cast(builder, v, t, types.intp) for v, t in zip(args[1:], signature.args[1:], strict=True)
            )  # fmt: skip
            size = context.get_abi_sizeof(context.get_data_type(array.dtype))
            source = builder.gep(view.data, [begin])
            raw_memmove(builder, builder.gep(view.data, [builder.add(begin, by)]), source, builder.sub(end, begin), size)
            return context.get_dummy_value()

        return types.void(a, begin, end, by), code

    memmove: Any = intrinsic(move)

    @jit
    def shift(a: AnyArray, begin: int, end: int, by: int) -> None:
        if end > begin:
            memmove(a, begin, end, by)

    return shift


shift = _memmove_shift() if HAVE_NUMBA else _shift_np
"""Move a[begin:end] by ``by`` places in place."""
