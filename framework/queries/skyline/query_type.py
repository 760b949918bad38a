"""Skylines: the rows that no other row (or fewer than ``band``) beats in every dimension; the first by a score, or a chosen number."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Any, Final

from skyband.framework.base.counts import counted
from skyband.framework.base.errors import did_you_mean, one_of
from skyband.framework.base.items import ROW, SCORE_VALUE, ItemShape, Value, by_score, newest_first
from skyband.framework.plan.drafts import Context, OperatorDraft, QueryEntry
from skyband.framework.plan.model import LogicalQuery, OperatorNode, Plan, QueryNode
from skyband.framework.queries.checks import uses_scoring
from skyband.framework.queries.protocol import Limits, QueryType, Question
from skyband.framework.queries.read_columns import scoring_columns
from skyband.framework.queries.skyline import explain
from skyband.framework.queries.skyline.check_size import check_size
from skyband.framework.queries.skyline.compile import compile_skyline
from skyband.framework.queries.skyline.model import Skyline
from skyband.framework.spec.checks.scope import ROW_SIDES, Scope
from skyband.framework.spec.parsing.document import Path

if TYPE_CHECKING:
    from skyband.framework.verify.brute_force.objects import Found


_TOGETHER: Final = (
    ("top", "by", "by: NAME of a scoring function"),
    ("by", "top", "top: how many rows"),
    ("size", "weights", "weights: {COLUMN: 0.5, ...} of all dimensions"),
    ("weights", "size", "size: how many rows"),
)
"""Fields of which the first needs the second, with a hint."""


class SkylineType(QueryType):
    """See ``protocol.QueryType``."""

    name = "skyline"
    model = Skyline
    example = (FilePath(__file__).parent / "example.yaml").read_text(encoding="utf-8")
    takes_deletions = True
    own_k = "band"
    shares = "dimensions, prefer, band, distinct, where, by and weights"

    def item(self, query: Skyline) -> ItemShape:
        """Return one row, with a score if the query ranks it; the state says which older row decides whether it shows."""
        beats = "no row" if query.band == 1 else f"fewer than {counted(query.band, 'row')}"
        rule = f"{beats} of a window beat the object, itself in the window, exactly if pred is null or no longer in the window"
        extra = (
            Value("newer", "bigint", "how many newer rows beat the object"),
            Value("pred", "bigint", f"seq of the older row that decides: {rule}"),
            Value("pred_time", "timestamp", "event time of pred"),
        )
        if query.top is not None:
            return ItemShape(ROW, by_score(ROW), (SCORE_VALUE,), extra=extra, hidden_by="pred")
        if query.size is not None:
            return ItemShape(ROW, newest_first(ROW))
        return ItemShape(ROW, newest_first(ROW), extra=extra, hidden_by="pred")

    def check(self, scope: Scope, path: Path, query: Skyline) -> None:
        """Check the dimensions, their priorities and the score."""
        at: Path = (*path, "dimensions")
        if not scope.doc.bad_below(at) and all(d == "equal" for d in query.dimensions.values()):
            scope.doc.add("SKY-E117", "a skyline needs a dimension with min or max", scope.doc.where_key(at))
        for column, direction in query.dimensions.items():
            if scope.key_column((*at, column), column) and direction != "equal" and scope.types[column] in {"string", "boolean"}:
                message = f"'{column}' is {scope.types[column]}: only numbers and times have a {direction}"
                scope.doc.add("SKY-E126", message, scope.doc.where_key((*at, column)), "use equal")
        _check_prefer(scope, (*path, "prefer"), query)
        for given, missing, hint in _TOGETHER:
            if getattr(query, given) is not None and getattr(query, missing) is None and not scope.doc.bad((*path, missing)):
                said = f"'{given}' of a skyline needs the field '{missing}'"
                scope.doc.add("SKY-E111", said, scope.doc.where_key((*path, given)), hint)
        check_size(scope, path, query)
        uses_scoring(scope, path, query, query.by, ROW_SIDES, "by")

    def compile(self, context: Context, entries: Sequence[QueryEntry]) -> Iterable[OperatorDraft]:
        """See ``compile``."""
        return compile_skyline(context, entries)

    def value_columns(self, node: OperatorNode, query: QueryNode) -> tuple[str, ...]:
        """Return what the score is computed from, if there is one."""
        return scoring_columns(*query.asked)

    def facts(self, node: OperatorNode, queries: Sequence[QueryNode]) -> list[tuple[str, str]]:
        """See ``explain``."""
        return explain.facts(node)

    def limits(self, plan: Plan, query: QueryNode, logical: LogicalQuery | None) -> Limits:
        """Return ``top`` or ``size``."""
        size = getattr(plan.operators[query.operator].operator, "sizes", None)
        return super().limits(plan, query, logical) if size is None else Limits(size[query.index])

    def size(self, plan: Plan, node: OperatorNode, rate: float | None) -> list[str]:
        """See ``explain``."""
        return explain.size(plan, node, rate)

    def brute_force(self, question: Question) -> Found | None:
        """See ``brute_force``."""
        from skyband.framework.queries.skyline.brute_force import unbeaten

        return unbeaten(question)

    def scores(self, question: Question, items: Sequence[tuple[Any, ...]]) -> list[float] | None:
        """See ``protocol.QueryType``."""
        if question.logical_query is None:
            return None
        from skyband.framework.queries.single_rows.brute_force import row_scores

        return row_scores(question, items, (None, None, None, None))

    def ranked(self, question: Question) -> Found | None:
        """Return the members of the skyline in rank order, or by radius; None with neither: dominance is no rank."""
        if hasattr(question.plan.operators[question.query.operator].operator, "sizes"):
            from skyband.framework.queries.skyline.brute_force import by_radius

            return by_radius(question)
        return None if question.query.k is None else super().ranked(question)

    def beating(self, question: Question, item: tuple[Any, ...]) -> Found | None:
        """Return the objects that beat the item; None for a member without a score."""
        from skyband.framework.queries.skyline.brute_force import beating

        found = beating(question, int(item[0]))
        op: Any = question.plan.operators[question.query.operator].operator
        return None if found is not None and len(found) < op.band else found


def _check_prefer(scope: Scope, path: Path, query: Skyline) -> None:
    """Check that ``prefer`` lists dimensions that have an order, each once."""
    seen: set[str] = set()
    ordered = [c for c, d in query.dimensions.items() if d != "equal"]
    for i, level in enumerate(query.prefer):
        for j, column in enumerate([level] if isinstance(level, str) else level):
            at: Path = (*path, i) if isinstance(level, str) else (*path, i, j)
            if scope.doc.bad(at):
                continue
            where = scope.doc.where_value(at)
            if column not in query.dimensions:
                hint = did_you_mean(column, ordered) or f"dimensions: {one_of(ordered)}"
                scope.doc.add("SKY-E120", f"'{column}' in prefer is no dimension of the skyline", where, hint)
            elif column not in ordered:
                message = f"'{column}' has direction equal: rows with different values are not compared, whatever its priority"
                scope.doc.add("SKY-E117", message, where, "remove it from prefer")
            elif column in seen:
                scope.doc.add("SKY-E125", f"'{column}' is listed twice in prefer", where)
            seen.add(column)


QUERY_TYPE = SkylineType()
