"""The result by definition: of every group with rows in the window, the aggregates, with whole numbers and fractions.

A score that is an aggregate of a decimal column ranks as the exact decimal, a fraction; its double is shown.
"""

from __future__ import annotations

import math
import operator
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import reduce
from typing import Any, Final, cast, overload

import numpy as np
import numpy.typing as npt

from skyband.framework.base.items import ItemColumn
from skyband.framework.queries.protocol import Makeup, Question
from skyband.framework.verify.brute_force.calendars import leaving, window_around
from skyband.framework.verify.brute_force.expressions import Values, holds, meaning, score_of
from skyband.framework.verify.brute_force.objects import SLOW, Found, window_of
from skyband.operators.expressions.aggregates import Aggregate
from skyband.operators.expressions.ast import Attr, Binary, Call, In, IsNull, Literal_, Node, Unary
from skyband.operators.expressions.canonical import attributes

# Comparisons of decimals and whole numbers by definition: exact numbers are compared, the rest sees which are true.

_COMPARE: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "=": operator.eq, "<>": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
Columns = Mapping[str, list[Any]]
"""Aggregates of decimals and whole numbers, by their attributes: a fraction or an int of each group, or NaN for null."""
Scales = Mapping[str, int | None]
"""Digits after the point of aggregates of decimals, None for those of whole numbers, by their attributes."""


@overload
def judged(node: Node, decimals: Columns, scales: Scales, objects: dict[str, Values]) -> Node: ...
@overload
def judged(node: None, decimals: Columns, scales: Scales, objects: dict[str, Values]) -> None: ...
def judged(node: Node | None, decimals: Columns, scales: Scales, objects: dict[str, Values]) -> Node | None:
    """Return an expression with an attribute, whose values go to ``objects``, for every exact comparison with a number or each other.

    Those of different ``scales`` compare as doubles, as all others do.
    """
    if isinstance(node, In):
        if _fractions(node.x, decimals) is None:
            return replace(node, x=judged(node.x, decimals, scales, objects))
        equal = [judged(Binary(op="=", x=node.x, y=o, type="bool", span=node.span), decimals, scales, objects) for o in node.options]
        found = reduce(lambda x, y: Binary(op="or", x=x, y=y, type="bool", span=node.span), equal)
        return Unary(op="not", x=found, type="bool", span=node.span) if node.negated else found
    if isinstance(node, Binary):
        sides = [_fractions(side, decimals) for side in (node.x, node.y)] if node.op in _COMPARE else [None]
        if None not in sides and len({scales[side.name] for side in (node.x, node.y) if isinstance(side, Attr)}) == 1:
            name = f"?{len(objects)}"
            objects[name] = _compared(_COMPARE[node.op], *sides)
            return Attr(side="", name=name, type="bool")
        return replace(node, x=judged(node.x, decimals, scales, objects), y=judged(node.y, decimals, scales, objects))
    if isinstance(node, Unary | IsNull):
        return replace(node, x=judged(node.x, decimals, scales, objects))
    if isinstance(node, Call):
        return replace(node, args=tuple(judged(a, decimals, scales, objects) for a in node.args))
    return node


def _fractions(node: Node, decimals: Columns) -> list[Any] | None:
    """Return the values of a side of a comparison, one for all groups if it is a number as a person wrote it."""
    if isinstance(node, Attr):
        return decimals.get(node.name)
    if isinstance(node, Literal_) and node.type in ("int", "float"):
        return [Fraction(repr(node.value))]
    return None


def _compared(compare: Callable[[Any, Any], bool], x: Any, y: Any) -> Values:
    n = max(len(x), len(y))
    pairs = list(zip(x * n if len(x) == 1 else x, y * n if len(y) == 1 else y, strict=True))
    valid = np.array([a == a and b == b for a, b in pairs], bool)
    return Values(np.array([compare(a, b) for a, b in pairs], bool), valid)


I64 = npt.NDArray[np.int64]
Group = int  # the index of its name in the data
Number = float | Fraction | int
"""Holds a decimal as a fraction, a whole number as an int, any other number as a float."""


