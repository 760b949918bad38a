"""Write micro-batches to the tables exactly once, even if a batch is repeated.

Tables are committed in any order, several at a time where the writer can. Each commit has a ``txn`` of job, checkpoint generation and
table, whose version is the batch id. ``runs`` comes last: a batch is complete if and only if its row exists.
"""

from __future__ import annotations

import json
import time as clock
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from skyband.framework.base.columns import DURATIONS
from skyband.framework.base.failpoints import failpoint
from skyband.framework.base.messages import HEADS, REJECTED, RUNS, Changes, FinalResults, Skyband, Trajectory, parse_kind
from skyband.framework.base.types import STAMP
from skyband.framework.plan.model import Plan
from skyband.framework.storage.delta_read import to_schema
from skyband.framework.tables.delta.data_files import DataFile
from skyband.framework.tables.render import key_numbers, last_of_each
from skyband.framework.tables.schemas import TableSpec, changes_name, derived_tables, final_name, skyband_name, tables, trajectory_name
from skyband.framework.tables.writing.writer import Writer

FILLED_BATCH = -1
"""The ``batch_id`` of backfilled changes: of a query that was added later, for the rows before that."""
KEPT_RUNS = 10
"""The number of newest rows of ``runs`` that always stay: as many as Spark keeps of its own log."""
Files = Mapping[str, Sequence[DataFile]]
"""Files that tasks have written already, by the kinds of ``messages``."""
_NONE: Files = {}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Sink:
    """Writes a job's batches through ``writer``; ``generation`` names the checkpoint the batch ids belong to."""

    def __init__(self, plan: Plan, writer: Writer, generation: str) -> None:
        self.plan = plan
        self.writer = writer
        self.generation = generation
        self.committed: dict[str, int] = {}
        """Table -> the last batch with rows in it, for tables written batch by batch. ``runs`` stores it, to detect a lost commit."""
        self.specs: dict[str, TableSpec] = {t.name: t for t in tables(plan)}

    def ensure_all(self) -> None:
        """Create every table of the job that does not exist."""
        for spec in self.specs.values():
            self.writer.ensure(spec)
        self.writer.note(list(self.specs), new=True)
        named = [n for n in self.specs if n not in {"runs", "checks", "published", *derived_tables(self.plan)}]
        self.committed = {n: v for n in named if (v := self.writer.version(n, self.app_id(n))) is not None}

    def app_id(self, table: str) -> str:
        """Return the ``txn`` app id of this job and generation for one table."""
        return f"{self.plan.job}/{self.generation}/{table}"

    def commit(self, batch_id: int, blocks: Mapping[str, pa.Table], files: Files = _NONE) -> None:
        """Write one batch.

        ``blocks``: rows by the kinds of ``messages``. ``files``: files that tasks have written already, by the same kinds. Tables without
        rows are not touched. If the batch is committed already, fully or in part, the rest is committed and no row is written twice.
        """
        started = clock.perf_counter()
        failpoint("sink.before")
        for table in self.writer.each(list(self._writes(batch_id, blocks, files))):
            self.committed[table] = batch_id
            failpoint("sink.between")
        if RUNS in blocks:
            spent = 1000 * (clock.perf_counter() - started)
            self._append("runs", self._with_committed(_with_durations(blocks[RUNS], spent)), batch_id)
        failpoint("sink.after")

    def runs_row(self, row: Mapping[str, Any]) -> pa.Table:
        """Return a row of ``runs`` from values by column name. Missing numbers are 0, missing texts and instants null."""
        schema = self.specs["runs"].schema
        unknown = set(row) - set(schema.names)
        if unknown:
            raise KeyError(f"not columns of runs: {', '.join(sorted(unknown))}")
        empty = {f.name: 0 for f in schema if pa.types.is_integer(f.type) or pa.types.is_floating(f.type)}
        return pa.table({f.name: pa.array([row.get(f.name, empty.get(f.name))], f.type) for f in schema}, schema=schema)

    def last_runs(self, count: int) -> list[dict[str, Any]]:
        """Return the newest ``count`` rows of ``runs``, oldest first."""
        last = self.writer.version("runs", self.app_id("runs"))
        if last is None:
            return []
        rows = self.writer.read("runs", where=pc.field("batch_id") > last - count).sort_by("batch_id")
        found: list[dict[str, Any]] = rows.slice(max(0, rows.num_rows - count)).to_pylist()
        return found

    def last_run(self) -> dict[str, Any] | None:
        """Return the newest row of ``runs``, that is of the last complete batch, or None."""
        rows = self.last_runs(1)
        return rows[-1] if rows else None

    def maintain(self, now: datetime | None = None) -> None:
        """Keep all tables small after many small commits; drop the rows of ``runs`` that are older than ``run.keep``.

        The rows of the last ``KEPT_RUNS`` batches always stay: a run resumes from them.
        """
        for spec in self.specs.values():
            self.writer.maintain(spec, self._expired_runs(now or datetime.now(UTC)) if spec.name == "runs" else ())
        self.writer.note(list(self.specs))

    def _expired_runs(self, now: datetime) -> list[tuple[int, int]]:
        """Return spans of batches whose ``runs`` rows are older than ``run.keep``; none until the oldest is by a sixteenth of it."""
        last = self.writer.version("runs", self.app_id("runs"))
        keep = timedelta(microseconds=self.plan.keep_micros)
        if last is None or keep > now - _EPOCH:
            return []
        overdue, old = (pc.field("batch_time") < pa.scalar(now - k, STAMP) for k in (keep + keep / 16, keep))
        if not self.writer.read("runs", ["batch_id"], overdue & (pc.field("batch_id") <= last - KEPT_RUNS)).num_rows:
            return []
        return _spans(self.writer.read("runs", ["batch_id"], old & (pc.field("batch_id") <= last - KEPT_RUNS))["batch_id"].to_numpy())

    def _writes(self, batch_id: int, blocks: Mapping[str, pa.Table], files: Files) -> Iterator[tuple[str, Callable[[str], None]]]:
        skybands: dict[str, list[str]] = {}
        for kind in dict.fromkeys([*blocks, *files]):
            match parse_kind(kind):
                case Changes() | Trajectory() | FinalResults():
                    yield from self._appended(kind, batch_id, blocks, files)
                case Skyband(operator, _):
                    skybands.setdefault(operator, []).append(kind)
        for operator, kinds in skybands.items():
            yield skyband_name(operator), partial(self._skyband, kinds=kinds, batch_id=batch_id, blocks=blocks, files=files)
        heads, files_of_heads = blocks.get(HEADS), files.get(HEADS, ())
        if files_of_heads or (heads is not None and heads.num_rows):
            rows = self.specs["heads"].schema.empty_table() if heads is None else heads
            yield "heads", partial(self._heads, batch_id=batch_id, touched=rows, files=files_of_heads)
        yield from self._appended(REJECTED, batch_id, blocks, files)

    def _appended(
        self, kind: str, batch_id: int, blocks: Mapping[str, pa.Table], files: Files
    ) -> Iterator[tuple[str, Callable[[str], None]]]:
        """Yield the table of ``kind`` and the function that appends its rows, if there are any."""
        table, written, rows = table_of(kind), files.get(kind, ()), blocks.get(kind)
        if table is None or not (written or (rows is not None and rows.num_rows)):
            return
        data = self.specs[table].schema.empty_table() if rows is None else stamped(rows, batch_id)
        yield table, lambda table: self._append(table, data, batch_id, written)

    def _with_committed(self, row: pa.Table) -> pa.Table:
        text = json.dumps(self.committed, sort_keys=True)
        return row.set_column(row.column_names.index("committed"), row.schema.field("committed"), pa.array([text]))

    def _append(self, table: str, data: pa.Table, batch_id: int, files: Sequence[DataFile] = ()) -> None:
        self.writer.append(table, to_schema(data, self.specs[table].schema), self.app_id(table), batch_id, files)

    def _skyband(self, table: str, kinds: Sequence[str], batch_id: int, blocks: Mapping[str, pa.Table], files: Files) -> None:
        schema = self.specs[table].schema
        data = pa.concat_tables([schema.empty_table(), *(to_schema(blocks[k], schema) for k in kinds if k in blocks)])
        written = [f for k in kinds for f in files.get(k, ())]
        buckets = sorted(of.bucket for k in kinds if isinstance(of := parse_kind(k), Skyband))
        self.writer.overwrite_partitions(table, data, "bucket", buckets, self.app_id(table), batch_id, written)

    def _heads(self, table: str, batch_id: int, touched: pa.Table, files: Sequence[DataFile]) -> None:
        app_id = self.app_id(table)
        last = self.writer.version(table, app_id)
        if last is not None and last >= batch_id:
            return
        # The file of a task has all rows of its bucket, including the earlier ones.
        replaced = {int(f.partition["bucket"]): f for f in files}
        touched = touched.filter(pc.invert(pc.is_in(touched["bucket"], pa.array(list(replaced), pa.int32()))))
        buckets = pc.unique(touched["bucket"])
        before = self.writer.read(table, where=pc.field("bucket").isin(buckets)) if len(buckets) else touched
        merged = merged_heads(before, touched, self.specs[table].schema, self.plan.intake.partition_by)
        self.writer.overwrite_partitions(
            table, merged, "bucket", sorted([*buckets.to_pylist(), *replaced]), app_id, batch_id, list(replaced.values())
        )


