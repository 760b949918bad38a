"""What configurations of pairs with a scoring expression have in common."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from math import inf
from typing import Any, Literal

import numpy as np

from skyband.operators.base import F64, AnyArray, Arrivals, Column, Window
from skyband.operators.expressions.ast import Binary, Literal_, Node
from skyband.operators.expressions.bounds import trivial
from skyband.operators.expressions.compile import PairKernel, compile_pair
from skyband.operators.expressions.leaves import needed_columns, read_columns
from skyband.operators.pair_rows.deletions import given_columns
from skyband.operators.pair_rows.hash_index.equalities import SHARE, Equality, equalities
from skyband.operators.pair_rows.nulls import missing
from skyband.operators.pair_rows.queries import BoundedPairQuery, PairQuery, PairsOfSides, all_of


class ScoredPairs(PairsOfSides):
    """Pairs (a, b) with a score; each configuration declares these fields.

    Queries that share a state agree in the bound on its *better* side (``min_score`` for direction min): it decides which pairs are
    candidates at all.
    """

    scoring: Node
    direction: Literal["min", "max"]
    where: Node | None
    queries: Sequence[PairQuery | BoundedPairQuery]
    window: Window
    deletes: bool = False

    def check_scored(self) -> None:
        """Raise ValueError for other directions, bounds that disagree, equal sides, or a score or condition that is none."""
        if self.direction not in ("min", "max"):
            raise ValueError(f"direction is {self.direction!r}, not 'min' or 'max'")
        if len({self._better_bound(q) for q in self.queries}) > 1:
            raise ValueError("queries of one state must agree in " + ("min_score" if self.direction == "min" else "max_score"))
        if self.between is not None:
            self.between.check()
        _ = self.kernel  # raises ValueError for a scoring expression that is not a number, or a text constant without a code

    def _better_bound(self, q: PairQuery | BoundedPairQuery) -> float | None:
        return q.min_score if self.direction == "min" else q.max_score

    def worst_score(self, q: PairQuery | BoundedPairQuery) -> float:
        """Return the largest internal score (negated for direction max) the query accepts."""
        bound = q.max_score if self.direction == "min" else q.min_score
        return inf if bound is None else (bound if self.direction == "min" else -bound) + 0.0

    def external(self, score: F64) -> F64:
        """Return internal scores as users write them."""
        out: F64 = (-score if self.direction == "max" else score) + 0.0
        return out

    def unusable(self, arrivals: Arrivals) -> AnyArray:
        """Return which arrivals (n,) no pair can use: in each role that they may have, they lack an attribute that the score needs."""
        as_a, as_b = (self._lacking(arrivals, side) for side in ("a", "b"))
        if self.between is None:
            return as_a & as_b
        side, (code_a, code_b) = arrivals.columns[self.between.column], self.side_codes()
        found: AnyArray = (as_a & (side == code_a)) | (as_b & (side == code_b))
        return found

    def _lacking(self, arrivals: Arrivals, side: str) -> AnyArray:
        """Return which arrivals (n,) have, as object ``side``, a null in an attribute without which the score is null."""
        lacking, needed = np.zeros(len(arrivals), bool), needed_columns(self.scoring, side)
        for c in read_columns(self.scoring):
            if c.name in needed:
                lacking |= missing(arrivals, c)
        return lacking

    @property
    def candidates(self) -> Node | None:
        """Return the condition a pair must meet to be a candidate: ``where``, the sides, the bound on the better side."""
        parts = self.conditions(self.where)
        bound = self._better_bound(self.queries[0])
        if bound is not None:
            op = ">=" if self.direction == "min" else "<="
            parts.append(Binary(type="bool", op=op, x=self.scoring, y=Literal_(type="float", value=float(bound))))
        return all_of(parts)

    @cached_property
    def equalities(self) -> tuple[Equality, ...]:
        """Return the conditions by which a hash index finds the partners of an object."""
        return equalities(self.where)

    @cached_property
    def kernel(self) -> PairKernel:
        """Return block kernels of the score under ``candidates``; the newer object is ``b`` (``kernel.swapped``: it is ``a``)."""
        codes = {text: code for code, text in enumerate(self.texts)}
        return compile_pair(self.scoring, self.candidates, self.direction == "max", codes)

    def functions(self, bounds: bool) -> tuple[Any, ...]:
        """Return the functions of ``Scoring``; without ``bounds``, others of the same type stand for the bounds, which cost compiling."""
        as_b = self.kernel
        as_a = as_b if self.between is None else as_b.swapped
        scores = (as_a.count_block, as_a.score_block, as_b.count_block, as_b.score_block)
        return (*scores, as_a.bound_block, as_b.bound_block) if bounds else (*scores, as_a.score_block, as_b.score_block)

    @cached_property
    def has_bounds(self) -> bool:
        """Return True if bounds of the score or of ``candidates`` depend on the boxes of objects, so that zone maps may exclude some."""
        return not trivial(self.kernel)

    @property
    def costly(self) -> bool:
        """Return True if a score compares vectors, texts or sets."""
        return any(c.kind in ("vector", "characters", "tokens") for c in self.columns)

    @property
    def partner_nanos(self) -> float:
        """Return the time that an object of the window adds to a search, as ``Shardable.partner_nanos``."""
        of_scan = 4.0 if self.costly else 0.05 if self.has_bounds else 0.25
        return of_scan / SHARE if self.equalities else of_scan

    @property
    def columns(self) -> tuple[Column, ...]:
        """Return the attributes of the scoring expression and of the conditions, and the deletions' targets."""
        found = {c.name: c for n in (self.scoring, self.candidates) if n is not None for c in read_columns(n)}
        return given_columns(found, self.deletes)
