"""Thresholds: all rows whose score passes a bound."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Any, ClassVar, Literal, cast

from pydantic import ConfigDict, Field

from skyband.framework.base.counts import number_text
from skyband.framework.base.items import SCORE
from skyband.framework.base.units import Number
from skyband.framework.plan.drafts import Context, OperatorDraft, QueryEntry, predicate, predicate_key, score, score_key, share, texts_of
from skyband.framework.plan.model import LogicalQuery, Plan, QueryNode
from skyband.framework.queries.checks import uses_scoring
from skyband.framework.queries.protocol import Limits, Question
from skyband.framework.queries.single_rows.compile import QueryList, cheapest, logical_query, side_by_side, spelled_out
from skyband.framework.queries.single_rows.list_check import SingleRowsType, needed_fields
from skyband.framework.queries.single_rows.list_rows import QueryRow
from skyband.framework.queries.single_rows.model import ScoredRows
from skyband.framework.spec.checks.scope import ROW_SIDES, Scope
from skyband.framework.spec.parsing.document import Path
from skyband.operators.base import Operator, Window
from skyband.operators.expressions.ast import Node

if TYPE_CHECKING:
    from skyband.framework.verify.brute_force.objects import Found


# The entry of a spec: all rows whose score passes a bound, or a list of such queries.

BOUNDS = ("above", "at_least", "below", "at_most")


class Threshold(ScoredRows):
    """All rows whose score passes a bound, or two bounds on different sides."""

    model_config = ConfigDict(json_schema_extra={"anyOf": [{"required": ["scoring"]}, {"required": ["queries_from"]}]})

    bounds: ClassVar[tuple[str, ...]] = BOUNDS
    ranked: ClassVar[bool] = False

    type: Literal["threshold"]
    at_least: Number | None = Field(default=None, description="score >= this")
    above: Number | None = Field(default=None, description="score > this")
    at_most: Number | None = Field(default=None, description="score <= this")
    below: Number | None = Field(default=None, description="score < this")

    @classmethod
    def bad_bounds(cls, bounds: Mapping[str, float | None]) -> str | None:
        """See ``ScoredRows``."""
        given = [b for b, v in bounds.items() if v is not None]
        if not given:
            return "has no bound: one of at_least, above, at_most, below"
        if two_on_one_side(given):
            return f"has two bounds on one side ({', '.join(given)})"
        return "has bounds that nothing can pass" if nothing_passes(*(bounds[b] for b in BOUNDS)) else None


def two_on_one_side(given: list[str]) -> bool:
    """Whether two of the bounds named bound the same side."""
    return {"at_least", "above"} <= set(given) or {"at_most", "below"} <= set(given)


def nothing_passes(above: float | None, at_least: float | None, below: float | None, at_most: float | None) -> bool:
    """Whether no score is above and at least, below and at most these bounds."""
    lows = [(b, strict) for b, strict in ((above, True), (at_least, False)) if b is not None]
    highs = [(b, strict) for b, strict in ((below, True), (at_most, False)) if b is not None]
    return any(low > high or (low == high and (s or t)) for low, s in lows for high, t in highs)


# Entries to operators: bounds only cut the candidates, so any number of spelled-out ones share a state if scoring, direction and ``where``
#
# are equal; a list of queries gets an operator of its own.

_WHY = "one score a row, compared with the bounds; only rows that pass are kept"


def compile_threshold(context: Context, entries: Sequence[QueryEntry]) -> Iterable[OperatorDraft]:
    """Drafts of ``Threshold`` operators, and of those of lists of queries; they keep no skyband, K is 1."""

    def key(m: QueryEntry) -> Any:
        q = cast(Threshold, m.query)
        name = str(q.scoring)
        return (score_key(context, name), context.scoring(name).direction, predicate_key(context, q.where))

    for _, group in share([m for m in entries if spelled_out(m)], key):
        yield _spelled(context, group, [cast(Threshold, m.query) for m in group])
    for m in entries:
        if not spelled_out(m):
            yield _list(context, m)


def _spelled(context: Context, group: tuple[QueryEntry, ...], queries: list[Threshold]) -> OperatorDraft:
    name = str(queries[0].scoring)
    direction = context.scoring(name).direction
    function, where = score(context, name), predicate(context, queries[0].where)
    window = Window.union(m.window for m in group)

    def build(texts: tuple[str, ...]) -> Operator:
        from skyband.operators.threshold.one_function import Threshold, ThresholdQuery

        own = tuple(
            ThresholdQuery(m.name, m.window, q.above, q.at_least, q.below, q.at_most, q.every) for m, q in zip(group, queries, strict=True)
        )
        return Threshold(function, direction, where, own, window, texts, context.deletes)

    return OperatorDraft(
        group, 1, window, direction, texts_of(function, where), build, _WHY, skyband=False,
        asked=tuple((logical_query(m, function, where, direction),) for m in group),
    )  # fmt: skip


def _list(context: Context, m: QueryEntry) -> OperatorDraft:
    table = QueryList(context, m)
    rows = table.rows
    every = table.query.every

    def own(r: QueryRow) -> Any:
        from skyband.operators.threshold.one_function import ThresholdQuery

        b = r.bounds
        return ThresholdQuery(r.name, r.window, b["above"], b["at_least"], b["below"], b["at_most"], every)

    def one(texts: tuple[str, ...], f: Any, where: Node | None, queries: tuple[Any, ...], window: Window) -> Operator:
        from skyband.operators.threshold.one_function import Threshold

        return Threshold(f, table.direction, where, queries, window, texts, context.deletes)

    def shared(texts: tuple[str, ...]) -> Operator:
        return one(texts, table.functions[0], table.whole_where[0], tuple(own(r) for r in rows), table.window)

    def apart(texts: tuple[str, ...]) -> Operator:
        parts = zip(rows, table.functions, table.whole_where, strict=True)
        return side_by_side([one(texts, f, w, (own(r),), r.window) for r, f, w in parts], rows)

    def many(texts: tuple[str, ...]) -> Operator:
        from skyband.operators.threshold.many import ManyThreshold

        bounds: dict[str, Any] = {b: table.column(b) for b in BOUNDS}
        return ManyThreshold(direction=table.direction, **bounds, **table.arrays(texts, context.deletes))

    build, why = cheapest(context, table, shared, apart, many, grid_per_key=False)
    return table.draft(m, 1, build, why)


class ThresholdType(SingleRowsType):
    """See ``protocol.QueryType``."""

    name = "threshold"
    states_deletions = True
    model = Threshold
    example = (FilePath(__file__).parent / "example.yaml").read_text(encoding="utf-8")
    shows_k = False

    def check(self, scope: Scope, path: Path, query: Threshold) -> None:
        """Check the scoring function, and bounds that are missing or leave nothing."""
        doc = scope.doc
        needed_fields(scope, path, query)
        uses_scoring(scope, path, query, query.scoring, ROW_SIDES)
        if doc.bad_below(path):
            return
        given = [b for b in ("at_least", "above", "at_most", "below") if getattr(query, b) is not None]
        hint = "one of at_least, above, at_most, below"
        if not given and query.queries_from is None:
            doc.add("SKY-E111", "a threshold query needs a bound", doc.where_key(path), hint)
        elif two_on_one_side(given):
            doc.add("SKY-E117", f"a threshold query has two bounds on one side ({', '.join(given)})", doc.where_key(path), hint)
        elif nothing_passes(*(getattr(query, b) for b in BOUNDS)):
            doc.add("SKY-E117", "the bounds leave nothing that can pass", doc.where_value((*path, given[0])))

    def compile(self, context: Context, entries: Sequence[QueryEntry]) -> Iterable[OperatorDraft]:
        """See ``compile``."""
        return compile_threshold(context, entries)

    def asks(self, query: QueryNode) -> list[str]:
        """Return the bounds, as conditions."""
        if query.members or not query.asked:
            return []
        signs = (">", ">=", "<", "<=")
        return [f"score {sign} {number_text(b)}" for sign, b in zip(signs, query.asked[0].bounds, strict=True) if b is not None]

    def limits(self, plan: Plan, query: QueryNode, asked: LogicalQuery | None) -> Limits:
        """The bounds: of a strict one the next number."""
        assert asked is not None
        above, at_least, below, at_most = asked.bounds
        least = math.nextafter(above, math.inf) if above is not None else at_least
        greatest = math.nextafter(below, -math.inf) if below is not None else at_most
        return Limits(None, ((SCORE, least, greatest),))

    def brute_force(self, question: Question) -> Found | None:
        """Every row of the window whose score passes."""
        from skyband.framework.queries.single_rows.brute_force import passing

        assert question.logical_query is not None
        return passing(question, question.logical_query.bounds)

    def scores(self, question: Question, items: Sequence[tuple[Any, ...]]) -> list[float] | None:
        """See ``protocol.QueryType``."""
        from skyband.framework.queries.single_rows.brute_force import row_scores

        assert question.logical_query is not None
        return row_scores(question, items, question.logical_query.bounds)


QUERY_TYPE = ThresholdType()
