"""Compare a sample with the source: rows and scores of all changes by key, then results and steps by instant.

Queries over results are compared with the rows that the tables of the query they take make up (``stream_rows``).
The seed decides the order of keys, and of the instants of a query and key. Queries take turns, and so do the keys of a query, until the
sample is done or the time is over.
"""

from __future__ import annotations

import math
import random
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import groupby, islice
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skyband.framework.base.counts import agree, counted
from skyband.framework.base.errors import SkybandError
from skyband.framework.base.items import SCORE
from skyband.framework.base.reasons import DUPLICATE_ID, LATE, NO_TARGET
from skyband.framework.plan.model import LogicalQuery, Plan, QueryNode
from skyband.framework.queries.protocol import QueryType, Question, TimeVaryingValues
from skyband.framework.streaming.bucket.operations import OPERATION
from skyband.framework.streaming.job.layout import JobFile, Layout
from skyband.framework.streaming.rows import rejects
from skyband.framework.streaming.spark.packages import packages
from skyband.framework.streaming.spark.session import get_session
from skyband.framework.tables.schemas import changes_name, identity_columns, stream_columns, trajectory_name
from skyband.framework.verify.brute_force import instants
from skyband.framework.verify.brute_force.accepted import accepted, source_rows, source_rows_by_arrow, with_operations, without_late
from skyband.framework.verify.brute_force.calendars import leaves_at
from skyband.framework.verify.brute_force.compare_changes import (
    compare_carried,
    compare_further_values,
    compare_head,
    compare_items,
    compare_result,
    compare_scores,
    compare_steps,
    compare_values,
)
from skyband.framework.verify.brute_force.history import ChangeRow, History, Item, ItemPoint
from skyband.framework.verify.brute_force.objects import Accepted, Found, Room, Work, ends_at, objects, window_of
from skyband.framework.verify.brute_force.query_rows import KeyRows, PartRows, QueryRows, Turn
from skyband.framework.verify.brute_force.statistics import with_statistics
from skyband.framework.verify.brute_force.stream_rows import StreamRows
from skyband.framework.verify.budget import Budget, OutOfTime, Progress, Sample
from skyband.framework.verify.differences import Difference, place
from skyband.framework.verify.reconciliation import compare_counters
from skyband.framework.verify.replay.causes import Clocks
from skyband.framework.verify.replay.replay import FinalResults, Stream, Trajectories, compare_causes
from skyband.framework.verify.shares import Share
from skyband.framework.verify.stored import Key, Stored, row_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


# Derive the steps of a change stream at one instant, event by event, from results by definition (docs/semantics 2, 3).

MOST_EVENTS = 12
"""The most events of one instant that are recomputed one by one."""


@dataclass(frozen=True, slots=True)
class _Event:
    """The state after an event: number of objects, deleted objects. ``arriving``: the seq of the object that arrived."""

    count: int
    deleted: frozenset[int]
    arriving: int | None


def steps_at(kind: QueryType, question: Question, mine: Accepted, shown: Found, result: Found) -> list[list[ChangeRow]] | None:
    """Return the steps at the question's instant, each with ``-`` first, in rank order; None if that is too much work.

    ``shown``: the result before the instant. ``result``: the result after its events.
    """
    query, at = question.query, question.at
    if query.item.moves:
        step = _time_varying_step(kind, question, shown, result)
        return None if step is None else [step] if step else []
    if query.every_micros:
        if at % query.every_micros:
            return []
        events = [_after(mine, at)]
    else:
        events = list(_events(question, mine))
    if len(events) > MOST_EVENTS:
        return None
    steps, earlier = [], replace(question, at=at - 1)
    for n, event in enumerate(events, 1):
        then = replace(question, data=question.data.as_of(event.count, set(event.deleted)))
        now = result if n == len(events) else kind.brute_force(then)
        if now is None:
            return None
        step = _step(kind, earlier, then, shown, now, event)
        steps += [step] if step else []
        shown, earlier = now, then
    return steps


