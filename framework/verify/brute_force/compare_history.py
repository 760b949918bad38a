"""Compare everything that the tables of a query have of one key with its history by definition: changes, points, final results."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import groupby
from typing import Any

from skyband.framework.base.items import SCORE
from skyband.framework.plan.model import Plan, QueryNode
from skyband.framework.queries.protocol import QueryType, Question
from skyband.framework.tables.schemas import changes_name, identity_columns, stream_columns, trajectory_name
from skyband.framework.verify.brute_force.compare_changes import compare_steps
from skyband.framework.verify.brute_force.history import History, Item, ItemPoint
from skyband.framework.verify.differences import Difference, place
from skyband.framework.verify.replay.final_results import FinalResults
from skyband.framework.verify.replay.replay import Stream
from skyband.framework.verify.replay.trajectories import Trajectories
from skyband.framework.verify.stored import Key, row_of


def compare_history_steps(of: Stream, stream: Key, rows: list[int], history: History) -> Iterator[Difference]:
    """Compare all changes of a stream (``rows``, in order) with the steps of its history."""
    found = {at: list(mine) for at, mine in groupby((i for i in rows if of.at[i] <= history.until), key=of.at.__getitem__)}
    for at in sorted(found.keys() | history.steps.keys()):
        yield from compare_steps(of, stream, at, history.steps.get(at, []), found.get(at, []))


def compare_history_points(plan: Plan, query: QueryNode, lines: Trajectories, stream: Key, history: History) -> Iterator[Difference]:
    """Compare all points of a stream's trajectories with those of its history."""
    table, names = trajectory_name(query.name), stream_columns(plan, query)
    columns, carried = identity_columns(plan, query), [c.name for c in query.item.carried]

    def row(item: Item, point: ItemPoint) -> dict[str, Any]:
        return dict(zip((*columns, lines.varying.value, *carried), (*item, point.value, *point.carried), strict=True))

    for item in sorted(history.points.keys() | lines.items(stream), key=repr):
        expected = {p.at: p for p in history.points.get(item, [])}
        found = {p.at: ItemPoint(p.at, p.value, p.carried) for p in lines.points.get((stream, item), []) if p.at <= history.until}
        for at in sorted(expected.keys() | found.keys()):
            one, other = expected.get(at), found.get(at)
            if one is not None and other is not None and _same(one.value, other.value) and all(map(_same, one.carried, other.carried)):
                continue
            said = "a point is missing" if other is None else "a point too many" if one is None else "a point differs from the definition"
            sides = [[] if p is None else [row(item, p)] for p in (one, other)]
            yield Difference(place(f"table {table}", names, stream, at), said, sides[0], sides[1], at)


def compare_history_finals(plan: Plan, query: QueryNode, finals: FinalResults, stream: Key, history: History) -> Iterator[Difference]:
    """Compare all final results of a stream with those of its history."""
    carried = [c.name for c in query.item.carried]
    names = (*identity_columns(plan, query), *carried, SCORE)
    ends = {end for key, end in finals.windows if key == stream and end <= history.until}
    for end in sorted(ends | history.finals.keys()):
        expected = history.finals.get(end, [])
        found = list(zip(finals.at(stream, end), finals.carried(stream, end), strict=True))
        same = len(expected) == len(found) and all(
            x.item == item and _same(x.score, score) and all(map(_same, x.carried, more))
            for x, ((item, score), more) in zip(expected, found, strict=True)
        )
        if not same:
            rows = [{"rank": n, **dict(zip(names, (*x.item, *x.carried, x.score), strict=True))} for n, x in enumerate(expected, 1)]
            yield finals.differs(stream, end, "differs from the definition", rows)


def compare_moving_values(
    question: Question, kind: QueryType, of: Stream, lines: Trajectories, stream: Key, rows: list[int]
) -> tuple[int, int, list[Difference]]:
    """Compare the values of all changes of a stream (``rows``), and all points of its trajectories, with the definition.

    The last point of a member is compared at the question's instant, too, for the member's values then. Return how many changes and
    points have been compared, and what differs.
    """
    query, varying, until = question.query, lines.varying, question.at
    changes = [i for i in rows if of.at[i] <= until]
    points = [(item, p) for item in lines.items(stream) for p in lines.points[stream, item] if p.at <= until]
    newest = {of.items[i]: of.change[i] for i in changes}
    last = [(x, p) for x, change in newest.items() if change == "+" and (p := lines.at(stream, x, until)) is not None]
    expected = kind.values_at(
        question, [*((of.items[i], of.at[i]) for i in changes), *((x, p.at) for x, p in points), *((x, until) for x, _ in last)]
    )
    if expected is None or varying.slope is None:
        return 0, 0, []
    names, columns = stream_columns(question.plan, query), identity_columns(question.plan, query)
    found = []
    for i, (value, slope) in zip(changes, expected, strict=False):
        if of.shown[i][:2] != (value, slope):
            row = row_of(of.rows, i)
            where = place(f"table {changes_name(query.name)}", names, stream, of.at[i], of.step[i])
            shown = {**row, varying.value: value, varying.slope: slope}
            found.append(Difference(where, "its value differs from the definition", [shown], [row], of.at[i]))
    traced = [(item, p.at, (p.value / 1e6, p.slope)) for item, p in points] + [
        (item, until, (p.by(until) / 1e6, p.slope)) for item, p in last
    ]
    for (item, at, got), value_and_slope in zip(traced, expected[len(changes) :], strict=True):
        if got != value_and_slope:
            where = place(f"table {trajectory_name(query.name)}", names, stream, at)
            sides = [[dict(zip((*columns, varying.value, varying.slope), (*item, *v), strict=True))] for v in (value_and_slope, got)]
            found.append(Difference(where, "a point differs from the definition", sides[0], sides[1], at))
    return len(changes), len(points), found


def _same(a: Any, b: Any) -> bool:
    """Return True for equal values; of floats bit for bit, but zeros equal whatever their sign."""
    if isinstance(a, float) and isinstance(b, float):
        return a == b or (math.isnan(a) and math.isnan(b))
    return bool(a == b)
