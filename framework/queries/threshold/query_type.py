"""Thresholds: all rows whose score passes a bound."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Any

from skyband.framework.base.counts import number_text
from skyband.framework.base.items import SCORE
from skyband.framework.plan.drafts import Context, OperatorDraft, QueryEntry
from skyband.framework.plan.model import LogicalQuery, Plan, QueryNode
from skyband.framework.queries.checks import uses_scoring
from skyband.framework.queries.protocol import Limits, Question
from skyband.framework.queries.single_rows.list_check import needed_fields
from skyband.framework.queries.single_rows.single_rows_type import SingleRowsType
from skyband.framework.queries.threshold.compile import compile_threshold
from skyband.framework.queries.threshold.model import BOUNDS, Threshold, nothing_passes, two_on_one_side
from skyband.framework.spec.checks.scope import ROW_SIDES, Scope
from skyband.framework.spec.parsing.document import Path

if TYPE_CHECKING:
    from skyband.framework.verify.brute_force.objects import Found


class ThresholdType(SingleRowsType):
    """See ``protocol.QueryType``."""

    name = "threshold"
    states_deletions = True
    model = Threshold
    example = (FilePath(__file__).parent / "example.yaml").read_text(encoding="utf-8")
    shows_k = False

    def check(self, scope: Scope, path: Path, query: Threshold) -> None:
        """Check the scoring function, and bounds that are missing or leave nothing."""
        doc = scope.doc
        needed_fields(scope, path, query)
        uses_scoring(scope, path, query, query.scoring, ROW_SIDES)
        if doc.bad_below(path):
            return
        given = [b for b in ("at_least", "above", "at_most", "below") if getattr(query, b) is not None]
        hint = "one of at_least, above, at_most, below"
        if not given and query.queries_from is None:
            doc.add("SKY-E111", "a threshold query needs a bound", doc.where_key(path), hint)
        elif two_on_one_side(given):
            doc.add("SKY-E117", f"a threshold query has two bounds on one side ({', '.join(given)})", doc.where_key(path), hint)
        elif nothing_passes(*(getattr(query, b) for b in BOUNDS)):
            doc.add("SKY-E117", "the bounds leave nothing that can pass", doc.where_value((*path, given[0])))

    def compile(self, context: Context, entries: Sequence[QueryEntry]) -> Iterable[OperatorDraft]:
        """See ``compile``."""
        return compile_threshold(context, entries)

    def asks(self, query: QueryNode) -> list[str]:
        """Return the bounds, as conditions."""
        if query.members or not query.asked:
            return []
        signs = (">", ">=", "<", "<=")
        return [f"score {sign} {number_text(b)}" for sign, b in zip(signs, query.asked[0].bounds, strict=True) if b is not None]

    def limits(self, plan: Plan, query: QueryNode, asked: LogicalQuery | None) -> Limits:
        """The bounds: of a strict one the next number."""
        assert asked is not None
        above, at_least, below, at_most = asked.bounds
        least = math.nextafter(above, math.inf) if above is not None else at_least
        greatest = math.nextafter(below, -math.inf) if below is not None else at_most
        return Limits(None, ((SCORE, least, greatest),))

    def brute_force(self, question: Question) -> Found | None:
        """Every row of the window whose score passes."""
        from skyband.framework.queries.single_rows.brute_force import passing

        assert question.logical_query is not None
        return passing(question, question.logical_query.bounds)

    def scores(self, question: Question, items: Sequence[tuple[Any, ...]]) -> list[float] | None:
        """See ``protocol.QueryType``."""
        from skyband.framework.queries.single_rows.brute_force import row_scores

        assert question.logical_query is not None
        return row_scores(question, items, question.logical_query.bounds)


QUERY_TYPE = ThresholdType()