def _time_varying_step(kind: QueryType, question: Question, shown: Found, now: Found) -> list[ChangeRow] | None:
    """Return the only step of an instant of a query with time-varying values: an instant is one event (docs/semantics 12)."""
    every, at = question.query.every_micros, question.at
    if every and at % every:
        return []
    computed = kind.time_varying_values(question)
    if computed is None:
        return None
    before, after = {item for item, _ in shown}, {item for item, _ in now}
    step = []
    for change, among, others in (("-", before, after), ("+", after, before)):
        for item, (value, slope) in computed.values.items():
            if item in among and item not in others:
                step.append(ChangeRow(change, _time_varying_cause(change, item, computed, bool(every)), item, value, slope))
    return step


def _time_varying_cause(change: str, item: tuple[Any, ...], computed: TimeVaryingValues, boundary: bool) -> str:
    value, slope = computed.values[item]
    if change == "-":
        return "expiry" if value <= 0 and slope <= 0 else "displaced" if computed.switched or boundary else "crossing"
    if boundary:
        return "boundary"
    return "arrival" if item in computed.reported else "promoted" if computed.switched else "crossing"


def _after(mine: Accepted, at: int) -> _Event:
    """Return the state after all events at ``at`` or before."""
    return _Event(int(np.searchsorted(mine.time, at, "right")), frozenset(s for t, _, s in mine.deletions if t <= at), None)


def _events(question: Question, mine: Accepted) -> Iterator[_Event]:
    """Yield the states after the expiries of an instant, then after each of its rows."""
    at = question.at
    before = _after(mine, at - 1)
    window = question.logical_query.window if question.logical_query is not None else question.query.window
    if leaves_at(window, mine.time, at):
        yield before
    count, deleted = before.count, set(before.deleted)
    last = int(np.searchsorted(mine.time, at, "right"))
    gone = [(position, seq) for t, position, seq in mine.deletions if t == at]
    while count < last or gone:
        if gone and gone[0][0] <= count:
            deleted.add(gone.pop(0)[1])
            yield _Event(count, frozenset(deleted), None)
        else:
            count += 1
            yield _Event(count, frozenset(deleted), count - 1)


def _step(kind: QueryType, earlier: Question, then: Question, shown: Found, now: Found, event: _Event) -> list[ChangeRow]:
    before, after = {item for item, _ in shown}, {item for item, _ in now}
    left = [ChangeRow("-", _left(kind, then, item, event), item, score) for item, score in shown if item not in after]
    entered = [ChangeRow("+", _entered(kind, then, item, event), item, score) for item, score in now if item not in before]
    if not then.query.item.carried:
        return left + entered
    # What leaves has the values with which it was last in the result, as its score.
    left = [replace(change, carried=kind.carried(earlier, change.item)) for change in left]
    return left + [replace(change, carried=kind.carried(then, change.item)) for change in entered]


def _seqs(then: Question, item: tuple[Any, ...]) -> list[int]:
    """Return the seqs of the item's rows."""
    parts = then.query.item.parts
    return [int(v) for v in item] if all(p.is_row for p in parts) else []


def _left(kind: QueryType, then: Question, item: tuple[Any, ...], event: _Event) -> str | None:
    seqs = _seqs(then, item)
    if not seqs:
        return kind.cause(then, "-", item, event.arriving)
    if any(s in event.deleted for s in seqs):
        return "delete"
    window = then.logical_query.window if then.logical_query is not None else then.query.window
    first, _, _ = window_of(then.query, window, then.data, then.at)
    return "displaced" if min(seqs) >= first else "expiry"


def _entered(kind: QueryType, then: Question, item: tuple[Any, ...], event: _Event) -> str | None:
    if then.query.every_micros:
        return "boundary"
    seqs = _seqs(then, item)
    if not seqs:
        return kind.cause(then, "+", item, event.arriving)
    return "arrival" if event.arriving in seqs else "promoted"


# Compare everything that the tables of a query have of one key with its history by definition: changes, points, final results.


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


# Explain the rows of ``rejected`` by the source: late rows, duplicates, deletions without a target.

Texts = Counter[tuple[str, str]]


