"""Typed expressions -> block kernels over column matrices.

A kernel reads two matrices, one row per attribute: ``fcols`` (float64, null is NaN, rows ``float_names``) and ``icols`` (int64, null is
``NULL``, rows ``int_names``; text as codes, booleans as 0 and 1). A vector has a row per dimension and one for its norm. A matrix without
rows may have any shape (0, n). All arrays are writable, aligned and C-contiguous, exactly as the signatures say.

Kernels of pairs also read ``pool`` (int64). For an attribute of kind ``characters`` or ``tokens``, ``icols`` holds offsets in it, or
``NULL``: at the offset is the number of values, and behind it the code points of the text, or the ascending codes of the set. It may be
empty where no function compares texts or sets.

To call a kernel from a driver compiled once for all expressions, give the driver an explicit signature with a first-class function type::

    @jit(types.int64(count_type(), types.float64[:, ::1], types.int64[:, ::1], types.float64[::1], types.int64[::1],
         types.int64[::1], types.float64))
    def driver(count_block, fcols, icols, xf, xi, pool, limit):
        total = 0
        for lo in range(0, fcols.shape[1], 64):
            total += count_block(fcols, icols, lo, min(lo + 64, fcols.shape[1]), xf, xi, pool, limit)
        return total

    driver(kernel.count_block, ...)

The call inside the driver is an indirect call (nanoseconds); handing the function over costs about 30 microseconds per call of the driver,
so call the driver once per block of arrivals. Kernels raise nothing and need no GIL.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from skyband.operators import jit
from skyband.operators.base import F64, I64, AnyArray, Column
from skyband.operators.expressions import bounds, codegen, vectors
from skyband.operators.expressions.ast import Node
from skyband.operators.expressions.canonical import text_constants
from skyband.operators.expressions.leaves import read_columns


def count_type() -> Any:
    """Return Numba's first-class function type of ``PairKernel.count_block``."""
    return _function_type(codegen.COUNT_SIGNATURE)


def score_type() -> Any:
    """Return Numba's first-class function type of ``PairKernel.score_block``."""
    return _function_type(codegen.SCORE_SIGNATURE)


def row_type() -> Any:
    """Return Numba's first-class function type of ``RowKernel.scores``."""
    return _function_type(codegen.ROW_SIGNATURE)


def bound_type() -> Any:
    """Return Numba's first-class function type of ``PairKernel.bound_block``."""
    return score_type()


def row_bound_type() -> Any:
    """Return Numba's first-class function type of ``RowKernel.bound_block``."""
    return row_type()


def _function_type(signature: str) -> Any:
    from numba import types
    from numba.core.sigutils import normalize_signature

    args, result = normalize_signature(signature)  # type: ignore[no-untyped-call]
    return types.FunctionType(result(*args))


@dataclass(frozen=True)
class _Kernel(codegen.Program):
    """Both kinds of kernel. Picklable, hashable; code is generated and compiled on first use, once per process."""

    def __getstate__(self) -> dict[str, Any]:
        return {f.name: getattr(self, f.name) for f in fields(self)}  # the configuration, not what was compiled from it

    def source(self, kind: str, numba: bool = True) -> str:
        """Return the generated source of the "count", "score", "row", "bound" or "row_bound" function."""
        if kind in bounds.KINDS:
            return bounds.numba_source(self, kind) if numba else bounds.numpy_source(self, kind)
        return codegen.numba_source(self, kind) if numba else codegen.numpy_source(self, kind)

    def _function(self, kind: str, numba: bool) -> Callable[..., Any]:
        compiled = numba and jit.HAVE_NUMBA
        # kept per process by source, not by tree: equal trees do not tell -0.0 from 0.0
        source = self.source(kind, compiled)
        return codegen.numba_function(source) if compiled else codegen.numpy_function(source)


@dataclass(frozen=True)
class PairKernel(_Kernel):
    """Scores of one object x against blocks of partners.

    By default x is the newer object (``b``) and the columns hold the older ones (``a``); ``swapped`` has x as ``a``. The score is
    *internal*: smaller is better (negated under ``negate``), -0.0 is 0.0, NaN where an operand is null or the predicate is not true.
    """

    @cached_property
    def swapped(self) -> PairKernel:
        """Return the same score with x as ``a`` and the columns as ``b`` (and back)."""
        return replace(self, column_side="a" if self.column_side == "b" else "b")

    @cached_property
    def count_block(self) -> Callable[[F64, I64, int, int, F64, I64, I64, float], int]:
        """``count_block(fcols, icols, lo, hi, xf, xi, pool, limit)``: how many partners lo <= j < hi score <= limit (NaN never)."""
        return self._function("count", True)

    @cached_property
    def score_block(self) -> Callable[[F64, I64, int, int, F64, I64, I64, F64], None]:
        """``score_block(fcols, icols, lo, hi, xf, xi, pool, out)``: ``out[j - lo]`` = score with partner j for lo <= j < hi."""
        return self._function("score", True)

    @cached_property
    def count_block_numpy(self) -> Callable[[F64, I64, int, int, F64, I64, I64, float], int]:
        """``count_block`` without Numba: the same number."""
        return self._function("count", False)

    @cached_property
    def score_block_numpy(self) -> Callable[[F64, I64, int, int, F64, I64, I64, F64], None]:
        """``score_block`` without Numba: the same bytes."""
        return self._function("score", False)

    @cached_property
    def bound_block(self) -> Callable[[F64, I64, int, int, F64, I64, I64, F64], None]:
        """``bound_block(fboxes, iboxes, lo, hi, xf, xi, pool, out)``: ``out[z - lo]`` bounds the scores of x with objects of a zone z.

        No score is below it; ``inf`` where there is no candidate. Boxes (3 rows per attribute), of zones and of x: ``bounds``.
        """
        return self._function("bound", True)

    @cached_property
    def bound_block_numpy(self) -> Callable[[F64, I64, int, int, F64, I64, I64, F64], None]:
        """``bound_block`` without Numba: the same bytes."""
        return self._function("bound", False)


