"""Write the history of an item in a query's results, in the order of time: the output of ``skyband why``."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import islice, pairwise
from typing import Any, Final

import numpy as np
import pyarrow as pa

from skyband.framework.base.counts import agree, counted, number_text
from skyband.framework.base.errors import SkybandError
from skyband.framework.base.types import arrow_type
from skyband.framework.base.units import format_duration
from skyband.framework.plan.explain_parts import format_calendar
from skyband.framework.plan.model import LogicalQuery, Plan, QueryNode
from skyband.framework.queries.protocol import Makeup, QueryType, Question
from skyband.framework.queries.registry import query_type
from skyband.framework.spec_tests.tables import plain_value
from skyband.framework.streaming.job.layout import JobFile, Layout
from skyband.framework.tables.render import cell_text
from skyband.framework.tables.results.timeline import Timeline
from skyband.framework.tables.schemas import stream_columns
from skyband.framework.verify.brute_force.accepted import accepted, with_operations, without_late
from skyband.framework.verify.brute_force.calendars import window_around
from skyband.framework.verify.brute_force.objects import Accepted, Found, Objects, objects, window_of
from skyband.framework.verify.brute_force.statistics import with_statistics
from skyband.framework.verify.brute_force.stream_rows import StreamRows
from skyband.framework.verify.budget import Done, Progress
from skyband.framework.verify.differences import instant
from skyband.framework.verify.replay.replay import Stream, stream_of
from skyband.framework.verify.stored import Key, Stored
from skyband.framework.why.chain import Chain
from skyband.framework.why.item import Item
from skyband.framework.why.source import taken_rows
from skyband.operators.base import NEVER

# Explain by definition why an item is not in a result at an instant: not arrived, expired, unusable, out of bounds, or outranked.

SHOWN: Final = 5
"""The most items named among those that keep another out of the result, and the most rows of an item that many rows make up."""
_NO_ROW: Final = "no row of it is in the window"
_NO_PART: Final = "not ranked: no score (a null, a NaN or a short set), its condition `where` is not true, or it has no partner"
_NO_SCORE: Final = "takes no part: its score is null or NaN, or its condition `having` is not true"


@dataclass(frozen=True, slots=True)
class Beside:
    """An item that keeps another out: its rank (None: the query type has no ranks), the columns of its rows, and its score."""

    rank: int | None
    named: Mapping[str, Any]
    score: float | None


@dataclass(frozen=True, slots=True)
class Verdict:
    """The state of an item at ``at``, in words (``said``). ``inside``: it is in the result. ``beside``: items that keep it out.

    ``rows``: of an item that many rows make up, what these are.
    """

    at: int
    said: str
    inside: bool = False
    beside: tuple[Beside, ...] = ()
    rows: MadeOf | None = None


@dataclass(frozen=True, slots=True)
class MadeOf:
    """What makes up an item: see ``Makeup``. ``newest``: columns of the newest rows, with their event times."""

    makeup: Makeup
    newest: tuple[tuple[int, Mapping[str, Any]], ...]


class Answers:
    """The accepted rows of the keys of an item, and the item's state by the definition."""

    absent = "no row of this name has been accepted: it never arrived, or `transform` drops it"
    """What is said of an item without a row."""
    ended = "its row was deleted"
    """What is said of an item whose row was deleted."""

    def __init__(self, plan: Plan, query: QueryNode, rows: pa.Table, rejected: pa.Table, until: Mapping[Key, int]) -> None:
        self.plan = plan
        self.query = query
        self.until = until
        self._rows = without_late(rows, rejected)
        self._known: dict[Key, tuple[Accepted, Objects]] = {}

    def accepted(self, key: Key) -> tuple[Accepted, Objects]:
        """Return a key's objects, as far as results are complete."""
        if key not in self._known:
            found = accepted(with_operations(self.plan, self._rows), self.plan.intake, self.plan.window, {key: self.until[key]})[key]
            found = with_statistics(self.plan, found)
            self._known[key] = found, objects(self.plan, found)
        return self._known[key]

    def rows(self, item: Item) -> list[tuple[Key, list[int]]]:
        """Return, by key, the seqs of the accepted rows that have one of the item's names. O(rows)."""
        keys = self.plan.intake.partition_by
        found: dict[Key, None] = {}
        mine = self._matching(self._rows, item)
        values = [self._rows[k].to_pylist() for k in keys]
        for i, name in enumerate(mine):
            if name is not None:
                found[tuple(v[i] for v in values)] = None
        rows_by_key = []
        for key in found:
            if key in self.until:
                seqs = [s for s, name in enumerate(self.names(key, item)) if name is not None]
                rows_by_key.append((key, seqs))
        return rows_by_key

    def names(self, key: Key, item: Item) -> list[int | None]:
        """Return for every accepted row of a key the index of the item's name that it has, None if it has none."""
        return self._matching(self.accepted(key)[0].rows, item)

    def _matching(self, rows: pa.Table, item: Item) -> list[int | None]:
        """Return for every row the index of the item's name that it has, None if it has none."""
        columns = list(item.names[0])
        values = [[plain_value(v, rows.schema.field(c).type) for v in rows[c].to_pylist()] for c in columns]
        indexes = {tuple(name.values()): n for n, name in enumerate(item.names)}
        return [indexes.get(v) for v in zip(*values, strict=True)]

    def waiting(self, item: Item) -> list[int]:
        """Return the event times of rows with the item's names that wait behind the watermark."""
        keys = zip(*[self._rows[k].to_pylist() for k in self.plan.intake.partition_by], strict=True)
        names = list(keys) if self.plan.intake.partition_by else [()] * self._rows.num_rows
        time = self._rows[self.plan.intake.event_time].cast(pa.int64()).to_pylist()
        last = max(self.until.values(), default=-(2**62))
        mine = self._matching(self._rows, item)
        return [t for t, k, m in zip(time, names, mine, strict=True) if m is not None and t > self.until.get(k, last)]

    def verdict(self, key: Key, parts: Sequence[Any], at: int, logical: LogicalQuery | None) -> Verdict:
        """Return the state of an item. ``parts``: its identity (seqs of rows); one seq stands for all pairs of that row."""
        mine, data = self.accepted(key)
        question = Question(self.plan, self.query, data, at, logical)
        window = logical.window if logical is not None else self.query.window
        if self.query.item.rows:
            absence = _absence(question, window, mine, [int(p) for p in parts], self.ended)
            if absence is not None:
                return Verdict(at, absence)
        kind = query_type(self.query.type)
        result = kind.brute_force(question)
        if result is None:
            return Verdict(at, "unknown: the window is too large for brute force")
        made_of = self._made_of(question, kind.makeup(question, tuple(parts), SHOWN))
        verdict = self._judged(question, kind, parts, result) if made_of is None or made_of.makeup.rows else Verdict(at, _NO_ROW)
        return verdict if made_of is None else replace(verdict, rows=made_of)

    def _made_of(self, question: Question, found: Makeup | None) -> MadeOf | None:
        """Return the rows that make up an item, with their ids and the columns that its aggregates read."""
        if found is None:
            return None
        names = dict.fromkeys([*self.plan.intake.id, *found.columns])
        rows, time = question.data.rows, question.data.time
        return MadeOf(found, tuple((int(time[seq]), {c: rows[c][seq].as_py() for c in names}) for seq in found.newest))

    def _judged(self, question: Question, kind: QueryType, parts: Sequence[Any], result: Found) -> Verdict:
        """Return the state of an item whose rows are in the window, given the result."""
        at, logical = question.at, question.logical_query
        position = _position(result, parts)
        if position is not None:
            score_text = self._score_text(result[position][1])
            return Verdict(at, f"in the result, at rank {position + 1:,} of {len(result):,}{score_text}", inside=True)
        no_part = _NO_PART if self.query.item.rows or self.query.item.moves else _NO_SCORE
        every = kind.ranked(question)
        found = None if every is None else _position(every, parts)
        if every is None or found is None:
            beating = kind.beating(question, tuple(parts))
            if beating is None:
                return Verdict(at, no_part)
            beside = tuple(self._beside(question, None, b) for b in beating[:SHOWN])
            return Verdict(at, f"{len(beating):,} alive in the window {agree(len(beating), 'beats', 'beat')} it", beside=beside)
        score = every[found][1]
        for _, least, greatest in kind.limits(self.plan, self.query, logical).bounds if self.query.item.scored else ():
            if (least is not None and score < least) or (greatest is not None and score > greatest):
                bound = _bound(least, False) if least is not None and score < least else _bound(greatest or 0.0, True)
                return Verdict(at, f"out of bounds: the query takes {bound}{self._score_text(score)}")
        first = {item for item, _ in every[:found]}
        better = [r for r in result if r[0] in first]
        keeping = kind.keeping_out(self.plan, self.query, every[found][0], better)
        if keeping:
            beside = tuple(self._beside(question, result.index(b) + 1, b) for b in keeping[:SHOWN])
            said = f"skipped: one of its rows is already in {counted(len(keeping), 'pair')} ranked before it"
            return Verdict(at, f"{said}{self._score_text(score)}", beside=beside)
        beside = tuple(self._beside(question, n, b) for n, b in enumerate(result[:SHOWN], 1))
        return Verdict(at, f"all {len(result):,} of the result rank before it{self._score_text(score)}", beside=beside)

    def _score_text(self, score: float) -> str:
        if self.query.item.time_varying is not None:
            return f"; {self.query.item.time_varying.value} {number_text(score)}"
        return f"; score {number_text(score)}" if self.query.item.scored else ""

    def _beside(self, question: Question, rank: int | None, found: tuple[tuple[Any, ...], float]) -> Beside:
        item, score = found
        named: dict[str, Any] = {}
        for part, value in zip(self.query.item.parts, item, strict=False):
            if part.is_row:
                row = question.data.rows.slice(int(value), 1)
                named |= {part.prefix + c: row[c][0].as_py() for c in self.plan.intake.id}
        if not self.query.item.rows:
            named = dict(zip(self.query.item.identity(self.plan.intake.partition_by), item, strict=True))
        return Beside(rank, named, score if self.query.item.scored or self.query.item.varies else None)

    def instants(self, key: Key, seq: int) -> Iterator[int]:
        """Yield the arrival of a row, and the last complete instant if the row is still in the window."""
        mine, data = self.accepted(key)
        yield mine.time[seq]
        until = self.until[key]
        question = Question(self.plan, self.query, data, until)
        if _absence(question, self.query.window, mine, [seq], self.ended) is None:
            yield until


