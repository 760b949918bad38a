"""Compile entries to operators: one operator for all queries of equal dimensions, ``band``, ``distinct`` and ``where``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, cast

from skyband.framework.plan.drafts import Context, OperatorDraft, QueryEntry, share
from skyband.framework.plan.row_nodes import predicate, predicate_key, texts_of
from skyband.framework.queries.skyline.model import Skyline as SkylineModel
from skyband.operators.base import Column, Operator, Window

_WHY = "one interval of membership per row; scan of the rows that no newer row beats"
_WHY_DELETES = "a deleted row brings back those that it alone beat, so no row can be dropped early"


def compile_skyline(context: Context, entries: Sequence[QueryEntry]) -> Iterable[OperatorDraft]:
    """Return drafts of ``Skyline`` operators; K is the band."""

    def key(m: QueryEntry) -> Any:
        q = cast(SkylineModel, m.query)
        return (tuple(q.dimensions.items()), q.band, q.distinct, predicate_key(context, q.where))

    for _, group in share(entries, key):
        yield _skyline(context, group, cast(SkylineModel, group[0].query))


def _skyline(context: Context, group: tuple[QueryEntry, ...], first: SkylineModel) -> OperatorDraft:
    where = predicate(context, first.where)
    window = Window.union(m.window for m in group)

    def build(texts: tuple[str, ...]) -> Operator:
        from skyband.operators.skyline.operator import Dimension, Skyline, SkylineDeletes, SkylineQuery

        dimensions = tuple(Dimension(Column(c, context.kinds[c]), d) for c, d in first.dimensions.items())
        queries = tuple(SkylineQuery(m.name, m.window, m.query.every) for m in group)
        kind = SkylineDeletes if context.deletes else Skyline
        return kind(dimensions, queries, window, first.band, first.distinct, where, texts)

    why = _WHY_DELETES if context.deletes else _WHY
    return OperatorDraft(group, first.band, window, "min", texts_of(where), build, why, skyband=not context.deletes)
