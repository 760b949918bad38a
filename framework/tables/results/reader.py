"""Read results without Spark: of a query at any instant, and for another k or window from the skyband."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skyband.framework.base.counts import counted
from skyband.framework.base.errors import SkybandError, did_you_mean, one_of
from skyband.framework.base.table_names import QUERY_COLUMN
from skyband.framework.base.types import STAMP
from skyband.framework.base.units import format_duration
from skyband.framework.plan.model import OperatorNode, Plan, QueryNode
from skyband.framework.queries.registry import query_type
from skyband.framework.storage import delta_read
from skyband.framework.storage.delta_read import to_schema
from skyband.framework.storage.location import location
from skyband.framework.storage.records import read_job_file_header
from skyband.framework.tables.delta.expected_columns import need_columns
from skyband.framework.tables.results.derive import batches_behind
from skyband.framework.tables.results.timeline import Timeline, in_result, key_as_of
from skyband.framework.tables.schemas import (
    changes_name,
    changes_schema,
    final_name,
    results_schema,
    skyband_name,
    stream_columns,
    tables,
    trajectory_name,
)
from skyband.framework.tables.sql import portable
from skyband.operators.base import Calendar, Window
from skyband.operators.calendar import window_starts

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

NEWEST = 100
"""The default number of rows of items that are reported once."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to a query.

    ``rows``: key columns, rank, item columns, score. ``as_of``: the instant of the result (None: the last one of each key).
    """

    rows: pa.Table
    as_of: datetime | None
    sql: str
    note: str | None = None


class Reader:
    """Reads the tables in the sink of ``plan`` as of the last complete batch."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.root = plan.sink.removeprefix("file://")
        self.keys = plan.intake.partition_by

    def query(self, name: str) -> QueryNode:
        """Return the query called ``name``. SkybandError SKY-E201 if there is none."""
        for q in self.plan.every_query:
            if q.name == name:
                return q
        names = [q.name for q in self.plan.every_query]
        raise SkybandError("SKY-E201", f"the job has no query {name!r}", hint=did_you_mean(name, names) or f"its queries: {one_of(names)}")

    def read(self, table: str, columns: list[str] | None = None, where: pc.Expression | None = None) -> pa.Table:
        """Return rows of one table. SkybandError SKY-E400 if it does not exist, or has other columns."""
        opened = delta_read.open_table(self.root, table)
        if table in self._schemas:
            need_columns(opened, table, self._schemas[table], columns)
        return delta_read.read(opened, columns, where)

    @cached_property
    def _schemas(self) -> dict[str, pa.Schema]:
        return {t.name: t.schema for t in tables(self.plan)}

    def as_of(self, name: str, at: datetime | None = None, key: Mapping[str, str] | None = None, newest: int | None = None) -> Answer:
        """Return the result of query ``name`` after all events with time <= ``at`` (default: the last instant that is complete).

        For items that are reported once, return the ``newest`` (default: ``NEWEST``) reported by then.

        SkybandError SKY-E402 if results are not complete up to ``at``.
        """
        query = self.query(name)
        chosen, member = self.chosen(query, key)
        complete = self.complete_until(at, chosen, key)
        note = None
        if not query.item.lasting:
            return self._newest_reports(query, at, complete, both(chosen, member), key, NEWEST if newest is None else newest)
        rows = self.intervals_of(query, both(chosen, member))
        if at is not None:
            first = pc.min(rows["valid_from"]).as_py()
            if first is None or at < first:
                note = f"before the first result{f' ({_iso(first)})' if first else ''}: the result was empty at {_iso(at)}"
            elif query.window.tumbling is not None and _is_boundary(query.window.tumbling, at):
                note = f"a window ended at {_iso(at)}, and a new one began: its final result is in table {final_name(name)}"
            rows = rows.filter(pa.array(in_result(rows, _micros(at))))
        else:
            rows = rows.filter(rows["is_current"])
        columns = [f.name for f in rows.schema if f.name not in ("valid_from", "valid_to", "from_step", "to_step", "is_current")]
        if query.item.time_varying is not None:
            rows = self._as_of_instant(rows, query, at)
        found = self._ranked(rows.select(columns), query)
        return Answer(found, at if at is not None else complete, portable.as_of(self.plan, query, at, key), note)

    def snapshot(self, name: str, k: int | None = None, window: Window | None = None, key: Mapping[str, str] | None = None) -> Answer:
        """Return the best ``k`` of the query's shared state in ``window``, as of the last batch; default: the query's own k and window.

        SkybandError SKY-E201 if the state does not have that much (k > K, or a window larger than N), or answers only its own K.
        """
        query = self.query(name)
        if not query.item.lasting:
            said = f"query {name!r} reports every arrival once: it keeps no result for another k or window"
            raise SkybandError("SKY-E201", said, hint="omit --k and --window; --at T --limit N shows the newest N reported by T")
        operator = self.plan.of(name).operators[query.operator]
        own_k = query_type(query.type).own_k if query.k is None else None
        if not operator.skyband:
            return self._own(query, query.k if k is None else k, window, key)
        if k is None:
            k = query.k if own_k is None else operator.k
        window = query.window if window is None else window
        if own_k is not None and k != operator.k:
            said = f"the tables answer {name!r} for any window, but only for its own {own_k} ({operator.k})"
            raise SkybandError("SKY-E201", said, hint=f"omit --k, or add a query with {own_k}: {k}")
        if k is None or k < 1 or (k > operator.k and not query.item.any_k):
            raise SkybandError(
                "SKY-E201", f"k must be from 1 to {operator.k}", hint="a scoring function's keep: {k: ...} keeps more for later"
            )
        effective = narrowed(window, operator)
        chosen, _ = self.chosen(query, key)
        heads = self.read("heads", where=chosen)
        rows = self.read(skyband_name(operator.name), where=chosen)
        if not heads.num_rows:
            raise _nothing(key)
        as_of = key_as_of(rows, heads, self.plan, self._frontier_of_states)
        last_seq = self._last_seq(rows, heads)
        alive = _alive(rows, query, effective, as_of, last_seq)
        if query.item.hidden_by is not None:
            alive &= _shown(rows, query.item.hidden_by, effective, as_of, last_seq)
        for bound, keep in ((query.min_score, pc.greater_equal), (query.max_score, pc.less_equal)):
            if bound is not None:
                alive &= keep(rows["score"], bound).to_numpy(zero_copy_only=False)
        columns = [*self.keys, *(c.name for c in query.item.columns(self.plan.intake.id, query.carry, self.keys))]
        found = self._ranked(rows.filter(pa.array(alive)).select([*columns, *(v.name for v in query.item.values)]), query)
        if query.k is not None:
            found = found.filter(pc.less_equal(found["rank"], k))
        one = self.complete(chosen) if not self.keys or heads.num_rows == 1 else None
        return Answer(found, one, portable.snapshot(self.plan, query, operator, k, effective, self._frontier_of_states, key))

    def _own(self, query: QueryNode, k: int | None, window: Window | None, key: Mapping[str, str] | None) -> Answer:
        """Return the best ``k`` of the query's own result, for a state without a skyband."""
        named = (key or {}).get(QUERY_COLUMN)
        logical = [a for a in query.asked if not query.members or named in (None, a.name)]
        if k is not None and query.k is None and query_type(query.type).own_k is not None:
            raise SkybandError("SKY-E201", f"query {query.name!r} has no k", hint="omit --k; --limit N shows the first N rows")
        if window is not None and any(own != window for own in [a.window for a in logical] or [query.window]):
            hint = "add a query with that window"
            raise SkybandError("SKY-E201", f"query {query.name!r} keeps no skyband: its tables answer only its own window", hint=hint)
        least = min((a.k for a in logical if a.k is not None), default=query.k)
        if k is not None and (k < 1 or (least is not None and k > least)):
            whose = "" if least is None else f" to {least:,}, the " + ("least" if len(logical) > 1 else "k") + " it asks for"
            raise SkybandError("SKY-E201", f"k must be from 1{whose}")
        found = self.as_of(query.name, None, key)
        if k is None or (k == query.k and query_type(query.type).limits(self.plan.of(query.name), query, None).most is None):
            return found
        best = found.rows.filter(pc.less_equal(found.rows["rank"], k))
        return Answer(best, found.as_of, portable.best(self.plan, query, k, key), found.note)

    def complete(self, chosen: pc.Expression | None = None) -> datetime | None:
        """Return the instant up to which the results of all chosen keys are complete; None if nothing has been processed."""
        heads = self.read("heads", where=chosen)
        if not heads.num_rows:
            # A bucket may have deferred the row of a new key: all that is known is the frontier.
            return _EPOCH + timedelta(microseconds=self.frontier - 1) if self._behind and self.frontier is not None else None
        return _EPOCH + timedelta(microseconds=int(key_as_of(heads, heads, self.plan, self.frontier).min()))

    def complete_until(self, at: datetime | None, chosen: pc.Expression | None, key: Mapping[str, str] | None) -> datetime:
        """Return the instant up to which all chosen keys are complete. SkybandError SKY-E402 if there is none, or it is before ``at``."""
        complete = self.complete(chosen)
        if complete is None:
            raise _nothing(key)
        if at is not None and at > complete:
            raise SkybandError(
                "SKY-E402",
                f"results are complete only up to {_iso(complete)}; {_iso(at)} is later",
                hint="use an earlier instant, or run the job on newer data",
            )
        return complete

    @cached_property
    def frontier(self) -> int | None:
        """The watermark of the last complete batch, in microseconds."""
        runs = self.read("runs", ["frontier"])
        newest: int | None = pc.max(runs["frontier"].cast(pa.int64())).as_py() if runs.num_rows else None
        return newest

    @cached_property
    def _frontier_of_states(self) -> int | None:
        """The watermark, in microseconds, of the batch up to which ``heads`` and skybands have all rows."""
        if not self._behind:
            return self.frontier
        runs = self.read("runs", ["batch_id", "frontier"])
        complete = runs.filter(pc.less_equal(runs["batch_id"], pc.max(runs["batch_id"]).as_py() - self._behind))
        newest: int | None = pc.max(complete["frontier"].cast(pa.int64())).as_py()
        return newest

    @cached_property
    def _behind(self) -> int:
        """The batches by which ``heads`` and skybands are behind the last complete one."""
        return batches_behind(self.root)

    def intervals_of(
        self,
        query: QueryNode,
        chosen: pc.Expression | None,
        columns: Sequence[str] | None = None,
        closed: pc.Expression | None = None,
    ) -> pa.Table:
        """Return the intervals up to the last complete batch: those of the table, updated by later changes.

        ``columns``: those needed, with all that identify an item, its ``*_step`` and ``valid_*`` columns and ``is_current``. ``closed``:
        read only these of the intervals that have ended; those of later changes are all returned. O(rows read).
        """
        schema = results_schema(self.plan, query)
        if columns is not None:
            schema = pa.schema([f for f in schema if f.name in columns])
        derived, complete = self._versions(query)
        rows = to_schema(
            self.read(query.name, schema.names, both(None if closed is None else pc.field("is_current") | closed, chosen)), schema
        )
        if derived >= complete:
            return rows
        later = (pc.field("batch_id") > derived) & (pc.field("batch_id") <= complete)
        needed = [n for n in changes_schema(self.plan, query).names if n in schema.names or n in ("changed_at", "step", "change")]
        return Timeline.of(self.plan, query).continued(rows, self.read(changes_name(query.name), needed, both(later, chosen)))

    def _as_of_instant(self, rows: pa.Table, query: QueryNode, at: datetime | None) -> pa.Table:
        """Return the intervals with time-varying values as of ``at`` (None: the last instant that is complete for their key)."""
        if not rows.num_rows:
            return rows
        timeline = Timeline.of(self.plan, query)
        # The start of an interval is a point of the trajectory itself.
        needed = pc.field("valid_from") >= pc.min(rows["valid_from"])
        needed = needed if at is None else needed & (pc.field("valid_from") <= pa.scalar(at, STAMP))
        points = self.read(trajectory_name(query.name), [*timeline.named, "valid_from", *query.item.varying_columns], needed)
        if at is None:
            micros = timeline.latest_known(rows, points, key_as_of(rows, self.read("heads"), self.plan, self.frontier))
        else:
            micros = np.full(rows.num_rows, _micros(at))
        return timeline.values_at(rows, points, micros)

    def _newest_reports(
        self, query: QueryNode, at: datetime | None, complete: datetime, chosen: pc.Expression | None, key: portable.Key, newest: int
    ) -> Answer:
        """Return the newest items reported by ``at``, up to the last complete batch."""
        last = pc.max(self.read("runs", ["batch_id"])["batch_id"]).as_py()
        streams = stream_columns(self.plan, query)
        done = pc.field("batch_id") <= (-1 if last is None else last)
        by_then = done if at is None else done & (pc.field("changed_at") <= pa.scalar(at, STAMP))
        reported = both(by_then, chosen)
        # The table has all reports since the first run: all columns are read only of rows that may be shown.
        at_of = self.read(changes_name(query.name), ["changed_at"], reported)["changed_at"].cast(pa.int64()).to_numpy()
        if 0 < newest < len(at_of):
            oldest = pa.scalar(int(np.partition(at_of, len(at_of) - newest)[len(at_of) - newest]), STAMP)
            reported = both(reported, pc.field("changed_at") >= oldest)
        rows = self.read(changes_name(query.name), where=reported)
        order = [("changed_at", "descending"), *((c, "ascending") for c in streams), ("step", "descending"), ("pos", "ascending")]
        found = rows.sort_by(order).slice(0, newest)
        note = f"the newest {found.num_rows:,} of {counted(len(at_of), 'row')}" if found.num_rows < len(at_of) else None
        shown = found.append_column("rank", pc.add(found["pos"], pa.scalar(1, pa.int32())))
        items = [f.name for f in rows.schema if f.name not in (*streams, "changed_at", "step", "pos", "batch_id")]
        answer = shown.select([*streams, "changed_at", "rank", *items])
        return Answer(answer, complete if at is None else at, portable.newest_reports(self.plan, query, at, newest, key), note)

    def _versions(self, query: QueryNode) -> tuple[int, int]:
        """Return (batch up to which results are derived, last complete batch), -1 for none."""
        kept = read_job_file_header(location(self.root) / "_skyband")
        if kept is None:
            return 0, 0
        ids = ((t, f"{self.plan.job}/{kept.generation}/{t}") for t in (query.name, "runs"))
        found = [delta_read.transaction(delta_read.open_table(self.root, t), app) for t, app in ids]
        return tuple(-1 if v is None else int(v) for v in found)  # type: ignore[return-value]

    def chosen(self, query: QueryNode, key: Mapping[str, str] | None) -> tuple[pc.Expression | None, pc.Expression | None]:
        """Return filters for ``column=value`` pairs: of key columns, and of the query in a table of queries (``query=name``)."""
        own = dict(key or {})
        member = own.pop(QUERY_COLUMN, None) if query.members else None
        if member is not None and member not in query.members:
            hint = did_you_mean(member, query.members) or f"its queries: {one_of(query.members, 20)}"
            raise SkybandError("SKY-E201", f"{query.name!r} has no query {member!r}", hint=hint)
        return self._key_filter(own), None if member is None else pc.field(QUERY_COLUMN) == member

    def _key_filter(self, key: Mapping[str, str] | None) -> pc.Expression | None:
        """Return an Arrow filter for ``column=value`` pairs; values are read as the type of the column."""
        chosen: pc.Expression | None = None
        for name, text in (key or {}).items():
            if name not in self.keys:
                known = f"key columns: {one_of(self.keys)}" if self.keys else "the job has no partition_by"
                raise SkybandError("SKY-E201", f"{name!r} is not a key column of this job", hint=did_you_mean(name, self.keys) or known)
            kind = self._heads_type(name)
            try:
                value = pa.scalar(text).cast(kind)
            except (pa.ArrowException, ValueError, OverflowError) as e:
                raise SkybandError("SKY-E201", f"{text!r} is not a value of {name!r}, which is {kind}") from e
            term = pc.field(name) == value
            chosen = term if chosen is None else chosen & term
        return chosen

    def _heads_type(self, name: str) -> Any:
        return pa.schema(delta_read.open_table(self.root, "heads").schema().to_arrow()).field(name).type

    def _last_seq(self, rows: pa.Table, heads: pa.Table) -> Any:
        renamed = heads.drop_columns(["as_of"]).append_column("as_of", heads["last_seq"].cast(pa.timestamp("us")))
        return key_as_of(rows, renamed, self.plan, None)

    def _ranked(self, rows: pa.Table, query: QueryNode) -> pa.Table:
        timeline = Timeline.of(self.plan, query)
        return timeline.ranked(rows).sort_by([(c, "ascending") for c in (*timeline.streams, "rank")])