class RejectedRows:
    """The late rows, duplicates and deletions without a target in ``rejected``, and those that the source explains."""

    def __init__(self, stored: Stored, rows: pa.Table) -> None:
        """Read ``rejected``. ``rows``: all rows of the source that the intake passes, with late ones."""
        table = stored.table("rejected")
        mine = table.filter(pc.is_in(table["reason"], pa.array([LATE, DUPLICATE_ID, NO_TARGET])))
        self._settled = stored.settled
        self._found: Texts = Counter(zip(mine["reason"].to_pylist(), mine["text"].to_pylist(), strict=True))
        self._expected: Texts = Counter()
        late = {text: n for (reason, text), n in self._found.items() if reason == LATE}
        in_source = Counter(t for t in rejects.json_rows(rows.combine_chunks()).to_pylist() if t in late) if late else Counter()
        self._expected += Counter({(LATE, text): min(n, in_source[text]) for text, n in late.items()})

    def take(self, mine: Accepted) -> None:
        """Add the rows of a key that are no objects."""
        for reason, rows in mine.rejected.items():
            plain = rows.select([n for n in rows.column_names if n != OPERATION])
            self._expected += Counter((reason, text) for text in rejects.json_rows(plain.combine_chunks()).to_pylist())

    def differences(self, complete: bool) -> Iterator[Difference]:
        """Yield the rows that only one side has. Surplus rows are reported if late, or if all keys are compared (``complete``)."""
        if not self._settled:
            return
        for (reason, text), count in (self._expected - self._found).items():
            yield Difference("table rejected", f"{_rows(count)} missing: {reason} {text}", sort=f"missing: {reason}")
        for (reason, text), count in (self._found - self._expected).items():
            if complete or reason == LATE:
                yield Difference(
                    "table rejected", f"{_rows(count)} not in the source: {reason} {text}", sort=f"not in the source: {reason}"
                )


def _rows(count: int) -> str:
    return f"{counted(count, 'row')} {agree(count, 'is', 'are')}"


BATCH = 4_096
"""The most keys whose rows are ordered together."""


@dataclass(slots=True)
class Compared:
    """What was compared: accepted rows, keys, results, instants with their steps, and the shares of each query.

    ``skipped``: the number of results whose window is too large for brute force. ``stream_rows``: the rows that results have made up.
    ``missing``: why the source could not be read. ``reader``: what has read it, ``Arrow`` or ``Spark``. ``out_of_time``: the seconds that
    were asked for were over before all was done.
    """

    rows: int = 0
    keys: int = 0
    of_keys: int = 0
    results: int = 0
    skipped: int = 0
    steps: int = 0
    stream_rows: int = 0
    missing: str | None = None
    reader: str | None = None
    out_of_time: bool = False
    shares: list[Share] = field(default_factory=list)
    differences: list[Difference] = field(default_factory=list)


def compare_rows(
    stored: Stored, clocks: Clocks, rows: pa.Table | None, sample: Sample, budget: Budget, progress: Progress | None = None
) -> Compared:
    """Compare the tables with ``rows``: all rows of the source that the intake passes. None: only those of queries over results."""
    return _Comparison(stored, clocks, rows, sample, budget).all(progress)


def _never() -> bool:
    return False