def passing(question: Question, every: bool = False) -> Found | None:
    """Return the groups of the result as (values of the identity columns, score), in rank order; None if that is too much work.

    ``every``: all groups that take part, whatever ``k`` and ``above``.
    """
    asked, (first, end, at) = asked_of(question), window_of(question.query, question.query.window, question.data, question.at)
    if not question.work.take(SLOW * (end - first)):
        return None
    scores = _scores(question, _counting(question, first, end, at))
    if asked.above is not None and not every:
        members = _members(question, at, end)
        if members is None:
            return None
        scores = {g: s for g, s in scores.items() if g in members}
    sign = 1 if question.query.direction == "min" else -1
    names, items = named(question)[0], items_of(question)
    ranked = sorted(scores, key=lambda g: (sign * scores[g], names[g]))
    most = len(ranked) if every or asked.k is None else asked.k
    if asked.ties and most < len(ranked):
        most = max(i for i, g in enumerate(ranked, 1) if scores[g] == scores[ranked[most - 1]])
    shown = {g: nearest_double(scores[g]) for g in ranked[:most]}
    return [(items[g], shown[g]) for g in sorted(shown, key=lambda g: (sign * shown[g], names[g]))]


def cause(question: Question, change: str, item: tuple[Any, ...], arriving: int | None) -> str:
    """Return the cause of a change after an event in which the row ``arriving`` came."""
    first, end, at = window_of(question.query, question.query.window, question.data, question.at)
    items, of = items_of(question), group_of(question)
    if change == "-":
        counting = set(_counting(question, first, end, at))
        mine = [i for i in range(end) if of[i] >= 0 and items[of[i]] == item]
        if any(i in counting for i in mine):
            return "displaced"
        return "expiry" if question.query.window.session is not None else max(_leaves(question, i, at) for i in mine)[1]
    if question.query.every_micros:
        return "boundary"
    return "arrival" if arriving is not None and of[arriving] >= 0 and items[of[arriving]] == item else "promoted"


