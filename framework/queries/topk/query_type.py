"""Top-k: the k best rows by a score."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Any

from skyband.framework.plan.drafts import Context, OperatorDraft, QueryEntry
from skyband.framework.plan.explain_parts import assumed_rows, state_size
from skyband.framework.plan.model import OperatorNode, Plan
from skyband.framework.queries.checks import bounds_in_order, uses_scoring
from skyband.framework.queries.protocol import Question
from skyband.framework.queries.single_rows.list_check import needed_fields
from skyband.framework.queries.single_rows.single_rows_type import SingleRowsType
from skyband.framework.queries.topk.compile import compile_topk
from skyband.framework.queries.topk.model import TopK
from skyband.framework.spec.checks.scope import ROW_SIDES, Scope
from skyband.framework.spec.parsing.document import Path

if TYPE_CHECKING:
    from skyband.framework.verify.brute_force.objects import Found


def skyband_size(k: int, n: float) -> float:
    """Expected rows of a K-skyband over N rows when scores do not depend on age: K(1 + ln(N/K)) (docs/algorithms D1), at most N."""
    return min(n, k * (1 + math.log(n / k))) if n > k else n


class TopKType(SingleRowsType):
    """See ``protocol.QueryType``."""

    name = "topk"
    model = TopK
    example = (FilePath(__file__).parent / "example.yaml").read_text(encoding="utf-8")

    def check(self, scope: Scope, path: Path, query: TopK) -> None:
        """Check the scoring function, missing fields and bounds."""
        needed_fields(scope, path, query)
        uses_scoring(scope, path, query, query.scoring, ROW_SIDES)
        bounds_in_order(scope, path, query.min_score, query.max_score)

    def compile(self, context: Context, entries: Sequence[QueryEntry]) -> Iterable[OperatorDraft]:
        """See ``compile``."""
        return compile_topk(context, entries)

    def size(self, plan: Plan, node: OperatorNode, rate: float | None) -> list[str]:
        """Return the expected size of the skyband."""
        if not node.skyband:
            return []
        return state_size(plan, node, rate, skyband_size(node.k, assumed_rows(node.window, rate)), 32, "rows = K (1 + ln(N / K))")

    def brute_force(self, question: Question) -> Found | None:
        """The k best of the rows whose score lies within the bounds."""
        from skyband.framework.queries.single_rows.brute_force import passing

        return passing(question, _bounds(question))

    def scores(self, question: Question, items: Sequence[tuple[Any, ...]]) -> list[float] | None:
        """See ``protocol.QueryType``."""
        from skyband.framework.queries.single_rows.brute_force import row_scores

        return row_scores(question, items, _bounds(question))


def _bounds(question: Question) -> tuple[float | None, ...]:
    assert question.logical_query is not None
    least, most = question.logical_query.bounds
    return None, least, None, most


QUERY_TYPE = TopKType()
