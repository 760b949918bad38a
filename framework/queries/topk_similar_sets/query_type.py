"""Top-k similar sets: the k most similar pairs of rows' sets of tokens."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path as FilePath

from skyband.framework.plan.drafts import Context, OperatorDraft, QueryEntry
from skyband.framework.queries.set_pairs.set_pairs_type import SetPairsType
from skyband.framework.queries.topk_similar_sets.compile import compile_sets
from skyband.framework.queries.topk_similar_sets.model import TopKSimilarSets


class TopKSimilarSetsType(SetPairsType):
    """See ``protocol.QueryType``."""

    name = "topk_similar_sets"
    model = TopKSimilarSets
    example = (FilePath(__file__).parent / "example.yaml").read_text(encoding="utf-8")

    def compile(self, context: Context, entries: Sequence[QueryEntry]) -> Iterable[OperatorDraft]:
        """See ``compile``."""
        return compile_sets(context, entries)


QUERY_TYPE = TopKSimilarSetsType()