def carried(question: Question, item: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return what a change carries: values of rows as the source has them, others by the definition of the aggregate; None for null."""
    mine = _rows_of(question, item)
    return tuple(_carried(question, c, mine) for c in question.query.item.carried)


def makeup(question: Question, item: tuple[Any, ...], most: int) -> Makeup:
    """Return the rows of a group in the window, with its aggregates."""
    mine, op, values = _rows_of(question, item), operator_of(question), values_of_arguments(question)
    found: dict[str, Any] = {}
    for a in (*op.score.aggregates, *(op.having.aggregates if op.having is not None else ())):
        number = nearest_double(_aggregate(a, None if a.argument is None else values[op.arguments.index(a.argument)], mine))
        found[a.spelling] = None if math.isnan(number) else number
    found |= {c.name: _carried(question, c, mine) for c in question.query.item.carried}
    columns = tuple(dict.fromkeys(c.name for x in op.arguments for c in attributes(x)))
    since = int(question.data.time[mine[0]]) if mine else 0
    return Makeup(len(mine), since, tuple(reversed(mine[-most:])), tuple(found.items()), columns)


def _rows_of(question: Question, item: tuple[Any, ...]) -> list[int]:
    """Return the rows of a group that are in the window."""
    items, of = items_of(question), group_of(question)
    window = window_of(question.query, question.query.window, question.data, question.at)
    return [i for i in _counting(question, *window) if of[i] >= 0 and items[of[i]] == item]


def _carried(question: Question, column: ItemColumn, rows: list[int]) -> Any:
    if not column.source:
        return len(rows)
    source, function = question.data.rows[column.source], function_of(column)
    known = [v for i in rows if (v := source[i].as_py()) is not None and v == v]
    if function in ("count", "distinct"):
        return len(known if function == "count" else set(known))
    if not known:
        return None
    if function in ("sum", "mean"):
        found = _FUNCTIONS[function](known)
        return None if math.isnan(found) else found
    if function in ("first", "last"):
        return known[0 if function == "first" else -1]
    return (min if function == "min" else max)(known)


def function_of(column: ItemColumn) -> str:
    """Return the function of a carried aggregate of a column."""
    return column.name.removesuffix(f"_{column.source}")


def _alive(question: Question, first: int, end: int, at: int) -> list[int]:
    """Return the rows of a window that have not been deleted by ``at``."""
    deleted = question.data.deleted
    return [i for i in range(first, end) if deleted[i] > at]


def _counting(question: Question, first: int, end: int, at: int) -> list[int]:
    """Return the rows of a window that count at an instant."""
    return _of_sessions(question, _alive(question, first, end, at), at)


Moment = tuple[int, int, int]
"""An event: its instant, the number of rows that had arrived before it (-1: before all of the instant), and 1 for the arrival of a row."""


def _leaves(question: Question, row: int, at: int) -> tuple[Moment, str]:
    """Return when a row left the window, which it had by ``at``, and why: ``expiry`` or ``delete``."""
    window, time = question.query.window, question.data.time
    found: list[tuple[Moment, str]] = []
    if window.micros:
        found.append(((int(time[row]) + window.micros, -1, 0), "expiry"))
    if window.tumbling is not None:
        found.append(((window_around(window.tumbling, int(time[row]))[1], -1, 0), "expiry"))
    if window.count and row + window.count < len(time):
        found.append(((int(time[row + window.count]), row + window.count, 1), "expiry"))
    if question.data.deleted[row] <= at:
        found += [((t, position, 0), "delete") for t, position, seq in question.data.deletions if seq == row]
    return min(found)


def asked_of(question: Question) -> Any:
    """Return the operator's query that the question is about."""
    return operator_of(question).queries[question.query.index]


def operator_of(question: Question) -> Any:
    """Return the configuration of the question's groups."""
    return question.plan.operators[question.query.operator].inner


def named(question: Question) -> tuple[list[tuple[Any, ...]], I64]:
    """Return the names of all groups, and the index of each row's."""
    return question.data.named[operator_of(question).group]


def items_of(question: Question) -> list[tuple[Any, ...]]:
    """Return the identity columns of every group."""
    columns = operator_of(question).group
    shown = [columns.index(c) for c in question.query.item.identity(question.plan.intake.partition_by)]
    return [tuple(name[i] for i in shown) for name in named(question)[0]]


def group_of(question: Question) -> list[Group]:
    """Return the group of every row, -1 for rows of none."""

    def made() -> list[Group]:
        names, of = named(question)
        rows = question.data.values(0, len(of))
        good = np.broadcast_to(holds(operator_of(question).where)(rows, rows), len(of))
        return [g if ok and None not in names[g] else -1 for g, ok in zip(of.tolist(), good.tolist(), strict=True)]

    return question.data.once(("groups", question.query.operator), made)


def values_of_arguments(question: Question) -> list[list[Any]]:
    """Return for every argument of an aggregate the value of each row: a whole number, a float, or None for null."""

    def made() -> list[list[Any]]:
        n = len(question.data.every.time)
        rows = question.data.values(0, n)
        found = []
        for x in operator_of(question).arguments:
            if isinstance(x, Attr) and x.type == "units":
                decimals = question.data.every.rows[x.name].to_pylist()
                found.append([None if d is None else Fraction(d) for d in decimals])
                continue
            v = _argument(x)(rows, rows)
            value, valid = np.broadcast_to(v.value, n), np.broadcast_to(v.valid, n)
            found.append([a if ok else None for a, ok in zip(value.tolist(), valid.tolist(), strict=True)])
        return found

    return question.data.once(("arguments", question.query.operator), made)


def _argument(x: Node) -> Callable[..., Values]:
    """Return the function for an argument: a column as it is, another expression as a number."""
    if isinstance(x, Attr):
        return meaning(x)
    number = score_of(x)

    def values(a: Any, b: Any) -> Values:
        found = number(a, b)
        return Values(found, ~np.isnan(found))

    return values


def _of_sessions(question: Question, rows: list[int], at: int) -> list[int]:
    """Return the rows that count at an instant: of sessions, those after the group's last silence, without them all."""
    silence = question.query.window.session
    if silence is None:
        return rows
    of, time = group_of(question), question.data.every.time
    until: dict[Group, int] = {}
    ended: set[Group] = set()
    found = []
    for i in reversed(rows):
        if of[i] in ended or of[i] < 0:
            continue
        if until.get(of[i], at) - time[i] >= silence:
            ended.add(of[i])
        else:
            found.append(i)
            until[of[i]] = int(time[i])
    return found[::-1]


def _scores(question: Question, window: Iterable[int], of_groups: frozenset[Group] | None = None) -> dict[Group, Number]:
    """Return the scores of the groups that take part, of all or of some."""
    of, op = group_of(question), operator_of(question)
    rows: dict[Group, list[int]] = {}
    for i in window:
        if of[i] >= 0 and (of_groups is None or of[i] in of_groups):
            rows.setdefault(of[i], []).append(i)
    values = values_of_arguments(question)
    columns = []
    for aggregate in judging(question):
        mine = None if aggregate.argument is None else values[op.arguments.index(aggregate.argument)]
        columns.append([_aggregate(aggregate, mine, r) for r in rows.values()])
    return {g: s for g, s in zip(rows, evaluated(question, columns), strict=True) if s is not None}


def judging(question: Question) -> tuple[Aggregate, ...]:
    """Return the aggregates that score and condition read, each once."""
    op = operator_of(question)
    return tuple(dict.fromkeys([*op.score.aggregates, *(op.having.aggregates if op.having is not None else ())]))


def evaluated(question: Question, columns: list[list[Any]]) -> list[Number | None]:
    """Return the scores of groups, None for those that take no part; ``columns``: the values of each of ``judging``, NaN for null."""
    op, aggregates = operator_of(question), judging(question)
    rounded = zip(aggregates, (np.array([nearest_double(v) for v in c], np.float64) for c in columns), strict=True)
    objects = {a.spelling: Values(v, ~np.isnan(v)) for a, v in rounded}
    exact_columns = {a.spelling: c for a, c in zip(aggregates, columns, strict=True) if any(isinstance(v, Fraction | int) for v in c)}
    scales = {a.spelling: None if a.function in ("count", "distinct") else a.scale for a in aggregates}
    nodes = [judged(node, exact_columns, scales, objects) for node in (op.score.node, None if op.having is None else op.having.node)]
    n = len(columns[0])
    score = np.broadcast_to(score_of(nodes[0] or op.score.node)(objects, objects), n).tolist()
    kept = np.broadcast_to(holds(nodes[1])(objects, objects), n).tolist()
    exact = score if op.units is None else columns[aggregates.index(op.score.aggregates[0])]
    return [e if ok and s == s else None for e, s, ok in zip(exact, score, kept, strict=True)]


def _aggregate(aggregate: Aggregate, values: list[Any] | None, rows: list[int]) -> Number:
    """Return an aggregate of some rows, NaN for null; sums and single values of decimals and whole numbers exactly."""
    function = aggregate.function
    if values is None:
        return len(rows)
    known = [v for i in rows if (v := values[i]) is not None]
    if function == "count":
        return len(known)
    if function == "distinct":
        return len(set(known))
    if not known:
        return math.nan
    if aggregate.share is not None:
        return _single(sorted(known)[math.ceil(Fraction(repr(aggregate.share)) * len(known)) - 1])
    if function == "sum" and not isinstance(known[0], float):
        return cast(Number, sum(known))
    return _FUNCTIONS[function](known)


def _single(value: Any) -> Number:
    """Return the value of one row."""
    return value if isinstance(value, Fraction | int) else float(value)


def _exact(values: list[Any], divisor: int = 1) -> float:
    """Return the sum, divided, rounded once; with infinities, what remains of them."""
    endless = {v for v in values if isinstance(v, float) and math.isinf(v)}
    if endless:
        return endless.pop() if len(endless) == 1 else math.nan
    return nearest_double(sum((Fraction(v) for v in values), Fraction(0)) / divisor)


def nearest_double(x: Number) -> float:
    """Return the nearest double; infinite beyond the largest."""
    if isinstance(x, float):
        return x
    try:
        return x.numerator / x.denominator  # Python rounds a quotient of whole numbers once, to nearest
    except OverflowError:
        return math.inf if x > 0 else -math.inf


def _variance(values: list[Any], sample: bool) -> float:
    """Return the variance, rounded once; NaN for null, and with infinities."""
    n = len(values)
    if n < 1 + sample or any(isinstance(v, float) and math.isinf(v) for v in values):
        return math.nan
    known = [Fraction(v) for v in values]
    total, squares = sum(known, Fraction(0)), sum((v * v for v in known), Fraction(0))
    return nearest_double((n * squares - total * total) / (n * (n - sample)))


_FUNCTIONS: Final[Mapping[str, Callable[[list[Any]], Number]]] = {
    "sum": _exact,
    "mean": lambda values: _exact(values, len(values)),
    "min": lambda values: _single(min(values)),
    "max": lambda values: _single(max(values)),
    "first": lambda values: _single(values[0]),
    "last": lambda values: _single(values[-1]),
    "var_pop": lambda values: _variance(values, False),
    "var_samp": lambda values: _variance(values, True),
    "stddev_pop": lambda values: math.sqrt(_variance(values, False)),
    "stddev_samp": lambda values: math.sqrt(_variance(values, True)),
}


@dataclass(frozen=True, slots=True)
class _History:
    """Who was above a bound after each event: ``after`` (instant, rows and deletions by then), in order, and the ``members``."""

    after: list[tuple[int, int, int]]
    members: list[frozenset[Group]]


def _members(question: Question, at: int, end: int) -> frozenset[Group] | None:
    """Return the members above a bound after the events by ``at`` that ``end`` rows had come in; None if that is too much work."""
    name = ("members", question.query.operator, question.query.index)
    every = question.data.every
    if name not in every._made and not question.work.take(SLOW * len(every.time)):
        return None
    history = question.data.once(name, lambda: _history(question))
    deleted = int(np.count_nonzero(question.data.deleted[:end] <= at))
    found = bisect_right(history.after, (at, end, deleted)) - 1
    return history.members[found] if found >= 0 else frozenset()


def bound(number: float, decimals: int | None) -> Fraction | float:
    """Return a bound of scores: of decimals the number that a person wrote, such as a tenth for 0.1, which is its ``repr``."""
    return number if decimals is None else Fraction(repr(number))


def _history(question: Question) -> _History:
    """Judge the groups that each event touches, from the first event on. A group that is in may stay where it could not enter."""
    asked, window, time = asked_of(question), question.query.window, question.data.every.time.tolist()
    life, most = window.micros or math.inf, window.count or math.inf
    of = group_of(question)
    found, members, first, end = _History([], []), frozenset[Group](), 0, 0
    units = operator_of(question).units
    above, below = bound(asked.above, units), None if asked.below is None else bound(asked.below, units)
    gone = set[int]()
    for (at, _, arrives), deleted in moments(question):
        before, first_before = end, first
        end += arrives
        since = -math.inf if window.tumbling is None else window_around(window.tumbling, at)[0]
        while first < end and (time[first] + life <= at or time[first] < since or end - first > most):
            first += 1
        touching = [*range(first_before, first), *range(before, end)]
        if window.session is not None:
            touching += range(bisect_left(time, at - window.session), bisect_right(time, at - window.session))
        if deleted is not None:
            gone.add(deleted)
            touching.append(deleted)
        touched = frozenset(of[i] for i in touching if of[i] >= 0)
        if touched:
            scores = _scores(question, _of_sessions(question, [i for i in range(first, end) if i not in gone], at), touched)
            inside = {g for g, s in scores.items() if s > above or (g in members and below is not None and s >= below)}
            members = (members - touched) | inside
        found.after.append((at, end, len(gone)))
        found.members.append(members)
    return found


def moments(question: Question) -> list[tuple[Moment, int | None]]:
    """Return all events in order, each with the row that it deletes, if any."""
    every = question.data.every
    found: list[tuple[Moment, int | None]] = [((t, seq, 1), None) for seq, t in enumerate(every.time.tolist())]
    found += [((t, position, 0), seq) for t, position, seq in every.deletions]
    found += [((t, -1, 0), None) for t in {t for part in leaving(question.query.window, every.time) for t in part.tolist()}]
    return sorted(found, key=lambda event: event[0])
