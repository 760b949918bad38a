"""Entries to operators: bounds only cut the candidates, so any number of spelled-out ones share a state if scoring, direction and ``where``

are equal; a list of queries gets an operator of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, cast

from skyband.framework.plan.drafts import Context, OperatorDraft, QueryEntry, share
from skyband.framework.plan.row_nodes import predicate, predicate_key, score, score_key, texts_of
from skyband.framework.queries.single_rows.compile import QueryList, cheapest, logical_query, side_by_side, spelled_out
from skyband.framework.queries.single_rows.list_rows import QueryRow
from skyband.framework.queries.threshold.model import BOUNDS
from skyband.framework.queries.threshold.model import Threshold as ThresholdModel
from skyband.operators.base import Operator, Window
from skyband.operators.expressions.ast import Node

_WHY = "one score a row, compared with the bounds; only rows that pass are kept"


def compile_threshold(context: Context, entries: Sequence[QueryEntry]) -> Iterable[OperatorDraft]:
    """Drafts of ``Threshold`` operators, and of those of lists of queries; they keep no skyband, K is 1."""

    def key(m: QueryEntry) -> Any:
        q = cast(ThresholdModel, m.query)
        name = str(q.scoring)
        return (score_key(context, name), context.scoring(name).direction, predicate_key(context, q.where))

    for _, group in share([m for m in entries if spelled_out(m)], key):
        yield _spelled(context, group, [cast(ThresholdModel, m.query) for m in group])
    for m in entries:
        if not spelled_out(m):
            yield _list(context, m)


def _spelled(context: Context, group: tuple[QueryEntry, ...], queries: list[ThresholdModel]) -> OperatorDraft:
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
