"""Thresholds of thousands of linear functions over one window, as one state and one spec entry.

An influence grid finds the few queries an arrival passes; each query and key keeps its members first in first out, and only lists that
change are looked at. Nothing loops over queries in Python.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np

from skyband.operators.base import F64, I64, AnyArray, Column, State, Window
from skyband.operators.expressions import attributes, compile_row
from skyband.operators.expressions.ast import Node
from skyband.operators.threshold_many_logic import ManyThresholdLogic
from skyband.operators.topk_blocks import TARGET_COLUMN
from skyband.operators.topk_scoring import Direction
from skyband.operators.windows import check_window

MAX_QUERIES = 30_000


@dataclass(frozen=True, eq=False)
class ManyThreshold:
    """Q linear queries over ``attributes``; all arrays have Q rows. Each answers as ``Threshold`` does with ``Linear`` of its weights.

    ``weights`` float64 (Q, d); ``direction`` decides rank only; ``above``/``at_least`` and ``below``/``at_most`` float64 (Q,), NaN for
    none: every query has at least one bound and at most one per side; ``counts``/``micros`` int64 (Q,): a query's own window, 0 for the
    state's;
    ``low``/``high`` float64 (Q, d): constraint box, closed (None: no boxes); ``where`` up to 62 predicates and ``where_of`` int64 (Q,)
    the one a query uses, -1 for none; ``every`` int64 (Q,) microseconds, 0 for per event. ``ints``: attributes that arrive as int64.

    Raises ValueError, naming the query, for arrays of wrong shape, a query without bounds or with two on one side, weights that are not
    finite, windows larger than the state's, constraints that are NaN, and names used twice.
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
    ints: frozenset[str] = frozenset()
    texts: tuple[str, ...] = ()
    deletes: bool = False

    query_types: ClassVar[frozenset[str]] = frozenset({"threshold"})
    keeps: ClassVar[Literal["window", "retained", "none"]] = "retained"

    def __post_init__(self) -> None:
        check_window(self.window, self.window, "threshold")
        q, d = len(self.names), len(self.attributes)
        if not 1 <= q <= MAX_QUERIES:
            raise ValueError(f"{q} queries: a table of queries holds 1 to {MAX_QUERIES}")
        if d < 1 or len(set(self.attributes)) < d:
            raise ValueError("attributes must be named, each once")
        if len(set(self.names)) < q:
            raise ValueError("two queries of one name")
        if self.direction not in ("min", "max"):
            raise ValueError(f"direction is {self.direction!r}, not 'min' or 'max'")
        if len(self.where) > 62:
            raise ValueError("at most 62 different predicates")
        shapes = {"weights": (q, d), "low": (q, d), "high": (q, d)}
        fields = ("weights", "above", "at_least", "below", "at_most", "counts", "micros", "low", "high", "where_of", "every")
        for field in fields:
            a = getattr(self, field)
            if a is not None and a.shape != shapes.get(field, (q,)):
                raise ValueError(f"{field} has shape {a.shape}, not {shapes.get(field, (q,))}")
        if (self.low is None) != (self.high is None):
            raise ValueError("a box needs low and high")
        self._refuse(np.asarray(~np.isfinite(self.weights).all(axis=1)), "a weight is not a finite number")
        given = [np.zeros(q, bool) if b is None else ~np.isnan(b) for b in (self.above, self.at_least, self.below, self.at_most)]
        self._refuse(~np.logical_or.reduce(given), "a threshold query needs above, at_least, below or at_most")
        self._refuse(given[0] & given[1], "above and at_least are bounds of one side")
        self._refuse(given[2] & given[3], "below and at_most are bounds of one side")
        if self.low is not None and self.high is not None:
            self._refuse(np.asarray((np.isnan(self.low) | np.isnan(self.high)).any(axis=1)), "a constraint is not a number")
        for a, most, kind in ((self.counts, self.window.count, "count"), (self.micros, self.window.micros, "time")):
            if a is not None:
                self._refuse(a < 0, f"a {kind} window must be at least 1")
                self._refuse((a > 0) & (most is None), f"the state's window is not by {kind}")
                self._refuse(a > (most or 0), f"the {kind} window is larger than the state's")
        if self.every is not None:
            self._refuse(self.every < 0, "every must be at least 1 microsecond")
        if self.where_of is not None:
            self._refuse((self.where_of < -1) | (self.where_of >= len(self.where)), "unknown predicate")

    def _refuse(self, bad: AnyArray, why: str) -> None:
        if bad.any():
            raise ValueError(f"{self.names[int(np.argmax(bad))]}: {why}")

    @property
    def roles(self) -> tuple[str, ...]:
        """Single objects."""
        return ("",)

    @property
    def columns(self) -> tuple[Column, ...]:
        """The attributes, those of the predicates, and the deletions' targets."""
        own = [Column(a, "int" if a in self.ints else "float") for a in self.attributes]
        own += [c for node in self.where for c in attributes(node)]
        return tuple(dict.fromkeys(own)) + ((TARGET_COLUMN,) if self.deletes else ())

    @cached_property
    def predicates(self) -> tuple[Any, ...]:
        """Compiled predicates."""
        codes = {t: i for i, t in enumerate(self.texts)}
        return tuple(compile_row(None, node, False, codes) for node in self.where)

    def intervals(self) -> tuple[F64, F64]:
        """Per query the closed interval of scores that pass; empty is (inf, -inf). -0.0 counts as 0.0."""
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

    def __getstate__(self) -> dict[str, object]:
        return {k: v for k, v in self.__dict__.items() if k != "predicates"}

    def build(self, state: State | None) -> ManyThresholdLogic:
        """A logic that continues ``state`` bit for bit, or starts empty."""
        return ManyThresholdLogic(self, state)
