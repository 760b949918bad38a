"""Top-k similar sets: the k most similar pairs of rows' sets of tokens."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path as FilePath
from typing import Literal, cast

from pydantic import Field

from skyband.framework.plan.drafts import Context, OperatorDraft, QueryEntry
from skyband.framework.queries.models import K
from skyband.framework.queries.set_pairs.set_pairs_type import SetPairs, SetPairsType, Shared, shared
from skyband.operators.base import Operator

# The entry of a spec: the k most similar pairs of sets.


class TopKSimilarSets(SetPairs):
    """The k most similar pairs of sets."""

    type: Literal["topk_similar_sets"]
    k: K = Field(description="How many pairs.")


# Entries to operators: one for all that share a state, with the largest k.

_WHY = "lists of the sets that hold a token, each read down to the oldest set that can still matter"
_WHY_DELETES = (
    "a deletion can bring any pair back: each query keeps its best 2k + 8 to 4k + 16 pairs; where deletions leave fewer than k, "
    "the window's sets are joined again"
)


def compile_sets(context: Context, entries: Sequence[QueryEntry]) -> Iterable[OperatorDraft]:
    """Drafts of ``TopKSimilarSets`` operators, one per set of queries that can share a skyband."""
    for group in shared(context, entries):
        yield _draft(context, group, [cast(TopKSimilarSets, q) for q in group.queries])


def _draft(context: Context, group: Shared, queries: list[TopKSimilarSets]) -> OperatorDraft:
    largest = max(q.k for q in queries)

    def build(texts: tuple[str, ...]) -> Operator:
        from skyband.operators.pair_rows.queries import PairQuery
        from skyband.operators.topk_similar_sets.operator import TopKSimilarSets, TopKSimilarSetsDeletes

        kind = TopKSimilarSetsDeletes if context.deletes else TopKSimilarSets
        asked = (PairQuery(m.name, q.k, m.window, q.min_score, q.max_score, q.every) for m, q in zip(group.entries, queries, strict=True))
        return cast(Operator, kind(**group.configuration(context, texts), queries=tuple(asked), keep_k=largest))

    why, skyband = (_WHY_DELETES, False) if context.deletes else (_WHY, True)
    return OperatorDraft(group.entries, largest, group.window, group.direction, group.texts, build, why, skyband=skyband)


class TopKSimilarSetsType(SetPairsType):
    """See ``protocol.QueryType``."""

    name = "topk_similar_sets"
    model = TopKSimilarSets
    example = (FilePath(__file__).parent / "example.yaml").read_text(encoding="utf-8")

    def compile(self, context: Context, entries: Sequence[QueryEntry]) -> Iterable[OperatorDraft]:
        """See ``compile``."""
        return compile_sets(context, entries)


QUERY_TYPE = TopKSimilarSetsType()