def _position(found: Found, parts: Sequence[Any]) -> int | None:
    """Return the position of the first item in ``found`` that has all of ``parts``."""
    exact = [n for n, (item, _) in enumerate(found) if item == tuple(parts)]
    if exact:
        return exact[0]
    return next((n for n, (item, _) in enumerate(found) if set(parts) <= set(item)), None)


def _absence(question: Question, window: Any, mine: Accepted, seqs: Sequence[int], ended: str) -> str | None:
    """Return why one of the rows is not in the window; None if all are. ``ended``: what is said of one that was deleted."""
    first, end, at = window_of(question.query, window, question.data, question.at)
    boundary = f" (as of the last boundary, {instant(at)})" if at != question.at else ""
    for seq in sorted(seqs):
        arrived = mine.time[seq]
        if seq >= end:
            return f"its row is of {instant(arrived)}, so it had not arrived yet{boundary}"
        if question.data.deleted[seq] <= at and question.data.deleted[seq] < NEVER:
            how = "its row was replaced" if _replaced(question, mine, seq) else ended
            return f"{how} at {instant(int(question.data.deleted[seq]))}{boundary}"
        if seq < first:
            ends = []
            if window.micros:
                ends.append((arrived + window.micros, f"the window holds {format_duration(window.micros)}"))
            if window.count and seq + window.count < len(mine.time):
                ends.append((mine.time[seq + window.count], f"the window holds {counted(window.count, 'row')}"))
            if window.tumbling is not None:
                ends.append((window_around(window.tumbling, arrived)[1], f"its window of {format_calendar(window.tumbling)} ended"))
            if window.session is not None and question.query.item.rows:
                last = next((i for i, (a, b) in enumerate(pairwise(mine.time[seq:])) if b - a >= window.session), len(mine.time) - 1 - seq)
                said = f"no row came for {format_duration(window.session)}: its session ended"
                ends.append((mine.time[seq + last] + window.session, said))
            when, why = min(ends)
            return f"expired at {instant(when)}: its row is of {instant(arrived)}, and {why}{boundary}"
    return None


