"""The configuration of ``ManyThreshold``: Q thresholds of one form over one window, as arrays with a row per query."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from skyband.operators.base import F64, I64, Window
from skyband.operators.expressions.ast import Node
from skyband.operators.single_rows.many_queries import ManyQueries
from skyband.operators.single_rows.scores import Direction
from skyband.operators.state_keys import Group, Named, StateKeys


@dataclass(frozen=True, eq=False)
class ManyThresholdConfiguration(ManyQueries):
    """Q queries over ``attributes``; all arrays have Q rows. Each answers as ``Threshold`` does with its function.

    ``weights`` float64 (Q, d), of weighted sums; or, with ``score``, an expression over ``attributes`` and ``parameters``, float64 (Q,
    parameters): what the parameters are. ``direction`` decides rank only; ``above``/``at_least`` and ``below``/``at_most`` float64 (Q,),
    NaN for none: every query has at least one bound and at most one per side; ``counts``/``micros`` int64 (Q,): a query's own window, 0 for
    the state's; ``low``/``high`` float64 (Q, d): constraint box, closed (None: no boxes); ``where`` up to 62 predicates and ``where_of``
    int64 (Q,) the one a query uses, -1 for none; ``every`` int64 (Q,) microseconds, 0 for per event. ``ints``: attributes that arrive as
    int64.

    Raises ValueError, naming the query, for arrays of wrong shape, a query without bounds or with two on one side, weights that are not
    finite, windows larger than the state's, constraints that are NaN, names used twice, and an expression that has no bounds
    (``score_programs.without_bounds``).
    """

    names: tuple[str, ...]
    attributes: tuple[str, ...]
    weights: F64
    window: Window
    direction: Direction = "max"
    above: F64 | None = None
    at_least: F64 | None = None
    below: F64 | None = None
    at_most: F64 | None = None
    counts: I64 | None = None
    micros: I64 | None = None
    low: F64 | None = None
    high: F64 | None = None
    where: tuple[Node, ...] = ()
    where_of: I64 | None = None
    every: I64 | None = None
    score: Node | None = None
    parameters: tuple[str, ...] = ()
    ints: frozenset[str] = frozenset()
    texts: tuple[str, ...] = ()
    deletes: bool = False

    state_format: ClassVar[str] = "ManyThreshold"
    query_types: ClassVar[frozenset[str]] = frozenset({"threshold"})
    keeps: ClassVar[Literal["window", "retained", "none"]] = "retained"
    state_keys: ClassVar[StateKeys] = StateKeys(
        each={"next_seq": 0, "k_wake": 0, "k_leave": 0},
        groups=(
            Group(Named("lists", 0)),
            Group(Named("gone", 1)),
            Group(Named("tomb_key"), {"tomb_seq": 0, "tomb_time": 0}),
        ),
    )
    """``lists`` and ``gone`` are tables, with the keys in a column."""

    def __post_init__(self) -> None:
        if self.direction not in ("min", "max"):
            raise ValueError(f"direction is {self.direction!r}, not 'min' or 'max'")
        self.check("threshold", "above", "at_least", "below", "at_most")
        bounds = (self.above, self.at_least, self.below, self.at_most)
        given = [np.zeros(len(self.names), bool) if b is None else ~np.isnan(b) for b in bounds]
        self.refuse(~np.logical_or.reduce(given), "a threshold query needs above, at_least, below or at_most")
        self.refuse(given[0] & given[1], "above and at_least are bounds of one side")
        self.refuse(given[2] & given[3], "below and at_most are bounds of one side")

    def intervals(self) -> tuple[F64, F64]:
        """Return per query the closed interval of scores that pass; empty is (inf, -inf). -0.0 counts as 0.0."""
        q = len(self.names)
        low, high, never = np.full(q, -np.inf), np.full(q, np.inf), np.zeros(q, bool)
        for bounds, side, strict in ((self.at_least, low, False), (self.above, low, True), (self.at_most, high, False),
                                     (self.below, high, True)):  # fmt: skip
            if bounds is None:
                continue
            given = ~np.isnan(bounds)
            beyond = np.inf if side is low else -np.inf
            side[given] = (np.nextafter(bounds + 0.0, beyond) if strict else bounds + 0.0)[given]
            if strict:
                never |= given & (bounds == beyond)
        never |= low > high
        low[never], high[never] = np.inf, -np.inf
        return low, high
