"""The tables of a job as ``verify`` reads them: each table once, values exact."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from skyband.framework.base.counts import counted
from skyband.framework.base.errors import SkybandError
from skyband.framework.base.messages import behind
from skyband.framework.base.types import unreadable_columns
from skyband.framework.plan.model import Plan, QueryNode
from skyband.framework.storage import delta_read
from skyband.framework.storage.delta_read import open_table, read
from skyband.framework.storage.location import location
from skyband.framework.storage.records import read_job_file_header
from skyband.framework.tables.delta.expected_columns import need_columns
from skyband.framework.tables.schemas import changes_name, final_name, now_name, stream_columns, tables, trajectory_name
from skyband.operators.base import Window

Key = tuple[Any, ...]
Item = tuple[Any, ...]
"""Values of the identity columns of an item."""

BEFORE = -(2**62)
"""An instant before every event."""


class Stored:
    """A snapshot of the tables in the sink of ``plan``. Raises SkybandError SKY-E400 for a table that does not exist.

    ``plan``: of the queries that are meant: those over the source's rows, or (``part``) those over a result. ``job_plan``: the whole job.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan = self.job_plan = plan
        self.root = plan.sink.removeprefix("file://")
        self._read: dict[str, pa.Table] = {}
        # A run may be writing: a table that is opened later may hold more batches. In this order the batches of ``runs`` are complete in
        # all tables, and results are not ahead of their changes.
        derived = [n(q.name) for n in (now_name, str) for q in plan.every_query if q.item.lasting]
        sources = [changes_name(q.name) for q in plan.every_query]
        sources += [trajectory_name(q.name) for q in plan.every_query if q.item.varies]
        sources += [final_name(q.name) for q in plan.every_query if q.item.closes]
        names = ["runs", *derived, *sources, "heads", "rejected"]
        self._opened = {n: open_table(self.root, n) for n in names}
        for table in tables(plan):
            if table.name in self._opened:
                need_columns(self._opened[table.name], table.name, table.schema)

    def part(self, plan: Plan) -> Stored:
        """Return the same snapshot for the queries of ``plan``, one of the job's plans."""
        made = copy(self)
        made.plan = plan
        return made

    def parts(self) -> list[Stored]:
        """Return the snapshot for each of the job's plans, in their order."""
        return [self.part(plan) for plan in self.job_plan.plans]

    def table(self, name: str) -> pa.Table:
        """Return all rows of a table. Raises SkybandError SKY-E402 for dates and instants that Python has not."""
        if name not in self._read:
            rows = read(self._opened[name])
            for column in unreadable_columns(rows):
                said = f"column {column} of table {name} has dates or instants outside of the years 1 to 9999, from an earlier version"
                raise SkybandError("SKY-E402", said, hint="run skyband rebuild SPEC, which rejects such rows; skyband query shows them")
            self._read[name] = rows
        return self._read[name]

    def upto(self, name: str) -> int:
        """Return the last batch written to ``table(name)`` (of results: up to which they are derived), -1 if there is none."""
        version = delta_read.transaction(self._opened[name], f"{self.plan.job}/{self._generation}/{name}")
        return -1 if version is None else int(version)

    def derived_upto(self, query: QueryNode) -> int:
        """Return the batch up to which the results of ``query`` have been derived. A killed or running job may be ahead of it.

        For items that are reported once, nothing is derived: return the last complete batch.
        """
        return self.upto(now_name(query.name)) if query.item.lasting else self.last_batch

    def changes_upto(self, query: QueryNode) -> int:
        """Return the batch up to which the changes of ``query`` are compared: a result is derived from them, or they are complete."""
        derived = self.derived_upto(query)
        return max(self.upto(query.name), derived) if query.item.lasting else derived

    def changes(self, query: QueryNode, upto: int) -> pa.Table:
        """Return the rows of ``<query>_changes`` up to batch ``upto``."""
        rows = self.table(changes_name(query.name))
        return rows.filter(pc.less_equal(rows["batch_id"], upto))

    @cached_property
    def last_batch(self) -> int:
        """The last complete batch, that is the last one in ``runs``."""
        return max(self.table("runs")["batch_id"].to_pylist(), default=-1)

    def frontier(self, upto: int) -> int:
        """Return the watermark F after batch ``upto``: all events before it had been processed."""
        runs = self.table("runs")
        found = zip(micros(runs, "frontier"), runs["batch_id"].to_pylist(), strict=True)
        return max((f for f, b in found if f is not None and b <= upto), default=BEFORE)

    @cached_property
    def until(self) -> dict[Key, int]:
        """By key, the last microsecond up to which its results are complete and stored in the result tables."""
        keys = keys_of(self.table("heads"), self.plan.intake.partition_by)
        upto = min(self.derived_upto(q) for q in self.job_plan.every_query)
        frontier = self.frontier(upto)
        if upto < self.last_batch or not self.heads_complete:
            # Some batches are not derived or not complete yet: take what every key had reached by then.
            return dict.fromkeys(keys, frontier - 1)
        return {k: max(a or frontier, frontier - 1) for k, a in zip(keys, micros(self.table("heads"), "as_of"), strict=True)}

    @cached_property
    def heads_complete(self) -> bool:
        """Return True if ``heads`` has the rows of the last complete batch, and none of a later one."""
        runs = self.table("runs")
        last = runs.filter(pc.equal(runs["batch_id"], self.last_batch))["counters"].to_pylist()
        return self.upto("heads") <= self.last_batch and not any(map(behind, last))

    @property
    def settled(self) -> bool:
        """Return True if all tables stand at the last complete batch: no table is ahead, and all results are derived."""
        names = [changes_name(q.name) for q in self.job_plan.every_query]
        complete = self.heads_complete and all(self.upto(n) <= self.last_batch for n in ("rejected", *names))
        return complete and all(self.derived_upto(q) == self.last_batch for q in self.job_plan.every_query)

    @cached_property
    def _generation(self) -> str:
        kept = read_job_file_header(location(self.root) / "_skyband")
        if kept is None:
            raise SkybandError(
                "SKY-E303", f"the job file in {self.root}/_skyband cannot be read", hint="run skyband status SPEC for details"
            )
        return kept.generation


