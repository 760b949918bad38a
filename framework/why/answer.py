"""Explain by definition why an item is not in a result at an instant: not arrived, expired, unusable, out of bounds, or outranked."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import pyarrow as pa

from skyband.framework.base.counts import agree, counted, number_text
from skyband.framework.base.units import format_duration
from skyband.framework.plan.model import LogicalQuery, Plan, QueryNode
from skyband.framework.queries.protocol import Makeup, QueryType, Question
from skyband.framework.queries.registry import query_type
from skyband.framework.spec_tests.tables import plain_value
from skyband.framework.verify.brute_force.accepted import accepted, with_operations, without_late
from skyband.framework.verify.brute_force.objects import Accepted, Found, Objects, objects, window_of
from skyband.framework.verify.brute_force.statistics import with_statistics
from skyband.framework.verify.differences import instant
from skyband.framework.verify.stored import Key
from skyband.framework.why.item import Item
from skyband.operators.base import NEVER

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
