"""Top-k: the k best rows by a score."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Any

from skyband.framework.base.items import ROW, SCORE_VALUE, ItemShape, by_score
from skyband.framework.plan.drafts import Context, OperatorDraft, QueryEntry
from skyband.framework.plan.model import OperatorNode, Plan, QueryNode
from skyband.framework.queries.protocol import QueryType, Question
from skyband.framework.queries.single_rows.list_check import list_parameters
from skyband.framework.queries.topk import explain as own_explain
from skyband.framework.queries.topk.check import check
from skyband.framework.queries.topk.compile import compile_topk
from skyband.framework.queries.topk.model import TopK
from skyband.framework.spec.checks.scope import Scope
from skyband.framework.spec.parsing.document import Path

if TYPE_CHECKING:
    from skyband.framework.verify.brute_force.objects import Found


class TopKType(QueryType):
    """See ``protocol.QueryType``."""

    name = "topk"
    model = TopK
    example = (FilePath(__file__).parent / "example.yaml").read_text(encoding="utf-8")
    takes_deletions = True

    def item(self, query: TopK) -> ItemShape:
        """One row."""
        return ItemShape(ROW, by_score(ROW), (SCORE_VALUE,))

    def parameters(self, scope: Scope, path: Path, query: TopK) -> tuple[str, ...] | None:
        """Those of a list of queries."""
        return list_parameters(scope, path, query)

    def check(self, scope: Scope, path: Path, query: TopK) -> None:
        """See ``check``."""
        check(scope, path, query)

    def compile(self, context: Context, entries: Sequence[QueryEntry]) -> Iterable[OperatorDraft]:
        """See ``compile``."""
        return compile_topk(context, entries)

    def facts(self, node: OperatorNode, queries: Sequence[QueryNode]) -> list[tuple[str, str]]:
        """The score and the condition."""
        from skyband.framework.queries.single_rows import explain

        return explain.facts(node, queries)

    def size(self, plan: Plan, node: OperatorNode, rate: float | None) -> list[str]:
        """See ``explain``."""
        return own_explain.size(plan, node, rate)

    def brute_force(self, question: Question) -> Found | None:
        """The k best of the rows whose score lies within the bounds."""
        from skyband.framework.queries.single_rows.brute_force import passing

        return passing(question, _bounds(question))

    def scores(self, question: Question, items: Sequence[tuple[Any, ...]]) -> list[float] | None:
        """See ``protocol.QueryType``."""
        from skyband.framework.queries.single_rows.brute_force import row_scores

        return row_scores(question, items, _bounds(question))


def _bounds(question: Question) -> tuple[float | None, ...]:
    assert question.asked is not None
    least, most = question.asked.bounds
    return None, least, None, most


QUERY_TYPE = TopKType()
