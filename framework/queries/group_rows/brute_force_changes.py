"""Every change of groups by definition, event by event: for ``verify``, which compares all of them with the tables.

Each event changes the aggregates of the groups that it touches (``running``). Scores and conditions are evaluated for many events at
once, by the interpreter of ``verify``; then the events make the result, the changes, the points and the final results, one after another.
Nothing of the operators is used. O(events x (log rows + k)).
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right, insort
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Final, NamedTuple

from skyband.framework.base.items import ItemColumn
from skyband.framework.queries.group_rows import brute_force as definition
from skyband.framework.queries.group_rows.brute_force import Group, Moment
from skyband.framework.queries.protocol import Question
from skyband.framework.verify.brute_force.calendars import window_around
from skyband.framework.verify.brute_force.history import ChangeRow, FinalRow, History, ItemPoint
from skyband.framework.verify.brute_force.statistics import LEAST, nearest

# Aggregates of rows that come and go, by definition: whole numbers and values in order, one row at a time, in plain Python.
#
# Nothing of the operators is used. Sums are whole numbers of parts: of 2^-1074 for doubles, of 10^-s for decimals, of 1 for others.


def parts_of(value: Any, scale: int | None) -> int:
    """Return how many parts of 1 a value is a whole number of; ``scale``: digits after the point of a decimal column."""
    return LEAST if isinstance(value, float) else 10**scale if isinstance(value, Fraction) and scale is not None else 1


class Running:
    """One argument of aggregates: the values of a group's rows that are not null. Keeps only what ``functions`` need.

    ``parts``: how many parts of 1 a value is a whole number of. Rows are added in order of their numbers, and removed in any order.
    """

    def __init__(self, functions: frozenset[str], parts: int) -> None:
        self.known = 0
        self._parts = parts
        self._adds = bool(functions & _ADDING)
        self._squares_too = bool(functions & _VARIANCES)
        self._total = self._squares = 0
        self._endless = {math.inf: 0, -math.inf: 0}
        self._ordered: list[Any] | None = [] if functions & _IN_ORDER else None
        self._counts: Counter[Any] | None = Counter() if "distinct" in functions else None
        self._rows: list[int] | None = [] if functions & _BY_AGE else None
        self._value_of: dict[int, Any] = {}

    def add(self, row: int, value: Any) -> None:
        """Add the value of a row, which is not null."""
        self.known += 1
        if self._adds:
            self._change(value, 1)
        if self._ordered is not None:
            insort(self._ordered, value)
        if self._counts is not None:
            self._counts[value] += 1
        if self._rows is not None:
            self._rows.append(row)
            self._value_of[row] = value

    def remove(self, row: int, value: Any) -> None:
        """Remove the value of a row that was added."""
        self.known -= 1
        if self._adds:
            self._change(value, -1)
        if self._ordered is not None:
            del self._ordered[bisect_left(self._ordered, value)]
        if self._counts is not None:
            self._counts[value] -= 1
            if not self._counts[value]:
                del self._counts[value]
        if self._rows is not None:
            del self._rows[bisect_left(self._rows, row)]
            del self._value_of[row]

    def value(self, function: str, share: float | None = None) -> Any:
        """Return an aggregate, None for null: a value of a row as it is, other results as defined for the function."""
        n = self.known
        if function == "count":
            return n
        if function == "distinct":
            assert self._counts is not None
            return len(self._counts)
        if not n:
            return None
        if function in _BY_AGE:
            assert self._rows is not None
            return self._value_of[self._rows[0 if function == "first" else -1]]
        if function in _IN_ORDER:
            assert self._ordered is not None
            place = 0 if function == "min" else n - 1 if share is None else math.ceil(Fraction(repr(share)) * n) - 1
            return self._ordered[place]
        if any(self._endless.values()):
            only = [v for v, there in self._endless.items() if there]
            return only[0] if len(only) == 1 and function in ("sum", "mean") else None
        if function in ("sum", "mean"):
            return nearest(self._total, self._parts * (n if function == "mean" else 1))
        sample = function.endswith("_samp")
        if n < 1 + sample:
            return None
        variance = nearest(n * self._squares - self._total**2, n * (n - sample) * self._parts**2)
        return math.sqrt(variance) if function.startswith("stddev") else variance

    @property
    def is_exact(self) -> bool:
        """Return True if the values are decimals or whole numbers, whose sum is one, too."""
        return self._parts != LEAST

    def exact_sum(self) -> Fraction | int | None:
        """Return the sum of decimals or whole numbers, None for null."""
        return None if not self.known else self._total if self._parts == 1 else Fraction(self._total, self._parts)

    def _change(self, value: Any, sign: int) -> None:
        if isinstance(value, float) and math.isinf(value):
            self._endless[value] += sign
            return
        numerator, denominator = value.as_integer_ratio()
        exact = numerator * self._parts // denominator
        self._total += sign * exact
        if self._squares_too:
            self._squares += sign * exact * exact


_VARIANCES: Final = frozenset({"var_pop", "var_samp", "stddev_pop", "stddev_samp"})
_ADDING: Final = _VARIANCES | {"sum", "mean"}
_IN_ORDER: Final = frozenset({"min", "max", "quantile"})
_BY_AGE: Final = frozenset({"first", "last"})


AT_ONCE: Final = 5_000
"""The number of events whose scores are evaluated together."""


def history(question: Question, late: Callable[[], bool]) -> History:
    """Return every change, point and final result up to the question's instant, or as far as it got until it was ``late``."""
    groups, result = _Groups(question), _Result(question)
    moments = [m for m in definition.moments(question) if m[0][0] <= question.at]
    for begin in range(0, len(moments), AT_ONCE):
        if late():
            result.cut(moments[begin][0][0])
            return result.found
        events = moments[begin : begin + AT_ONCE]
        touches = groups.touched(events)
        columns = [list(c) for c in zip(*(t.aggregates for t in touches), strict=True)]
        result.take(events, touches, definition.evaluated(question, columns) if touches else [])
    result.end(question.at)
    return result.found