@dataclass(frozen=True)
class RowKernel(_Kernel):
    """Scores of single objects; same rules as ``PairKernel``. Without a score, 0.0 where the predicate is true and NaN elsewhere."""

    @cached_property
    def scores(self) -> Callable[[F64, I64, int, int, F64], None]:
        """``scores(fcols, icols, lo, hi, out)``: ``out[j - lo]`` = score of object j for lo <= j < hi."""
        return self._function("row", True)

    @cached_property
    def scores_numpy(self) -> Callable[[F64, I64, int, int, F64], None]:
        """``scores`` without Numba: the same bytes."""
        return self._function("row", False)

    @cached_property
    def bound_block(self) -> Callable[[F64, I64, int, int, F64], None]:
        """``bound_block(fboxes, iboxes, lo, hi, out)``: ``out[z - lo]`` bounds the scores of objects of zone lo <= z < hi (``bounds``)."""
        return self._function("row_bound", True)

    @cached_property
    def bound_block_numpy(self) -> Callable[[F64, I64, int, int, F64], None]:
        """``bound_block`` without Numba: the same bytes."""
        return self._function("row_bound", False)

    def evaluate(self, columns: Mapping[str, AnyArray], length: int | None = None) -> F64:
        """Scores (n,) of the objects in ``columns`` (as ``Arrivals.columns``); ``length`` is needed if no attribute is read."""
        n = len(next(iter(columns.values()))) if length is None else length
        fcols = matrix(columns, self.float_names, np.float64, n)
        icols = matrix(columns, self.int_names, np.int64, n)
        out = np.empty(n, np.float64)
        self.scores(fcols, icols, 0, n, out)
        return out

    def passes(self, columns: Mapping[str, AnyArray], length: int | None = None) -> npt.NDArray[np.bool_]:
        """Which objects (n,) the kernel gives a score (for a kernel without score: for which the predicate is true)."""
        return np.logical_not(np.isnan(self.evaluate(columns, length)))


def matrix(columns: Mapping[str, AnyArray], names: tuple[str, ...], dtype: type[np.generic], length: int) -> AnyArray:
    """Return the named columns as rows of one C-contiguous matrix (len(names), length); one may be a row of a vector (``vectors.rows``)."""
    out = np.empty((len(names), length), dtype)
    wanted = set(names)
    rows: dict[str, F64] = {}
    for name, column in columns.items():
        if column.ndim == 2 and vectors.element_name(name, 0) in wanted:
            rows |= vectors.rows(name, column)
    for row, name in enumerate(names):
        out[row] = rows[name] if name in rows else columns[name]
    return out


def _configuration(
    score: Node | None, where: Node | None, texts: Mapping[str, int], extra_floats: Iterable[str], extra_ints: Iterable[str]
) -> tuple[tuple[tuple[str, int], ...], tuple[str, ...], tuple[str, ...]]:
    nodes = [n for n in (score, where) if n is not None]
    if score is not None and score.type not in ("float", "int", "duration"):
        raise ValueError(f"a score must be a number, not {score.type}")
    if where is not None and where.type != "bool":
        raise ValueError(f"a predicate must be a condition, not {where.type}")
    used: dict[str, Column] = {c.name: c for n in nodes for c in read_columns(n)}
    constants = dict.fromkeys(t for n in nodes for t in text_constants(n))
    missing = [t for t in constants if t not in texts]
    if missing:
        raise ValueError(f"text constants without a code: {', '.join(map(repr, missing))}")
    wide = [n for c in used.values() if c.kind == "vector" for n in vectors.row_names(c.name, c.dimension)]
    floats = dict.fromkeys([*(c.name for c in used.values() if c.kind == "float"), *wide, *extra_floats])
    ints = dict.fromkeys([*(c.name for c in used.values() if c.kind not in ("float", "vector")), *extra_ints])
    return tuple((t, int(texts[t])) for t in constants), tuple(floats), tuple(ints)


def compile_pair(
    score: Node,
    where: Node | None,
    negate: bool,
    texts: Mapping[str, int],
    *,
    extra_floats: Iterable[str] = (),
    extra_ints: Iterable[str] = (),
    swap: bool = False,
) -> PairKernel:
    """Kernels for ``score`` of (a, b) under the predicate ``where``; nothing is compiled yet.

    ``negate`` for direction max; ``texts`` gives each text constant its code; the extra names get rows of their own in the matrices (after
    the attributes the expressions use). Raises ValueError if a type is wrong or a text constant has no code.
    """
    codes, floats, ints = _configuration(score, where, texts, extra_floats, extra_ints)
    return PairKernel(score, where, negate, codes, floats, ints, "b" if swap else "a")


def compile_row(
    score: Node | None,
    where: Node | None,
    negate: bool,
    texts: Mapping[str, int],
    *,
    extra_floats: Iterable[str] = (),
    extra_ints: Iterable[str] = (),
) -> RowKernel:
    """Kernels over single objects (attributes without side); as ``compile_pair``."""
    codes, floats, ints = _configuration(score, where, texts, extra_floats, extra_ints)
    return RowKernel(score, where, negate, codes, floats, ints, "")
