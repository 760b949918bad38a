"""Queries of one form as arrays with a row per query: fields, checks and derived arrays that several operators share."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from skyband.operators.base import F64, I64, AnyArray, Column, Window
from skyband.operators.expressions import attributes, compile_row, read_columns
from skyband.operators.expressions.ast import Node
from skyband.operators.single_rows.blocks import DELETION_COLUMN
from skyband.operators.single_rows.score_programs import WEIGHTED_SUM, ScoreProgram, score_program, without_bounds
from skyband.operators.windows import check_window, count_of, micros_of

MAX_QUERIES = 30_000
MAX_PREDICATES = 62


class ManyQueries:
    """Q queries over ``attributes``, of any kind; subclasses are dataclasses with these fields.

    Without ``score`` scores are weighted sums: ``weights`` float64 (Q, d). With it, ``score`` is an expression over ``attributes`` and
    ``parameters``, and ``weights`` float64 (Q, parameters) has what the parameters are in each query. ``counts``/``micros`` int64 (Q,): a
    query's own window, 0 for the state's; ``low``/``high`` float64 (Q, d): constraint box, closed; ``where`` the predicates and
    ``where_of`` int64 (Q,) the one a query uses, -1 for none; ``every`` int64 (Q,) microseconds, 0 for per event. ``ints``: attributes that
    arrive as int64.
    """

    names: tuple[str, ...]
    attributes: tuple[str, ...]
    weights: F64
    window: Window
    counts: I64 | None
    micros: I64 | None
    low: F64 | None
    high: F64 | None
    where: tuple[Node, ...]
    where_of: I64 | None
    every: I64 | None
    score: Node | None
    parameters: tuple[str, ...]
    ints: frozenset[str]
    texts: tuple[str, ...]
    deletes: bool

    def check(self, what: str, *own: str) -> None:
        """Raise ValueError, naming the query where it is one, unless the arrays fit each other; ``own`` (Q,) are the subclass's."""
        check_window(self.window, self.window, what)
        q, d = len(self.names), len(self.attributes)
        if not 1 <= q <= MAX_QUERIES:
            raise ValueError(f"{q} queries: a table of queries holds 1 to {MAX_QUERIES}")
        if d < 1 or len(set(self.attributes)) < d:
            raise ValueError("attributes must be named, each once")
        if len(set(self.names)) < q:
            raise ValueError("two queries of one name")
        if len(self.where) > MAX_PREDICATES:
            raise ValueError(f"at most {MAX_PREDICATES} different predicates")
        shapes = {"weights": (q, d if self.score is None else len(self.parameters)), "low": (q, d), "high": (q, d)}
        for field in ("weights", *own, "counts", "micros", "low", "high", "where_of", "every"):
            a = getattr(self, field)
            if a is not None and a.shape != shapes.get(field, (q,)):
                raise ValueError(f"{field} has shape {a.shape}, not {shapes.get(field, (q,))}")
        if self.parameters and self.score is None:
            raise ValueError("parameters need a score")
        if self.score is not None and {c.name for c in attributes(self.score)} != {*self.attributes, *self.parameters}:
            raise ValueError("the score must use every attribute and every parameter, and nothing else")
        part = None if self.score is None else without_bounds(self.score, (*self.attributes, *self.parameters))
        if part is not None:
            raise ValueError(f"{part} has no bounds that a grid could use")
        if (self.low is None) != (self.high is None):
            raise ValueError("a box needs low and high")
        self.refuse(np.asarray(~np.isfinite(self.weights).all(axis=1)), "a weight is not a finite number")
        if self.low is not None and self.high is not None:
            self.refuse(np.asarray((np.isnan(self.low) | np.isnan(self.high)).any(axis=1)), "a constraint is not a number")
        for a, most, kind in ((self.counts, self.window.count, "count"), (self.micros, self.window.micros, "time")):
            if a is not None:
                self.refuse(a < 0, f"a {kind} window must be at least 1")
                self.refuse((a > 0) & (most is None), f"the state's window is not by {kind}")
                self.refuse(a > (most or 0), f"the {kind} window is larger than the state's")
        if self.every is not None:
            self.refuse(self.every < 0, "every must be at least 1 microsecond")
        if self.where_of is not None:
            self.refuse((self.where_of < -1) | (self.where_of >= len(self.where)), "unknown predicate")

    def refuse(self, bad: AnyArray, why: str) -> None:
        """Raise ValueError with the name of the first query that is ``bad`` (Q,), if any is."""
        if bad.any():
            raise ValueError(f"{self.names[int(np.argmax(bad))]}: {why}")

    @property
    def roles(self) -> tuple[str, ...]:
        """Return the roles of an item's objects: an item is a single object."""
        return ("",)

    @property
    def columns(self) -> tuple[Column, ...]:
        """Return the attributes, those of the predicates, and the deletions' targets."""
        own = [Column(a, "int" if a in self.ints else "float") for a in self.attributes]
        own += [c for node in self.where for c in read_columns(node)]
        return tuple(dict.fromkeys(own)) + ((DELETION_COLUMN,) if self.deletes else ())

    @cached_property
    def predicates(self) -> tuple[Any, ...]:
        """Compile the predicates."""
        codes = {t: i for i, t in enumerate(self.texts)}
        return tuple(compile_row(None, node, False, codes) for node in self.where)

    def flags(self, columns: dict[str, AnyArray], rows: int) -> I64:
        """Return per row an int64 with bit i set where predicate i holds; empty if there are none."""
        out = np.zeros(rows if self.where else 0, np.int64)
        for i, p in enumerate(self.predicates):
            out |= p.passes(columns, rows).astype(np.int64) << i
        return out

    def functions(self, sign: F64) -> tuple[ScoreProgram, F64]:
        """Return the program of the internal scores, which are ``sign`` float64 (Q,) times the scores, and its constants, a row per query.

        For weighted sums these are the weights.
        """
        if self.score is None:
            return WEIGHTED_SUM, np.ascontiguousarray(self.weights * sign[:, None], np.float64)
        return score_program(self.score, self.attributes, self.parameters, self.weights, sign)

    def filled(self) -> tuple[I64, I64, I64, I64]:
        """Return per query the window's count and microseconds (or ``UNBOUNDED``), ``every`` (or 0), and the predicate (or -1)."""
        zero = np.zeros(len(self.names), np.int64)
        counts, micros = (zero if a is None else a for a in (self.counts, self.micros))
        return (
            np.where(counts > 0, counts, count_of(self.window)).astype(np.int64),
            np.where(micros > 0, micros, micros_of(self.window)).astype(np.int64),
            zero if self.every is None else np.ascontiguousarray(self.every, np.int64),
            zero - 1 if self.where_of is None else np.ascontiguousarray(self.where_of, np.int64),
        )

    def __getstate__(self) -> dict[str, object]:
        return {k: v for k, v in self.__dict__.items() if k != "predicates"}
