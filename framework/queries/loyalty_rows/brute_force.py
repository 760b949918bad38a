"""The result by definition: of every object, the time for which its reports had it on within the window, added up."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from skyband.framework.queries.loyalty_rows.items import LOYALTY
from skyband.framework.queries.protocol import Question
from skyband.framework.verify.expressions import holds, meaning
from skyband.framework.verify.objects import Found
from skyband.operators.base import NEVER

I64 = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


def most_loyal(question: Question, every: bool = False) -> Found:
    """The members of the result as (values of the identity columns, loyalty in seconds), in rank order. O(n log n) in the rows so far.

    With ``every`` of the query, the members are those as of the last boundary; what they are worth, and so their order, is as of the
    instant. ``every``: all that have loyalty or slope, whatever ``k`` and ``at_least``.
    """
    plan, query, data = question.plan, question.query, question.data
    op: Any = plan.operators[query.operator].operator
    asked = op.queries[query.index]
    names, of_row = data.named[op.object]
    told = question.at // query.every_micros * query.every_micros if query.every_micros else question.at

    def ranked(at: int, among: Iterable[int]) -> list[tuple[int, int, Any, int]]:
        loyalty, slope = loyalties(question, of_row, len(names), at)
        return sorted((-int(loyalty[o]), -int(slope[o]), _in_order(names[o]), o) for o in among)

    objects = ranked(told, range(len(names)))
    if asked.k is not None or every:
        members = [r for r in objects if r[0] < 0 or r[1] < 0][: None if every else asked.k]
    else:
        least = asked.at_least
        members = [r for r in objects if -r[0] > least or (-r[0] == least and -r[1] >= 0)]
    if told != question.at:
        members = ranked(question.at, [o for *_, o in members])
    shown = [op.object.index(c) for c in query.item.identity(plan.intake.partition_by)]
    assert query.item.values[0].name == LOYALTY
    return [(tuple(names[o][i] for i in shown), -loyalty / 1e6) for loyalty, _, _, o in members]


def loyalties(question: Question, of_row: I64, objects: int, at: int) -> tuple[I64, I64]:
    """(loyalty in microseconds, slope) of each object as of ``at``. ``of_row``: the number of the object that each row reports on."""
    op: Any = question.plan.operators[question.query.operator].operator
    end = int(np.searchsorted(question.data.time, at, side="right"))
    on, usable = _reports(question, end)
    row = np.nonzero(usable)[0]
    # By object, within one in order of the stream: a report counts until the next, or until it is stale.
    row = row[np.argsort(of_row[row], kind="stable")]
    of, since = of_row[row], question.data.time[row]
    until = np.full(len(row), NEVER)
    until[:-1] = np.where(of[1:] == of[:-1], since[1:], NEVER)
    if op.stale_after is not None:
        until = np.minimum(until, since + op.stale_after)
    of, since, until = of[on[row]], since[on[row]], until[on[row]]
    begin = at - op.window.micros
    loyalty, slope = np.zeros(objects, np.int64), np.zeros(objects, np.int64)
    np.add.at(loyalty, of, np.maximum(np.minimum(until, at) - np.maximum(since, begin), 0))
    np.add.at(slope, of, (since <= at) & (at < until))
    np.subtract.at(slope, of, (since <= begin) & (begin < until))
    return loyalty, slope


def _reports(question: Question, end: int) -> tuple[Bools, Bools]:
    """(whether on, whether a usable report at all) of the first ``end`` rows."""
    op: Any = question.plan.operators[question.query.operator].operator
    rows = question.data.values(0, end)
    said = meaning(op.criteria)(rows, rows) if op.criteria is not None else rows[op.updates.name]
    on, off = said.there & (said.value == 1), said.there & (said.value == 0)
    return np.broadcast_to(on, end), np.broadcast_to((on | off) & holds(op.where)(rows, rows), end)


def _in_order(name: tuple[Any, ...]) -> tuple[Any, ...]:
    """The name as the rank compares it: texts by their UTF-8 bytes."""
    return tuple(v.encode() if isinstance(v, str) else v for v in name)
