"""Replay the log of a query's changes: the intervals in which items are in its result, and the result as of an instant.

Whatever derives, reads or explains results of the tables replays them here, on columns. Only ``verify`` does not: it proves the tables,
so it replays the log a second time, row by row, and shares nothing with this module (``verify.replay``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from skyband.framework.base.errors import SkybandError
from skyband.framework.base.table_names import QUERY_COLUMN
from skyband.framework.base.types import STAMP
from skyband.framework.plan.model import Plan, QueryNode
from skyband.framework.tables.render import key_numbers, last_of_each, numbered, order_by
from skyband.framework.tables.schemas import identity_columns, stream_columns

I64 = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Spans:
    """The stays that a log of changes gives, in the order of the rows that begin them.

    ``entered``: the row of the log at which each begins; ``left``: that at which it ends, -1 for items that are still in the result.
    ``stream``: the number of the stream of every row of the log.
    """

    stream: I64
    entered: I64
    left: I64


@dataclass(frozen=True, slots=True)
class Timeline:
    """The results of one query over time. ``streams``: the columns that tell its streams apart; ``identity``: items within a stream."""

    query: QueryNode
    streams: tuple[str, ...]
    identity: tuple[str, ...]

    @classmethod
    def of(cls, plan: Plan, query: QueryNode) -> Timeline:
        """Return the timeline of a query of ``plan``."""
        return cls(query, stream_columns(plan, query), identity_columns(plan, query))

    @property
    def named(self) -> list[str]:
        """Return the columns that name an item and its stream."""
        return list(dict.fromkeys((*self.streams, *self.identity)))

    # From changes to intervals.

    def spans(self, changes: pa.Table) -> Spans:
        """Return the stays that ``changes`` (in any order) give, in positions of its rows. O(n log n).

        Raises SkybandError SKY-E900 if the changes do not alternate.
        """
        stream = self._numbers(changes, self.streams)
        items = [_plain_numbers(changes, c) for c in self.identity]
        return Spans(stream, *_paired(stream, items, changes["step"].to_numpy(), pc.equal(changes["change"], "+").to_numpy()))

    def intervals(self, opened: pa.Table, changes: pa.Table, number: I64 | None = None) -> pa.Table:
        """Return the rows of ``<query>`` after ``changes`` (in any order): the open ones, and those that the changes close.

        ``opened``: the rows open before, with the columns of ``<query>``. Every ``+`` opens an interval, which the next ``-`` of the same
        item closes. ``number``: the stream's number in every row of both, if it is known. Raises SkybandError SKY-E900 if the changes do
        not alternate. O(n log n).
        """
        names = opened.schema.names
        kept = [n for n in names if n in changes.column_names]
        columns_of_events = [*kept, "changed_at", "step"]
        renamed = opened.rename_columns([{"valid_from": "changed_at", "from_step": "step"}.get(n, n) for n in names])
        events = pa.concat_tables([renamed.select(columns_of_events), changes.select(columns_of_events)])
        enters = np.concatenate([np.ones(opened.num_rows, bool), pc.equal(changes["change"], "+").to_numpy()])
        step = events["step"].to_numpy()
        number = numbered(opened, changes, self.streams) if number is None else number
        # In the order of events, not of keys, so that each file covers a span of time.
        entered, left = _paired(number, [_plain_numbers(events, c) for c in self.identity], step, enters)
        closed = left >= 0
        taken = events.take(pa.array(entered))
        at = pc.cast(events["changed_at"], pa.int64()).to_numpy()
        closing = np.where(closed, left, 0)
        columns = {n: taken[n] for n in kept}
        columns |= {
            "valid_from": taken["changed_at"],
            "from_step": taken["step"],
            "valid_to": pa.array(at[closing] if len(at) else closing, pa.int64(), mask=~closed).cast(STAMP),
            "to_step": pa.array(step[closing] if len(at) else closing, pa.int64(), mask=~closed),
            "is_current": pa.array(~closed),
        }
        return pa.table([columns[n] for n in names], schema=opened.schema)

    def continued(self, rows: pa.Table, changes: pa.Table) -> pa.Table:
        """Return the intervals ``rows`` of ``<query>`` as they are after later ``changes``. Raises as ``intervals``."""
        if not changes.num_rows:
            return rows
        opened = self.intervals(rows.filter(rows["is_current"]), changes)
        return pa.concat_tables([rows.filter(pc.invert(rows["is_current"])), opened])

    # From intervals to results as of an instant.

    def ranked(self, rows: pa.Table) -> pa.Table:
        """Return the rows of a result by stream and rank, with column ``rank`` after those of streams. O(n log n)."""
        number = self._numbers(rows, self.streams)
        order = self.rank_order(rows, number)
        number = number[order]
        starts = np.nonzero(np.diff(number, prepend=-1))[0]
        rank = np.arange(len(order)) - np.repeat(starts, np.diff(np.append(starts, len(order)))) + 1
        return rows.take(pa.array(order)).add_column(len(self.streams), "rank", pa.array(rank.astype(np.int32)))

    def rank_order(self, rows: pa.Table, number: I64) -> I64:
        """Return positions of ``rows`` by stream number, then by the terms of the item's rank (docs/semantics 6)."""
        query, by = self.query, list[npt.NDArray[Any]]([number])
        for term in query.item.rank:
            columns = np.stack([np.zeros(rows.num_rows) if term.nullable else _ordered(rows, c) for c in term.columns])
            value = columns.min(axis=0) if term.of == "least" else columns.max(axis=0) if term.of == "greatest" else columns[0]
            ascending = np.full(len(value), term.order == "asc" or (term.order == "query" and query.direction == "min"))
            if term.order == "query" and query.turned:
                ascending ^= pc.is_in(rows[QUERY_COLUMN], pa.array(query.turned)).to_numpy()
            if term.nullable:
                by += _nulls_last(rows[term.columns[0]].combine_chunks(), bool(term.order == "asc" or ascending.all()))
                continue
            by.append(np.where(ascending, value, -value))
        return np.lexsort(by[::-1])

    def stay_ranks(self, changes: pa.Table, spans: Spans, chosen: Sequence[int]) -> list[tuple[int, int, int]]:
        """Return of each ``chosen`` stay the rank after its first step, the best one, and that after its last step.

        Ranks must not vary while an item is in the result. O(n log n), and O(n) for each chosen stay.
        """
        stream, step = spans.stream[spans.entered], changes["step"].to_numpy()
        place = np.empty(len(stream), np.int64)
        place[self.rank_order(changes.take(pa.array(spans.entered)), stream)] = np.arange(len(stream))
        first = step[spans.entered]
        end = np.where(spans.left < 0, np.iinfo(np.int64).max, step[spans.left] if len(step) else 0)
        found = []
        for n in chosen:
            before = (stream == stream[n]) & (place < place[n]) & (first < end[n]) & (end > first[n])
            steps = np.concatenate([first[n : n + 1], np.maximum(first[before], first[n]), end[before]])
            signs = np.repeat([0, 1, -1], [1, before.sum(), before.sum()])
            _, at = np.unique(steps[steps < end[n]], return_inverse=True)
            ranks = 1 + np.cumsum(np.bincount(at, signs[steps < end[n]])).astype(np.int64)
            found.append((int(ranks[0]), int(ranks.min()), int(ranks[-1])))
        return found

    def values_at(self, rows: pa.Table, points: pa.Table, at: I64) -> pa.Table:
        """Return intervals with time-varying values as of ``at`` (microseconds, one per row), from the latest of ``points`` by then.

        A point has a value and its slope, valid from ``valid_from`` until the item's next point; an interval is a point of its
        ``valid_from``. Values with a slope are stored in seconds but are whole microseconds. Computed in microseconds, a value is the
        same from whichever earlier point it is computed. Other values are constant. O(n log n). SkybandError SKY-E900 if an interval
        begins after its instant.
        """
        varying = self.query.item.time_varying
        assert varying is not None
        points = pa.concat_tables([rows.select(points.column_names).cast(points.schema), points])
        number, of_point = np.split(numbered(rows, points, self.named), [rows.num_rows])
        since = _micros(points)
        # Sort points and instants together, points first: the point before an instant gives its value.
        order = np.lexsort((np.repeat([0, 1], [len(since), len(at)]), np.append(since, at), np.append(of_point, number)))
        is_point = order < len(since)
        before = np.maximum.accumulate(np.where(is_point, np.arange(len(order)), -1))[~is_point]
        of_row = order[~is_point] - len(since)
        found = np.empty(len(at), np.int64)
        found[of_row] = np.where(before < 0, -1, order[before]) if len(order) else -1
        if (found < 0).any() or not np.array_equal(of_point[found], number) if len(at) else False:
            raise SkybandError("SKY-E900", "the value of an item is requested for an instant before it entered the result")
        columns = {name: points[name].take(pa.array(found)) for name in self.query.item.varying_columns}
        if varying.slope is not None:
            value = points[varying.value].to_numpy()[found]
            slope = points[varying.slope].cast(pa.int64()).to_numpy()[found]
            micros = np.round(value * 1e6).astype(np.int64) + slope * (at - since[found])
            columns |= {varying.value: pa.array(micros / 1e6), varying.slope: pa.array(slope).cast(rows.schema.field(varying.slope).type)}
        for name, column in columns.items():
            rows = rows.set_column(rows.column_names.index(name), rows.schema.field(name), column)
        return rows

    def latest_known(self, rows: pa.Table, points: pa.Table, at: I64) -> I64:
        """Return for each interval the later of ``at``, up to which it is complete, and the last known instant of its stream.

        For a key without new rows, ``at`` is that of its last rows; its results may have changed since. O(n log n).
        """
        known = np.append(_micros(rows), _micros(points))
        mine = points.select(self.streams).cast(rows.select(self.streams).schema) if self.streams else points
        number = numbered(rows, mine, self.streams)
        newest = np.full(int(number.max(initial=-1)) + 1, np.iinfo(np.int64).min)
        np.maximum.at(newest, number, known)
        found: I64 = np.maximum(at, newest[number[: rows.num_rows]])
        return found

    def last(self, rows: pa.Table, by: Sequence[str] = ("valid_from",)) -> pa.Table:
        """Return the last row of every item in the order of columns ``by``: of points or of changes. O(n log n)."""
        ordered = rows.sort_by([(c, "ascending") for c in by])
        return ordered.take(pa.array(last_of_each(self._numbers(ordered, self.named))))

    @staticmethod
    def _numbers(rows: pa.Table, columns: Sequence[str]) -> I64:
        return key_numbers([rows], columns)[0] if columns else np.zeros(rows.num_rows, np.int64)