@dataclass(slots=True)
class _Touch:
    """A group after an event that changed its rows: ``event``, its place among the events; ``rows``, how many are left.

    ``aggregates``: the values that score and condition read. ``carried``: what changes carry. ``left``: why the last row to leave left.
    """

    event: int
    group: Group
    rows: int
    aggregates: tuple[Any, ...]
    carried: tuple[Any, ...]
    left: str


class _Column(NamedTuple):
    """The value of each row for some aggregates, None for null, with their functions. ``parts`` as in ``Running``."""

    values: list[Any]
    functions: frozenset[str]
    parts: int

    @classmethod
    def of(cls, values: list[Any], functions: Iterable[str], scale: int | None = None) -> _Column:
        """Return the column of values; ``scale``: digits after the point of decimals."""
        return cls(values, frozenset(functions), parts_of(next((v for v in values if v is not None), None), scale))


@dataclass(slots=True)
class _Rows:
    """The rows of a group that count, in order, without those that a silence has ended. ``left`` as in ``_Touch``."""

    counting: list[int] = field(default_factory=list)
    running: list[Running] = field(default_factory=list)
    left: str = "expiry"


class _Groups:
    """The rows of every group after each event."""

    def __init__(self, question: Question) -> None:
        every = question.data.every
        self.time: list[int] = every.time.tolist()
        self.of = definition.group_of(question)
        self.window = question.query.window
        self.operator = definition.operator_of(question)
        self.carried: Sequence[ItemColumn] = question.query.item.carried
        self._judging = definition.judging(question)
        self._columns: list[_Column] = []
        arguments = list(dict.fromkeys(a.argument for a in self._judging if a.argument is not None))
        values = definition.values_of_arguments(question)
        for argument in arguments:
            mine = [a for a in self._judging if a.argument == argument]
            self._columns.append(_Column.of(values[self.operator.arguments.index(argument)], [a.function for a in mine], mine[0].scale))
        self._place = {a: arguments.index(a.argument) for a in self._judging if a.argument is not None}
        self._sources: dict[str, int] = {}
        for source in dict.fromkeys(c.source for c in self.carried if c.source):
            self._sources[source] = len(self._columns)
            plain = [None if v != v else v for v in every.rows[source].to_pylist()]
            self._columns.append(_Column.of(plain, [definition.function_of(c) for c in self.carried if c.source == source]))
        self._of: dict[Group, _Rows] = {}
        self._first = self._end = 0
        self._gone: set[int] = set()

    def touched(self, events: Sequence[tuple[Moment, int | None]]) -> list[_Touch]:
        """Apply events in order; return the groups that each has changed."""
        found = []
        for n, ((at, _, arrives), deleted) in enumerate(events):
            for group in self._event(at, bool(arrives), deleted):
                mine = self._of[group]
                found.append(_Touch(n, group, len(mine.counting), self._aggregates(mine), self._carried(mine), mine.left))
        return found

    def _event(self, at: int, arrives: bool, deleted: int | None) -> dict[Group, None]:
        """Apply an event; return the groups whose rows have changed."""
        touched: dict[Group, None] = {}
        end, window = self._end + arrives, self.window
        since = None if window.tumbling is None else window_around(window.tumbling, at)[0]
        while self._first < end and (
            (window.micros is not None and self.time[self._first] + window.micros <= at)
            or (since is not None and self.time[self._first] < since)
            or (window.count is not None and end - self._first > window.count)
        ):
            self._leave(self._first, "expiry", touched)
            self._first += 1
        if window.session is not None:
            low, high = bisect_left(self.time, at - window.session), bisect_right(self.time, at - window.session, hi=end)
            for group in {self.of[i] for i in range(low, min(high, self._end)) if self.of[i] >= 0}:
                self._silence(group, at, touched)
        if deleted is not None and deleted >= self._first and deleted not in self._gone:
            self._gone.add(deleted)
            self._leave(deleted, "delete", touched)
        if arrives:
            self._enter(self._end, touched)
            self._end = end
        return touched

    def _enter(self, row: int, touched: dict[Group, None]) -> None:
        group = self.of[row]
        if group < 0 or row < self._first:
            return
        mine = self._of.get(group)
        if mine is None:
            mine = self._of[group] = _Rows([], [Running(c.functions, c.parts) for c in self._columns])
        if self.window.session is not None:
            self._silence(group, self.time[row], touched)
        mine.counting.append(row)
        for running, column in zip(mine.running, self._columns, strict=True):
            if column.values[row] is not None:
                running.add(row, column.values[row])
        touched[group] = None

    def _leave(self, row: int, why: str, touched: dict[Group, None]) -> None:
        """Remove a row from its group, if it counts there."""
        mine = self._of.get(self.of[row])
        place = -1 if mine is None else bisect_left(mine.counting, row)
        if mine is None or place == len(mine.counting) or mine.counting[place] != row:
            return
        del mine.counting[place]
        mine.left = why
        for running, column in zip(mine.running, self._columns, strict=True):
            if column.values[row] is not None:
                running.remove(row, column.values[row])
        touched[self.of[row]] = None

    def _silence(self, group: Group, at: int, touched: dict[Group, None]) -> None:
        """Remove all rows of a group after which there was a silence by ``at``. Rows of sessions are never deleted."""
        mine, silence = self._of.get(group), self.window.session
        if mine is not None and silence is not None and mine.counting and at - self.time[mine.counting[-1]] >= silence:
            for row in list(mine.counting):
                self._leave(row, "expiry", touched)

    def _aggregates(self, mine: _Rows) -> tuple[Any, ...]:
        found = list[Any]()
        for a in self._judging:
            if a.argument is None:
                found.append(len(mine.counting))
                continue
            running = mine.running[self._place[a]]
            value = running.exact_sum() if a.function == "sum" and running.is_exact else running.value(a.function, a.share)
            found.append(math.nan if value is None else value if isinstance(value, Fraction | int) else float(value))
        return tuple(found)

    def _carried(self, mine: _Rows) -> tuple[Any, ...]:
        return tuple(
            mine.running[self._sources[c.source]].value(definition.function_of(c)) if c.source else len(mine.counting) for c in self.carried
        )  # fmt: skip


