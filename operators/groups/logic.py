"""The state of a bucket: rows of the window, aggregates of their groups, and the result of each query.

A call runs in stages: ``advance`` makes a record of every group that an event touched, the expressions give the groups' values, and for
each query ``rank`` turns these into changes and points. All of it follows from the rows of the window, the results shown, and, for
thresholds, membership: a restore adds the rows again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Final, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from skyband.operators.base import (
    DELETION_TARGET,
    F64,
    I64,
    NEVER,
    NULL,
    AnyArray,
    Arrivals,
    Calendar,
    Changes,
    Finals,
    Instant,
    Items,
    Named,
    State,
    Traces,
    Window,
    units_column,
)
from skyband.operators.calendar import window_starts
from skyband.operators.expressions.aggregates import Aggregate
from skyband.operators.expressions.ast import Attr
from skyband.operators.groups import arrays, decimals, growth
from skyband.operators.groups.arrays import NONE
from skyband.operators.groups.comparisons import LIMB, code_name, limb_names
from skyband.operators.groups.configuration import COUNTS, OF_ROWS, GroupsConfiguration, GroupsQuery, is_decimal, is_whole
from skyband.operators.groups.kernels import tables
from skyband.operators.groups.kernels.advance import DONE, EVENTS, RECORDS, add_rows, advance, look
from skyband.operators.groups.kernels.heaps import MEMBERS, NOWHERE
from skyband.operators.groups.kernels.rank import CHANGES, EVENT, FINALS, JOB, POINTS, UNSORTED, Output, Query, Values, place_all, rank
from skyband.operators.groups.kernels.tables import (
    COUNT,
    COUNT_ROWS,
    DISTINCT,
    END,
    FIRST,
    GREATEST,
    LAST,
    LEAST,
    MEAN,
    NEWEST,
    QUANTILE,
    STDDEV_POP,
    STDDEV_SAMP,
    SUM,
    TOTAL,
    TOTAL_HIGH,
    TOTAL_LOW,
    TOTAL_MEAN,
    VAR_POP,
    VAR_SAMP,
    Events,
    Layout,
)
from skyband.operators.groups.sessions import in_session, next_ends
from skyband.operators.loyalty.names import NOBODY, Names, Numbers
from skyband.operators.ranges import ranges
from skyband.operators.single_rows.tombstones import Tombstones
from skyband.operators.windows import count_of, expiries

# The aggregates that groups carry into changes and points: from the records of events to columns.

_NAN: Final = int(np.array(np.nan).view(np.int64))
_EMPTY: Final = {"count": 0, "distinct": 0}


class Carry:
    """The carried aggregates of a configuration. Values are int64: whole numbers, or the bits of float64."""

    def __init__(self, configuration: GroupsConfiguration) -> None:
        self.names = tuple(name for name, _ in configuration.carry)
        self._aggregates = [a for _, a in configuration.carry]
        self._places = [configuration.aggregates.index(a) for a in self._aggregates]
        self._cells = cells_of(configuration)
        self.of_empty: I64 = np.array([_EMPTY.get(a.function, _NAN) if not _is_cell(a) else NULL for a in self._aggregates], np.int64)
        """The values of a group without rows."""

    def of(self, events: Events, records: int) -> I64:
        """Return the values (carried, records) of the records."""
        made = np.empty((len(self.names), records), np.int64)
        for i, (aggregate, place) in enumerate(zip(self._aggregates, self._places, strict=True)):
            if _is_cell(aggregate):
                made[i] = events.cells[self._cells.index(place), :records]
            else:
                made[i] = events.values[place, :records].view(np.int64)
        return made

    def traces(self, query: GroupsQuery) -> I64:
        """Return (n, 2): the places of the values that the query's points follow, and 1 for those that are whole numbers."""
        places = [self.names.index(name) for name in query.traces]
        return np.array([(i, _is_cell(self._aggregates[i])) for i in places], np.int64).reshape(-1, 2)

    def columns(self, values: I64) -> dict[str, AnyArray]:
        """Return values (carried, changes) as columns, int64 or float64."""
        return {
            name: values[i].copy() if _is_cell(aggregate) else values[i].view(np.float64).copy()
            for i, (name, aggregate) in enumerate(zip(self.names, self._aggregates, strict=True))
        }


def _is_cell(aggregate: Aggregate) -> bool:
    """Return True if the value is a whole one of a row, or its code, which a float64 might not hold."""
    return aggregate.function in OF_ROWS and aggregate.argument is not None and is_whole(aggregate.argument)


def cells_of(configuration: GroupsConfiguration) -> list[int]:
    """Return the places, among the aggregates, of those that are carried as cells."""
    return sorted({configuration.aggregates.index(a) for _, a in configuration.carry if _is_cell(a)})


