"""Commit one micro-batch: run its tasks, check what they send, and write the tables exactly once."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from skyband.framework.base.failpoints import failpoint
from skyband.framework.base.messages import (
    COUNTS,
    JUMP,
    REACHED,
    REJECTED,
    ROWS_IN,
    RUNS,
    STATE,
    STOPPING,
    STRETCHES,
    Changes,
    Skyband,
    Tally,
    parse_file_message,
    parse_kind,
)
from skyband.framework.quality.rejections import stopped_by_rule
from skyband.framework.sources.logs import planned_at, watermark
from skyband.framework.streaming.bucket.bucket_states import BucketState, States, parsed
from skyband.framework.streaming.bucket.state_files import StateFiles
from skyband.framework.streaming.job.clocks import BatchClock
from skyband.framework.streaming.job.jumps import Jump, longest_jump, stopped_by_jump
from skyband.framework.streaming.rows import blocks
from skyband.framework.streaming.rows.config import frontier_at
from skyband.framework.streaming.rows.instants.stretches import limit_of, of_tables
from skyband.framework.streaming.rows.outbox import Block
from skyband.framework.streaming.run.alerting import Alerting
from skyband.framework.streaming.run.batch import Batch, Totals
from skyband.framework.streaming.run.context import OpenedJob, OpenedSource, RunContext
from skyband.framework.streaming.run.results import Results
from skyband.framework.tables.delta.data_files import DataFile

if TYPE_CHECKING:
    from skyband.framework.streaming.run.kafka_sink import KafkaSink

# The messages of a batch's tasks to the driver: rows by kind, files that tasks have written, counts.


@dataclass(slots=True)
class Received:
    """Blocks and files of a batch by kind, in the order of arrival; of a bucket's state only the last."""

    counts: Tally = field(default_factory=Tally)
    files: dict[str, list[DataFile]] = field(default_factory=dict)
    states: dict[int, BucketState] = field(default_factory=dict)
    """Where the states of buckets are now, if they are in files of the sink."""
    _parts: dict[str, list[pa.Table]] = field(default_factory=lambda: defaultdict(list))
    _reasons: Counter[str] = field(default_factory=Counter)
    """Number of rejected rows in files, by reason."""

    @classmethod
    def of(cls, messages: Iterable[Block]) -> Received:
        """Return the contents of the tasks' ``messages``."""
        found = cls()
        for kind, data in messages:
            if kind == COUNTS:
                found.counts.add(data)
            elif kind == STATE:
                found.states |= parsed(data)
            elif (written := parse_file_message(kind, data)) is not None:
                found._file(*written)
            else:
                found.put(kind, blocks.bytes_table(data))
        return found

    def put(self, kind: str, rows: pa.Table) -> None:
        """Add rows of a kind."""
        if isinstance(parse_kind(kind), Skyband):
            self._parts.pop(kind, None)
            self.files.pop(kind, None)
        self._parts[kind].append(rows)

    def take(self, kind: str) -> list[pa.Table]:
        """Remove the rows of a kind that arrived in messages, and return them."""
        return self._parts.pop(kind, [])

    def tables(self) -> dict[str, pa.Table]:
        """Return the rows that arrived in messages, by kind."""
        return {kind: pa.concat_tables(parts, promote_options="default") for kind, parts in self._parts.items()}

    def reasons(self) -> dict[str, int]:
        """Return the number of rejected rows by the reason in table ``rejected``."""
        found = Counter(self._reasons)
        for part in self._parts.get(REJECTED, ()):
            found.update({x["values"]: x["counts"] for x in pc.value_counts(part["reason"]).to_pylist()})
        return dict(found)

    def changes(self) -> dict[str, int]:
        """Return the number of changes by query, without queries that have none."""
        found: Counter[str] = Counter()
        for rows in (self._parts, self.files):
            for kind, parts in rows.items():
                if isinstance(q := parse_kind(kind), Changes):
                    found[q.query] += sum(p.rows if isinstance(p, DataFile) else p.num_rows for p in parts)
        return dict(found)

    def _file(self, kind: str, file: dict[str, Any]) -> None:
        self._reasons.update(file.pop("reasons"))
        if isinstance(parse_kind(kind), Skyband):
            self._parts.pop(kind, None)
            self.files.pop(kind, None)
        self.files.setdefault(kind, []).append(DataFile(**file))


