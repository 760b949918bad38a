"""Top-k: the k best rows by a score."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Any, ClassVar, Literal, cast

import numpy as np
from pydantic import ConfigDict

from skyband.framework.base.items import ItemShape
from skyband.framework.plan.drafts import Context, OperatorDraft, QueryEntry, predicate, predicate_key, score, score_key, share, texts_of
from skyband.framework.plan.explain_parts import assumed_rows, state_size
from skyband.framework.plan.model import LogicalQuery, OperatorNode, Plan, QueryNode
from skyband.framework.queries.checks import bounds_in_order, uses_scoring
from skyband.framework.queries.protocol import Limits, Question
from skyband.framework.queries.single_rows.compile import QueryList, cheapest, logical_query, side_by_side, spelled_out, whole_numbers
from skyband.framework.queries.single_rows.list_check import SingleRowsType, needed_fields
from skyband.framework.queries.single_rows.list_rows import QueryRow
from skyband.framework.queries.topk import ordered
from skyband.framework.spec.checks.scope import ROW_SIDES, Scope
from skyband.framework.spec.parsing.document import Path
from skyband.operators.base import Operator, Window
from skyband.operators.expressions.ast import Node

if TYPE_CHECKING:
    from skyband.framework.verify.brute_force.objects import Found


# The entry of a spec: the k best rows, or a list of such queries.


class TopK(ordered.RankedRows):
    """The k best rows."""

    model_config = ConfigDict(
        json_schema_extra={"anyOf": [{"required": ["scoring", "k"]}, {"required": ["order", "k"]}, {"required": ["queries_from"]}]}
    )

    bounds: ClassVar[tuple[str, ...]] = ("min_score", "max_score")
    ranked: ClassVar[bool] = True

    type: Literal["topk"]

    @classmethod
    def bad_bounds(cls, bounds: Mapping[str, float | None]) -> str | None:
        """See ``ScoredRows``."""
        least, most = bounds["min_score"], bounds["max_score"]
        if least is not None and most is not None and least > most:
            return "has a min_score larger than its max_score: nothing can pass"
        return None


# Entries to operators: spelled-out ones share a state if scoring, direction, ``where`` and the bound on the better side are equal (that
# bound decides who may dominate); a list of queries gets an operator of its own.

_WHY = "one comparison with the k-th score a row; rows that K newer ones beat are forgotten (K-skyband)"
_WHY_DELETES = "a deletion can bring any row back, so the scores of the whole window are kept"


def compile_topk(context: Context, entries: Sequence[QueryEntry]) -> Iterable[OperatorDraft]:
    """Drafts of ``TopK`` operators, and of those of lists of queries."""

    def key(m: QueryEntry) -> Any:
        q = cast(TopK, m.query)
        name = str(q.scoring)
        direction = context.scoring(name).direction
        return (score_key(context, name), direction, predicate_key(context, q.where), q.max_score if direction == "max" else q.min_score)

    several = {m.name for m in entries if ordered.is_ordered(cast(TopK, m.query))}
    for _, group in share([m for m in entries if m.name in several], lambda m: ordered.share_key(context, cast(TopK, m.query))):
        yield ordered.draft(context, group, [cast(TopK, m.query) for m in group])
    for _, group in share([m for m in entries if spelled_out(m) and m.name not in several], key):
        queries = [cast(TopK, m.query) for m in group]
        keeps = [s.keep.k for s in (context.scoring(str(q.scoring)) for q in queries) if s.keep is not None]
        yield _spelled(context, group, queries, max([q.k or 1 for q in queries] + keeps))
    for m in entries:
        if not spelled_out(m):
            yield _list(context, m)


def _spelled(context: Context, group: tuple[QueryEntry, ...], queries: list[TopK], k: int) -> OperatorDraft:
    name = str(queries[0].scoring)
    direction = context.scoring(name).direction
    function, where = score(context, name), predicate(context, queries[0].where)
    window = Window.union(m.window for m in group)

    def build(texts: tuple[str, ...]) -> Operator:
        from skyband.operators.topk.one_function import TopK, TopKDeletes, TopKQuery

        own = tuple(TopKQuery(m.name, q.k or 1, m.window, q.every, q.min_score, q.max_score) for m, q in zip(group, queries, strict=True))
        kind = TopKDeletes if context.deletes else TopK
        return kind(function, direction, where, own, k, window, texts)

    return OperatorDraft(
        group, k, window, direction, texts_of(function, where), build, _WHY_DELETES if context.deletes else _WHY,
        skyband=not context.deletes, asked=tuple((logical_query(m, function, where, direction),) for m in group),
    )  # fmt: skip


def _list(context: Context, m: QueryEntry) -> OperatorDraft:
    table = QueryList(context, m)
    rows = table.rows
    k = max(r.k or 1 for r in rows)
    every = table.query.every

    def own(r: QueryRow) -> Any:
        from skyband.operators.topk.one_function import TopKQuery

        return TopKQuery(r.name, r.k or 1, r.window, every, r.bounds["min_score"], r.bounds["max_score"])

    def one(
        texts: tuple[str, ...], f: Any, where: Node | None, queries: tuple[Any, ...], most: int, window: Window, direction: Any
    ) -> Operator:
        from skyband.operators.topk.one_function import TopK, TopKDeletes

        return (TopKDeletes if context.deletes else TopK)(f, direction, where, queries, most, window, texts)

    def shared(texts: tuple[str, ...]) -> Operator:
        return one(texts, table.functions[0], table.whole_where[0], tuple(own(r) for r in rows), k, table.window, table.direction)

    def apart(texts: tuple[str, ...]) -> Operator:
        parts = zip(rows, table.functions, table.whole_where, table.directions, strict=True)
        return side_by_side([one(texts, f, w, (own(r),), r.k or 1, r.window, d) for r, f, w, d in parts], rows)

    def many(texts: tuple[str, ...]) -> Operator:
        from skyband.operators.topk.many import ManyTopK

        return ManyTopK(
            k=whole_numbers(r.k for r in rows), largest=np.array([d == "max" for d in table.directions]),
            min_score=table.column("min_score"), max_score=table.column("max_score"), **table.arrays(texts, context.deletes),
        )  # fmt: skip

    build, why = cheapest(context, table, shared, apart, many, grid_per_key=True)
    return table.draft(m, k, build, why)


def skyband_size(k: int, n: float) -> float:
    """Expected rows of a K-skyband over N rows when scores do not depend on age: K(1 + ln(N/K)) (docs/algorithms D1), at most N."""
    return min(n, k * (1 + math.log(n / k))) if n > k else n


class TopKType(SingleRowsType):
    """See ``protocol.QueryType``."""

    name = "topk"
    model = TopK
    example = (FilePath(__file__).parent / "example.yaml").read_text(encoding="utf-8")

    def item(self, query: Any) -> ItemShape:
        """One row, with a score unless it has other sort keys."""
        return ordered.item(query) if ordered.is_ordered(query) else super().item(query)

    def check(self, scope: Scope, path: Path, query: TopK) -> None:
        """Check the scoring function or the sort keys, missing fields and bounds."""
        needed_fields(scope, path, query)
        uses_scoring(scope, path, query, query.scoring, ROW_SIDES)
        bounds_in_order(scope, path, query.min_score, query.max_score)
        ordered.check(scope, path, query)

    def compile(self, context: Context, entries: Sequence[QueryEntry]) -> Iterable[OperatorDraft]:
        """See ``compile``."""
        return compile_topk(context, entries)

    def size(self, plan: Plan, node: OperatorNode, rate: float | None) -> list[str]:
        """Return the expected size of the skyband."""
        if not node.skyband:
            return []
        return state_size(plan, node, rate, skyband_size(node.k, assumed_rows(node.window, rate)), 32, "rows = K (1 + ln(N / K))")

    def facts(self, node: OperatorNode, queries: Sequence[QueryNode]) -> list[tuple[str, str]]:
        """Return the score or the sort keys, and the condition."""
        return super().facts(node, queries) if ordered.operator_of(node) is None else ordered.facts(node)

    def limits(self, plan: Plan, query: QueryNode, logical: LogicalQuery | None) -> Limits:
        """Return ``k``, unless more rows may equal the k-th, and the bounds of the score."""
        found = super().limits(plan, query, logical)
        op = ordered.operator_of(plan.operators[query.operator])
        if op is None:
            return found
        return Limits(None if op.ties in ("include", "dense") else found.most, () if op.nulls_last else found.bounds)

    def value_columns(self, node: OperatorNode, query: QueryNode) -> tuple[str, ...]:
        """Return what scores and other values are computed from."""
        return super().value_columns(node, query) if ordered.operator_of(node) is None else ordered.value_columns(node)

    def deciding_columns(self, node: OperatorNode, query: QueryNode) -> tuple[str, ...]:
        """See ``protocol.QueryType``."""
        return super().deciding_columns(node, query) if ordered.operator_of(node) is None else ordered.deciding_columns(node)

    def brute_force(self, question: Question) -> Found | None:
        """The k best of the rows whose score lies within the bounds."""
        from skyband.framework.queries.single_rows.brute_force import passing
        from skyband.framework.queries.topk import brute_force

        return passing(question, _bounds(question)) if question.logical_query is not None else brute_force.passing(question)

    def scores(self, question: Question, items: Sequence[tuple[Any, ...]]) -> list[float] | None:
        """See ``protocol.QueryType``."""
        from skyband.framework.queries.single_rows.brute_force import row_scores
        from skyband.framework.queries.topk import brute_force

        if question.logical_query is None:
            return brute_force.row_scores(question, items)
        return row_scores(question, items, _bounds(question))

    def further_values(self, question: Question, items: Sequence[tuple[Any, ...]]) -> Mapping[str, list[float]]:
        """See ``protocol.QueryType``."""
        from skyband.framework.queries.topk import brute_force

        return {} if question.logical_query is not None else brute_force.row_values(question, items)


def _bounds(question: Question) -> tuple[float | None, ...]:
    assert question.logical_query is not None
    least, most = question.logical_query.bounds
    return None, least, None, most


QUERY_TYPE = TopKType()