def _replaced(question: Question, mine: Accepted, seq: int) -> bool:
    """Return True if a deleted object gave way to the next object, which has its id."""
    at = next((position for _, position, deleted in mine.deletions if deleted == seq), len(mine.time))
    if at >= len(mine.time) or mine.time[at] != mine.deleted[seq]:
        return False
    return all(mine.rows[c][seq].as_py() == mine.rows[c][at].as_py() for c in question.plan.intake.id)


def _bound(bound: float, upper: bool) -> str:
    """Return the text of a bound that belongs to the values. One that does not is given by the next number, which has more digits."""
    written = math.nextafter(bound, math.inf if upper else -math.inf)
    if len(repr(written)) < len(repr(bound)):
        return f"{'less' if upper else 'more'} than {number_text(written)}"
    return f"{'at most' if upper else 'at least'} {number_text(bound)}"


# Find when an item was in the result, and at which ranks, from the log of changes.


@dataclass(slots=True)
class Stay:
    """A stay in the result, from row ``enters`` of the changes to row ``leaves`` (None: it is still in).

    ``first``, ``best`` and ``last``: the rank at which it entered, the best one, and the last one; None for time-varying values.
    ``instead``: the rows of the changes that entered at the step at which it left.
    """

    stream: Key
    enters: int
    leaves: int | None = None
    first: int | None = None
    best: int | None = None
    last: int | None = None
    instead: tuple[int, ...] = ()


