"""Entries to operators: one operator for all queries of equal scoring, direction, ``where``, ``between`` and ``max_per_object``.

A cap per object restricts candidates as ``where`` does: a skyband lacks the pairs that move up behind one that is passed over.
K is the largest k (and the scoring's ``keep.k``), N the union of the windows.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, cast

from skyband.framework.plan.drafts import Context, OperatorDraft, QueryEntry
from skyband.framework.queries.scored_pairs.compile import Shared, shared
from skyband.framework.queries.topk_pairs.model import TopKPairs as TopKPairsModel
from skyband.operators.base import Operator

_WHY_CAPPED = "results are walked over a state that holds whatever a walk may still come to"
_WHY_DELETES = "a deletion can bring any pair back, so every window keeps its best alive pairs, and fills up from all its rows"
_WHY = "batched merge-scan, right for any scoring expression (no monotony or bounds needed)"


def compile_pairs(context: Context, entries: Sequence[QueryEntry]) -> Iterable[OperatorDraft]:
    """Drafts of ``TopKPairs`` operators, one per set of queries that can share a skyband."""
    for group in shared(context, entries, lambda query: query.cap):
        yield _draft(context, group)


def _draft(context: Context, group: Shared) -> OperatorDraft:
    queries = [cast(TopKPairsModel, m.query) for m in group.entries]
    keeps = [s.keep.k for s in (context.scoring(q.scoring) for q in queries) if s.keep is not None]
    largest = max([q.k for q in queries] + keeps)
    cap: int | None = group.more

    def build(texts: tuple[str, ...]) -> Operator:
        from skyband.operators.pair_rows.queries import PairQuery
        from skyband.operators.topk_pairs.operator import CappedTopKPairs, TopKPairs

        asked = (PairQuery(m.name, q.k, m.window, q.min_score, q.max_score, q.every) for m, q in zip(group.entries, queries, strict=True))
        given: dict[str, Any] = {**group.configuration(context, texts), "queries": tuple(asked), "keep_k": largest}
        return cast(Operator, TopKPairs(**given) if cap is None else CappedTopKPairs(**given, max_per_object=cap))

    why, skyband = _WHY if cap is None else _WHY_CAPPED, cap is None and not context.deletes
    if context.deletes:
        why = _WHY_DELETES
    return OperatorDraft(group.entries, largest, group.window, group.direction, group.texts, build, why, skyband=skyband)