# From aggregates to the sums, lists and sets that kernels keep for each group.

_T = TypeVar("_T")
_RULES: Final = {"min": LEAST, "max": GREATEST, "first": FIRST, "last": LAST}
_LEAST_SHARE: Final = Fraction(1, 2**62)
"""The share of the quantile that is the least value, of any number of values."""
_SPREADS: Final = {"var_pop": VAR_POP, "var_samp": VAR_SAMP, "stddev_pop": STDDEV_POP, "stddev_samp": STDDEV_SAMP}


def layout_of(configuration: GroupsConfiguration) -> Layout:
    """Return what has to be kept for the aggregates; aggregates of one argument share a sum, list or set.

    A list drops rows that newer ones outdo. Where these can be deleted, min and max are the ends of an order, and the list for first and
    last has all rows.
    """
    arguments = configuration.arguments
    sums: list[int] = []
    lists: list[tuple[int, int]] = []
    sets: list[int] = []
    orders: list[int] = []
    moments: list[int] = []
    totals: list[int] = []
    codes: list[tuple[int, int]] = []
    for aggregate in configuration.aggregates:
        if aggregate.argument is None:
            codes.append((COUNT_ROWS, 0))
            continue
        argument, function = arguments.index(aggregate.argument), aggregate.function
        if function == "count":
            codes.append((COUNT, argument))
        elif function in ("sum", "mean") and aggregate.scale is not None:
            codes.append((TOTAL if function == "sum" else TOTAL_MEAN, _slot(totals, argument)))
        elif function in ("sum", "mean"):
            codes.append((SUM if function == "sum" else MEAN, _slot(sums, argument)))
        elif function == "distinct":
            codes.append((DISTINCT, _slot(sets, argument)))
        elif function == "quantile" or (configuration.deletes and function in ("min", "max")):
            codes.append((QUANTILE, _slot(orders, argument)))
        elif function in _SPREADS:
            codes.append((_SPREADS[function], _slot(moments, argument)))
        elif configuration.deletes:
            codes.append((END if function == "first" else NEWEST, _slot(lists, (argument, FIRST))))
        else:
            codes.append((END, _slot(lists, (argument, _RULES[function]))))
    shares, scale = [_share(a) for a in configuration.aggregates], [a.scale or 0 for a in configuration.aggregates]
    coded = [int(is_decimal(a)) for a in configuration.aggregates]
    for aggregate in limbs_of(configuration):
        if aggregate.function == "sum" and aggregate.argument is not None:
            slot = _slot(totals, arguments.index(aggregate.argument))
            made = [(TOTAL_HIGH, slot), (TOTAL_LOW, slot)]
        else:
            made = [codes[configuration.aggregates.index(aggregate)]]
        codes += made
        shares += [_share(aggregate)] * len(made)
        scale += [0] * len(made)
        coded += [1] * len(made)
    columns = np.array(codes, np.int64).reshape(-1, 2)
    share = np.array([(s.numerator, s.denominator) for s in shares], np.int64).reshape(-1, 2)
    whole = [int(is_whole(x)) for x in arguments]
    kept = (sums, [a for a, _ in lists], [r for _, r in lists], sets, orders, cells_of(configuration), moments, totals)
    return Layout(columns[:, 0].copy(), columns[:, 1].copy(), share, *(np.array(a, np.int64) for a in (whole, *kept, scale, coded)))


def limbs_of(configuration: GroupsConfiguration) -> list[Aggregate]:
    """Return the aggregates that have further values after those of all aggregates: of a sum two limbs, of others the whole number."""
    return [a for a in configuration.compared if a.function not in COUNTS]


def _share(aggregate: Aggregate) -> Fraction:
    """Return the share of a quantile, which may stand for a least or greatest value."""
    if aggregate.share is not None:
        return Fraction(repr(aggregate.share))
    return {"min": _LEAST_SHARE, "max": Fraction(1)}.get(aggregate.function, Fraction(0))


def _slot(slots: list[_T], wanted: _T) -> int:
    if wanted not in slots:
        slots.append(wanted)
    return slots.index(wanted)


# Last stage: the changes and points of all queries, in the order of the contract.

VALUE = "score"
"""The time-varying value of ``Traces``, and the value of ``Finals``."""