def matching(plan: Plan, query: QueryNode, rows: pa.Table, item: Item) -> list[bool]:
    """Return which rows of a table of the query are about ``item``. O(rows)."""
    parts = [_part(plan, query, rows, p.prefix, item) for p in query.item.parts]
    found = []
    for of_row in zip(*parts, strict=True) if parts else ():
        # Each name must belong to a different part, in any order.
        found.append(_all_named(of_row, len(item.names)))
    return found


def _part(plan: Plan, query: QueryNode, rows: pa.Table, prefix: str, item: Item) -> list[set[int]]:
    """Return for every row the indexes of the names that its part with ``prefix`` has."""
    keys = plan.intake.partition_by
    values: dict[str, list[Any]] = {}
    for column in item.names[0]:
        name = prefix + column if prefix + column in rows.column_names else column
        assert name in rows.column_names or column in keys
        type_ = rows.schema.field(name).type
        values[column] = [plain_value(v, type_) for v in rows[name].to_pylist()]
    names = [tuple(name.values()) for name in item.names]
    return [{n for n, w in enumerate(names) if w == mine} for mine in zip(*values.values(), strict=True)]


def _all_named(of_row: Sequence[set[int]], names: int) -> bool:
    if names == 1:
        return any(of_row)
    return (0 in of_row[0] and 1 in of_row[1]) or (1 in of_row[0] and 0 in of_row[1])


