"""Top-k pairs: the k best pairs of rows by a score of two rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Any, cast

from skyband.framework.plan.drafts import Context, OperatorDraft, QueryEntry
from skyband.framework.plan.model import LogicalQuery, OperatorNode, Plan, QueryNode
from skyband.framework.queries.protocol import ALL, Limits, Question
from skyband.framework.queries.scored_pairs.compile import Shared, shared
from skyband.framework.queries.scored_pairs.scored_pairs_type import ScoredPairsType
from skyband.framework.queries.topk_pairs import explain
from skyband.framework.queries.topk_pairs.model import TopKPairs as TopKPairsModel
from skyband.operators.base import Operator

if TYPE_CHECKING:
    from skyband.framework.verify.brute_force.objects import Found

# Entries to operators: one operator for all queries of equal scoring, direction, ``where``, ``between`` and ``max_per_object``.
#
# A cap per object restricts candidates as ``where`` does: a skyband lacks the pairs that move up behind one that is passed over.
# K is the largest k (and the scoring's ``keep.k``), N the union of the windows.

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


class TopKPairsType(ScoredPairsType):
    """See ``protocol.QueryType``."""

    name = "topk_pairs"
    model = TopKPairsModel
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
