"""Threshold pairs: all pairs of rows whose score is within bounds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path as FilePath
from typing import TYPE_CHECKING

from skyband.framework.base.counts import counted
from skyband.framework.plan.drafts import Context, OperatorDraft, QueryEntry
from skyband.framework.plan.explain_parts import assumed_rows, per_key
from skyband.framework.plan.model import OperatorNode, Plan
from skyband.framework.queries.protocol import Question
from skyband.framework.queries.scored_pairs.scored_pairs_type import ScoredPairsType
from skyband.framework.queries.threshold_pairs.compile import compile_pairs
from skyband.framework.queries.threshold_pairs.model import ThresholdPairs
from skyband.framework.spec.checks.scope import Scope
from skyband.framework.spec.parsing.document import Path

if TYPE_CHECKING:
    from skyband.framework.verify.brute_force.objects import Found


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
