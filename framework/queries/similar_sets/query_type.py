"""Similar sets: all pairs of rows whose sets of tokens are similar enough."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path as FilePath

from skyband.framework.plan.drafts import Context, OperatorDraft, QueryEntry
from skyband.framework.queries.set_pairs.set_pairs_type import SetPairsType
from skyband.framework.queries.similar_sets.compile import compile_sets
from skyband.framework.queries.similar_sets.model import SimilarSets
from skyband.framework.spec.checks.scope import Scope
from skyband.framework.spec.parsing.document import Path
from skyband.operators.set_index.functions import DISTANCES


class SimilarSetsType(SetPairsType):
    """See ``protocol.QueryType``."""

    name = "similar_sets"
    model = SimilarSets
    example = (FilePath(__file__).parent / "example.yaml").read_text(encoding="utf-8")
    shows_k = False

    def check(self, scope: Scope, path: Path, query: SimilarSets) -> None:
        """Check what all pairs of sets have in common, and that there is a bound."""
        super().check(scope, path, query)
        if query.min_score is None and query.max_score is None and not scope.doc.bad_below(path):
            bound = "max_score" if query.similarity in DISTANCES else "min_score"
            scope.doc.add(
                "SKY-E111",
                f"a query of this type needs {bound}",
                scope.doc.where_key(path),
                f"how similar must a pair be? such as {bound}: 0.8",
            )

    def compile(self, context: Context, entries: Sequence[QueryEntry]) -> Iterable[OperatorDraft]:
        """See ``compile``."""
        return compile_sets(context, entries)


QUERY_TYPE = SimilarSetsType()
