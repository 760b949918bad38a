"""Compare a sample with the source: rows and scores of all changes by key, then results and steps by instant.

Queries over results are compared with the rows that the tables of the query they take make up (``stream_rows``).
The seed decides the order of keys, and of the instants of a query and key. Queries take turns, and so do the keys of a query, until the
sample is done or the time is over.
"""

from __future__ import annotations

import random
from collections import Counter, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import islice

import pyarrow as pa
import pyarrow.compute as pc

from skyband.framework.base.counts import agree, counted
from skyband.framework.base.items import SCORE
from skyband.framework.base.reasons import DUPLICATE_ID, LATE, NO_TARGET
from skyband.framework.plan.model import LogicalQuery
from skyband.framework.queries.protocol import Question
from skyband.framework.streaming.bucket.operations import OPERATION
from skyband.framework.streaming.rows import rejects
from skyband.framework.tables.schemas import identity_columns
from skyband.framework.verify.brute_force import instants
from skyband.framework.verify.brute_force.accepted import accepted, with_operations, without_late
from skyband.framework.verify.brute_force.calendars import window_around
from skyband.framework.verify.brute_force.compare_changes import (
    compare_carried,
    compare_head,
    compare_items,
    compare_result,
    compare_scores,
    compare_steps,
    compare_values,
)
from skyband.framework.verify.brute_force.compare_history import (
    compare_history_finals,
    compare_history_points,
    compare_history_steps,
    compare_moving_values,
)
from skyband.framework.verify.brute_force.objects import Accepted, Found, Room, Work, objects
from skyband.framework.verify.brute_force.query_rows import KeyRows, PartRows, QueryRows, Turn
from skyband.framework.verify.brute_force.statistics import with_statistics
from skyband.framework.verify.brute_force.steps import steps_at
from skyband.framework.verify.brute_force.stream_rows import StreamRows
from skyband.framework.verify.budget import Budget, OutOfTime, Sample
from skyband.framework.verify.differences import Difference
from skyband.framework.verify.progress import Progress
from skyband.framework.verify.reconciliation import compare_counters
from skyband.framework.verify.replay.clocks import Clocks
from skyband.framework.verify.replay.replay import compare_causes
from skyband.framework.verify.shares import Share
from skyband.framework.verify.stored import Key, Stored

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
                found.differences += [*differences, *wrong]
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
        calendar, end = of.query.window.tumbling, question.at
        if of.finals is None or calendar is None or window_around(calendar, end)[0] != end:
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