class Columns:
    """Columns of the contract. ``number`` and ``name``: number and rank by name of each group; ``shown`` gives the scores of internal
    values."""

    def __init__(self, number: I64, name: I64, shown: Callable[[F64], F64], carry: Carry, calendar: Calendar | None) -> None:
        self.number, self.name, self.shown, self.carry, self.calendar = number, name, shown, carry, calendar

    def empty(self) -> Changes:
        """Return no changes."""
        return replace(Changes.empty(1), values=self.carry.columns(np.empty((len(self.carry.names), 0), np.int64)))

    def changes_of(self, out: Output, ends: Sequence[tuple[int, int, int]]) -> Changes:
        """Return changes by (query, key, step, pos), points by (query, key, at, name), and the final results of tumbling windows.

        ``ends``: changes, points and finals up to the end of each query.
        """
        (query, n), (point_query, m), (final_query, _) = (_queries([end[i] for end in ends]) for i in range(3))
        side, cause, value, group, carried = out.sign[:n], out.cause[:n], out.value[:n], out.group[:n], out.carried[:, :n]
        point_group, point_value, point_carried = out.point_group[:m], out.point_value[:m], out.point_carried[:, :m]
        if out.counts[UNSORTED]:
            order = np.lexsort((self.name[group], -value, side, out.step[:n], out.key[:n], query))
            side, cause, value, group, carried = side[order], cause[order], value[order], group[order], carried[:, order]
            order = np.lexsort((self.name[point_group], out.point_at[:m], out.point_key[:m], point_query))
            point_group, point_value, point_carried = point_group[order], point_value[order], point_carried[:, order]
        points = {VALUE: self.shown(point_value), **(self.carry.columns(point_carried) if len(point_carried) else {})}
        traces = Traces(point_query, out.point_key[:m], out.point_at[:m], self.number[point_group].reshape(-1, 1), points)
        return Changes(
            query=query, key=out.key[:n], at=out.at[:n], step=out.step[:n], pos=out.pos[:n], sign=side, cause=cause,
            score=self.shown(value), items=self.number[group].reshape(-1, 1), traces=traces, values=self.carry.columns(carried),
            finals=None if self.calendar is None else self._finals(out, final_query, self.calendar),
        )  # fmt: skip

    def _finals(self, out: Output, query: AnyArray, calendar: Calendar) -> Finals:
        """Return the final results of the windows whose rows expired where ``calendar`` ends them; ``query``: of each member."""
        n = len(query)
        key, end, group, value = out.final_key[:n], out.final_at[:n], out.final_group[:n], out.final_value[:n]
        order = np.lexsort((self.name[group], -value, end, key, query))
        order = order[window_starts(calendar, end[order]) == end[order]]
        query, key, end, group, value = query[order], key[order], end[order], group[order], value[order]
        first = np.ones(len(order), bool)
        first[1:] = (query[1:] != query[:-1]) | (key[1:] != key[:-1]) | (end[1:] != end[:-1])
        rank = np.arange(1, len(order) + 1) - np.maximum.accumulate(np.where(first, np.arange(len(order)), 0))
        values = {VALUE: self.shown(value), **self.carry.columns(out.final_carried[:, order])}
        return Finals(query, key, window_starts(calendar, end - 1), end, rank, self.number[group].reshape(-1, 1), values)


def _queries(ends: Sequence[int]) -> tuple[AnyArray, int]:
    """Return the query of each row, and the number of rows."""
    counts = np.diff([0, *ends])
    return np.repeat(np.arange(len(ends), dtype=np.int16), counts), int(counts.sum())


# Evaluate the expressions of a state of groups over blocks: rows that count, arguments of aggregates, scores, groups that take part.


