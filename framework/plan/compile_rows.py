"""Compiles the query types over single rows: ``topk``, ``threshold``, ``skyline``. Queries of equal candidates share one operator.

Candidates are what scoring (or dimensions), direction and ``where`` leave; for ``topk`` also the bound on the better side of the score, for
``skyline`` also ``band`` and ``distinct``. Thresholds only cut the candidates, so any number of them share.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, cast

from skyband.framework.plan.drafts import Context, Draft, Member, share, union_window
from skyband.framework.spec.expressions import scoring_text
from skyband.framework.spec.models import LinearScoring
from skyband.framework.spec.queries import Skyline as SkylineSpec
from skyband.framework.spec.queries import Threshold as ThresholdSpec
from skyband.framework.spec.queries import TopK as TopKSpec
from skyband.operators.base import Column, Operator
from skyband.operators.expressions.ast import Node

if TYPE_CHECKING:
    from skyband.operators.topk_scoring import Linear

_ROW: Final = ("",)


def compile_topk(context: Context, members: Sequence[Member]) -> Iterable[Draft]:
    """Drafts of ``TopK`` operators."""

    def key(m: Member) -> Any:
        q = cast(TopKSpec, m.query)
        direction = context.scoring(q.scoring).direction
        return (_score_key(context, q.scoring), direction, _where_key(context, q.where), q.max_score if direction == "max" else q.min_score)

    for _, group in share(members, key):
        queries = [cast(TopKSpec, m.query) for m in group]
        keeps = [s.keep.k for s in (context.scoring(q.scoring) for q in queries) if s.keep is not None]
        yield _topk(context, group, queries, max([q.k for q in queries] + keeps))


def _topk(context: Context, group: tuple[Member, ...], queries: list[TopKSpec], k: int) -> Draft:
    direction = context.scoring(queries[0].scoring).direction
    where = _where(context, queries[0].where)
    window = union_window(m.window for m in group)

    def build(texts: tuple[str, ...]) -> Operator:
        from skyband.operators.topk import TopK, TopKQuery

        asked = tuple(TopKQuery(m.name, q.k, m.window, q.every, q.min_score, q.max_score) for m, q in zip(group, queries, strict=True))
        return TopK(_score(context, queries[0].scoring), direction, where, asked, k, window, texts)

    return Draft(group, k, window, direction, _texts(context, queries[0].scoring, where), build)


def compile_threshold(context: Context, members: Sequence[Member]) -> Iterable[Draft]:
    """Drafts of ``Threshold`` operators; they keep no skyband, K is 1."""

    def key(m: Member) -> Any:
        q = cast(ThresholdSpec, m.query)
        return (_score_key(context, q.scoring), context.scoring(q.scoring).direction, _where_key(context, q.where))

    for _, group in share(members, key):
        yield _threshold(context, group, [cast(ThresholdSpec, m.query) for m in group])


def _threshold(context: Context, group: tuple[Member, ...], queries: list[ThresholdSpec]) -> Draft:
    direction = context.scoring(queries[0].scoring).direction
    where = _where(context, queries[0].where)
    window = union_window(m.window for m in group)

    def build(texts: tuple[str, ...]) -> Operator:
        from skyband.operators.threshold import Threshold, ThresholdQuery

        asked = tuple(
            ThresholdQuery(m.name, m.window, q.above, q.at_least, q.below, q.at_most, q.every) for m, q in zip(group, queries, strict=True)
        )
        return Threshold(_score(context, queries[0].scoring), direction, where, asked, window, texts)

    return Draft(group, 1, window, direction, _texts(context, queries[0].scoring, where), build, skyband=False)


def compile_skyline(context: Context, members: Sequence[Member]) -> Iterable[Draft]:
    """Drafts of ``Skyline`` operators; K is the band."""

    def key(m: Member) -> Any:
        q = cast(SkylineSpec, m.query)
        return (tuple(q.dimensions.items()), q.band, q.distinct, _where_key(context, q.where))

    for _, group in share(members, key):
        yield _skyline(context, group, cast(SkylineSpec, group[0].query))


def _skyline(context: Context, group: tuple[Member, ...], first: SkylineSpec) -> Draft:
    where = _where(context, first.where)
    window = union_window(m.window for m in group)

    def build(texts: tuple[str, ...]) -> Operator:
        from skyband.operators.skyline import Dimension, Skyline, SkylineQuery

        dimensions = tuple(Dimension(Column(c, context.kinds[c]), d) for c, d in first.dimensions.items())
        asked = tuple(SkylineQuery(m.name, m.window, m.query.every) for m in group)
        return Skyline(dimensions, asked, window, first.band, first.distinct, where, texts)

    return Draft(group, first.band, window, "min", _texts(context, None, where), build, scored=False)


def _score(context: Context, name: str) -> Node | Linear:
    from skyband.operators.expressions.parser import parse

    scoring = context.scoring(name)
    if isinstance(scoring, LinearScoring):
        from skyband.operators.topk_scoring import Linear

        return Linear(tuple(scoring.linear.items()), frozenset(c for c in scoring.linear if context.kinds[c] == "int"))
    return parse(scoring_text(scoring), context.kinds, _ROW, "score")


def _score_key(context: Context, name: str) -> Any:
    from skyband.operators.expressions.canonical import canonical
    from skyband.operators.expressions.parser import parse

    scoring = context.scoring(name)
    if isinstance(scoring, LinearScoring):
        return tuple(scoring.linear.items())
    return canonical(parse(scoring_text(scoring), context.kinds, _ROW, "score"))


def _where(context: Context, text: str | None) -> Node | None:
    from skyband.operators.expressions.parser import parse

    return None if text is None else parse(text, context.kinds, _ROW, "predicate")


def _where_key(context: Context, text: str | None) -> str | None:
    from skyband.operators.expressions.canonical import canonical

    where = _where(context, text)
    return None if where is None else canonical(where)


def _texts(context: Context, scoring: str | None, where: Node | None) -> tuple[str, ...]:
    from skyband.operators.expressions.canonical import text_constants
    from skyband.operators.expressions.parser import parse

    nodes = [where] if where is not None else []
    if scoring is not None and not isinstance(context.scoring(scoring), LinearScoring):
        nodes.append(parse(scoring_text(context.scoring(scoring)), context.kinds, _ROW, "score"))
    return tuple(t for n in nodes for t in text_constants(n))
