"""Skylines: the rows that no other row (or fewer than ``band``) beats in every dimension."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Any

from skyband.framework.base.counts import counted
from skyband.framework.base.items import ROW, ItemShape, Value, newest_first
from skyband.framework.plan.drafts import Context, OperatorDraft, QueryEntry
from skyband.framework.plan.model import OperatorNode, Plan, QueryNode
from skyband.framework.queries.protocol import QueryType, Question
from skyband.framework.queries.skyline import explain
from skyband.framework.queries.skyline.compile import compile_skyline
from skyband.framework.queries.skyline.model import Skyline
from skyband.framework.spec.checks.scope import Scope
from skyband.framework.spec.parsing.document import Path

if TYPE_CHECKING:
    from skyband.framework.verify.brute_force.objects import Found


class SkylineType(QueryType):
    """See ``protocol.QueryType``."""

    name = "skyline"
    model = Skyline
    example = (FilePath(__file__).parent / "example.yaml").read_text(encoding="utf-8")
    takes_deletions = True
    own_k = "band"
    shares = "dimensions, band, distinct and where"

    def item(self, query: Skyline) -> ItemShape:
        """Return one row without a score; the state says which older row decides whether it shows."""
        beats = "no row" if query.band == 1 else f"fewer than {counted(query.band, 'row')}"
        rule = f"{beats} of a window beat the object, itself in the window, exactly if pred is null or no longer in the window"
        extra = (
            Value("newer", "bigint", "how many newer rows beat the object"),
            Value("pred", "bigint", f"seq of the older row that decides: {rule}"),
            Value("pred_time", "timestamp", "event time of pred"),
        )
        return ItemShape(ROW, newest_first(ROW), extra=extra, hidden_by="pred")

    def check(self, scope: Scope, path: Path, query: Skyline) -> None:
        """Check the dimensions."""
        at: Path = (*path, "dimensions")
        if not scope.doc.bad_below(at) and all(d == "equal" for d in query.dimensions.values()):
            scope.doc.add("SKY-E117", "a skyline needs a dimension with min or max", scope.doc.where_key(at))
        for column, direction in query.dimensions.items():
            if scope.key_column((*at, column), column) and direction != "equal" and scope.types[column] in {"string", "boolean"}:
                message = f"'{column}' is {scope.types[column]}: only numbers and times have a {direction}"
                scope.doc.add("SKY-E126", message, scope.doc.where_key((*at, column)), "use equal")

    def compile(self, context: Context, entries: Sequence[QueryEntry]) -> Iterable[OperatorDraft]:
        """See ``compile``."""
        return compile_skyline(context, entries)

    def facts(self, node: OperatorNode, queries: Sequence[QueryNode]) -> list[tuple[str, str]]:
        """See ``explain``."""
        return explain.facts(node)

    def size(self, plan: Plan, node: OperatorNode, rate: float | None) -> list[str]:
        """See ``explain``."""
        return explain.size(plan, node, rate)

    def brute_force(self, question: Question) -> Found | None:
        """See ``brute_force``."""
        from skyband.framework.queries.skyline.brute_force import unbeaten

        return unbeaten(question)

    def ranked(self, question: Question) -> Found | None:
        """Return None: dominance is no rank."""
        return None

    def beating(self, question: Question, item: tuple[Any, ...]) -> Found | None:
        """Return the objects that beat the item."""
        from skyband.framework.queries.skyline.brute_force import beating

        return beating(question, int(item[0]))


QUERY_TYPE = SkylineType()