def in_result(intervals: pa.Table, at: int | I64) -> Flags:
    """Return which intervals contain an instant in microseconds: the same for all, or one of each."""
    left = pc.fill_null(intervals["valid_to"].cast(pa.int64()), np.iinfo(np.int64).max).to_numpy()
    found: Flags = (_micros(intervals) <= at) & (at < left)
    return found


def key_as_of(rows: pa.Table, heads: pa.Table, plan: Plan, frontier: int | None) -> I64:
    """Return for each row the last microsecond up to which its key is complete: that of ``heads``, or of the frontier if later."""
    keys = plan.intake.partition_by
    floor = -(2**63) if frontier is None else frontier - 1
    if not rows.num_rows or not heads.num_rows:
        return np.full(rows.num_rows, floor)
    at = pc.cast(heads["as_of"], pa.int64()).to_numpy()
    if not keys:
        return np.full(rows.num_rows, max(int(at.max(initial=floor)), floor))
    mine, theirs = key_numbers([rows, heads], keys)
    by_number = np.argsort(theirs)
    found = by_number[np.minimum(np.searchsorted(theirs, mine, sorter=by_number), len(theirs) - 1)]
    # A bucket may have deferred the row of a new key: all that is known is the frontier.
    out: I64 = np.where(theirs[found] == mine, np.maximum(at[found], floor), floor)
    return out