class _Comparison:
    def __init__(self, stored: Stored, clocks: Clocks, rows: pa.Table | None, sample: Sample, budget: Budget) -> None:
        self.stored = stored
        self.plan = stored.job_plan
        self.sample = sample
        self.budget = budget
        self.found = Compared(of_keys=len(stored.until))
        self.rejected_rows, self.rows = None, None
        self.parts: list[PartRows] = []
        if rows is not None:
            self.rejected_rows = RejectedRows(stored, rows)
            self.rows = with_operations(self.plan, without_late(rows, stored.table("rejected")))
            self.parts.append(PartRows(stored, clocks, None))
        for node in self.plan.streams:
            part = stored.part(node.plan)
            self.parts.append(PartRows(part, clocks, StreamRows(part, node)))
        self.queries = [q for part in self.parts for q in part.queries]
        self.room = Room()
        self.counts: Counter[str] = Counter()
        keys = sorted(stored.until, key=repr)
        random.Random(sample.seed).shuffle(keys)
        self.waiting = deque(keys[: sample.most_keys])
        self._late_history: Callable[[], bool] = budget.late

    def all(self, progress: Progress | None) -> Compared:
        """Compare until all is done or the time is over, but at least one key, and one instant of every query."""
        found = self.found
        self.budget.sampling()
        if progress is not None:
            progress.doing("comparing with the source", self._done, self.budget.seconds_left)
        try:
            self._compare_all()
        except OutOfTime:
            found.out_of_time = True
        self._count()
        return found

    def _done(self) -> tuple[int, int]:
        """Return how many of the events have been covered."""
        keys = max(1, self.found.keys)
        covered = sum(int(s.covered.sum()) for q in self.queries for s in list(q.streams))
        return covered, sum(s.rows for q in self.queries for s in list(q.streams)) * max(1, self.found.of_keys) // keys

    def _compare_all(self) -> None:
        found = self.found
        # One result of every query is recomputed in any case, unless the limit was asked for.
        for late in (self.budget.never_late, self.budget.late):
            while not late():
                self._take_keys(self.budget.half())
                open_ = [q for q in self.queries if q.turns]
                if not open_ and not self.waiting:
                    break
                for query in open_:
                    if not late():
                        self._turn(query, late)
                if late == self.budget.never_late and found.keys:
                    break

    def _take_keys(self, half: Callable[[], bool]) -> None:
        """Take further keys until half of the remaining time is over; none while instants of earlier keys are left."""
        if any(q.turns for q in self.queries):
            return
        size, self._late_history = 4, half
        while self.waiting and (not half() or not any(q.turns for q in self.queries)):
            keys = [self.waiting.popleft() for _ in range(min(size, len(self.waiting)))]
            taken = {}
            if self.rows is not None:
                taken = self._accepted(keys)
            for n, key in enumerate(keys):
                if (n and half()) or self.budget.never_late():
                    self.waiting.extendleft(reversed(keys[n:]))
                    return
                self.found.keys += 1
                for part in self.parts:
                    mine = part.made.accepted(key) if part.made is not None else with_statistics(self.plan, taken[key])
                    self._take(part, KeyRows(mine, objects(part.stored.plan, mine, self.room), self.stored.until[key]))
            size = min(2 * size, BATCH)

    def _accepted(self, keys: list[Key]) -> dict[Key, Accepted]:
        assert self.rows is not None
        try:
            return accepted(self.rows, self.plan.intake, self.plan.window, {k: self.stored.until[k] for k in keys}, self.budget)
        except OutOfTime:
            self.waiting.extendleft(reversed(keys))
            raise

    def _take(self, part: PartRows, key: KeyRows) -> None:
        """Compare the rows, causes and scores in all changes of a key, and its row of ``heads``."""
        mine, found = key.mine, self.found
        part.taken.append(mine.key)
        part.rows += len(mine.time)
        if part.made is None:
            found.rows += len(mine.time)
            self.counts.update(mine.counts)
            found.differences += compare_head(self.stored, mine)
        else:
            found.stream_rows += len(mine.time)
        if self.rejected_rows is not None and part.made is None:
            self.rejected_rows.take(mine)
        for each in part.queries:
            each.clocks.complete(mine.key, mine.time, mine.deleted)
        for each in part.queries if mine.time else ():
            query, changes, plan = each.query, each.changes, each.plan
            for stream in each.of_key.get(mine.key, []):
                rows = each.rows[stream]
                differences = list(compare_items(each.stored, query, stream, mine, changes.rows.take(pa.array(rows))))
                differences += compare_causes(changes, stream, rows, each.clocks) if query.item.lasting else []
                only_rows = len(query.item.rows) == len(query.item.parts)
                known = [i for i in rows if only_rows and all(0 <= s < len(mine.time) for s in changes.items[i])]
                one = next((a for a in query.asked if query.members and a.name == stream[0]), each.logical[0])
                question = Question(plan, query, key.data, key.until, one)
                scored, wrong = compare_scores(changes, question, each.kind, known)
                found.differences += [*differences, *wrong, *compare_further_values(changes, question, each.kind, known)]
                each.known, each.scored = each.known + len(rows), each.scored + scored
                if query.item.moves and each.trajectories is not None:
                    values = compare_moving_values(question, each.kind, changes, each.trajectories, stream, rows)
                    each.scored, each.points = each.scored + values[0], each.points + values[1]
                    found.differences += values[2]
            streams = [self._stream(each, key, one) for one in each.logical]
            each.streams += streams
            proven = [self._history(each, key, s) for s in streams]
            if not all(proven):
                each.turns.append(islice(self._instants(each, key, streams), self.sample.instants))
        for each in part.queries if part.made is not None and not mine.time else ():
            found.differences += [
                each.changes.differs(each.rows[stream][0], f"the result of {part.of} has given no row to this key")
                for stream in each.of_key.get(mine.key, [])
            ]

    def _stream(self, of: QueryRows, key: KeyRows, one: LogicalQuery | None) -> instants.Stream:
        """Return a stream of changes of a key."""
        name = (one.name, *key.mine.key) if one is not None and of.query.members else key.mine.key
        reported = sorted({of.changes.at[i] for i in of.rows.get(name, [])})
        return instants.Stream(of.query, one, key.mine.key, key.mine, key.until, reported)

    def _history(self, of: QueryRows, key: KeyRows, stream: instants.Stream) -> bool:
        """Compare everything that the tables have of a stream with its history by definition; return True if it is complete.

        A type without a faster way to that than instant by instant has none.
        """
        if not of.kind.has_history:
            return False
        question = Question(of.plan, of.query, key.data, key.until, stream.logical)
        history = of.kind.history(question, _never if self.sample.everything else self._late_history)
        found, rows = self.found, of.rows.get(stream.name, [])
        found.differences += compare_history_steps(of.changes, stream.name, rows, history)
        if of.trajectories is not None:
            found.differences += compare_history_points(of.plan, of.query, of.trajectories, stream.name, history)
            of.points += of.trajectories.count_until(stream.name, history.until)
        if of.finals is not None:
            found.differences += compare_history_finals(of.plan, of.query, of.finals, stream.name, history)
            of.windows += sum(name == stream.name and end <= history.until for name, end in of.finals.windows)
        found.results += stream.cover_until(history.until)
        covered = [i for i in rows if of.changes.at[i] <= history.until]
        steps = {of.changes.step[i] for i in covered}
        stream.steps |= steps
        found.steps += len(steps)
        return history.until >= key.until

    def _instants(self, of: QueryRows, key: KeyRows, streams: list[instants.Stream]) -> Turn:
        """Yield the instants of a query and key; the queries of a table of queries take turns."""
        streams = list(streams)
        random.Random(self.sample.seed).shuffle(streams)
        orders = deque((s, s.order(self.sample.seed, self.sample.everything)) for s in streams)
        while orders:
            stream, order = orders.popleft()
            at = next(order, None)
            if at is not None:
                orders.append((stream, order))
                yield key, stream, at

    def _turn(self, of: QueryRows, late: Callable[[], bool]) -> None:
        """Compare the next instant of a query."""
        turn = of.turns.popleft()
        following = next(turn, None)
        if following is None:
            return
        of.turns.append(turn)
        key, stream, at = following
        more = self._compare(of, key, stream, at, late)
        if not self.sample.everything:
            for t in more:
                self._compare(of, key, stream, t, late)

    def _compare(self, of: QueryRows, key: KeyRows, stream: instants.Stream, at: int, late: Callable[[], bool]) -> list[int]:
        """Compare the result and the steps at an instant; return the instants at which something may happen next."""
        found, query, kind = self.found, of.query, of.kind
        question = Question(of.plan, query, key.data, at, stream.logical, Work(late=late))
        expected = kind.brute_force(question)
        if expected is None:
            found.skipped += not late()
            return []
        found.results += 1
        found.differences += compare_result(of.plan, query, stream.name, at, expected, of.results.at(stream.name, at))
        stream.cover(at)
        if not query.item.lasting:
            return []
        # One result of every query is recomputed in any case, its steps only if there is time.
        self._steps(of, key, stream, replace(question, work=Work(late=self.budget.late)), expected)
        if of.trajectories is not None:
            found.differences += compare_values(question, kind, of.trajectories, stream.name)
            found.differences += compare_carried(question, kind, of.trajectories, stream.name, expected)
        if of.finals is not None:
            self._final(of, stream, replace(question, work=Work(late=self.budget.late)))
        return stream.follow(kind.next_instants(question))

    def _final(self, of: QueryRows, stream: instants.Stream, question: Question) -> None:
        """Compare the final result of the window that ends at the question's instant, if one does."""
        end = question.at
        if of.finals is None or not ends_at(of.query, question.data, end):
            return
        last = replace(question, at=end - 1, query=replace(of.query, every_micros=None))
        expected = of.kind.brute_force(last)
        if expected is None:
            return
        carried = [of.kind.carried(last, item) if of.query.item.carried else () for item, _ in expected]
        bits, found = ([(item, s.hex()) for item, s in result] for result in (expected, of.finals.at(stream.name, end)))
        if bits != found or carried != of.finals.carried(stream.name, end):
            names = (*identity_columns(of.plan, of.query), *(c.name for c in of.query.item.carried), SCORE)
            values = [(*item, *c, s) for (item, s), c in zip(expected, carried, strict=True)]
            rows = [{"rank": n, **dict(zip(names, row, strict=True))} for n, row in enumerate(values, 1)]
            self.found.differences.append(of.finals.differs(stream.name, end, "differs from the definition", rows))

    def _steps(self, of: QueryRows, key: KeyRows, stream: instants.Stream, question: Question, result: Found) -> None:
        at, query = question.at, of.query
        shown = of.kind.brute_force(replace(question, at=at - 1))
        if shown is None:
            return
        self.found.differences += compare_result(of.plan, query, stream.name, at - 1, shown, of.results.at(stream.name, at - 1))
        steps = steps_at(of.kind, question, key.mine, shown, result)
        if steps is None:
            return
        self.found.steps += 1
        rows = of.at(stream.name, at)
        stream.steps |= {of.changes.step[i] for i in rows}
        self.found.differences += compare_steps(of.changes, stream.name, at, steps, rows)

    def _count(self) -> None:
        """Count the shares of what has been compared."""
        for q in self.queries:
            q.turns.clear()
        every_key = self.found.keys == self.found.of_keys and not self.found.out_of_time
        if self.rejected_rows is not None:
            self.found.differences += self.rejected_rows.differences(every_key)
        if self.rows is not None and every_key:
            self.found.differences += compare_counters(self.stored, self.counts)
        for part in self.parts:
            elsewhere = part.rows_elsewhere()
            for q in part.queries:
                self.found.shares += q.shares(elsewhere, part.of)