def stays(plan: Plan, stream: Stream, item: Item) -> list[Stay]:
    """Return every stay of ``item`` (of all its pairs), in the order of time. O(n log n), and O(n) for each stay.

    Raises SkybandError SKY-E900 if the changes do not replay.
    """
    query = stream.query
    mine = np.array(matching(plan, query, stream.rows, item), np.bool_)
    if not query.item.lasting:
        return _in_time(stream, [Stay(stream.keys[i], i) for i in np.nonzero(mine)[0].tolist()])
    timeline = Timeline.of(plan, query)
    spans = timeline.spans(stream.rows)
    chosen = np.nonzero(mine[spans.entered])[0]
    found = [Stay(stream.keys[i], i) for i in spans.entered[chosen].tolist()]
    if not query.item.varies:
        for stay, ranks in zip(found, timeline.stay_ranks(stream.rows, spans, chosen.tolist()), strict=True):
            stay.first, stay.best, stay.last = ranks
    step = np.array(stream.step, np.int64)
    for stay, left in zip(found, spans.left[chosen].tolist(), strict=True):
        if left >= 0:
            together = np.nonzero((spans.stream == spans.stream[left]) & (step == step[left]))[0].tolist()
            stay.leaves = left
            stay.instead = tuple(sorted((j for j in together if stream.change[j] == "+"), key=stream.pos.__getitem__))
    return _in_time(stream, found)


def _in_time(stream: Stream, found: list[Stay]) -> list[Stay]:
    return sorted(found, key=lambda s: (stream.at[s.enters], stream.step[s.enters], s.enters))


# Format the history of an item: moments, each with its lines of text.

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
MOST = 20
"""The most stays, rejected rows and verdicts that are shown."""


@dataclass(frozen=True, slots=True)
class Moment:
    """The text about an instant (microseconds; None: about no instant): the first of ``lines``, then details."""

    at: int | None
    lines: tuple[str, ...]


def in_order(moments: Iterable[Moment]) -> Iterator[str]:
    """Yield the lines of ``moments`` in the order of time, those about no instant first. O(n log n)."""
    for moment in sorted(moments, key=lambda m: (m.at is not None, m.at or 0)):
        yield from moment.lines


def of_stay(stream: Stream, stay: Stay, chain: Chain | None = None) -> Iterator[Moment]:
    """Yield when an item entered, its ranks, when it left, and what replaced it. ``chain``: names what caused that in other results."""
    plan, query = stream.stored.plan, stream.query
    row = stream.rows.slice(stay.enters, 1).to_pylist()[0]
    key = "".join(f" of {n} {cell_text(v)}" for n, v in zip(stream.names, stay.stream, strict=True))
    values = _values(query, row)
    names = _named(plan, query, row)
    entered = stream.at[stay.enters]
    if not query.item.lasting:
        yield Moment(entered, (f"{instant(entered)}  reported{key}: {names}; {values}", *_causes(chain, stream, stay.enters)))
        return
    at_rank = f" at rank {stay.first:,}" if stay.first is not None else ""
    lines = [f"{instant(entered)}  entered{at_rank} ({stream.cause[stay.enters]}){key}: {names}" + (f"; {values}" if values else "")]
    lines += _causes(chain, stream, stay.enters)
    if stay.best is not None and stay.last is not None:
        until = "before it left" if stay.leaves is not None else "now"
        lines.append(f"    best rank {stay.best:,}, {until} {stay.last:,}")
    if stay.leaves is None:
        yield Moment(entered, (*lines, "    still in the result"))
        return
    yield Moment(entered, tuple(lines))
    left = stream.at[stay.leaves]
    lines = [f"{instant(left)}  left ({stream.cause[stay.leaves]})"]
    for i in stay.instead[:MOST] if stream.cause[stay.leaves] in ("displaced", "crossing") else ():
        other = stream.rows.slice(i, 1).to_pylist()[0]
        values = _values(query, other)
        lines.append(f"    replaced by: {_named(plan, query, other)}" + (f"; {values}" if values else ""))
    yield Moment(left, (*lines, *_causes(chain, stream, stay.leaves)))


