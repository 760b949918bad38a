"""Similar sets: all pairs of rows whose sets of tokens are similar enough."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path as FilePath
from typing import Literal, cast

from skyband.framework.plan.drafts import Context, OperatorDraft, QueryEntry
from skyband.framework.queries.set_pairs.set_pairs_type import SetPairs, SetPairsType, Shared, shared
from skyband.framework.spec.checks.scope import Scope
from skyband.framework.spec.parsing.document import Path
from skyband.operators.base import Operator
from skyband.operators.set_index.functions import DISTANCES

# The entry of a spec: all pairs of sets that are similar enough.


class SimilarSets(SetPairs):
    """All pairs of sets that are at least so similar."""

    type: Literal["similar_sets"]


# Entries to operators: one for all that share a state; it keeps the pairs themselves, no skyband.

_WHY = "lists of the sets that hold a token; only pairs that are similar enough are kept"
_WHY_DELETES = f"{_WHY}, and deleted rows stay in the lists until they leave the window"


def compile_sets(context: Context, entries: Sequence[QueryEntry]) -> Iterable[OperatorDraft]:
    """Drafts of ``SimilarSets`` operators."""
    for group in shared(context, entries):
        yield _draft(context, group)


def _draft(context: Context, group: Shared) -> OperatorDraft:
    queries = [cast(SimilarSets, m.query) for m in group.entries]

    def build(texts: tuple[str, ...]) -> Operator:
        from skyband.operators.pair_rows.queries import BoundedPairQuery
        from skyband.operators.similar_sets.operator import SimilarSets

        asked = (BoundedPairQuery(m.name, m.window, q.min_score, q.max_score, q.every) for m, q in zip(group.entries, queries, strict=True))
        return cast(Operator, SimilarSets(**group.configuration(context, texts), queries=tuple(asked)))

    return OperatorDraft(
        group.entries, 1, group.window, group.direction, group.texts, build, _WHY_DELETES if context.deletes else _WHY, skyband=False
    )


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