# Read the source, by Arrow or by Spark, and compare the tables with it.

_AGAIN: Final = 0.5
"""Seconds until jobs are cancelled again."""


def compare(stored: Stored, clocks: Clocks, layout: Layout, job: JobFile, sample: Sample, budget: Budget, progress: Progress) -> Compared:
    """Compare the tables with the source, as far as ``sample`` and ``budget`` allow.

    Raises SkybandError SKY-E301 without a source. If there are queries over results, these are compared nevertheless (``missing``).
    """
    budget.sampling()
    try:
        rows, reader = _read(stored.plan, layout, job, budget, progress)
    except SkybandError as e:
        if e.code != "SKY-E301" or not stored.plan.streams:
            raise
        found = compare_rows(stored, clocks, None, sample, budget, progress)
        found.missing = e.message
        return found
    except OutOfTime:
        return Compared(missing="the time was over before the source was read", out_of_time=True, of_keys=len(stored.until))
    found = compare_rows(stored, clocks, rows, sample, budget, progress)
    found.reader = reader
    return found


def _read(plan: Plan, layout: Layout, job: JobFile, budget: Budget, progress: Progress) -> tuple[pa.Table, str]:
    """Return all rows of the source that the intake passes, and what has read them: Arrow in this process where it reads as Spark does.

    Raises OutOfTime, and SkybandError SKY-E301 if the source cannot be read again.
    """
    progress.doing("reading the source by Arrow")
    rows = source_rows_by_arrow(plan, layout, job, budget)
    if rows is not None:
        return rows, "Arrow"
    progress.doing("starting Spark, which reads the source")
    spark = get_session(plan.job, packages=packages(plan), home=layout.home)
    progress.doing("reading the source by Spark")
    with _until(spark, budget):
        return source_rows(spark, plan, layout, job), "Spark"


@contextmanager
def _until(spark: SparkSession, budget: Budget) -> Iterator[None]:
    """Cancel the Spark jobs of this thread when the time is over, and no others: the session may be shared. Raises OutOfTime then."""
    left = budget.left
    if left is None:
        yield
        return
    context, tag, over = spark.sparkContext, f"skyband-verify-{uuid4().hex}", threading.Event()

    def cancel() -> None:
        running = not over.wait(left)
        while running:  # one after the other: only jobs that have started can be cancelled
            context.cancelJobsWithTag(tag)
            running = not over.wait(_AGAIN)

    thread = threading.Thread(target=cancel, daemon=True)
    context.addJobTag(tag)
    thread.start()
    try:
        yield
    except Exception:
        budget.check()  # what Spark raises for jobs that were cancelled
        raise
    finally:
        over.set()
        thread.join()
        context.removeJobTag(tag)