Tasks = Callable[[int | None, Mapping[str, int], States | None], Iterable[Block]]
"""Runs the tasks of a batch, exactly once, and returns what they send.

It gets the clock at which the batch was planned, in microseconds (None: event times are not compared with it), how far each of several
sources has come, and where the states of buckets are (None: nowhere yet, before the first batch).
"""


class CommitBatch:
    """Commits the batches of one run."""

    def __init__(
        self,
        context: RunContext,
        opened: OpenedJob,
        source: OpenedSource,
        totals: Totals,
        results: Results,
        kafka: KafkaSink | None,
        alerting: Alerting,
    ) -> None:
        self._context = context
        self._opened = opened
        self._source = source
        self._totals = totals
        self._results = results
        self._kafka = kafka
        self._alerting = alerting

    @property
    def states(self) -> States | None:
        """Return where the states of buckets are after the last batch."""
        return self._totals.before(self._totals.last_batch + 1).states

    def __call__(self, tasks: Tasks, batch_id: int) -> None:
        """Run the ``tasks`` of the batch and commit it.

        Raises SkybandError SKY-E301 for a file that is too large, SKY-E502 for a row that breaks a rule of severity ``fail``, SKY-E506 for
        rows that stand apart (``max_jump``).
        """
        sink = self._opened.sink
        began, started = time.time(), time.perf_counter()
        self._source.files.before_batch(batch_id)
        planned = self._clock(batch_id)
        newest = self._source.times.before(batch_id, self._source.backlog.caps.capped)
        sent = tasks(None if planned is None else planned.clock, newest, self._totals.before(batch_id).states)
        ran = time.perf_counter()
        failpoint("state.after")
        received = Received.of(sent)
        counts, stopping = received.counts, received.tables().get(STOPPING)
        if stopping is not None:
            # Nothing of the batch has been written anywhere yet.
            raise stopped_by_rule(self._opened.plan, batch_id, stopping, counts[STOPPING])
        jump = self._jump(batch_id, received.take(STRETCHES))
        received.put(REJECTED, self._source.files.before_commit(batch_id, counts))
        drift = self._source.drift.before_commit(batch_id)
        self._source.backlog.read(counts)
        self._source.times.add(batch_id, counts)
        if counts[ROWS_IN] and planned is not None:
            counts |= planned.counts()
        if jump is not None:
            counts[JUMP] = jump.micros // 1000
        batch = Batch(batch_id, counts, reasons=received.reasons(), changes=received.changes(), jump=jump, began=began)
        batch.states = received.states
        batch.state_bytes = lambda: {"disk": StateFiles(self._context.layout.state).bytes()}
        self._totals.add(batch)
        runs = {RUNS: sink.runs_row(batch.runs_row(ran - started, drift))}
        checked = time.perf_counter()
        sink.commit(batch_id, received.tables() | runs, received.files)
        batch.stages = {"tasks": ran - started, "check": checked - ran, "write": time.perf_counter() - checked}
        self._source.drift.committed()
        if self._kafka is not None:
            sending = time.perf_counter()
            self._kafka.send(batch_id)
            batch.stages |= {"send": time.perf_counter() - sending}
        self._alerting.committed(batch_id)
        batch.seconds = time.perf_counter() - started
        self._totals.committed(batch_id)
        self._source.backlog.catch_up(counts[REACHED])
        self._results.derive_if_due()
        self._context.report(batch)

    def _clock(self, batch_id: int) -> BatchClock | None:
        """Return the clock with which event times of the batch are compared; None if they are not."""
        ahead, clock = self._opened.plan.intake.ahead_micros, self._context.clock
        if ahead is None:
            return None
        return BatchClock(1000 * planned_at(self._context.layout.checkpoint, batch_id) if clock is None else clock, ahead)

    def _jump(self, batch_id: int, stretches: list[pa.Table]) -> Jump | None:
        """Return the jump of the watermark to warn about. Raises SkybandError SKY-E506; then nothing of the batch has been written."""
        plan = self._opened.plan
        limit = limit_of(plan.intake, plan.window)
        if limit is None or not stretches:
            return None
        found = of_tables(stretches, limit)
        if plan.intake.jump_micros is not None:
            stopped = stopped_by_jump(plan, batch_id, found, self._frontier())
            if stopped is not None:
                raise stopped
        # Under caps the watermark stays before rows that files may still bring.
        return None if self._source.backlog.capped else longest_jump(plan, found, self._totals.before(batch_id).newest)

    def _frontier(self) -> int | None:
        """Return F before the batch that runs, in microseconds: earlier rows are late."""
        return frontier_at(watermark(self._context.layout.checkpoint), self._opened.job.finishes)