def _paired(stream: I64, items: Sequence[I64], step: I64, enters: Flags) -> tuple[I64, I64]:
    """Return (the positions of changes that enter, in their order, those of the changes that end each stay, -1 for none)."""
    order = order_by(stream, *items, step)
    same = np.ones(len(order), bool)
    same[:1] = False
    for column in (stream, *items):
        ordered = column[order]
        same[1:] &= ordered[1:] == ordered[:-1]
    sign = enters[order]
    wrong = np.where(same, sign == np.roll(sign, 1), ~sign)
    if wrong.any():
        at = step[order[int(np.argmax(wrong))]]
        raise SkybandError("SKY-E900", f"the changes do not replay: an item enters twice, or leaves without having entered, at step {at}")
    opening = np.nonzero(sign)[0]
    follows = np.append(same[1:], False)[opening]
    leaving = np.where(follows, order[np.minimum(opening + 1, len(order) - 1)], -1)
    entered = order[opening]
    by_row = np.argsort(entered)
    return entered[by_row], leaving[by_row]


def _plain_numbers(rows: pa.Table, column: str) -> I64:
    """Return numbers that are equal where the column is."""
    plain = rows.schema.field(column).type == pa.int64() and not rows[column].null_count
    found: I64 = rows[column].to_numpy() if plain else key_numbers([rows], [column])[0]
    return found


def _nulls_last(values: pa.Array, ascending: bool) -> list[npt.NDArray[Any]]:
    """Return the terms that order a column of any type, null and NaN last: whether it has a value, then the value's rank."""
    if pa.types.is_floating(values.type):
        values = pc.if_else(pc.is_nan(values), pa.scalar(None, values.type), values)
    if pa.types.is_boolean(values.type):
        values = values.cast(pa.int8())
    there = values.is_valid().to_numpy(zero_copy_only=False)
    known = values.drop_null()
    rank = np.zeros(len(values), np.int64)
    rank[there] = pc.rank(known, tiebreaker="dense").to_numpy(zero_copy_only=False)
    return [~there, rank if ascending else -rank]


def _ordered(rows: pa.Table, column: str) -> npt.NDArray[Any]:
    """Return the column as numbers in the same order."""
    values = rows[column].combine_chunks()
    plain = pa.types.is_integer(values.type) or pa.types.is_floating(values.type)
    found: npt.NDArray[Any] = (values if plain else pc.rank(values, tiebreaker="dense").cast(pa.int64())).to_numpy(zero_copy_only=False)
    return found


def _micros(rows: pa.Table) -> I64:
    found: I64 = pc.cast(rows["valid_from"], pa.int64()).to_numpy()
    return found
