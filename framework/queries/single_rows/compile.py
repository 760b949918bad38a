"""Compiles lists of queries (``queries_from``): one entry of the spec, one operator, one pair of result tables.

The operator is chosen by cost: one state for one function; one behind a grid for many weighted sums, or for many sets of parameters of one
expression; side by side where there are few of them, or where the expression has no bounds that a grid could use.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np
import numpy.typing as npt

from skyband.framework.base.counts import counted
from skyband.framework.base.errors import SkybandError
from skyband.framework.plan.drafts import Context, OperatorDraft, QueryEntry, linear, predicate, score, texts_of
from skyband.framework.plan.model import LogicalQuery
from skyband.framework.queries.single_rows.cells import read_cells
from skyband.framework.queries.single_rows.list_rows import QueryRow, QueryRows, interpret
from skyband.framework.queries.single_rows.model import ScoredRows
from skyband.operators.base import Kind, Operator, Window
from skyband.operators.expressions.ast import Node

if TYPE_CHECKING:
    from skyband.operators.single_rows.scores import Linear

FEW = 4
"""Up to this many functions cost less side by side than behind a grid."""

F64 = npt.NDArray[np.float64]
I64 = npt.NDArray[np.int64]


def read_rows(context: Context, m: QueryEntry) -> QueryRows:
    """The queries of ``m``'s table. SkybandError SKY-E144 or SKY-E145 if they cannot be used (a checked spec's table has changed since)."""
    query = cast(ScoredRows, m.query)
    assert query.queries_from is not None
    kinds: Mapping[str, Kind | None] = context.kinds
    rows = interpret(read_cells(query.queries_from), query, kinds, m.window)
    if rows.problems:
        message, hint = rows.problems[0]
        raise SkybandError("SKY-E144", f"the table of queries of {m.name!r}: {message}", hint)
    return rows


Build = Callable[[tuple[str, ...]], Operator]


class QueryList:
    """The rows of one list, and their functions and predicates as nodes (each different text parsed once)."""

    def __init__(self, context: Context, m: QueryEntry) -> None:
        self.query = cast(ScoredRows, m.query)
        assert self.query.queries_from is not None
        found = read_rows(context, m)
        # By name: a row may change its place in the table, and state numbers the queries.
        self.rows = sorted(found.rows, key=lambda r: r.name)
        self.parameters: dict[str, Kind] = dict.fromkeys(found.parameters, "float")
        name = self.query.scoring
        self.direction: Literal["min", "max"] = (
            (self.query.queries_from.direction or "max") if name is None else context.scoring(name).direction
        )
        self.directions = [r.direction or self.direction for r in self.rows]
        one = None if name is None else score(context, name, self.parameters)
        self.functions: list[Node | Linear] = [linear(context, dict(r.weights)) if one is None else one for r in self.rows]
        parsed: dict[str | None, Node | None] = {}
        for text in dict.fromkeys(t for r in self.rows for t in (r.where, _whole(r))):
            parsed[text] = predicate(context, text, self.parameters)
        self.own_where = [parsed[r.where] for r in self.rows]
        self.whole_where = [parsed[_whole(r)] for r in self.rows]
        self.window = Window.union(r.window for r in self.rows)
        self.ints = frozenset(c for c, _ in self.rows[0].weights if context.kinds[c] == "int")

    def column(self, bound: str) -> F64:
        """A bound of every row, float64 (rows,), NaN for none."""
        return np.array([np.nan if (v := r.bounds[bound]) is None else v for r in self.rows])

    def one_function(self) -> bool:
        """Whether all rows score alike and admit the same candidates."""
        better = "max_score" if self.direction == "max" else "min_score"
        same = {(r.where, r.bounds.get(better)) for r in self.rows}
        return self.query.scoring is not None and not self.parameters and len(same) == 1

    def without_grid(self) -> str | None:
        """Why no grid can serve the one expression of all rows with their parameters, or None if one can."""
        from skyband.operators.expressions.canonical import attributes
        from skyband.operators.single_rows.many_queries import MAX_PREDICATES
        from skyband.operators.single_rows.score_programs import without_bounds

        score = self.functions[0]
        wheres = {n for n in self.own_where if n is not None}
        if not self.parameters:
            return "predicates of their own"
        if any(c.name in self.parameters for n in wheres for c in attributes(n)):
            return "a 'where' with parameters is a predicate of its own for each"
        if len(wheres) > MAX_PREDICATES:
            return f"more than {MAX_PREDICATES} different predicates"
        if not isinstance(score, Node) or all(c.name in self.parameters for c in attributes(score)):
            return "the score has no parameters, or nothing else"
        part = without_bounds(score, [c.name for c in attributes(score)])
        return None if part is None else f"{part} has no bounds that a grid could use"

    def arrays(self, texts: tuple[str, ...], deletes: bool) -> dict[str, Any]:
        """The arguments that the operators of many functions have in common."""
        from skyband.operators.expressions.canonical import attributes as columns_of

        rows, score = self.rows, self.functions[0]
        attributes, ints = tuple(c for c, _ in rows[0].weights), self.ints
        weights = np.array([[w for _, w in r.weights] for r in rows])
        more: dict[str, Any] = {}
        if isinstance(score, Node):
            used = columns_of(score)
            attributes = tuple(c.name for c in used if c.name not in self.parameters)
            ints = frozenset(c.name for c in used if c.kind == "int")
            more = {"score": score, "parameters": tuple(c.name for c in used if c.name in self.parameters)}
            weights = np.array([[dict(r.parameters)[p] for p in more["parameters"]] for r in rows])
        low, high = _box(rows, attributes)
        nodes = list(dict.fromkeys(n for n in self.own_where if n is not None))
        of = {n: i for i, n in enumerate(nodes)}
        return {
            "names": tuple(r.name for r in rows), "attributes": attributes, "weights": weights, **more,
            "window": self.window, "counts": whole_numbers(r.window.count for r in rows),
            "micros": whole_numbers(r.window.micros for r in rows), "low": low, "high": high, "where": tuple(nodes),
            "where_of": np.array([-1 if n is None else of[n] for n in self.own_where]),
            "every": None if self.query.every is None else np.full(len(rows), self.query.every), "ints": ints, "texts": texts,
            "deletes": deletes,
        }  # fmt: skip

    def draft(self, m: QueryEntry, k: int, build: Build, why: str) -> OperatorDraft:
        """The one operator of the entry ``m``."""
        asked = tuple(
            LogicalQuery(r.name, f, w, r.window, r.k, tuple(r.bounds.values()), d, r.parameters)
            for r, f, w, d in zip(self.rows, self.functions, self.whole_where, self.directions, strict=True)
        )
        texts = texts_of(*self.functions[:1], *dict.fromkeys(self.whole_where))
        return OperatorDraft((m,), k, self.window, self.direction, texts, build, why, skyband=False, asked=(asked,), table=True)


def cheapest(context: Context, table: QueryList, shared: Build, apart: Build, many: Build, grid_per_key: bool) -> tuple[Build, str]:
    """The cheapest operator that is exact for the list, and why it is.

    ``shared``: one state for all; ``apart``: side by side; ``many``: an operator for many functions of one form (``grid_per_key``: its
    grid cannot serve several keys at once).
    """
    q = len(table.rows)
    if table.one_function():
        return shared, f"{counted(q, 'query', 'queries')} of one function: each row is scored once for all of them"
    why_not = None if table.query.scoring is None else table.without_grid()
    if why_not is not None:
        return apart, f"{counted(q, 'query', 'queries')} side by side, a pass over each block of rows for each: {why_not}"
    what = "linear functions" if table.query.scoring is None else "sets of parameters"
    if q <= FEW:
        return apart, f"{q:,} {what} side by side: so few cost less than a grid"
    if context.job.source.partition_by and grid_per_key:
        return many, f"{q:,} {what}: each row is scored for all of them in one pass (a grid of cutoffs would be one per key)"
    bounds = "" if table.query.scoring is None else " (bounds of its cells by interval arithmetic)"
    return many, f"{q:,} {what}: an influence grid{bounds} finds the few that a row can concern"


def side_by_side(parts: list[Operator], rows: list[QueryRow]) -> Operator:
    """The operators of single rows of a list as one."""
    from skyband.operators.side_by_side import SideBySide

    parameters = tuple(r.parameters for r in rows) if rows[0].parameters else ()
    return SideBySide(tuple(parts), parameters)


def _whole(r: QueryRow) -> str | None:
    """A row's ``where`` and its constraints as one predicate."""
    from skyband.operators.expressions.canonical import name

    parts = [f"({r.where})"] if r.where is not None else []
    for column, low, high in r.box:
        parts += [f"{name(column)} >= {low!r}"] if low is not None else []
        parts += [f"{name(column)} <= {high!r}"] if high is not None else []
    return reduce(lambda a, b: f"{a} and {b}", parts) if parts else None


def _box(rows: list[QueryRow], attributes: tuple[str, ...]) -> tuple[F64 | None, F64 | None]:
    """The constraints of rows on attributes, float64 (rows, attributes) each, or None if there are none."""
    if not any(r.box for r in rows):
        return None, None
    shape = (len(rows), len(attributes))
    low, high = np.full(shape, -np.inf), np.full(shape, np.inf)
    for i, r in enumerate(rows):
        for column, least, most in r.box:
            at = attributes.index(column)
            low[i, at], high[i, at] = -np.inf if least is None else least, np.inf if most is None else most
    return low, high


def whole_numbers(values: Any) -> I64:
    """int64, 0 for None."""
    return np.array([v or 0 for v in values], np.int64)


def spelled_out(m: QueryEntry) -> bool:
    """Whether the entry is one query, not a list."""
    query: Any = m.query
    return query.queries_from is None


def logical_query(m: QueryEntry, function: Any, where: Any, direction: Literal["min", "max"]) -> LogicalQuery:
    """What a spelled-out entry asks, in full."""
    q: Any = m.query
    return LogicalQuery(m.name, function, where, m.window, getattr(q, "k", None), tuple(getattr(q, b) for b in q.bounds), direction)
