"""Threshold pairs: all pairs of rows whose score is within bounds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Literal, cast

from skyband.framework.base.counts import counted
from skyband.framework.plan.drafts import Context, OperatorDraft, QueryEntry
from skyband.framework.plan.explain_parts import assumed_rows, per_key
from skyband.framework.plan.model import OperatorNode, Plan
from skyband.framework.queries.protocol import Question
from skyband.framework.queries.scored_pairs.scored_pairs_type import ScoredPairs, ScoredPairsType, Shared, shared, why_with_index
from skyband.framework.spec.checks.scope import Scope
from skyband.framework.spec.parsing.document import Path
from skyband.operators.base import Operator

if TYPE_CHECKING:
    from skyband.framework.verify.brute_force.objects import Found


# The entry of a spec: all pairs of rows with a score within bounds.


class ThresholdPairs(ScoredPairs):
    """All pairs of rows whose score is at least ``min_score``, at most ``max_score``, or both."""

    type: Literal["threshold_pairs"]


# Entries to operators: one for all that share a state; it keeps the pairs themselves, no skyband.

_WHY = "an arrival is scored with the older rows of the window; only pairs within the bounds are kept"

_WHY_DELETES = f"{_WHY}; a deletion costs no more than an arrival, and deleted rows are passed over"


def compile_pairs(context: Context, entries: Sequence[QueryEntry]) -> Iterable[OperatorDraft]:
    """Drafts of ``ThresholdPairs`` operators."""
    for group in shared(context, entries):
        yield _draft(context, group)


def _draft(context: Context, group: Shared) -> OperatorDraft:
    queries = [cast(ThresholdPairs, m.query) for m in group.entries]

    def build(texts: tuple[str, ...]) -> Operator:
        from skyband.operators.pair_rows.queries import BoundedPairQuery
        from skyband.operators.threshold_pairs.operator import ThresholdPairs

        asked = (BoundedPairQuery(m.name, m.window, q.min_score, q.max_score, q.every) for m, q in zip(group.entries, queries, strict=True))
        return cast(Operator, ThresholdPairs(**group.configuration(context, texts), queries=tuple(asked)))

    why = why_with_index(_WHY_DELETES if context.deletes else _WHY, group.where)
    return OperatorDraft(group.entries, 1, group.window, group.direction, group.texts, build, why, skyband=False)


class ThresholdPairsType(ScoredPairsType):
    """See ``protocol.QueryType``."""

    name = "threshold_pairs"
    model = ThresholdPairs
    example = (FilePath(__file__).parent / "example.yaml").read_text(encoding="utf-8")
    shows_k = False
    takes_deletions = True

    def check(self, scope: Scope, path: Path, query: ThresholdPairs) -> None:
        """Check what all pairs with a score have in common, and that there is a bound."""
        super().check(scope, path, query)
        if query.min_score is None and query.max_score is None and not scope.doc.bad_below(path):
            said = "a threshold_pairs query needs min_score or max_score"
            scope.doc.add("SKY-E111", said, scope.doc.where_key(path), "how large must the score of a pair be? such as max_score: 0.5")

    def compile(self, context: Context, entries: Sequence[QueryEntry]) -> Iterable[OperatorDraft]:
        """See ``compile``."""
        return compile_pairs(context, entries)

    def size(self, plan: Plan, node: OperatorNode, rate: float | None) -> list[str]:
        """Return how large the state can be: how many pairs are within bounds depends on the data."""
        rows = assumed_rows(node.window, rate)
        most = rows * (rows - 1) / 2
        return [f"    pairs     those within the bounds; all would be {most:,.0f} at N = {counted(round(rows), 'row')}{per_key(plan)}"]

    def brute_force(self, question: Question) -> Found | None:
        """Return every pair of the window with a score within the bounds."""
        from skyband.framework.queries.pair_rows.brute_force import first_pairs
        from skyband.framework.queries.scored_pairs.brute_force import comparing

        return first_pairs(question, question.query.k, comparing)


QUERY_TYPE = ThresholdPairsType()