def _causes(chain: Chain | None, stream: Stream, i: int) -> Iterator[str]:
    """Yield what caused row ``i`` of the changes in the result that the query takes."""
    if chain is None:
        return
    for cause in chain.causes(stream.query.name, i):
        yield from cause.lines(stream.at[i], "    ")
    replaced = chain.replaced(stream.query.name, i)
    if replaced is not None:
        yield f"    {replaced}"


def of_verdict(plan: Plan, query: QueryNode, verdict: Verdict) -> Moment:
    """Return the moment of a verdict."""
    lines = [f"{instant(verdict.at)}  {verdict.said}", *(_makeup(verdict.rows) if verdict.rows is not None else ())]
    for b in verdict.beside:
        rank = f"rank {b.rank}: " if b.rank is not None else "beaten by "
        names = ", ".join(f"{n} {cell_text(v)}" for n, v in b.named.items())
        lines.append(f"    {rank}{names}" + (f"; {number_text(b.score)}" if b.score is not None else ""))
    return Moment(verdict.at, tuple(lines))


def _makeup(found: MadeOf) -> Iterator[str]:
    """Yield how many rows make up an item, its aggregates, and its newest rows."""
    makeup = found.makeup
    if not makeup.rows:
        return
    values = _listed(makeup.values)
    yield f"    {counted(makeup.rows, 'row')} in the window since {instant(makeup.since)}: {values}"
    for time, row in found.newest:
        yield f"    row of {instant(time)}: {_listed(row.items())}"
    if makeup.rows > len(found.newest):
        yield f"    and {counted(makeup.rows - len(found.newest), 'older row')}"


def _listed(values: Iterable[tuple[str, Any]]) -> str:
    return ", ".join(f"{name} {'null' if value is None else cell_text(value)}" for name, value in values)


def _values(query: QueryNode, row: Mapping[str, Any]) -> str:
    """Return the values of an item and what it carries besides."""
    names = [*(v.name for v in query.item.values), *(c.name for c in query.item.carried)]
    return ", ".join(f"{name} {cell_text(row[name])}" for name in names)


def of_rejected(plan: Plan, rejected: pa.Table, item: Item) -> Iterator[Moment]:
    """Of their event times, the rows of table ``rejected`` that have a name of the item. O(rejected rows)."""
    types = {c: arrow_type(plan.intake.field(c).type) for c in item.names[0]}
    for row in rejected.to_pylist():
        try:
            parsed: Any = json.loads(row["text"] or "")
        except ValueError:
            continue
        if isinstance(parsed, dict) and any(_same(parsed, name, types) for name in item.names):
            when = row["event_time"]
            at = f" of {cell_text(when)}" if when is not None else ""
            micros = None if when is None else (when - _EPOCH) // timedelta(microseconds=1)
            yield Moment(micros, (f"a row{at} was rejected, reason {row['reason']} (batch {row['batch_id']:,})",))


def _same(parsed: Mapping[str, Any], name: Mapping[str, Any], types: Mapping[str, pa.DataType]) -> bool:
    try:
        return all(c in parsed and plain_value(_read(parsed[c], types[c]), types[c]) == v for c, v in name.items())
    except ValueError:
        return False


def _read(value: Any, type_: pa.DataType) -> Any:
    """A value of JSON as a row of ``rejected`` has it: numbers that are none as text."""
    return float(value) if isinstance(value, str) and pa.types.is_floating(type_) else value


def _named(plan: Plan, query: QueryNode, row: Mapping[str, Any]) -> str:
    columns = query.item.columns(plan.intake.id, (), plan.intake.partition_by)
    return ", ".join(f"{c.name} {cell_text(row[c.name])}" for c in columns if c.what in ("id", "object"))


# Explain by definition why an item is not in the result of a query over a result: over the rows that this result makes up.


