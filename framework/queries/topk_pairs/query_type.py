"""Top-k pairs: the k best pairs of rows by a score of two rows."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Any, Literal, cast

from pydantic import Field

from skyband.framework.base.counts import counted
from skyband.framework.plan.drafts import Context, OperatorDraft, QueryEntry
from skyband.framework.plan.explain_parts import assumed_rows, format_bytes, per_key, state_size
from skyband.framework.plan.model import LogicalQuery, OperatorNode, Plan, QueryNode
from skyband.framework.queries.models import K
from skyband.framework.queries.protocol import ALL, Limits, Question
from skyband.framework.queries.scored_pairs.scored_pairs_type import (
    ScoredPairs,
    ScoredPairsType,
    Shared,
    facts_of_scored_pairs,
    shared,
    why_with_index,
)
from skyband.operators.base import Operator
from skyband.operators.pair_rows.capped.limits import limits_of
from skyband.operators.topk_pairs.configuration import MOST, SPARE

if TYPE_CHECKING:
    from skyband.framework.verify.brute_force.objects import Found


# What ``explain`` says about a state of pairs.


def _facts(node: OperatorNode) -> list[tuple[str, str]]:
    """What all pairs with a score have, and the cap."""
    cap = cap_of(node.inner)
    at_most = [("at most", f"{counted(cap, 'pair')} of a result with the same row")] if cap is not None else []
    return facts_of_scored_pairs(node) + at_most


def cap_of(op: Any) -> int | None:
    """The pairs of a result that one row may be in, of an operator of this type; None: any number."""
    cap: int | None = getattr(op, "max_per_object", None)
    return cap


def skyband_size(k: int, n: float) -> float:
    """Expected pairs of a K-skyband over N rows when scores do not depend on age.

    K + 2K ln(N / sqrt(2K)) (docs/algorithms D2), at most all pairs.
    """
    every = n * (n - 1) / 2
    return min(every, k + 2 * k * max(0.0, math.log(n / math.sqrt(2 * k)))) if n >= 2 else 0.0


def _size(plan: Plan, node: OperatorNode, rate: float | None) -> list[str]:
    """The expected size of the state."""
    rows = assumed_rows(node.window, rate)
    cap, op = cap_of(node.inner), cast(Any, node.inner)
    if op.deletes:
        return _size_with_deletions(plan, node, rows)
    if cap is not None:
        most = limits_of(cap, node.k).chosen
        said = f"pairs = 3 (M + 2M ln(N / sqrt(2M))), M = {most:,}; more where few rows make the best pairs"
        return state_size(plan, node, rate, 3 * skyband_size(most, rows), 40, said)
    return state_size(plan, node, rate, skyband_size(node.k, rows), 40, "pairs = K + 2K ln(N / sqrt(2K))")


def _size_with_deletions(plan: Plan, node: OperatorNode, rows: float) -> list[str]:
    """The size of the state where rows can be deleted, and what a row costs."""
    op: Any = node.inner
    windows, least = len({q.window.within(op.window) for q in op.queries}), (1 + SPARE[0]) * node.k + SPARE[1]
    most = MOST * least
    size = windows * (24 * min(most, rows * (rows - 1) / 2) + 16 * rows) + 16 * rows
    said = f"the best alive pairs ({least:,} to {most:,}) of {counted(windows, 'window')}, and a bound for every row"
    return [
        f"    pairs     {said}; {format_bytes(size)} at N = {counted(round(rows), 'row')}{per_key(plan)}",
        "    price     a row costs 3 to 5 times as much as without deletes (with a cap, up to twice); a deletion costs little",
    ]


# The entry of a spec: the k best pairs of rows.


class TopKPairs(ScoredPairs):
    """The k best pairs of rows."""

    type: Literal["topk_pairs"]
    k: K = Field(description="How many pairs.")
    max_per_object: K | None = Field(default=None, description="How many pairs of the result one row may be in.")

    @property
    def cap(self) -> int | None:
        """``max_per_object`` where it can matter: no row is in more than k of k pairs."""
        return self.max_per_object if self.max_per_object is not None and self.max_per_object < self.k else None


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
    queries = [cast(TopKPairs, m.query) for m in group.entries]
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
    why = why_with_index(why, group.where, context.deletes)
    return OperatorDraft(group.entries, largest, group.window, group.direction, group.texts, build, why, skyband=skyband)


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
        return _facts(node)

    def size(self, plan: Plan, node: OperatorNode, rate: float | None) -> list[str]:
        """See ``explain``."""
        return _size(plan, node, rate)

    def limits(self, plan: Plan, query: QueryNode, asked: LogicalQuery | None) -> Limits:
        """Also those of a cap per object."""
        return replace(super().limits(plan, query, asked), most_of_row=_cap(plan, query))

    def brute_force(self, question: Question) -> Found | None:
        """See ``brute_force``."""
        from skyband.framework.queries.topk_pairs.brute_force import best_pairs

        return best_pairs(question, _cap(question.plan, question.query))

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
    return cap_of(plan.operators[query.operator].inner)


QUERY_TYPE = TopKPairsType()