Rank = tuple[Any, Any, Group]
"""The place of a group in the result: its score with the sign of the direction, its name, its index."""


class _Result:
    """The result of a query after each event, and what its tables have by definition."""

    def __init__(self, question: Question) -> None:
        self.found = History()
        self._query, self._asked = question.query, definition.asked_of(question)
        self._names, self._items = definition.named(question)[0], definition.items_of(question)
        self._of = definition.group_of(question)
        self._sign = 1 if question.query.direction == "min" else -1
        units = definition.operator_of(question).units
        self._above = None if self._asked.above is None else definition.bound(self._asked.above, units)
        self._below = None if self._asked.below is None else definition.bound(self._asked.below, units)
        self._latest: dict[Group, _Touch] = {}
        self._scores: dict[Group, float | Fraction] = {}
        self._ranked: list[Rank] = []
        self._members: set[Group] = set()
        self._shown: dict[Group, float] = {}
        """The members that tables show, as of the last event or boundary, with their scores."""
        self._shown_carried: dict[Group, tuple[Any, ...]] = {}
        """What they carry as of then."""
        self._entered: set[Group] = set()
        self._last_point: dict[Group, tuple[Any, ...]] = {}
        self._changed: set[Group] = set()
        self._at: int | None = None

    def take(self, events: Sequence[tuple[Moment, int | None]], touches: Sequence[_Touch], scores: Sequence[Any]) -> None:
        """Go through events and the groups that they touch; ``scores``: of each touch the score, None if its group takes no part."""
        place, calendar = 0, self._query.window.tumbling
        for n, ((at, position, arrives), _) in enumerate(events):
            if at != self._at:
                self._until(at + self._query.window.hopping)
                self._at = at
            if calendar is not None and position == -1 and window_around(calendar, at)[0] == at:
                self._close(at)
            touched = list[_Touch]()
            while place < len(touches) and touches[place].event == n:
                self._score(touches[place], scores[place])
                touched.append(touches[place])
                place += 1
            self._changed |= {t.group for t in touched}
            if touched and not self._query.every_micros:
                self._step(at, {t.group for t in touched}, self._of[position] if arrives else None)

    def end(self, at: int) -> None:
        """Go on to an instant after which nothing is asked for."""
        self._until(at + 1)
        self.found.until = at

    def cut(self, following: int) -> None:
        """End before the event at the instant ``following``, which has not been taken."""
        if following != self._at:
            self.end(following - 1)
            return
        self.found.until = following - 1
        self.found.steps.pop(following, None)
        self.found.finals.pop(following, None)

    def _score(self, touch: _Touch, score: Any) -> None:
        """Note the score of a group, and whether it is a member because of it."""
        group = touch.group
        if group in self._scores:
            old = self._rank(group)
            del self._ranked[bisect_left(self._ranked, old)]
            del self._scores[group]
        self._latest[group] = touch
        if touch.rows and score is not None:
            self._scores[group] = score
            insort(self._ranked, self._rank(group))
        if self._above is None:
            return
        stays = group in self._members and self._below is not None and group in self._scores and self._scores[group] >= self._below
        if group in self._scores and (self._scores[group] > self._above or stays):
            self._members.add(group)
        else:
            self._members.discard(group)

    def _rank(self, group: Group) -> Rank:
        return self._sign * self._scores[group], self._names[group], group

    def _result(self, touched: set[Group] | None = None) -> dict[Group, float]:
        """Return the members and their scores as the tables show them; with bounds, only members among the groups ``touched``."""
        if self._above is not None:
            among = self._members if touched is None else self._members & touched
            return {g: definition.nearest_double(self._scores[g]) for g in among}
        most = min(self._asked.k, len(self._ranked))
        while self._asked.ties and 0 < most < len(self._ranked) and self._ranked[most][0] == self._ranked[most - 1][0]:
            most += 1
        return {g: definition.nearest_double(self._scores[g]) for _, _, g in self._ranked[:most]}

    def _in_order(self, shown: dict[Group, float], among: Iterable[Group]) -> list[Group]:
        return sorted(among, key=lambda g: (self._sign * shown[g], self._names[g]))

    def _step(self, at: int, touched: set[Group], arrived: Group | None, boundary: bool = False) -> None:
        """Compare the result with the one shown before, and note the changes."""
        if self._above is None:
            before, now = self._shown, self._result()
            self._shown = now
        else:
            before, now = {g: self._shown.pop(g) for g in touched if g in self._shown}, self._result(touched)
            self._shown |= now
        step = []
        for g in self._in_order(before, (g for g in before if g not in now)):
            cause = "displaced" if self._latest[g].rows else self._latest[g].left
            step.append(ChangeRow("-", cause, self._items[g], before[g], None, self._shown_carried.pop(g)))
            self._entered.discard(g)
        self._shown_carried |= {g: self._latest[g].carried for g in now if g in touched or g not in before}
        for g in self._in_order(now, (g for g in now if g not in before)):
            cause = "boundary" if boundary else "arrival" if g == arrived else "promoted"
            step.append(ChangeRow("+", cause, self._items[g], now[g], None, self._latest[g].carried))
            self._entered.add(g)
        if step:
            self.found.steps.setdefault(at, []).append(step)

    def _until(self, at: int) -> None:
        """Close the last instant with events; with ``every`` the boundary before ``at`` that shows it: of hopping windows, a later one."""
        if self._at is None:
            return
        every = self._query.every_micros
        if not every:
            self._points(self._at)
            return
        boundary = -(-(self._at + self._query.window.hopping) // every) * every
        if boundary < at:
            self._step(boundary, self._changed, None, True)
            self._points(boundary)

    def _points(self, at: int) -> None:
        """Note a point of each member that has entered at an instant, or whose values are others."""
        for g in self._entered | (self._changed & self._shown.keys()):
            carried = self._latest[g].carried
            values = (self._scores[g], *carried)
            if g in self._entered or values != self._last_point[g]:
                self.found.points.setdefault(self._items[g], []).append(ItemPoint(at, self._shown[g], carried))
                self._last_point[g] = values
        self._entered.clear()
        self._changed.clear()

    def _close(self, at: int) -> None:
        """Note the final result of the window that ends."""
        result = self._result()
        if result:
            order = self._in_order(result, result)
            self.found.finals[at] = [FinalRow(self._items[g], result[g], self._latest[g].carried) for g in order]