class Expressions:
    """Evaluates the expressions of a configuration."""

    def __init__(self, configuration: GroupsConfiguration) -> None:
        self.configuration, self.kernels = configuration, configuration.kernels
        self.sign = -1.0 if configuration.direction == "min" else 1.0

    def selected(self, columns: Mapping[str, AnyArray], n: int) -> npt.NDArray[np.bool_]:
        """Return the rows that satisfy ``where``."""
        return np.ones(n, bool) if self.kernels.where is None or n == 0 else self.kernels.where.passes(columns, n)

    def cells(self, columns: Mapping[str, AnyArray], n: int) -> I64:
        """Return the arguments of aggregates as int64 (arguments, rows): values, or the bits of float64."""
        arguments = self.configuration.arguments
        cells = np.empty((len(arguments), n), np.int64)
        floats = cells.view(np.float64)
        for i, (x, kernel) in enumerate(zip(arguments, self.kernels.arguments, strict=True)):
            if n == 0:
                break
            if kernel is not None:
                floats[i] = kernel.evaluate(columns, n)
            elif isinstance(x, Attr):
                column = columns[units_column(x.name).name if x.type == "units" else x.name]
                (cells if is_whole(x) else floats)[i] = column if is_whole(x) else column + 0.0
        return cells

    def scores(self, aggregates: F64) -> F64:
        """Return the scores of groups with these ``aggregates`` (aggregates, groups), as the user wrote them."""
        columns = self._columns(aggregates)
        if self.kernels.score is not None:
            return self.kernels.score.evaluate(columns, aggregates.shape[1])
        plain: F64 = columns[self.configuration.score.aggregates[0].spelling]
        return plain

    def internal(self, score: F64, aggregates: F64) -> F64:
        """Return internal values: larger ranks first, NaN for groups that take no part although they have rows."""
        if self.configuration.units is not None:
            place = self.configuration.aggregates.index(self.configuration.score.aggregates[0])
            score = decimals.ranked(aggregates[place].view(np.int64))
        found = score if self.sign > 0 and self.kernels.score is None else self.sign * score + 0.0
        if self.kernels.having is not None:
            found = np.where(self.kernels.having.passes(self._columns(aggregates), len(score)), found, math.nan)
        return found

    def shown(self, internal: F64) -> F64:
        """Return the scores, as the user wrote them, of groups that take part with these internal values."""
        value = self.sign * internal + 0.0
        return value if self.configuration.units is None else decimals.doubles(decimals.codes(value), self.configuration.units)

    def bounds(self, q: GroupsQuery) -> tuple[float, float]:
        """Return the internal values above which a group enters, and at which one that is in still stays."""
        above = math.inf if q.above is None else q.above
        scale = self.configuration.units
        if scale is None:
            return above, math.nextafter(above, math.inf) if q.below is None else q.below
        entry = decimals.bound(above, scale, False)
        return entry, math.nextafter(entry, math.inf) if q.below is None else decimals.bound(q.below, scale, True)

    def _columns(self, aggregates: F64) -> dict[str, AnyArray]:
        """Return the aggregates by their attributes: decimals as doubles and as codes, whole numbers that are compared also as limbs."""
        found: dict[str, AnyArray] = {}
        configuration, scales = self.configuration, self.configuration.scales
        for a, values in zip(configuration.aggregates, aggregates[: len(configuration.aggregates)], strict=True):
            name, scale = a.spelling, scales.get(a.spelling)
            found[name] = values if scale is None else decimals.doubles(values.view(np.int64), scale)
            if scale is not None:
                found[code_name(name)] = values.view(np.int64)
            if a.function in COUNTS and a in configuration.compared:
                found |= self._limbs(a, values.astype(np.int64))
        place = len(configuration.aggregates)
        for a in limbs_of(configuration):
            whole = aggregates[place].view(np.int64)
            if a.function == "sum":
                found |= zip(limb_names(a.spelling), (whole, aggregates[place + 1].view(np.int64)), strict=True)
                place += 2
            else:
                found |= self._limbs(a, whole)
                place += 1
        return found

    @staticmethod
    def _limbs(a: Aggregate, whole: I64) -> Iterable[tuple[str, I64]]:
        """Return the limbs of whole numbers, or ``NULL``, by their attributes."""
        null = whole == NULL
        limbs = whole >> LIMB, whole & ((1 << LIMB) - 1)
        return zip(limb_names(a.spelling), (np.where(null, NULL, limb) for limb in limbs), strict=True)


# Deletions of rows: their targets, and which rows of a restored window were deleted. Does nothing for streams without deletions.

_SAVED = ("tomb_key", "tomb_seq", "tomb_time")
_NONE: I64 = np.empty(0, np.int64)


class Deletions:
    """The deletions of a bucket, as long as the window would have their rows. ``active``: rows may be deletions."""

    def __init__(self, active: bool) -> None:
        self.active = active
        self.tombs = Tombstones.empty()

    def of(self, arrivals: Arrivals) -> npt.NDArray[np.bool_]:
        """Return which rows are deletions."""
        target = arrivals.columns[DELETION_TARGET] if self.active else np.full(len(arrivals), NULL)
        return np.asarray(target != NULL, np.bool_)

    def targets(self, arrivals: Arrivals) -> I64:
        """Return the seq that each row deletes, or ``NULL``, and note these; an empty array if no row can be a deletion."""
        if not self.active or not len(arrivals):
            return _NONE
        target = np.ascontiguousarray(arrivals.columns[DELETION_TARGET], np.int64)
        gone = np.flatnonzero(target != NULL)
        self.tombs = self.tombs.with_(Tombstones(arrivals.key[gone], target[gone], arrivals.time[gone]))
        return target

    def alive(self, key: I64, seq: I64) -> npt.NDArray[np.bool_]:
        """Return which rows, by (key, seq), have not been deleted."""
        return np.asarray(self.tombs.times(key, seq) == NEVER, np.bool_)

    def saved(self, next_seq: I64, until: int, window: Window) -> dict[str, AnyArray]:
        """Return the arrays of a checkpoint, and forget deletions of rows that have left the window."""
        self.tombs = self.tombs.alive(next_seq, until, window)
        return dict(zip(_SAVED, (self.tombs.key, self.tombs.seq, self.tombs.time), strict=True)) if self.active else {}

    def load(self, saved: Mapping[str, AnyArray]) -> None:
        """Continue from the arrays of a checkpoint."""
        if self.active:
            self.tombs = Tombstones(*(np.array(saved[name], np.int64) for name in _SAVED))