def merged_heads(before: pa.Table, touched: pa.Table, schema: pa.Schema, keys: Sequence[str]) -> pa.Table:
    """Return the rows of ``heads`` after an update by ``touched``: the last row of every key. O(n log n)."""
    rows = pa.concat_tables([to_schema(before, schema), to_schema(touched, schema)])
    number = key_numbers([rows], keys)[0] if keys else np.zeros(rows.num_rows, np.int64)
    return rows.take(pa.array(last_of_each(number)))


def _spans(ids: npt.NDArray[np.int64]) -> list[tuple[int, int]]:
    """Return spans (first, last) of consecutive numbers."""
    ids = np.unique(ids)
    starts = np.nonzero(np.diff(ids, prepend=ids[:1] - 2) > 1)[0]
    return list(zip(ids[starts].tolist(), ids[np.append(starts[1:], len(ids)) - 1].tolist(), strict=True))


def table_of(kind: str) -> str | None:
    """Return the table for rows of ``kind``, None if there is none."""
    match parse_kind(kind):
        case Changes(query):
            return changes_name(query)
        case Trajectory(query):
            return trajectory_name(query)
        case FinalResults(query):
            return final_name(query)
        case Skyband(operator, _):
            return skyband_name(operator)
    return kind if kind in (REJECTED, HEADS) else None


def stamped(data: pa.Table, batch_id: int) -> pa.Table:
    """Return the rows with the batch that writes them."""
    return data.append_column("batch_id", pa.array(np.full(data.num_rows, batch_id, np.int64)))


def _with_durations(row: pa.Table, write_ms: float) -> pa.Table:
    """Return the row with the durations that only the sink knows: of writing, and of the batch."""
    for name, value in (("write_ms", write_ms), ("batch_ms", write_ms + row["engine_ms"][0].as_py())):
        assert name.removesuffix("_ms") in DURATIONS
        row = row.set_column(row.column_names.index(name), row.schema.field(name), pa.array([value], pa.float64()))
    return row