class StreamAnswers(Answers):
    """As ``Answers``, for ``query`` over the rows of ``made``, which come from tables: nothing of the source is needed."""

    def __init__(self, stored: Stored, query: QueryNode, made: StreamRows) -> None:
        plan = made.node.plan
        none = pa.table({f.name: pa.array([], arrow_type(f.type)) for f in plan.intake.fields})
        # What the job rejected are rows of the source, which have other columns; of a result nothing is rejected.
        super().__init__(plan, query, none, stored.table("rejected").slice(0, 0), stored.until)
        self._made = made
        self.absent = f"it never was in the result of {made.node.of}, which {query.name} takes"
        self.ended = f"it left the result of {made.node.of}"

    def accepted(self, key: Key) -> tuple[Accepted, Objects]:
        """Return a key's rows, as far as results are complete."""
        if key not in self._known:
            found = self._made.accepted(key)
            self._known[key] = found, objects(self.plan, found)
        return self._known[key]

    def rows(self, item: Item) -> list[tuple[Key, list[int]]]:
        """Return, by key, the seqs of the rows that have one of the item's names. O(rows)."""
        found = []
        for key in self.until:
            seqs = [s for s, name in enumerate(self.names(key, item)) if name is not None] if self._made.count(key) else []
            if seqs:
                found.append((key, seqs))
        return found

    def waiting(self, item: Item) -> list[int]:
        """Return nothing: a result has no rows that wait."""
        return []


Doing = Callable[[str, Done | None], None]
"""Begins a stage, as ``Progress.doing``."""
_COMPUTING: Final = "computing results by their definition"


def _silent(text: str, done: Done | None) -> None:
    """Report nothing."""


@dataclass(frozen=True, slots=True)
class History:
    """The history of an item: its ``lines``, and of every change of a query over a result what caused it (``because``), for JSON."""

    lines: list[str]
    because: list[dict[str, Any]]


def history(
    plan: Plan, query: QueryNode, item: Item, at: int | None, layout: Layout, job: JobFile, member: str | None,
    progress: Progress | None = None,
) -> History:  # fmt: skip
    """Return the history. ``at``: only the state at that instant (microseconds). ``member``: the query in a table of queries.

    ``progress``: reports the stages. Raises SkybandError as ``Stored``; SKY-E201 for an instant that is not complete yet.
    """

    doing = _silent if progress is None else progress.doing
    doing("reading the tables", None)
    whole = Stored(plan)
    stored = whole.part(plan.of(query.name))
    node = next((s for s in plan.streams if s.plan is stored.plan), None)
    doing("reading the rows of the source", None)
    source, missing = _source(plan, layout, job)
    doing(_COMPUTING, None)
    chain = Chain(whole, source) if node is not None else None
    found = [s for s in stays(stored.plan, stream_of(stored, query), item) if member is None or s.stream[0] == member]
    moments = [*_from_tables(stored, query, found, chain)]
    if _in_source(plan, stored.plan, item):
        moments += of_rejected(plan, stored.table("rejected"), item)
    unknown: list[str] = []
    if node is not None:
        moments += definition(StreamAnswers(stored, query, StreamRows(stored, node)), item, at, member, doing)
        unknown += [f"the source's rows are not named: {missing}"] if missing is not None else []
    elif source is not None:
        moments += definition(Answers(plan, query, source, stored.table("rejected"), stored.until), item, at, member, doing)
    else:
        unknown.append(f"its scores cannot be recomputed: {missing}")
    return History([*in_order(moments), *unknown], list(_because(stored, query, found, chain)))


def _source(plan: Plan, layout: Layout, job: JobFile) -> tuple[pa.Table | None, str | None]:
    """Return the rows of the source, or why they cannot be read."""
    try:
        return taken_rows(plan, layout, job), None
    except SkybandError as e:
        if e.code != "SKY-E301":
            raise
        return None, e.message


def _in_source(job: Plan, plan: Plan, item: Item) -> bool:
    """Return True if the columns that name an item of a query of ``plan`` are columns of the job's source, whose rows may be rejected."""
    types = {f.name: f.type for f in job.intake.fields}
    return all(types.get(c) == plan.intake.field(c).type for c in item.names[0])


