"""Entries to operators: one operator for all queries of equal sets, similarity, ``where`` and ``between``.

A predicate restricts candidates: states are shared only if it is equal. A bound only cuts a result. K is the largest k, N the union of the
windows.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, cast

from skyband.framework.plan.drafts import Context, OperatorDraft, QueryEntry, share
from skyband.framework.plan.model import TOKENS
from skyband.framework.queries.pair_rows.compile import side_texts, sides, sides_key
from skyband.framework.queries.topk_similar_sets.model import DISTANCES
from skyband.framework.queries.topk_similar_sets.model import TopKSimilarSets as TopKSimilarSetsModel
from skyband.operators.base import Operator, Window
from skyband.operators.expressions.ast import Node

_WHY = "inverted lists of tokens, each searched once down to the oldest set that can still matter"


@dataclass(frozen=True, slots=True)
class _Key:
    """What queries must have in common to share a state."""

    tokens: str
    similarity: str
    where: str | None
    between: tuple[str, str, str] | None


def compile_sets(context: Context, entries: Sequence[QueryEntry]) -> Iterable[OperatorDraft]:
    """Drafts of ``TopKSimilarSets`` operators, one per set of queries that can share a skyband."""
    from skyband.operators.expressions.canonical import canonical
    from skyband.operators.expressions.parser import parse

    wheres: dict[str, Node] = {}

    def key(m: QueryEntry) -> _Key:
        query = cast(TopKSimilarSetsModel, m.query)
        where = parse(query.where, context.kinds, ("a", "b"), "predicate") if query.where is not None else None
        if where is not None:
            wheres.setdefault(canonical(where), where)
        return _Key(query.tokens, query.similarity, canonical(where) if where is not None else None, sides_key(query.between))

    for k, group in share(entries, key):
        yield _draft(context, group, k, wheres[k.where] if k.where is not None else None)


def _draft(context: Context, group: tuple[QueryEntry, ...], key: _Key, where: Node | None) -> OperatorDraft:
    from skyband.operators.expressions.canonical import text_constants

    queries = [cast(TopKSimilarSetsModel, m.query) for m in group]
    largest = max(q.k for q in queries)
    window = Window.union(m.window for m in group)
    between = queries[0].between
    texts = [*(text_constants(where) if where is not None else ()), *side_texts(between)]
    direction: Literal["min", "max"] = "min" if key.similarity in DISTANCES else "max"

    def build(all_texts: tuple[str, ...]) -> Operator:
        from skyband.operators.pair_rows.queries import PairQuery
        from skyband.operators.topk_similar_sets.operator import TopKSimilarSets

        return cast(
            Operator,
            TopKSimilarSets(
                tokens=TOKENS + key.tokens,
                similarity=queries[0].similarity,
                where=where,
                between=sides(context, between),
                queries=tuple(
                    PairQuery(m.name, q.k, m.window, q.min_score, q.max_score, q.every) for m, q in zip(group, queries, strict=True)
                ),
                keep_k=largest,
                window=window,
                texts=all_texts,
            ),
        )

    return OperatorDraft(group, largest, window, direction, tuple(texts), build, _WHY)
