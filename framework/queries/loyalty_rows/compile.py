"""Compile entries to operators: one for all with the same reports and window.

Reports are the same by ``object``, ``criteria`` or ``updates``, ``where``, ``stale_after`` and ``held``.

The state does not depend on ``k``, ``at_least``, ``every`` and ``trace`` of a query.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import cast

from skyband.framework.plan.drafts import Context, OperatorDraft, QueryEntry, share
from skyband.framework.plan.model import ReportNode
from skyband.framework.plan.row_nodes import predicate, predicate_key, texts_of
from skyband.framework.queries.loyalty_rows.model import LoyaltyRows
from skyband.operators.base import Column, Operator, Window

_WHY = "heaps of the objects in and out of each result, by how their loyalty moves"


@dataclass(frozen=True, slots=True)
class _Key:
    """The properties that queries must have in common to share a state."""

    objects: tuple[str, ...]
    criteria: str | None
    updates: str | None
    where: str | None
    stale_after: int | None
    held: str | None
    window: Window


def compile_loyalty(context: Context, entries: Sequence[QueryEntry]) -> Iterable[OperatorDraft]:
    """Return drafts of ``Loyalty`` operators."""

    def key(m: QueryEntry) -> _Key:
        q = cast(LoyaltyRows, m.query)
        criteria, where = predicate_key(context, q.criteria), predicate_key(context, q.where)
        return _Key(q.objects, criteria, q.updates, where, q.stale_after, q.held, m.window)

    for _, group in share(entries, key):
        yield _draft(context, group)


def _draft(context: Context, group: tuple[QueryEntry, ...]) -> OperatorDraft:
    first = cast(LoyaltyRows, group[0].query)
    criteria, where = predicate(context, first.criteria), predicate(context, first.where)
    updates = None if first.updates is None else Column(first.updates, context.kinds[first.updates])

    def build(texts: tuple[str, ...]) -> Operator:
        from skyband.operators.loyalty import Loyalty, LoyaltyQuery

        queries = tuple(LoyaltyQuery(getattr(m.query, "k", None), _least(m), m.query.every, _traces_all(m)) for m in group)
        operator = Loyalty(
            object=first.objects, criteria=criteria, updates=updates, where=where, stale_after=first.stale_after, window=group[0].window,
            queries=queries, texts=texts, deletes=context.deletes, held=first.held,
        )  # fmt: skip
        return cast(Operator, operator)

    largest = max((getattr(m.query, "k", 1) for m in group), default=1)
    reports = ReportNode(first.objects, first.updates, where)
    return OperatorDraft(
        group, largest, group[0].window, "max", texts_of(criteria, where), build, _WHY, skyband=False, reports=reports
    )  # fmt: skip


def _least(m: QueryEntry) -> int | None:
    """Return the bound of a query that has one."""
    least = getattr(m.query, "least", None)
    return None if least is None else least(m.window.micros)


def _traces_all(m: QueryEntry) -> bool:
    return cast(LoyaltyRows, m.query).trace == "all"
