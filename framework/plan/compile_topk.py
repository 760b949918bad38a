"""Compiles ``topk`` and ``threshold`` queries that the spec spells out. Tables of queries are compiled in ``compile_tables``.

Thresholds only cut the candidates, so any number of them share one operator; top-k queries must also agree in the bound on the better
side of the score, which decides who may dominate.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal, cast

from skyband.framework.plan.compile_query_lists import threshold_table, topk_table
from skyband.framework.plan.compile_rows import predicate, predicate_key, score, score_key, texts_of
from skyband.framework.plan.drafts import Context, OperatorDraft, QueryEntry, share, union_window
from skyband.framework.plan.model import LogicalQuery
from skyband.framework.spec.queries import Threshold as ThresholdSpec
from skyband.framework.spec.queries import TopK as TopKSpec
from skyband.framework.spec.query_list_rows import BOUNDS
from skyband.operators.base import Operator

_WHY_TOPK = "one comparison with the k-th score a row; rows that K newer ones beat are forgotten (K-skyband)"
_WHY_DELETES = "a deletion can bring any row back, so the scores of the whole window are kept"
_WHY_THRESHOLD = "one score a row, compared with the bounds; only rows that pass are kept"


def compile_topk(context: Context, members: Sequence[QueryEntry]) -> Iterable[OperatorDraft]:
    """Drafts of ``TopK`` operators, and of those of tables of queries."""

    def key(m: QueryEntry) -> Any:
        q = cast(TopKSpec, m.query)
        name = str(q.scoring)
        direction = context.scoring(name).direction
        return (score_key(context, name), direction, predicate_key(context, q.where), q.max_score if direction == "max" else q.min_score)

    for _, group in share([m for m in members if _spelled_out(m)], key):
        queries = [cast(TopKSpec, m.query) for m in group]
        keeps = [s.keep.k for s in (context.scoring(str(q.scoring)) for q in queries) if s.keep is not None]
        yield _topk(context, group, queries, max([q.k or 1 for q in queries] + keeps))
    for m in members:
        if not _spelled_out(m):
            yield topk_table(context, m)


def _spelled_out(m: QueryEntry) -> bool:
    return cast(TopKSpec | ThresholdSpec, m.query).queries_from is None


def _topk(context: Context, group: tuple[QueryEntry, ...], queries: list[TopKSpec], k: int) -> OperatorDraft:
    name = str(queries[0].scoring)
    direction = context.scoring(name).direction
    function, where = score(context, name), predicate(context, queries[0].where)
    window = union_window(m.window for m in group)

    def build(texts: tuple[str, ...]) -> Operator:
        from skyband.operators.topk.one_function import TopK, TopKDeletes, TopKQuery

        own = tuple(TopKQuery(m.name, q.k or 1, m.window, q.every, q.min_score, q.max_score) for m, q in zip(group, queries, strict=True))
        kind = TopKDeletes if context.deletes else TopK
        return kind(function, direction, where, own, k, window, texts)

    return OperatorDraft(
        group, k, window, direction, texts_of(function, where), build, _WHY_DELETES if context.deletes else _WHY_TOPK,
        skyband=not context.deletes, asked=tuple((_asked(m, function, where, direction),) for m in group),
    )  # fmt: skip


def _asked(m: QueryEntry, function: Any, where: Any, direction: Literal["min", "max"]) -> LogicalQuery:
    q: Any = m.query
    bounds = tuple(getattr(q, b) for b in BOUNDS[q.type])
    return LogicalQuery(m.name, function, where, m.window, getattr(q, "k", None), bounds, direction)


def compile_threshold(context: Context, members: Sequence[QueryEntry]) -> Iterable[OperatorDraft]:
    """Drafts of ``Threshold`` operators, and of those of tables of queries; they keep no skyband, K is 1."""

    def key(m: QueryEntry) -> Any:
        q = cast(ThresholdSpec, m.query)
        name = str(q.scoring)
        return (score_key(context, name), context.scoring(name).direction, predicate_key(context, q.where))

    for _, group in share([m for m in members if _spelled_out(m)], key):
        yield _threshold(context, group, [cast(ThresholdSpec, m.query) for m in group])
    for m in members:
        if not _spelled_out(m):
            yield threshold_table(context, m)


def _threshold(context: Context, group: tuple[QueryEntry, ...], queries: list[ThresholdSpec]) -> OperatorDraft:
    name = str(queries[0].scoring)
    direction = context.scoring(name).direction
    function, where = score(context, name), predicate(context, queries[0].where)
    window = union_window(m.window for m in group)

    def build(texts: tuple[str, ...]) -> Operator:
        from skyband.operators.threshold.one_function import Threshold, ThresholdQuery

        own = tuple(
            ThresholdQuery(m.name, m.window, q.above, q.at_least, q.below, q.at_most, q.every) for m, q in zip(group, queries, strict=True)
        )
        return Threshold(function, direction, where, own, window, texts, context.deletes)

    return OperatorDraft(
        group, 1, window, direction, texts_of(function, where), build, _WHY_THRESHOLD, skyband=False,
        asked=tuple((_asked(m, function, where, direction),) for m in group),
    )  # fmt: skip
