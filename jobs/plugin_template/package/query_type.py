"""A query type: the accounts with at least ``times`` rows in the window.

Its items are objects that many rows report on, not rows; they have a value that is no score, and no skyband. What a type can say
besides, and what each method has to do: ``skyband.framework.queries.protocol``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, Literal

import numpy as np
from pydantic import Field

from skyband.framework.base.items import ItemShape, Part, RankTerm, Value
from skyband.framework.base.units import Name
from skyband.framework.plan.drafts import Context, OperatorDraft, QueryEntry
from skyband.framework.plan.model import QueryNode
from skyband.framework.queries.models import QueryModel
from skyband.framework.queries.protocol import QueryType, Question
from skyband.framework.spec.checks.scope import Scope
from skyband.framework.spec.parsing.document import Path
from skyband.framework.verify.brute_force.objects import Found, window_of
from skyband.operators.base import NULL

from .operator import FrequentOperator

EXAMPLE: Final = """\
job: accounts
source:
  format: csv
  path: in
  options: {header: true}
  schema: {id: bigint, ts: timestamp, account: bigint, region: string}
  id: [id]
  event_time: {column: ts}
window: {count: 12, time: 5 minutes}
queries:
  busy: {type: frequent, account: account, times: 3}
  busy_lately: {type: frequent, account: account, times: 2, window: {time: 1 minute}}
sink: {path: out}
"""


class Frequent(QueryModel):
    """Accounts with many rows in the window."""

    type: Literal["frequent"]
    account: Name = Field(description="The column that names the account.")
    times: int = Field(ge=1, description="How many rows at least.")


class FrequentType(QueryType):
    """See the module."""

    name = "frequent"
    model = Frequent
    example = EXAMPLE

    def item(self, query: Frequent) -> ItemShape:
        """An account, with the row that made it frequent."""
        entered = Value("entered_by", "bigint", "seq of the row that made it so")
        return ItemShape((Part("", "the account", (query.account,)),), (RankTerm((query.account,), "asc"),), (entered,))

    def check(self, scope: Scope, path: Path, query: Frequent) -> None:
        """Accounts are whole numbers, and results have no boundaries."""
        if scope.column((*path, "account"), query.account) and scope.types[query.account] != "bigint":
            scope.doc.add("SKY-E126", "accounts are whole numbers", scope.doc.where_value((*path, "account")), "give it the type bigint")
        if query.every is not None:
            scope.doc.add("SKY-E117", "frequent works after every event", scope.doc.where_value((*path, "every")), "leave out every")

    def compile(self, context: Context, entries: Sequence[QueryEntry]) -> Iterable[OperatorDraft]:
        """A state for every query: none is shared."""
        for entry in entries:
            query: Any = entry.query

            def build(texts: tuple[str, ...], entry: QueryEntry = entry, query: Any = query) -> FrequentOperator:
                return FrequentOperator(query.account, query.times, entry.window)

            yield OperatorDraft((entry,), 1, entry.window, "min", (), build, "counts", skyband=False)

    def asks(self, query: QueryNode) -> list[str]:
        """For ``explain``."""
        return ["counts rows"]

    def brute_force(self, question: Question) -> Found:
        """The definition: the window's rows, counted by account."""
        operator: Any = question.plan.operators[question.query.operator].operator
        first, end, _ = window_of(question.query, question.query.window, question.data, question.at)
        account, count = np.unique(question.data.columns[operator.account][first:end], return_counts=True)
        return [((int(a),), 0.0) for a in account[(count >= operator.times) & (account != NULL)]]


FREQUENT: Final = FrequentType()
