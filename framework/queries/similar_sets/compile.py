"""Entries to operators: one for all that share a state; it keeps the pairs themselves, no skyband."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import cast

from skyband.framework.plan.drafts import Context, OperatorDraft, QueryEntry
from skyband.framework.queries.set_pairs.compile import Shared, shared
from skyband.framework.queries.similar_sets.model import SimilarSets as SimilarSetsModel
from skyband.operators.base import Operator

_WHY = "lists of the sets that hold a token; only pairs that are similar enough are kept"
_WHY_DELETES = f"{_WHY}, and deleted rows stay in the lists until they leave the window"


def compile_sets(context: Context, entries: Sequence[QueryEntry]) -> Iterable[OperatorDraft]:
    """Drafts of ``SimilarSets`` operators."""
    for group in shared(context, entries):
        yield _draft(context, group)


def _draft(context: Context, group: Shared) -> OperatorDraft:
    queries = [cast(SimilarSetsModel, m.query) for m in group.entries]

    def build(texts: tuple[str, ...]) -> Operator:
        from skyband.operators.pair_rows.queries import BoundedPairQuery
        from skyband.operators.similar_sets.operator import SimilarSets

        asked = (BoundedPairQuery(m.name, m.window, q.min_score, q.max_score, q.every) for m, q in zip(group.entries, queries, strict=True))
        return cast(Operator, SimilarSets(**group.configuration(context, texts), queries=tuple(asked)))

    return OperatorDraft(
        group.entries, 1, group.window, group.direction, group.texts, build, _WHY_DELETES if context.deletes else _WHY, skyband=False
    )