class Kept(NamedTuple):
    """Rows by key and seq, with their ``expiry``, the ``number`` of their group and ``cells`` (arguments, rows)."""

    key: I64
    seq: I64
    expiry: I64
    number: I64
    cells: I64


class GroupsLogic:
    """See ``Logic``. Groups are numbered by *place*: 0, 1, 2, ... in order of appearance; gone ones are dropped when they are many."""

    def __init__(self, configuration: GroupsConfiguration, state: State | None) -> None:
        self.configuration = configuration
        self.layout = layout_of(configuration)
        self.window, self.count = configuration.window, count_of(configuration.window)
        self.expressions = Expressions(configuration)
        self.carry = Carry(configuration)
        self.until = NULL
        self.rows = 0
        self.eligible = self.unusable = 0
        self.deletions = Deletions(configuration.deletes)
        self._clear()
        if state is not None:
            self.deletions.load(state.arrays)
            self._load(state.arrays, self._kept(state.rows))

    def _clear(self) -> None:
        """Begin without groups."""
        self.n = 0
        self.state = arrays.empty_state(self.layout, self.window.session)
        self.names, self.numbers = Names(NONE, np.empty((0, 0), np.int64)), Numbers(NONE)
        self.number, self.key = NONE, NONE
        self.boards = [arrays.empty_board(len(self.carry.names), self.carry.traces(q)) for q in self.configuration.queries]
        self.heap_room, self.of_key, self.heap_end = NONE, NONE, 0
        self.members = NONE

    # ---------------------------------------------------------------- rows in

    def advance(self, arrivals: Arrivals, until: Instant) -> Changes:
        """Process every event < ``until``, as ``Logic.advance``. O(log groups) an arrival or expiry, and O(keys) a call."""
        if self.until == NULL and len(arrivals):
            self.until = int(arrivals.time.min())
        if self.until == NULL:
            return self._columns.empty()
        self.until = max(self.until, until)
        self._grow(int(arrivals.key.max(initial=-1)) + 1)
        place, cells = self._meet(arrivals)
        feed = self._feed(arrivals, place, cells)
        events = self._events(feed)
        self._advance(feed, events)
        values = self._values(feed, events)
        return self._columns.changes_of(*self._rank(values))

    @property
    def _columns(self) -> Columns:
        return Columns(self.number, self.names.rank, self.expressions.shown, self.carry, self.window.tumbling)

    def _meet(self, arrivals: Arrivals) -> tuple[I64, I64]:
        """Return the group of every row, -1 for rows of no group, and the arguments' values; new groups get places."""
        n = len(arrivals)
        cells = self.expressions.cells(arrivals.columns, n)
        if n == 0:
            return NONE, cells
        name = self.configuration.object_column.name
        number, asked = arrivals.columns[name], self.expressions.selected(arrivals.columns, n)
        if self.deletions.active:
            deletion = self.deletions.of(arrivals)
            asked, n = asked & ~deletion, n - int(np.count_nonzero(deletion))
        self.rows += n
        usable = asked & (number != NULL)
        self.eligible += int(np.count_nonzero(asked))
        self.unusable += int(np.count_nonzero(asked)) - int(np.count_nonzero(usable))
        place = self.numbers.places(number if usable.all() else np.where(usable, number, NULL))
        new = np.flatnonzero(usable & (place == NOBODY))
        if len(new):
            self._name(arrivals.named[name], number[new], arrivals.key[new])
            place[new] = self.numbers.places(number[new])
        return place, cells

    def _name(self, named: Named, number: I64, key: I64) -> None:
        """Append the groups that rows with ``number`` and ``key`` belong to."""
        numbers, first = np.unique(number, return_index=True)
        which = np.flatnonzero(np.isin(named.number, numbers))
        if len(which) < len(numbers):
            raise ValueError("a row belongs to a group without a name")
        given = named.number[which]
        self._append(given, key[first[np.searchsorted(numbers, given)]])
        others_change = self.names.add(named, which)
        self._rank_by_name(0 if others_change else self.n - len(which))

    def _rank_by_name(self, first: int) -> None:
        """Take over the ranks by name of the groups from ``first`` on."""
        for board in self.boards:
            board.groups["name"][first : self.n] = self.names.rank[first : self.n]

    def _feed(self, arrivals: Arrivals, place: I64, cells: I64) -> tables.Feed:
        """Return the rows of the call, and the keys with rows, expiries or boundaries."""
        due = np.zeros(len(self.of_key), bool)
        if self._timed and len(self.state.rows.expiry):
            head = self.state.keys.head
            due |= (head >= 0) & (self.state.rows.expiry[np.maximum(head, 0)] < self.until)
        if self.window.session is not None:
            due |= next_ends(self.state.sessions) < self.until
        for board in self.boards:
            due |= board.next < self.until
        due[arrivals.key] = True
        job = np.flatnonzero(due)
        first, end = np.searchsorted(arrivals.key, job), np.searchsorted(arrivals.key, job, "right")
        target = self.deletions.targets(arrivals)
        time, seq = np.ascontiguousarray(arrivals.time), np.ascontiguousarray(arrivals.seq)
        return tables.Feed(time, expiries(self.window, time), seq, place, cells, target, job, first, end)

    def _events(self, feed: tables.Feed) -> tables.Events:
        """Return room for the events and records of a call."""
        rows, n = self.state.rows, len(feed.time)
        expiring = len(rows.expiry) - int(rows.spare[0]) + n if self._timed and len(feed.job) else 0
        self.state = growth.for_rows(self.state, int(np.count_nonzero(feed.group >= 0)), self.deletions.active)
        return growth.empty_events(self.layout, self.n, n + expiring, 2 * n + expiring, len(feed.job))

    def _advance(self, feed: tables.Feed, events: tables.Events) -> None:
        """Process the rows and expiries of a call; sums and sets get more room as needed."""
        window = tables.Window(self.count, self.until)
        while (why := advance(self.state, feed, window, events)) != DONE:
            self.state = growth.for_another(self.state, why)

    @property
    def _timed(self) -> bool:
        """Return True if rows leave at instants, not only as others arrive."""
        return self.window.micros is not None or self.window.tumbling is not None

    # ---------------------------------------------------------------- values of groups

    def _values(self, feed: tables.Feed, events: tables.Events) -> Values:
        """Return the records with the internal value of each group."""
        e, r = int(events.counts[EVENTS]), int(events.counts[RECORDS])
        aggregates = events.values[:, :r]
        score = self.expressions.scores(aggregates)
        self._count_unusable(score, events)
        value = self.expressions.internal(score, aggregates)
        return Values(
            feed.job, events.first_of_key, events.at[:e], events.arrived[:e], events.record[: e + 1], events.group[:r], events.alive[:r],
            value, self.carry.of(events, r),
        )  # fmt: skip

    def _count_unusable(self, score: F64, events: tables.Events) -> None:
        """Count the rows after which their group has a null or NaN score."""
        bad = np.flatnonzero(np.isnan(score) & (events.alive[: len(score)] > 0))
        if len(bad):
            event = np.searchsorted(events.record[: events.counts[EVENTS] + 1], bad, side="right") - 1
            self.unusable += int(np.count_nonzero(events.arrived[event] == events.group[bad]))

    def _rank(self, values: Values) -> tuple[Output, list[tuple[int, int, int]]]:
        """Return the changes and points of all queries, and how many changes, points and finals there are after each query."""
        queries, records = self.configuration.queries, len(values.group)
        room = [4 * records + 1 + (self.n if q.every else 0) for q in queries]
        closing = len(queries) * records if self.window.tumbling is not None else 0
        traced = any(q.traces for q in queries)
        out, ends = arrays.empty_output(sum(room), closing, len(self.carry.names), self.members, traced), []
        for needed, q, board in zip(room, queries, self.boards, strict=True):
            query = self._query(q)
            out.counts[[JOB, EVENT]] = 0
            out = arrays.more_output(out, max(int(out.counts[CHANGES]), int(out.counts[POINTS])) + needed)
            while not rank(board, query, values, out):
                out = arrays.more_output(out, 2 * len(out.key) + query.room)
            ends.append((int(out.counts[CHANGES]), int(out.counts[POINTS]), int(out.counts[FINALS])))
        return out, ends

    def _query(self, q: GroupsQuery) -> Query:
        closes = int(self.window.tumbling is not None)
        return Query(q.k or 0, *self.expressions.bounds(q), q.every or 0, closes, self.until, int(q.ties), 2 * self.n)

    # ---------------------------------------------------------------- groups and keys

    def _grow(self, keys: int) -> None:
        """Make room for so many keys."""
        if keys <= len(self.of_key):
            return
        self.state = growth.for_keys(self.state, keys)
        self.boards = [arrays.more_keys_of_board(b, keys) for b in self.boards]
        self.of_key, self.heap_room = arrays.lengthened(self.of_key, keys), arrays.lengthened(self.heap_room, keys)

    def _append(self, number: I64, key: I64) -> None:
        """Append groups without rows."""
        first, end = self.n, self.n + len(number)
        if end > len(self.number):
            size = 2 * end + 16
            self.number, self.key, self.members = (arrays.lengthened(a, size) for a in (self.number, self.key, self.members))
            self.state = growth.for_groups(self.state, size)
            self.boards = [arrays.more_of_board(b, size) for b in self.boards]
        self.number[first:end], self.key[first:end] = number, key
        self.n = end
        self.numbers = self.numbers.extended(self.number[:end])
        self._make_heaps(key)

    def _make_heaps(self, key: I64) -> None:
        """Make room for more groups of the keys in the heaps of the boards: a stretch of twice the size at the end."""
        np.add.at(self.of_key, key, 1)
        short = np.unique(key)
        short = short[self.of_key[short] > self.heap_room[short]]
        if not len(short) or all(q.k is None for q in self.configuration.queries):
            return
        room = 2 * self.of_key[short]
        start = self.heap_end + np.cumsum(room) - room
        self.heap_end += int(room.sum())
        for i, b in enumerate(self.boards):
            heap = b.heap if b.heap.shape[1] >= self.heap_end else arrays.lengthened(b.heap, 2 * self.heap_end)
            old = self.heap_room[short]
            heap[:, ranges(start, old)] = heap[:, ranges(b.start[short], old)]
            b.start[short] = start
            self.boards[i] = b._replace(heap=heap)
        self.heap_room[short] = room

    def objects(self) -> I64:
        """See ``ObjectLogic.objects``: the groups that have rows or are shown. The others are dropped when they are many. O(groups)."""
        needed = self._needed()
        gone = self.n - len(needed)
        rows = self.state.rows
        number = self.number[needed].copy()
        if gone > len(needed) + 64 and 4 * gone > len(rows.expiry) - int(rows.spare[0]):
            saved, kept = self.checkpoint(), self._held()
            self._clear()
            self._load(saved, kept)
        return number

    def _needed(self) -> I64:
        needed = self.state.groups.alive[: self.n] > 0
        for board in self.boards:
            needed |= board.groups["shown"][: self.n] != 0
        return np.flatnonzero(needed)

    # ---------------------------------------------------------------- what is kept

    def _held(self) -> Kept:
        """Return the rows of the state."""
        rows = self.state.rows
        used = np.ones(len(rows.expiry), bool)
        used[rows.free[: rows.spare[0]]] = False
        which = np.flatnonzero(used)
        key = self.key[rows.group[which]]
        order = np.lexsort((rows.seq[which], key))
        which = which[order]
        return Kept(key[order], rows.seq[which], rows.expiry[which], self.number[rows.group[which]], rows.cells[:, which])

    def _kept(self, rows: Arrivals) -> Kept:
        """Return the host's rows that belong to a group."""
        number = rows.columns[self.configuration.object_column.name]
        mine = (number != NULL) & self.expressions.selected(rows.columns, len(rows))
        cells = self.expressions.cells(rows.columns, len(rows))
        mine &= self.deletions.alive(rows.key, rows.seq)
        expiry = expiries(self.window, rows.time[mine])
        return Kept(rows.key[mine], rows.seq[mine], expiry, number[mine], np.ascontiguousarray(cells[:, mine]))

    def checkpoint(self) -> dict[str, AnyArray]:
        """See ``Logic.checkpoint``: groups with their names, what is shown of them, and steps. O(groups + keys)."""
        needed = self._needed()
        names = self.names.keep(needed)
        saved: dict[str, AnyArray] = {
            "until": np.array([self.until]), "number": self.number[needed], "key": self.key[needed],
            "name_length": names.length, "name_words": names.words, "next_seq": self.state.keys.next_seq.copy(),
        }  # fmt: skip
        for name, field in (("shown", "shown"), ("shown_value", "shown_value"), ("member", "place")):
            saved[name] = np.array([b.groups[field][needed] for b in self.boards])
        saved["shown"] = saved["shown"].astype(np.int64)
        if self.configuration.carries_former:
            former = [self.boards[q].shown_carried[:, needed] for q in self.configuration.regular]
            saved["shown_carried"] = np.concatenate(former)
        saved["member"] = ((saved["member"] != NOWHERE) & (saved["member"] & 1 == MEMBERS)).astype(np.int64)
        for name in ("step", "next"):
            saved[name] = np.array([getattr(b, name) for b in self.boards])
        if self.deletions.active:
            saved |= self.deletions.saved(self.state.keys.next_seq, self.until, self.configuration.window)
            saved["deleted"] = (self.boards[0].groups["rows"][needed] == tables.DELETED).astype(np.int64)
        return saved

    def _load(self, saved: Mapping[str, AnyArray], kept: Kept) -> None:
        self.until = int(saved["until"][0])
        self._grow(len(saved["next_seq"]))
        self.state.keys.next_seq[:] = saved["next_seq"]
        self.names = Names(np.array(saved["name_length"], np.int64), np.array(saved["name_words"], np.int64))
        self._append(np.array(saved["number"], np.int64), np.array(saved["key"], np.int64))
        self._rank_by_name(0)
        self._add(kept)
        events = growth.empty_events(self.layout, self.n, 1, self.n, 0)
        look(self.state, events)
        value, r = np.full(self.n, math.nan), int(events.counts[RECORDS])
        aggregates = events.values[:, :r]
        value[events.group[:r]] = self.expressions.internal(self.expressions.scores(aggregates), aggregates)
        rows = self.state.groups.alive[: self.n].copy()
        if self.deletions.active:
            rows[(rows == 0) & (saved["deleted"] != 0)] = tables.DELETED
        carried = len(self.carry.names)
        for q, board in enumerate(self.boards):
            for name in ("step", "next"):
                getattr(board, name)[:] = saved[name][q]
            groups, asked = board.groups[: self.n], self.configuration.queries[q]
            groups["shown"], groups["shown_value"] = saved["shown"][q], saved["shown_value"][q]
            groups["value"], groups["rows"] = value, rows
            board.carried[:, : self.n] = self.carry.of_empty[:, None]
            board.carried[:, events.group[:r]] = self.carry.of(events, r)
            board.shown_carried[:, : self.n] = board.carried[:, : self.n]
            if carried and asked.every is not None:
                first = carried * self.configuration.regular.index(q)
                board.shown_carried[:, : self.n] = saved["shown_carried"][first : first + carried]
            if asked.k is None:
                groups["place"] = np.where(saved["member"][q], MEMBERS, NOWHERE)
            place_all(board, self._query(asked), self.key[: self.n])

    def _add(self, kept: Kept) -> None:
        """Add the rows that are in the window."""
        place = self.numbers.places(kept.number)
        alive = (kept.seq >= self.state.keys.next_seq[kept.key] - self.count) & (kept.expiry >= self.until)
        mine, time = np.flatnonzero(alive & (place != NOBODY)), NONE
        if self.window.session is not None:
            time = kept.expiry[mine] - (self.window.micros or 0)
            alive = in_session(place[mine], time, self.window.session, self.until)
            mine, time = mine[alive], time[alive]
        self.state = growth.for_rows(self.state, len(mine), self.deletions.active)
        cells = np.ascontiguousarray(kept.cells[:, mine])
        feed = tables.Feed(time, kept.expiry[mine], kept.seq[mine], place[mine], cells, NONE, NONE, NONE, NONE)
        while (why := add_rows(self.state, feed, kept.key[mine])) != DONE:
            self.state = growth.for_another(self.state, why)

    def wake(self) -> Instant | None:
        """Return the next expiry or boundary."""
        first = min((int(b.next.min(initial=NEVER)) for b in self.boards), default=NEVER)
        if self._timed:
            head = self.state.keys.head
            first = min(first, int(self.state.rows.expiry[head[head >= 0]].min(initial=NEVER)))
        if self.window.session is not None:
            first = min(first, int(next_ends(self.state.sessions).min(initial=NEVER)))
        return None if first == NEVER else first

    def retained(self) -> tuple[I64, I64]:
        """Return no rows: none outside the window is needed."""
        return NONE, NONE

    def snapshot(self, key: int, k: int, window: Window, query: int = 0) -> Items:
        """Return the first ``k`` groups of the query's result. Raise ValueError for another window, or beyond the query's k."""
        asked, board = self.configuration.queries[query], self.boards[query]
        if window != self.configuration.window:
            raise ValueError(f"groups are kept for {self.configuration.window} alone, not for {window}")
        if k < 1 or (asked.k is not None and k > asked.k):
            raise ValueError(f"k = {k}: between 1 and {asked.k}")
        groups = board.groups[: self.n]
        place, value = groups["place"], groups["value"]
        mine = np.flatnonzero((self.key[: self.n] == key) & (place != NOWHERE) & (place & 1 == MEMBERS))
        best = mine[np.lexsort((groups["name"][mine], -value[mine]))]
        best = best[(np.arange(len(best)) < k) | (asked.ties & (value[best] == value[best[:k][-1:]]))]
        score = self.expressions.shown(value[best])
        return Items(np.full(len(best), key), self.number[best].reshape(-1, 1), score, {})

    def skyband(self) -> Items:
        """Return nothing: any group may come into a result."""
        return Items(NONE, np.empty((0, 1), np.int64), np.empty(0))

    def counters(self) -> dict[str, int]:
        """Return the rows and unusable rows since the last call, the groups, and the rows in the window that belong to one."""
        rows = self.state.rows
        found = {"rows": self.rows, "groups": self.n, "window_rows": len(rows.expiry) - int(rows.spare[0])}
        for i in range(len(self.boards)):
            found |= {f"unusable:{i}": self.unusable, f"asked:{i}": self.eligible}
        self.rows = self.unusable = self.eligible = 0
        return found
