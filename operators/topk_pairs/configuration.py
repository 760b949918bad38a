"""The configuration of top-k pairs: a scoring expression over pairs and the queries that share it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import inf
from typing import ClassVar, Literal

from skyband.operators.base import Column, Window
from skyband.operators.expressions.ast import Binary, Literal_, Node
from skyband.operators.expressions.bounds import trivial
from skyband.operators.expressions.canonical import attributes
from skyband.operators.expressions.compile import PairKernel, compile_pair
from skyband.operators.pair_rows.queries import PAIR_ROWS, Between, PairQuery, PairsOfSides, all_of
from skyband.operators.state_keys import StateKeys
from skyband.operators.windows import check_ranked


@dataclass(frozen=True)
class TopKPairsConfiguration(PairsOfSides):
    """One scoring expression over a pair (a, b) and its queries.

    a is the older object, or with ``between`` the one of side a, whatever its age. Queries that share a state agree in the bound on its
    *better* side (``min_score`` for direction min): it decides which pairs are candidates at all. Raises ValueError for k < 1,
    k > ``keep_k``, a window larger than the state's or of another kind, a bound that is NaN, equal sides, or names used twice.
    """

    scoring: Node
    direction: Literal["min", "max"]
    where: Node | None
    between: Between | None
    queries: tuple[PairQuery, ...]
    keep_k: int
    window: Window
    texts: tuple[str, ...] = ()

    state_format: ClassVar[str] = "TopKPairs"
    query_types: ClassVar[frozenset[str]] = frozenset({"topk_pairs"})
    keeps: ClassVar[Literal["window", "retained", "none"]] = "window"
    state_keys: ClassVar[StateKeys] = PAIR_ROWS

    def __post_init__(self) -> None:
        check_ranked(self.queries, self.keep_k, self.window, self.direction, "topk_pairs")
        if len({self._better_bound(q) for q in self.queries}) > 1:
            raise ValueError("queries of one state must agree in " + ("min_score" if self.direction == "min" else "max_score"))
        if self.between is not None:
            self.between.check()
        _ = self.kernel  # raises ValueError for a scoring expression that is not a number, or a text constant without a code

    def _better_bound(self, q: PairQuery) -> float | None:
        return q.min_score if self.direction == "min" else q.max_score

    def worst_score(self, q: PairQuery) -> float:
        """Return the largest internal score (negated for direction max) the query accepts."""
        bound = q.max_score if self.direction == "min" else q.min_score
        return inf if bound is None else (bound if self.direction == "min" else -bound) + 0.0

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
    def kernel(self) -> PairKernel:
        """Return block kernels of the score under ``candidates``; the newer object is ``b`` (``kernel.swapped``: it is ``a``)."""
        codes = {text: code for code, text in enumerate(self.texts)}
        return compile_pair(self.scoring, self.candidates, self.direction == "max", codes)

    @cached_property
    def has_bounds(self) -> bool:
        """Return True if bounds of the score or of ``candidates`` depend on the boxes of objects, so that zone maps may exclude some."""
        return not trivial(self.kernel)

    @property
    def columns(self) -> tuple[Column, ...]:
        """Return the attributes of the scoring expression and of the conditions."""
        found = {c.name: c for n in (self.scoring, self.candidates) if n is not None for c in attributes(n)}
        return tuple(found.values())


@dataclass(frozen=True)
class CappedTopKPairsConfiguration(TopKPairsConfiguration):
    """A ``TopKPairsConfiguration`` whose results hold an object at most ``max_per_object`` times.

    A result is what a walk through the window's pairs in rank order takes: every pair that has no object in ``max_per_object`` taken pairs,
    until there are k. Raises ValueError for a cap below 1 or above ``keep_k``, too.
    """

    max_per_object: int = 1

    state_format: ClassVar[str] = "CappedTopKPairs"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 1 <= self.max_per_object <= self.keep_k:
            raise ValueError(f"max_per_object = {self.max_per_object}: from 1 to {self.keep_k}")