def first(plan: Plan, query: QueryNode, rows: pa.Table, limit: int | None) -> pa.Table:
    """Return at most ``limit`` rows of an answer: of several keys the best of each, then the second of each, and so on."""
    streams = stream_columns(plan, query)
    if limit is None or not streams or not query.item.lasting:
        return rows.slice(0, limit)
    return rows.sort_by([(c, "ascending") for c in ("rank", *streams)]).slice(0, limit)


def _is_boundary(calendar: Calendar, at: datetime) -> bool:
    micros = _micros(at)
    return int(window_starts(calendar, np.array([micros], np.int64))[0]) == micros


def _micros(at: datetime) -> int:
    return (at - _EPOCH) // timedelta(microseconds=1)


def _nothing(key: Mapping[str, str] | None) -> SkybandError:
    said = "nothing has been processed yet" if not key else "no rows of this key have been processed"
    return SkybandError("SKY-E402", said, hint="run the job first")


def both(a: pc.Expression | None, b: pc.Expression | None) -> pc.Expression | None:
    """Return the condition that both hold; None is no condition."""
    return b if a is None else a if b is None else a & b


def narrowed(window: Window, operator: OperatorNode) -> Window:
    """Return ``window`` limited to that of the state. SkybandError SKY-E201 if it is larger, or of another kind."""
    for misfit in window.misfits(operator.window):
        if misfit.most is None:
            said = f"the state has no window in {'rows' if misfit.kind == 'count' else 'time'}"
            raise SkybandError("SKY-E201", said, hint="use a window of the same kind as in the spec")
        limit = f"{counted(misfit.most, 'row')}" if misfit.kind == "count" else format_duration(misfit.most)
        raise SkybandError("SKY-E201", f"the window must not be larger than {limit}, the window of the state")
    return window.within(operator.window)


