"""Scores of single objects: a linear function of attributes, or any expression of the spec's language."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

import numpy as np

from skyband.operators.base import F64, NULL, AnyArray, Column
from skyband.operators.expressions import compile_row, read_columns
from skyband.operators.expressions.ast import Node
from skyband.operators.jit import HAVE_NUMBA

Direction: TypeAlias = Literal["min", "max"]


@dataclass(frozen=True, slots=True)
class Linear:
    """score = w0*x0 + w1*x1 + ..., added from left to right. ``weights`` are (attribute, weight).

    ``ints`` are the attributes that arrive as int64; they are read as floats, null as NaN.
    Raises ValueError for no weights, a weight that is not finite, or an attribute named twice.
    """

    weights: tuple[tuple[str, float], ...]
    ints: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        names = [name for name, _ in self.weights]
        if not names:
            raise ValueError("a linear scoring function needs at least one weight")
        if len(set(names)) < len(names):
            raise ValueError(f"attribute named twice in {names}")
        for name, w in self.weights:
            if not np.isfinite(w):
                raise ValueError(f"the weight of {name} is {w}, not a finite number")


class Scorer(Protocol):
    """Internal scores of a block of objects: larger is better, NaN is unusable, never -0.0."""

    @property
    def columns(self) -> tuple[Column, ...]:
        """Return the attributes it reads."""
        ...

    def __call__(self, columns: Mapping[str, AnyArray], rows: int, out: F64 | None = None) -> tuple[F64, int]:
        """Return float64[rows] (``out``, if given), and how many objects satisfy the predicate but have no score."""
        ...


def _linear_np(x: tuple[AnyArray, ...], w: AnyArray, out: AnyArray) -> int:
    np.multiply(x[0], w[0], out=out)
    for a in range(1, len(x)):
        out += w[a] * x[a]
    out += 0.0
    return int(np.isnan(out).sum())


def as_floats(column: AnyArray) -> F64:
    """Return a float64 or int64 column as contiguous float64, null as NaN."""
    if column.dtype.kind == "f":
        return np.ascontiguousarray(column, np.float64)
    return np.where(column == NULL, np.nan, column.astype(np.float64))


def read_only(column: F64) -> F64:
    """Return a view that cannot be written through."""
    view = column.view()
    view.flags.writeable = False
    return view


class _LinearScorer:
    def __init__(self, scoring: Linear, negate: bool) -> None:
        self.names = [name for name, _ in scoring.weights]
        w = np.array([w for _, w in scoring.weights], np.float64)
        self.w = np.full(-(-len(w) // 4) * 4, -0.0)
        self.w[: len(w)] = -w if negate else w
        self.columns = tuple(Column(name, "int" if name in scoring.ints else "float") for name in self.names)

    def __call__(self, columns: Mapping[str, AnyArray], rows: int, out: F64 | None = None) -> tuple[F64, int]:
        out = np.empty(rows, np.float64) if out is None else out
        x = tuple([as_floats(columns[name]) for name in self.names])
        if HAVE_NUMBA:
            if len(x) > 1 and not all([c.flags.writeable for c in x]):  # one type for all
                x = tuple([read_only(c) for c in x])
            from skyband.operators.single_rows.kernels.linear import linear

            return out, int(linear(x, self.w, out))
        with np.errstate(all="ignore"):
            return out, _linear_np(x, self.w, out)


class _ExpressionScorer:
    """Any expression, with a predicate or without; without a score 0.0 where the predicate holds."""

    def __init__(self, score: Node | None, where: Node | None, negate: bool, texts: tuple[str, ...]) -> None:
        codes = {t: i for i, t in enumerate(texts)}
        self.kernel = compile_row(score, where, negate, codes)
        self.where = None if score is None or where is None else compile_row(None, where, False, codes)
        nodes = [n for n in (self.kernel.score, self.kernel.where) if n is not None]
        self.columns = tuple(dict.fromkeys(c for n in nodes for c in read_columns(n)))

    def __call__(self, columns: Mapping[str, AnyArray], rows: int, out: F64 | None = None) -> tuple[F64, int]:
        out = self.kernel.evaluate(columns, rows)
        bad = int(np.isnan(out).sum()) if self.kernel.score is not None else 0
        if bad and self.where is not None:
            bad = int((np.isnan(out) & self.where.passes(columns, rows)).sum())
        return out, bad


class _Masked:
    """A linear score where a predicate holds, NaN elsewhere."""

    def __init__(self, score: Scorer, where: Scorer) -> None:
        self.score, self.where = score, where
        self.columns = tuple(dict.fromkeys(self.score.columns + self.where.columns))

    def __call__(self, columns: Mapping[str, AnyArray], rows: int, out: F64 | None = None) -> tuple[F64, int]:
        score, bad = self.score(columns, rows, out)
        holds = ~np.isnan(self.where(columns, rows)[0])
        bad = int((np.isnan(score) & holds).sum()) if bad else 0
        score[~holds] = np.nan
        return score, bad


def scorer(scoring: Linear | Node, where: Node | None, direction: Direction, texts: tuple[str, ...]) -> Scorer:
    """Return internal scores of ``scoring`` restricted to objects that satisfy ``where``: the score for max, its negation for min."""
    negate = direction == "min"
    if isinstance(scoring, Linear):
        linear = _LinearScorer(scoring, negate)
        return linear if where is None else _Masked(linear, _ExpressionScorer(None, where, False, texts))
    return _ExpressionScorer(scoring, where, negate, texts)
