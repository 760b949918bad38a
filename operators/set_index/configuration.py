"""What operators of similar sets have in common: the token column, the similarity, and which pairs are candidates."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import inf, isnan, nextafter, sqrt
from typing import ClassVar, Literal

import numpy as np

from skyband.operators.base import F64, AnyArray, Arrivals, Column, Window
from skyband.operators.expressions.ast import Literal_, Node
from skyband.operators.expressions.compile import PairKernel, compile_pair
from skyband.operators.expressions.leaves import read_columns
from skyband.operators.pair_rows.deletions import both_alive, given_columns
from skyband.operators.pair_rows.queries import Between, BoundedPairQuery, PairQuery, PairsOfSides, all_of
from skyband.operators.set_index.functions import DISTANCES, SIMILARITIES, Similarity

NEARLY_ZERO: float = nextafter(0.0, -1.0)
"""The internal score that every pair reaches that shares a token, and no other."""


@dataclass(frozen=True, kw_only=True)
class SetsConfiguration(PairsOfSides):
    """Pairs of sets of ``tokens`` by ``similarity``, of those that meet ``where`` (a is the older object, or with ``between`` side a).

    ``texts`` are the plan's text constants. ``deletes``: rows may be deletions. Raises ValueError for an unknown similarity, equal sides,
    or a condition that is none.
    """

    tokens: str
    similarity: Similarity
    where: Node | None = None
    between: Between | None = None
    window: Window
    texts: tuple[str, ...] = ()
    deletes: bool = False

    keeps: ClassVar[Literal["window", "retained", "none"]] = "window"

    @property
    def partner_nanos(self) -> float:
        """Return the time that an object of the window adds to a search, as ``Shardable.partner_nanos``."""
        return 1.0

    def check(self) -> None:
        """Raise ValueError as the class says."""
        if self.similarity not in SIMILARITIES:
            raise ValueError(f"similarity is {self.similarity!r}, not one of {', '.join(SIMILARITIES)}")
        if self.between is not None:
            self.between.check()
        _ = self.kernel

    @property
    def direction(self) -> Literal["min", "max"]:
        """Which scores are better."""
        return "min" if self.similarity in DISTANCES else "max"

    def check_bounds(self, name: str, min_score: float | None, max_score: float | None) -> None:
        """Raise ValueError unless a query's bound is a number on the worse side."""
        wrong = min_score if self.direction == "min" else max_score
        if wrong is not None:
            raise ValueError(f"{name}: {self.similarity} takes " + ("max_score" if self.direction == "min" else "min_score"))
        if any(bound is not None and isnan(bound) for bound in (min_score, max_score)):
            raise ValueError(f"{name}: a score bound is not a number")

    def worst_score(self, q: PairQuery | BoundedPairQuery) -> float:
        """Return the largest internal score of a pair that the query accepts."""
        if self.similarity == "hamming":
            return inf if q.max_score is None else q.max_score + 0.0
        if q.min_score is None or q.min_score <= 0:
            return NEARLY_ZERO
        return -(least_square(q.min_score) if self.similarity == "cosine" else q.min_score)

    def external(self, score: F64) -> F64:
        """Internal scores as users know them: a cosine is the root of what it is ranked by."""
        if self.similarity == "hamming":
            return score + 0.0
        out: F64 = np.sqrt(-score) if self.similarity == "cosine" else -score
        return out + 0.0

    def unusable(self, arrivals: Arrivals) -> AnyArray:
        """Return a mask (n,) of the arrivals without tokens, which pair with nothing."""
        found: AnyArray = np.diff(arrivals.ragged[self.tokens].start) == 0
        return found

    @property
    def condition(self) -> Node | None:
        """What a pair must meet besides being similar: ``where``, the sides, and that neither object was deleted."""
        return all_of([*self.conditions(self.where), *(both_alive() if self.deletes else [])])

    @cached_property
    def kernel(self) -> PairKernel:
        """0 for the pairs that meet ``condition``, NaN for others; the newer object is ``b`` (``kernel.swapped``: it is ``a``)."""
        codes = {text: code for code, text in enumerate(self.texts)}
        return compile_pair(Literal_(type="float", value=0.0), self.condition, False, codes)

    @property
    def columns(self) -> tuple[Column, ...]:
        """Return the tokens, the attributes of the condition, and the deletions' targets."""
        found = {c.name: c for n in (self.condition,) if n is not None for c in read_columns(n)}
        return given_columns({self.tokens: Column(self.tokens, "tokens"), **found}, self.deletes)


def least_square(cosine: float) -> float:
    """Return the smallest float64 whose root is at least ``cosine`` (> 0)."""
    square = cosine * cosine
    while square > 0 and sqrt(square) >= cosine:
        square = nextafter(square, 0.0)
    while sqrt(square) < cosine:
        square = nextafter(square, inf)
    return square