def _alive(rows: pa.Table, query: QueryNode, window: Window, as_of: Any, last_seq: Any) -> Any:
    """Return which items have their oldest row in the window."""
    alive = np.ones(rows.num_rows, bool)
    if not query.item.rows:
        return alive
    seq = np.stack([rows[p.prefix + "seq"].to_numpy() for p in query.item.rows])
    time = np.stack([rows[p.prefix + "time"].cast(pa.int64()).to_numpy() for p in query.item.rows])
    if window.count is not None:
        alive &= seq.min(axis=0) > last_seq - window.count
    if window.micros is not None:
        alive &= time.min(axis=0) > as_of - window.micros
    return alive


def _shown(rows: pa.Table, hidden_by: str, window: Window, as_of: Any, last_seq: Any) -> Any:
    """Return which items no row of the window keeps out of the result."""
    shown = rows[hidden_by].is_null().to_numpy(zero_copy_only=False)
    if window.count is not None:
        shown |= rows[hidden_by].fill_null(-1).to_numpy() <= last_seq - window.count
    if window.micros is not None:
        shown |= rows[f"{hidden_by}_time"].cast(pa.int64()).fill_null(0).to_numpy() <= as_of - window.micros
    return shown


def _iso(at: datetime) -> str:
    return at.strftime("%Y-%m-%dT%H:%M:%S.%f").rstrip("0").rstrip(".") if at.microsecond else at.strftime("%Y-%m-%dT%H:%M:%S")
