"""The two ways to write generated code: a Numba loop, or NumPy arrays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Spelling:
    """How one of the two paths writes an operation: templates for ``str.format``."""

    loop: bool
    real: str
    whole: str
    test: str
    inverse: str
    select: str
    as_float: str
    wrapping: str
    functions: Mapping[str, str]
    nan: str = "nan"


_C = {f: f"c_{f}" for f in ("exp", "log", "pow", "sin", "cos", "tan", "asin", "atan2")}

NUMBA = Spelling(
    loop=True,
    real="({!r})",
    whole="({})",
    test="np.int64({} {} {})",
    inverse="1 - {}",
    select="select({}, {}, {})",
    as_float="np.float64({})",
    # Numba tells LLVM that int64 never overflows; it would be free to give anything, even where a flag says null
    wrapping="np.int64(np.uint64({}) {} np.uint64({}))",
    functions={"abs": "abs", "sqrt": "math.sqrt", "floor": "np.floor", "ceil": "np.ceil", "mod": "c_fmod", **_C},
)
"""Scalars of one loop iteration. Flags are int64, because Numba's booleans keep LLVM from vectorising."""

NUMPY = Spelling(
    loop=False,
    real="np.float64({!r})",
    whole="np.int64({})",
    test="({} {} {})",
    inverse="~{}",
    select="np.where({}, {}, {})",
    as_float="np.asarray({}).astype(np.float64)",
    wrapping="{} {} {}",
    functions={"abs": "np.abs", "sqrt": "np.sqrt", "floor": "np.floor", "ceil": "np.ceil", "mod": "np.fmod", **_C},
)
"""Whole arrays (length 1 for what does not depend on the column side). Flags are boolean arrays."""
