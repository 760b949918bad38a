"""Entries to operators: one for all that share a state, which is the window alone, and an index of its sets for entries about sets."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import cast

from skyband.framework.plan.drafts import Context, OperatorDraft, QueryEntry
from skyband.framework.queries.matches.model import Matches as MatchesModel
from skyband.framework.queries.scored_pairs import compile as scored
from skyband.framework.queries.set_pairs import compile as sets
from skyband.operators.base import Operator

_WHY_SETS = "lists of the sets that hold a token; an arrival looks for its own, and what was reported is not kept"
_WHY_SETS_DELETES = f"{_WHY_SETS}; deleted rows stay in the lists until they leave the window"
_WHY_SCORED = "an arrival is scored with the older rows of the window, and what was reported is not kept"


def compile_matches(context: Context, entries: Sequence[QueryEntry]) -> Iterable[OperatorDraft]:
    """Drafts of ``Matches`` operators, for entries with ``tokens``, and of ``ScoredMatches`` operators, for those with ``scoring``."""
    for of_sets in sets.shared(context, [m for m in entries if _query(m).tokens is not None]):
        yield _draft(context, of_sets)
    for scored_ones in scored.shared(context, [m for m in entries if _query(m).tokens is None]):
        yield _draft(context, scored_ones)


def _query(entry: QueryEntry) -> MatchesModel:
    return cast(MatchesModel, entry.query)


def _draft(context: Context, group: sets.Shared | scored.Shared) -> OperatorDraft:
    of_sets = isinstance(group, sets.Shared)

    def build(texts: tuple[str, ...]) -> Operator:
        from skyband.operators.matches.operator import Matches, ScoredMatches
        from skyband.operators.pair_rows.queries import PairQuery

        asked = tuple(PairQuery(m.name, q.k, m.window, q.min_score, q.max_score) for m, q in zip(group.entries, queries, strict=True))
        kind = Matches if of_sets else ScoredMatches
        return cast(Operator, kind(**group.configuration(context, texts), queries=asked))

    queries = [_query(m) for m in group.entries]
    why_sets = _WHY_SETS_DELETES if context.deletes else _WHY_SETS
    largest, why = max(q.k for q in queries), why_sets if of_sets else _WHY_SCORED
    return OperatorDraft(group.entries, largest, group.window, group.direction, group.texts, build, why, skyband=False)
