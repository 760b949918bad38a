"""One of two numbers by a flag, without a branch."""

from __future__ import annotations

from functools import cache
from typing import Any


@cache
def selection() -> Any:
    """Return ``select(flag, x, y)`` for kernels: x if the flag is not 0, else y, two floats or two integers.

    Python's ``x if flag else y`` makes Numba compile four blocks of code, and a kernel of many takes time of higher order.
    """
    from numba.core import types
    from numba.extending import intrinsic

    @intrinsic
    def select(_typing: Any, flag: Any, x: Any, _y: Any) -> Any:
        kind = types.float64 if isinstance(x, types.Float) else types.int64

        def code(_context: Any, builder: Any, _signature: Any, values: Any) -> Any:
            condition, first, second = values
            return builder.select(builder.icmp_signed("!=", condition, condition.type(0)), first, second)

        return kind(types.int64, kind, kind), code

    return select