def runs_gone(stored: Stored) -> str | None:
    """Return which rows of ``runs`` have been dropped (``run.keep``) and cannot be reconciled, in words; None if none has."""
    batches = pc.unique(stored.table("runs")["batch_id"])
    every = pc.max(batches).as_py() + 1 if len(batches) else 0
    if every == len(batches):
        return None
    first = f"batch {pc.min(batches).as_py():,}"
    gone = f"rows of {every - len(batches):,} of {counted(every, 'batch', 'batches')}"
    return f"{gone} are no longer kept (run.keep); sums over it begin with {first}"


def micros(table: pa.Table, name: str) -> list[int | None]:
    """Return a timestamp column in microseconds."""
    found: list[int | None] = table[name].cast(pa.timestamp("us", "UTC")).cast(pa.int64()).to_pylist()
    return found


def keys_of(table: pa.Table, names: Sequence[str]) -> list[Key]:
    """Return the values of ``names`` in every row."""
    columns = [table[n].to_pylist() for n in names]
    return list(zip(*columns, strict=True)) if columns else [()] * table.num_rows


def exact(table: pa.Table, names: Iterable[str]) -> list[Key]:
    """Return the values of ``names`` in every row, equal only if their bits are: floats and instants as integers."""
    return list(zip(*[_bits(table[n].combine_chunks()) for n in names], strict=True))


def _bits(column: pa.Array) -> list[Any]:
    if isinstance(column, pa.ChunkedArray):
        column = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
    kind = column.type
    if pa.types.is_floating(kind):
        column = column.view(pa.int64() if kind == pa.float64() else pa.int32())
    elif pa.types.is_timestamp(kind):
        column = column.cast(pa.int64())
    elif pa.types.is_date(kind):
        column = column.cast(pa.int32())
    found: list[Any] = column.to_pylist()
    return [tuple(v) if isinstance(v, list) else v for v in found] if pa.types.is_nested(kind) else found


def row_of(table: pa.Table, i: int, without: Sequence[str] = ()) -> Mapping[str, Any]:
    """Return row ``i`` as a mapping, to be printed."""
    found: dict[str, Any] = table.select([n for n in table.column_names if n not in without]).slice(i, 1).to_pylist()[0]
    return found


def window_for(query: QueryNode, stream: Key) -> Window:
    """Return the window of the query that ``stream`` belongs to."""
    if query.members:
        return next(a.window for a in query.asked if a.name == stream[0])
    return query.asked[0].window if query.asked else query.window


def smallest_first(query: QueryNode, stream: Key) -> bool:
    """Return True if the query that ``stream`` belongs to ranks the smallest score first."""
    return (query.direction == "min") != (bool(query.members) and stream[0] in query.turned)


def key_of(plan: Plan, query: QueryNode, stream: Key) -> Key:
    """Return the key of the input rows that a stream of changes comes from."""
    return stream[len(stream_columns(plan, query)) - len(plan.intake.partition_by) :]
