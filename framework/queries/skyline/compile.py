"""Compile entries to operators: one for all queries of equal dimensions, levels, ``band``, ``distinct``, ``where``, score and weights."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, cast

from skyband.framework.plan.drafts import Context, OperatorDraft, QueryEntry, share
from skyband.framework.plan.model import LogicalQuery
from skyband.framework.plan.row_nodes import predicate, predicate_key, score, score_key, texts_of
from skyband.framework.queries.skyline.model import Skyline as SkylineModel
from skyband.operators.base import Column, Operator, Window

_WHY = "one interval of membership per row; scan of the rows that no newer row beats"
_WHY_DELETES = "a deleted row brings back those that it alone beat, so no row can be dropped early"
_WHY_RANKED = "; members in rank order"
_WHY_SIZED = "; the radii of all members after each of their changes"


def compile_skyline(context: Context, entries: Sequence[QueryEntry]) -> Iterable[OperatorDraft]:
    """Return drafts of ``Skyline`` operators; K is the band."""

    def key(m: QueryEntry) -> Any:
        q = cast(SkylineModel, m.query)
        ranked = None if q.by is None else (score_key(context, q.by), context.scoring(q.by).direction)
        shares = None if q.size is None else q.shares
        return (tuple(q.dimensions.items()), q.levels, q.band, q.distinct, predicate_key(context, q.where), ranked, shares)

    for _, group in share(entries, key):
        first = cast(SkylineModel, group[0].query)
        if first.size is not None:
            yield _sized(context, group, first)
        else:
            yield _skyline(context, group, first) if first.by is None else _ranked(context, group, first, first.by)


def _skyline(context: Context, group: tuple[QueryEntry, ...], first: SkylineModel) -> OperatorDraft:
    where = predicate(context, first.where)
    window = Window.union(m.window for m in group)

    def build(texts: tuple[str, ...]) -> Operator:
        from skyband.operators.skyline.operator import Skyline, SkylineDeletes, SkylineQuery

        queries = tuple(SkylineQuery(m.name, m.window, m.query.every) for m in group)
        kind = SkylineDeletes if context.deletes else Skyline
        return kind(_dimensions(context, first), queries, window, first.band, first.distinct, where, texts, _levels(first))

    why = _WHY_DELETES if context.deletes else _WHY
    return OperatorDraft(group, first.band, window, "min", texts_of(where), build, why, skyband=not context.deletes)


def _ranked(context: Context, group: tuple[QueryEntry, ...], first: SkylineModel, by: str) -> OperatorDraft:
    where, function, direction = predicate(context, first.where), score(context, by), context.scoring(by).direction
    window = Window.union(m.window for m in group)
    most = [cast(SkylineModel, m.query).top or 1 for m in group]

    def build(texts: tuple[str, ...]) -> Operator:
        from skyband.operators.skyline.ranked import RankedSkyline, RankedSkylineDeletes, RankedSkylineQuery

        queries = tuple(RankedSkylineQuery(m.name, m.window, m.query.every, k) for m, k in zip(group, most, strict=True))
        kind = RankedSkylineDeletes if context.deletes else RankedSkyline
        return kind(
            _dimensions(context, first), queries, window, first.band, first.distinct, where, texts, _levels(first), scoring=function,
            direction=direction,
        )  # fmt: skip

    why = (_WHY_DELETES if context.deletes else _WHY) + _WHY_RANKED
    asked = tuple((LogicalQuery(m.name, function, where, m.window, k, (None, None), direction),) for m, k in zip(group, most, strict=True))
    texts = texts_of(where, function)
    return OperatorDraft(group, first.band, window, direction, texts, build, why, skyband=not context.deletes, asked=asked)


def _sized(context: Context, group: tuple[QueryEntry, ...], first: SkylineModel) -> OperatorDraft:
    where = predicate(context, first.where)
    window = Window.union(m.window for m in group)
    sizes = [cast(SkylineModel, m.query).size or 1 for m in group]

    def build(texts: tuple[str, ...]) -> Operator:
        from skyband.operators.skyline.sized import SizedSkyline, SizedSkylineDeletes, SizedSkylineQuery

        queries = tuple(SizedSkylineQuery(m.name, m.window, m.query.every, size) for m, size in zip(group, sizes, strict=True))
        kind = SizedSkylineDeletes if context.deletes else SizedSkyline
        return kind(_dimensions(context, first), queries, window, first.band, first.distinct, where, texts, weights=first.shares)

    # A smaller window has other radii, which do not follow from the dominators of rows.
    why = (_WHY_DELETES if context.deletes else _WHY) + _WHY_SIZED
    return OperatorDraft(group, first.band, window, "min", texts_of(where), build, why, skyband=False)


def _dimensions(context: Context, query: SkylineModel) -> tuple[Any, ...]:
    """Return the dimensions as operators take them: in the order of the spec, with levels in that of the levels."""
    from skyband.operators.skyline.operator import Dimension

    names = list(query.dimensions)
    if len(query.levels) > 1:
        names = [*(c for level in query.levels for c in level), *(c for c, d in query.dimensions.items() if d == "equal")]
    return tuple(Dimension(Column(c, context.kinds[c]), query.dimensions[c]) for c in names)


def _levels(query: SkylineModel) -> tuple[int, ...] | None:
    """Return how many dimensions each level has; None for one level."""
    return tuple(len(level) for level in query.levels) if len(query.levels) > 1 else None
