"""Top-k pairs: the k best pairs of rows by a score of two rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Any

from skyband.framework.plan.drafts import Context, OperatorDraft, QueryEntry
from skyband.framework.plan.model import LogicalQuery, OperatorNode, Plan, QueryNode
from skyband.framework.queries.protocol import ALL, Limits, Question
from skyband.framework.queries.scored_pairs.scored_pairs_type import ScoredPairsType
from skyband.framework.queries.topk_pairs import explain
from skyband.framework.queries.topk_pairs.compile import compile_pairs
from skyband.framework.queries.topk_pairs.model import TopKPairs

if TYPE_CHECKING:
    from skyband.framework.verify.brute_force.objects import Found


class TopKPairsType(ScoredPairsType):
    """See ``protocol.QueryType``."""

    name = "topk_pairs"
    model = TopKPairs
    takes_deletions = True
    example = (FilePath(__file__).parent / "example.yaml").read_text(encoding="utf-8")

    def compile(self, context: Context, entries: Sequence[QueryEntry]) -> Iterable[OperatorDraft]:
        """See ``compile``."""
        return compile_pairs(context, entries)

    def facts(self, node: OperatorNode, queries: Sequence[QueryNode]) -> list[tuple[str, str]]:
        """See ``explain``."""
        return explain.facts(node)

    def size(self, plan: Plan, node: OperatorNode, rate: float | None) -> list[str]:
        """See ``explain``."""
        return explain.size(plan, node, rate)

    def limits(self, plan: Plan, query: QueryNode, asked: LogicalQuery | None) -> Limits:
        """Also those of a cap per object."""
        return replace(super().limits(plan, query, asked), most_of_row=_cap(plan, query))

    def brute_force(self, question: Question) -> Found | None:
        """See ``brute_force``."""
        from skyband.framework.queries.topk_pairs.brute_force import best_pairs

        return best_pairs(question)

    def ranked(self, question: Question) -> Found | None:
        """Whatever the cap."""
        from skyband.framework.queries.topk_pairs.brute_force import first_pairs

        return first_pairs(replace(question, query=replace(question.query, min_score=None, max_score=None)), ALL)

    def keeping_out(self, plan: Plan, query: QueryNode, item: tuple[Any, ...], better: Found) -> Found:
        """The pairs of an object that is in as many as may be."""
        cap = _cap(plan, query)
        of_objects = [[b for b in better if seq in b[0]] for seq in item]
        return next((found for found in of_objects if cap is not None and len(found) >= cap), [])


def _cap(plan: Plan, query: QueryNode) -> int | None:
    return explain.cap_of(plan.operators[query.operator].operator)


QUERY_TYPE = TopKPairsType()
