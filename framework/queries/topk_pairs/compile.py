"""Entries to operators: one operator for all queries of equal scoring, direction, ``where``, ``between`` and ``max_per_object``.

A predicate restricts candidates, so a skyband built without it has pruned what it needs: states are shared only if these are equal.
A bound on the better side of the score (``min_score`` for direction min) is such a predicate; one on the worse side only cuts a result.
So does a cap per object: a skyband lacks the pairs that move up behind one that is passed over.
K is the largest k (and the scoring's ``keep.k``), N the union of the windows.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

from skyband.framework.plan.drafts import Context, OperatorDraft, QueryEntry, share
from skyband.framework.queries.pair_rows.compile import side_texts, sides, sides_key
from skyband.framework.queries.topk_pairs.model import TopKPairs as TopKPairsModel
from skyband.framework.spec.expressions.scoring import scoring_text
from skyband.operators.base import Operator, Window
from skyband.operators.expressions.ast import Node

_WHY_CAPPED = "results are walked over a state that holds whatever a walk may still come to"
_WHY = "batched merge-scan, right for any scoring expression (no monotony or bounds needed)"


@dataclass(frozen=True, slots=True)
class _Key:
    """What queries must have in common to share a state."""

    score: str
    direction: Literal["min", "max"]
    where: str | None
    between: tuple[str, str, str] | None
    best: float | None
    cap: int | None


def compile_pairs(context: Context, entries: Sequence[QueryEntry]) -> Iterable[OperatorDraft]:
    """Drafts of ``TopKPairs`` operators, one per set of queries that can share a skyband."""
    from skyband.operators.expressions.canonical import canonical
    from skyband.operators.expressions.parser import parse

    scores: dict[str, Node] = {}
    wheres: dict[str, Node] = {}

    def key(m: QueryEntry) -> _Key:
        query = cast(TopKPairsModel, m.query)
        scoring = context.scoring(query.scoring)
        score = parse(scoring_text(scoring), context.kinds, ("a", "b"), "score")
        scores.setdefault(canonical(score), score)
        where = parse(query.where, context.kinds, ("a", "b"), "predicate") if query.where is not None else None
        if where is not None:
            wheres.setdefault(canonical(where), where)
        best = query.min_score if scoring.direction == "min" else query.max_score
        condition = canonical(where) if where is not None else None
        return _Key(canonical(score), scoring.direction, condition, sides_key(query.between), best, query.cap)

    for k, group in share(entries, key):
        yield _draft(context, group, k, scores[k.score], wheres[k.where] if k.where is not None else None)


def _draft(context: Context, group: tuple[QueryEntry, ...], key: _Key, score: Node, where: Node | None) -> OperatorDraft:
    from skyband.operators.expressions.canonical import text_constants

    queries = [cast(TopKPairsModel, m.query) for m in group]
    keeps = [s.keep.k for s in (context.scoring(q.scoring) for q in queries) if s.keep is not None]
    largest = max([q.k for q in queries] + keeps)
    window = Window.union(m.window for m in group)
    between = queries[0].between
    texts = [*text_constants(score), *(text_constants(where) if where is not None else ()), *side_texts(between)]

    def build(all_texts: tuple[str, ...]) -> Operator:
        from skyband.operators.pair_rows.queries import PairQuery
        from skyband.operators.topk_pairs.operator import CappedTopKPairs, TopKPairs

        given: dict[str, Any] = {
            "scoring": score,
            "direction": key.direction,
            "where": where,
            "between": sides(context, between),
            "queries": tuple(
                PairQuery(m.name, q.k, m.window, q.min_score, q.max_score, q.every) for m, q in zip(group, queries, strict=True)
            ),
            "keep_k": largest,
            "window": window,
            "texts": all_texts,
        }
        return cast(Operator, TopKPairs(**given) if key.cap is None else CappedTopKPairs(**given, max_per_object=key.cap))

    why = _WHY if key.cap is None else _WHY_CAPPED
    return OperatorDraft(group, largest, window, key.direction, tuple(texts), build, why, skyband=key.cap is None)
