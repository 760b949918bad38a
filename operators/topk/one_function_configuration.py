"""The configuration of ``TopK``: one scoring function, the queries that share a state, and what the state keeps."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Literal

import numpy as np

from skyband.operators.base import Column, Window
from skyband.operators.expressions.ast import Node
from skyband.operators.single_rows.blocks import DELETION_COLUMN
from skyband.operators.single_rows.scores import Direction, Linear, Scorer, scorer
from skyband.operators.state_keys import Counted, Group, Named, StateKeys
from skyband.operators.windows import check_ranked


@dataclass(frozen=True, slots=True)
class TopKQuery:
    """The best ``k`` of ``window`` whose score lies in [min_score, max_score]; ``every_micros``: net changes at its multiples only."""

    name: str
    k: int
    window: Window
    every_micros: int | None = None
    min_score: float | None = None
    max_score: float | None = None


@dataclass(frozen=True)
class TopKConfiguration:
    """One scoring function and its queries.

    Queries that share a state agree in the bound on its *better* side (``max_score`` for direction max): that bound decides which objects
    can dominate. Raises ValueError for k < 1, k > ``keep_k``, a window larger than the state's, a bound that is NaN, or names used twice.
    """

    scoring: Linear | Node
    direction: Direction
    where: Node | None
    queries: tuple[TopKQuery, ...]
    keep_k: int
    window: Window
    texts: tuple[str, ...] = ()

    state_format: ClassVar[str] = "TopK"
    query_types: ClassVar[frozenset[str]] = frozenset({"topk"})
    keeps: ClassVar[Literal["window", "retained", "none"]] = "retained"
    deletes: ClassVar[bool] = False
    state_keys: ClassVar[StateKeys] = StateKeys(
        each={"next_seq": 0, "step": 1, "wake_at": 1, "due": 1, "rep_n": 1, "rep_s": 0, "rep_q": 0, "rep_t": 0, "rep_d": 0},
        groups=(
            Group(Named("tomb_key"), {"tomb_seq": 0, "tomb_time": 0}),
            Group(Counted("length"), {"cs": 0, "cq": 0, "ct": 0, "cd": 0}),
        ),
    )

    def __post_init__(self) -> None:
        check_ranked(self.queries, self.keep_k, self.window, self.direction, "topk")
        if len({self.ceiling(q) for q in self.queries}) > 1:
            raise ValueError("queries of one state must agree in " + ("max_score" if self.direction == "max" else "min_score"))

    def ceiling(self, q: TopKQuery) -> float:
        """Return the internal score above which an object is no candidate."""
        bound = q.max_score if self.direction == "max" else q.min_score
        return np.inf if bound is None else float(bound if self.direction == "max" else -bound)

    def floor(self, q: TopKQuery) -> float:
        """Return the internal score below which an object is no candidate of the query."""
        bound = q.min_score if self.direction == "max" else q.max_score
        return -np.inf if bound is None else float(bound if self.direction == "max" else -bound)

    @property
    def roles(self) -> tuple[str, ...]:
        """Return the roles of an item's objects: an item is a single object."""
        return ("",)

    @cached_property
    def scores(self) -> Scorer:
        """Return internal scores of a block of objects."""
        return scorer(self.scoring, self.where, self.direction, self.texts)

    @property
    def columns(self) -> tuple[Column, ...]:
        """Return the attributes of the scoring function and the predicate, and the deletions' targets."""
        return self.scores.columns + ((DELETION_COLUMN,) if self.deletes else ())

    def __getstate__(self) -> dict[str, object]:
        return {k: v for k, v in self.__dict__.items() if k != "scores"}
