"""Similar sets: all pairs of rows whose sets of tokens are similar enough."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path as FilePath
from typing import TYPE_CHECKING

from skyband.framework.items import ItemShape
from skyband.framework.plan.drafts import Context, OperatorDraft, QueryEntry
from skyband.framework.plan.model import OperatorNode, QueryNode
from skyband.framework.queries.pair_rows.items import pair_of
from skyband.framework.queries.protocol import QueryType, Question
from skyband.framework.queries.set_pairs import explain
from skyband.framework.queries.set_pairs.explain import SHARES_STATE
from skyband.framework.queries.similar_sets.check import check
from skyband.framework.queries.similar_sets.compile import compile_sets
from skyband.framework.queries.similar_sets.model import SimilarSets
from skyband.framework.spec.document import Path
from skyband.framework.spec.scope import PAIR_SIDES, Scope

if TYPE_CHECKING:
    from skyband.framework.verify.objects import Found


class SimilarSetsType(QueryType):
    """See ``protocol.QueryType``."""

    name = "similar_sets"
    model = SimilarSets
    example = (FilePath(__file__).parent / "example.yaml").read_text(encoding="utf-8")
    sides = PAIR_SIDES
    shows_k = False
    shares = SHARES_STATE

    def item(self, query: SimilarSets) -> ItemShape:
        """Two rows, by age or by side."""
        return pair_of(query.between)

    def check(self, scope: Scope, path: Path, query: SimilarSets) -> None:
        """See ``check``."""
        check(scope, path, query)

    def compile(self, context: Context, entries: Sequence[QueryEntry]) -> Iterable[OperatorDraft]:
        """See ``compile``."""
        return compile_sets(context, entries)

    def facts(self, node: OperatorNode, queries: Sequence[QueryNode]) -> list[tuple[str, str]]:
        """See ``explain``."""
        return explain.facts(node)

    def brute_force(self, question: Question) -> Found | None:
        """See ``brute_force``."""
        from skyband.framework.queries.set_pairs.brute_force import most_similar

        return most_similar(question)


QUERY_TYPE = SimilarSetsType()