def _because(stored: Stored, query: QueryNode, found: Sequence[Stay], chain: Chain | None) -> Iterator[dict[str, Any]]:
    stream = stream_of(stored, query)
    for stay in found[:MOST] if chain is not None else ():
        for i in (stay.enters, stay.leaves):
            if chain is not None and i is not None:
                causes = [c.plain() for c in chain.causes(query.name, i)]
                yield {"at": instant(stream.at[i]), "change": stream.change[i], "cause": stream.cause[i], "because": causes}


def _from_tables(stored: Stored, query: QueryNode, found: Sequence[Stay], chain: Chain | None) -> Iterator[Moment]:
    stream = stream_of(stored, query)
    if not found:
        yield Moment(None, ("never in the result" if query.item.lasting else "never reported",))
    for stay in islice(found, MOST):
        yield from of_stay(stream, stay, chain)
    if len(found) > MOST:
        yield Moment(stream.at[found[MOST].enters], (f"and {counted(len(found) - MOST, 'more time')}",))


def definition(answers: Answers, item: Item, at: int | None, member: str | None, doing: Doing = _silent) -> Iterator[Moment]:
    """Yield the states of the item by the source: at ``at``, or at its arrival and at the end. ``doing`` reports how many are known."""
    plan, query = answers.plan, answers.query
    waiting = answers.waiting(item) if at is None else []
    if waiting:
        many = f"{counted(len(waiting), 'row')} of this name {agree(len(waiting), 'waits', 'wait')}"
        yield Moment(min(waiting), (f"{instant(min(waiting))}  {many}: results are not complete up to here yet",))
    logical = _logical(query, member)
    found = answers.rows(item)
    if not found:
        yield Moment(None, (answers.absent,))
    asked: list[tuple[Key, list[Any], int]] = []
    for key, seqs in found:
        if at is not None and at > answers.until[key]:
            yield Moment(at, (f"results are complete up to {instant(answers.until[key])} only{_of(query, plan, key)}",))
            continue
        for parts, instants in islice(_items(answers, item, key, seqs), MOST):
            asked += [(key, parts, when) for when in ([at] if at is not None else instants)]
    known = 0
    if asked:
        doing(_COMPUTING, lambda: (known, len(asked)))
    for key, parts, when in asked:
        yield of_verdict(plan, query, answers.verdict(key, parts, when, logical))
        known += 1


def _items(answers: Answers, item: Item, key: Key, seqs: list[int]) -> Iterator[tuple[list[Any], list[int]]]:
    """Yield (identity, instants to explain) of the items meant within a key, the newest first."""
    query = answers.query
    if not query.item.rows:
        of_key = dict(zip(answers.plan.intake.partition_by, key, strict=True))
        parts = [v for c, v in _native(answers, item, key, seqs).items() if c not in of_key]
        yield parts, [answers.until[key]]
        return
    if len(item.names) == 1:
        for seq in reversed(seqs):
            yield [seq], sorted(set(answers.instants(key, seq)))
        return
    names = answers.names(key, item)
    first, second = ([s for s in seqs if names[s] == n] for n in (0, 1))
    for b in reversed(second):
        for a in reversed(first):
            # The pair exists from the arrival of its newer row.
            yield sorted((a, b)), sorted(set(answers.instants(key, max(a, b))))


def _native(answers: Answers, item: Item, key: Key, seqs: list[int]) -> dict[str, Any]:
    """Return the values that name an object, as its rows have them."""
    rows = answers.accepted(key)[0].rows.slice(seqs[0], 1)
    return {c: rows[c][0].as_py() for c in answers.query.item.parts[0].columns}


def _logical(query: QueryNode, member: str | None) -> LogicalQuery | None:
    if not query.asked:
        return None
    return next(a for a in query.asked if member is None or a.name == member)


def _of(query: QueryNode, plan: Plan, key: Key) -> str:
    names = [n for n in stream_columns(plan, query) if n in plan.intake.partition_by]
    return "".join(f" for {n} {v}" for n, v in zip(names, key, strict=True))
