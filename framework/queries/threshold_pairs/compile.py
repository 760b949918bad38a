"""Entries to operators: one for all that share a state; it keeps the pairs themselves, no skyband."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import cast

from skyband.framework.plan.drafts import Context, OperatorDraft, QueryEntry
from skyband.framework.queries.scored_pairs.compile import Shared, shared
from skyband.framework.queries.threshold_pairs.model import ThresholdPairs as ThresholdPairsModel
from skyband.operators.base import Operator

_WHY = "an arrival is scored with the older rows of the window; only pairs within the bounds are kept"

_WHY_DELETES = f"{_WHY}; a deletion costs no more than an arrival, and deleted rows are passed over"


def compile_pairs(context: Context, entries: Sequence[QueryEntry]) -> Iterable[OperatorDraft]:
    """Drafts of ``ThresholdPairs`` operators."""
    for group in shared(context, entries):
        yield _draft(context, group)


def _draft(context: Context, group: Shared) -> OperatorDraft:
    queries = [cast(ThresholdPairsModel, m.query) for m in group.entries]

    def build(texts: tuple[str, ...]) -> Operator:
        from skyband.operators.pair_rows.queries import BoundedPairQuery
        from skyband.operators.threshold_pairs.operator import ThresholdPairs

        asked = (BoundedPairQuery(m.name, m.window, q.min_score, q.max_score, q.every) for m, q in zip(group.entries, queries, strict=True))
        return cast(Operator, ThresholdPairs(**group.configuration(context, texts), queries=tuple(asked)))

    return OperatorDraft(
        group.entries, 1, group.window, group.direction, group.texts, build, _WHY_DELETES if context.deletes else _WHY, skyband=False
    )
