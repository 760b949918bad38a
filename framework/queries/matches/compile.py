"""Entries to operators: one for all that share a state, which is the window's index alone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import cast

from skyband.framework.plan.drafts import Context, OperatorDraft, QueryEntry
from skyband.framework.queries.matches.model import Matches as MatchesModel
from skyband.framework.queries.set_pairs.compile import Shared, shared
from skyband.operators.base import Operator

_WHY = "lists of the sets that hold a token; an arrival looks for its own, and what was reported is not kept"


def compile_sets(context: Context, entries: Sequence[QueryEntry]) -> Iterable[OperatorDraft]:
    """Drafts of ``Matches`` operators."""
    for group in shared(context, entries):
        yield _draft(context, group, [cast(MatchesModel, q) for q in group.queries])


def _draft(context: Context, group: Shared, queries: list[MatchesModel]) -> OperatorDraft:
    def build(texts: tuple[str, ...]) -> Operator:
        from skyband.operators.matches.operator import Matches
        from skyband.operators.pair_rows.queries import PairQuery

        asked = (PairQuery(m.name, q.k, m.window, q.min_score, q.max_score) for m, q in zip(group.entries, queries, strict=True))
        return cast(Operator, Matches(**group.configuration(context, texts), queries=tuple(asked)))

    largest = max(q.k for q in queries)
    return OperatorDraft(group.entries, largest, group.window, group.direction, group.texts, build, _WHY, skyband=False)
