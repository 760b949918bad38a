"""Compare a sample with the source: rows and scores of all changes by key, then results and steps by instant.

Queries over results are compared with the rows that the tables of the query they take make up (``stream_rows``).
The seed decides the order of keys, and of the instants of a query and key. Queries take turns, and so do the keys of a query, until the
sample is done or the time is over.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import islice

import pyarrow as pa

from skyband.framework.base.counts import counted
from skyband.framework.base.errors import SkybandError
from skyband.framework.base.items import SCORE
from skyband.framework.plan.model import LogicalQuery, QueryNode
from skyband.framework.queries.protocol import QueryType, Question
from skyband.framework.queries.registry import query_type
from skyband.framework.streaming.job.layout import JobFile, Layout
from skyband.framework.streaming.spark.packages import packages
from skyband.framework.streaming.spark.session import get_session
from skyband.framework.tables.schemas import identity_columns
from skyband.framework.verify.brute_force import instants
from skyband.framework.verify.brute_force.accepted import accepted, source_rows, with_operations, without_late
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
from skyband.framework.verify.brute_force.objects import Accepted, Found, Objects, Room, Work, objects
from skyband.framework.verify.brute_force.rejected_rows import RejectedRows
from skyband.framework.verify.brute_force.results import Reports, Results
from skyband.framework.verify.brute_force.statistics import with_statistics
from skyband.framework.verify.brute_force.steps import steps_at
from skyband.framework.verify.brute_force.stream_rows import StreamRows
from skyband.framework.verify.budget import Budget, Sample
from skyband.framework.verify.differences import Difference
from skyband.framework.verify.progress import Progress
from skyband.framework.verify.replay.clocks import Clocks
from skyband.framework.verify.replay.final_results import FinalResults
from skyband.framework.verify.replay.replay import compare_causes, stream_of
from skyband.framework.verify.shares import Share
from skyband.framework.verify.stored import Key, Stored, key_of

BATCH = 4_096
"""The most keys whose rows are ordered together."""

Turn = Iterator[tuple["_Key", instants.Stream, int]]


@dataclass(slots=True)
class Compared:
    """What was compared: accepted rows, keys, results, instants with their steps, and the shares of each query.

    ``skipped``: the number of results whose window is too large for brute force. ``stream_rows``: the rows that results have made up.
    ``missing``: why the source could not be read.
    """

    rows: int = 0
    keys: int = 0
    of_keys: int = 0
    results: int = 0
    skipped: int = 0
    steps: int = 0
    stream_rows: int = 0
    missing: str | None = None
    shares: list[Share] = field(default_factory=list)
    differences: list[Difference] = field(default_factory=list)


@dataclass(slots=True)
class _Key:
    """A key of the sample, with its accepted rows."""

    mine: Accepted
    data: Objects
    until: int


class _Query:
    """A query, its rows in the tables, and how much of it has been compared. ``stored`` and ``clocks`` are those of its plan."""

    def __init__(self, stored: Stored, clocks: Clocks, query: QueryNode) -> None:
        self.stored, self.clocks, self.plan = stored, clocks, stored.plan
        self.query = query
        self.kind: QueryType = query_type(query.type)
        self.changes = stream_of(stored, query)
        self.rows: dict[Key, list[int]] = dict(self.changes.streams())
        self.results = Results(stored, query) if query.item.lasting else Reports(self.changes)
        self.finals = FinalResults(stored, query) if query.item.closes else None
        self.of_key: dict[Key, list[Key]] = {}
        for stream in self.rows:
            self.of_key.setdefault(key_of(stored.plan, query, stream), []).append(stream)
        self.logical: list[LogicalQuery | None] = list(query.asked) if query.members else [query.asked[0] if query.asked else None]
        self._at: dict[tuple[Key, int], list[int]] = {}
        for stream, rows in self.rows.items():
            for i in rows:
                self._at.setdefault((stream, self.changes.at[i]), []).append(i)
        self.streams: list[instants.Stream] = []
        self.turns: deque[Turn] = deque()
        self.known = self.scored = 0

    def at(self, stream: Key, at: int) -> list[int]:
        """Return the rows of a stream's changes at an instant."""
        return self._at.get((stream, at), [])

    def shares(self, rows_elsewhere: int, taken: str | None) -> Iterator[Share]:
        """Yield what has been compared; ``rows_elsewhere``: the number of accepted rows of keys outside of the sample."""
        query, total = self.query, self.changes.rows.num_rows
        if query.item.rows:
            yield Share("rows", query.name, self.known, total, taken)
        if query.item.scored and type(self.kind).scores is not QueryType.scores:
            yield Share("scores", query.name, self.scored, total, taken)
        events = sum(s.rows for s in self.streams) + rows_elsewhere * len(self.logical)
        yield Share("results", query.name, sum(int(s.covered.sum()) for s in self.streams), events, taken)
        if query.item.lasting:
            steps = sum(len({self.changes.step[i] for i in rows}) for rows in self.rows.values())
            yield Share("steps", query.name, sum(len(s.steps) for s in self.streams), steps, taken)


class _Part:
    """One of the job's plans with its queries: over the source's rows, or (``made``) over those that a result makes up.

    ``rows``: how many have been taken.
    """

    def __init__(self, stored: Stored, clocks: Clocks, made: StreamRows | None) -> None:
        self.stored, self.made = stored, made
        mine = clocks.part(stored)
        self.queries = [_Query(stored, mine, q) for q in stored.plan.queries]
        self.taken: list[Key] = []
        self.rows = 0

    @property
    def of(self) -> str | None:
        """Return the query whose result is taken; None for the source's rows."""
        return None if self.made is None else self.made.node.of

    def rows_elsewhere(self) -> int:
        """Return the number of rows of the keys that have not been taken."""
        if self.made is not None:
            return sum(self.made.count(key) for key in self.stored.until if key not in set(self.taken))
        return max(0, sum((s or 0) + 1 for s in self.stored.table("heads")["last_seq"].to_pylist()) - self.rows)


def compare(stored: Stored, clocks: Clocks, layout: Layout, job: JobFile, sample: Sample, budget: Budget, progress: Progress) -> Compared:
    """Compare the tables with the source, as far as ``sample`` and ``budget`` allow.

    Raises SkybandError SKY-E301 without a source. If there are queries over results, these are compared nevertheless (``missing``).
    """
    plan = stored.plan
    progress.doing("starting Spark, which reads the source")
    spark = get_session(plan.job, packages=packages(plan), home=layout.home)
    progress.doing("reading the source")
    try:
        rows = source_rows(spark, plan, layout, job)
    except SkybandError as e:
        if e.code != "SKY-E301" or not plan.streams:
            raise
        found = compare_rows(stored, clocks, None, sample, budget, progress)
        found.missing = e.message
        return found
    return compare_rows(stored, clocks, rows, sample, budget, progress)


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
        self.parts: list[_Part] = []
        if rows is not None:
            self.rejected_rows = RejectedRows(stored, rows)
            self.rows = with_operations(self.plan, without_late(rows, stored.table("rejected")))
            self.parts.append(_Part(stored, clocks, None))
        for node in self.plan.streams:
            part = stored.part(node.plan)
            self.parts.append(_Part(part, clocks, StreamRows(part, node)))
        self.queries = [q for part in self.parts for q in part.queries]
        self.room = Room()
        keys = sorted(stored.until, key=repr)
        random.Random(sample.seed).shuffle(keys)
        self.waiting = deque(keys[: sample.most_keys])

    def all(self, progress: Progress | None) -> Compared:
        """Compare until all is done or the time is over, but at least one key, and one instant of every query."""
        found = self.found
        if progress is not None:
            progress.doing(
                lambda: f"comparing with the source: {found.keys:,} of {counted(found.of_keys, 'key')}, {found.results:,} results so far"
            )
        self.budget.sampling()
        for late in (_never, self.budget.late):
            while not late():
                self._take_keys(self.budget.half())
                open_ = [q for q in self.queries if q.turns]
                if not open_ and not self.waiting:
                    break
                for query in open_:
                    if not late():
                        self._turn(query, late)
                if late is _never and found.keys:
                    break
        self._count()
        return found

    def _take_keys(self, half: Callable[[], bool]) -> None:
        """Take further keys until half of the remaining time is over; none while instants of earlier keys are left."""
        if any(q.turns for q in self.queries):
            return
        size = 4
        while self.waiting and (not half() or not any(q.turns for q in self.queries)):
            keys = [self.waiting.popleft() for _ in range(min(size, len(self.waiting)))]
            taken = {}
            if self.rows is not None:
                taken = accepted(self.rows, self.plan.intake, self.plan.window, {k: self.stored.until[k] for k in keys})
            for n, key in enumerate(keys):
                if n and half():
                    self.waiting.extendleft(reversed(keys[n:]))
                    return
                self.found.keys += 1
                for part in self.parts:
                    mine = part.made.accepted(key) if part.made is not None else with_statistics(self.plan, taken[key])
                    self._take(part, _Key(mine, objects(part.stored.plan, mine, self.room), self.stored.until[key]))
            size = min(2 * size, BATCH)

    def _take(self, part: _Part, key: _Key) -> None:
        """Compare the rows, causes and scores in all changes of a key, and its row of ``heads``."""
        mine, found = key.mine, self.found
        part.taken.append(mine.key)
        part.rows += len(mine.time)
        if part.made is None:
            found.rows += len(mine.time)
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
                scored, wrong = compare_scores(changes, Question(plan, query, key.data, key.until, one), each.kind, known)
                found.differences += [*differences, *wrong]
                each.known, each.scored = each.known + len(rows), each.scored + scored
            each.turns.append(islice(self._instants(each, key), self.sample.instants))
        for each in part.queries if part.made is not None and not mine.time else ():
            found.differences += [
                each.changes.differs(each.rows[stream][0], f"the result of {part.of} has given no row to this key")
                for stream in each.of_key.get(mine.key, [])
            ]

    def _instants(self, of: _Query, key: _Key) -> Turn:
        """Yield the instants of a query and key; the queries of a table of queries take turns."""
        streams = []
        for one in of.logical:
            name = (one.name, *key.mine.key) if one is not None and of.query.members else key.mine.key
            reported = sorted({of.changes.at[i] for i in of.rows.get(name, [])})
            streams.append(instants.Stream(of.query, one, key.mine.key, key.mine, key.until, reported))
        of.streams += streams
        random.Random(self.sample.seed).shuffle(streams)
        orders = deque((s, s.order(self.sample.seed, self.sample.everything)) for s in streams)
        while orders:
            stream, order = orders.popleft()
            at = next(order, None)
            if at is not None:
                orders.append((stream, order))
                yield key, stream, at

    def _turn(self, of: _Query, late: Callable[[], bool]) -> None:
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

    def _compare(self, of: _Query, key: _Key, stream: instants.Stream, at: int, late: Callable[[], bool]) -> list[int]:
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
        if isinstance(of.results, Results) and of.results.lines is not None:
            found.differences += compare_values(question, kind, of.results.lines, stream.name)
            found.differences += compare_carried(question, kind, of.results.lines, stream.name, expected)
        if of.finals is not None:
            self._final(of, stream, replace(question, work=Work(late=self.budget.late)))
        return stream.follow(kind.next_instants(question))

    def _final(self, of: _Query, stream: instants.Stream, question: Question) -> None:
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

    def _steps(self, of: _Query, key: _Key, stream: instants.Stream, question: Question, result: Found) -> None:
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
        if self.rejected_rows is not None:
            self.found.differences += self.rejected_rows.differences(self.found.keys == self.found.of_keys)
        for part in self.parts:
            elsewhere = part.rows_elsewhere()
            for q in part.queries:
                self.found.shares += q.shares(elsewhere, part.of)
