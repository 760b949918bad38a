"""Send the events of a run, on a thread of its own: a receiver that does not answer holds up no other observer."""

from __future__ import annotations

import queue
import threading
import time as clock
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final

from pydantic import ConfigDict, Field

from skyband.framework.base.errors import SkybandError
from skyband.framework.base.extras import extra
from skyband.framework.base.messages import ACCEPTED, ROWS_IN
from skyband.framework.base.reasons import FILTERED
from skyband.framework.console.receivers import NotDelivered
from skyband.framework.observe.lineage.client import reason, receiver_id
from skyband.framework.observe.lineage.facets import (
    PRODUCER,
    Facets,
    RejectedRowsRunFacet,
    assertions_facet,
    column_lineage,
    error_facet,
    input_facets,
    job_facets,
    output_schema,
    place_facets,
    run_facets,
)
from skyband.framework.observe.lineage.table_columns import InputTable, TableLineage, input_tables, output_name, table_lineage
from skyband.framework.observe.observers import Observer, StartedRun
from skyband.framework.storage.location import Location, location
from skyband.framework.storage.records import STRICT, Count, Record, Whole
from skyband.framework.storage.sinks import HOME
from skyband.framework.streaming.job.run_records import spec_hash
from skyband.framework.tables.batch_figures import BEGINNING, batch_figures
from skyband.framework.tables.schemas import TableSpec, batch_tables, changes_name

# Record what each receiver's last COMPLETE event covered: ``<sink>/_skyband/announced.json``.
#
# The next event covers what is new since then, whoever has committed it: runs that failed, were killed, or had no receiver. A record that
# is lost or damaged makes the next event cover all tables.

FILE: Final = "announced.json"
MOST_RECEIVERS: Final = 20
"""The most receivers that are remembered; those without a recent event are forgotten."""


@dataclass(frozen=True, slots=True)
class Version:
    """A version of a table, and the table's id in Delta, which another table of the same name does not have."""

    version: Count
    id: Annotated[str, Field(max_length=200)]
    __pydantic_config__: ClassVar[ConfigDict] = STRICT


@dataclass(frozen=True, slots=True)
class Announced:
    """What an event covered: the tables' versions, and the job's last batch (None: it had none)."""

    tables: Annotated[dict[Annotated[str, Field(max_length=300)], Version], Field(max_length=100_000)]
    batch: Whole | None
    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    @classmethod
    def of(cls, outcome: Mapping[str, Any]) -> Announced:
        """Return what an event at the end of a run covers."""
        spans = outcome["tables"].items()
        return cls({name: Version(span["to"], span["id"]) for name, span in spans if span["to"] is not None}, outcome["last_batch"])


@dataclass(frozen=True, slots=True)
class _AnnouncedFile:
    receivers: Annotated[dict[Annotated[str, Field(pattern="^[0-9a-f]{32}$")], Announced], Field(max_length=MOST_RECEIVERS)]
    __pydantic_config__: ClassVar[ConfigDict] = STRICT


_ANNOUNCED: Final = Record[_AnnouncedFile](_AnnouncedFile)


def announced_to(home: Location, receiver: str) -> Announced | None:
    """Return what the last event that ``receiver`` has taken covered, None if none is known. Raises OSError."""
    return _read(home).get(receiver)


def record_announced(home: Location, receiver: str, covered: Announced) -> None:
    """Record that ``receiver`` has taken an event; durable when this returns. Raises OSError."""
    known = {name: found for name, found in _read(home).items() if name != receiver}
    kept = dict([*known.items()][1 - MOST_RECEIVERS :])
    _ANNOUNCED.write(home / FILE, _AnnouncedFile({**kept, receiver: covered}))


def _read(home: Location) -> dict[str, Announced]:
    found = _ANNOUNCED.known(home / FILE)
    return {} if found is None else found.receivers


# The events of one run: its start, its progress and its end, which covers all that is new since the last event of a run that succeeded.

with extra("lineage", "OpenLineage"):
    from openlineage.client import facet_v2 as facet
    from openlineage.client.event_v2 import InputDataset, Job, OutputDataset, Run, RunEvent, RunState, set_producer
    from openlineage.client.facet_v2 import set_producer as set_producer_of_facets

set_producer(PRODUCER)
set_producer_of_facets(PRODUCER)

_STATES: Final = {"done": RunState.COMPLETE, "stopped": RunState.ABORT}
"""State by the status of an outcome; all others have failed."""


@dataclass(slots=True)
class Counts:
    """The rows of a run so far."""

    batches: int = 0
    rows_in: int = 0
    filtered: int = 0
    accepted: int = 0
    rejected: dict[str, int] = field(default_factory=dict)

    def facet(self) -> RejectedRowsRunFacet:
        """Return them as a facet."""
        return RejectedRowsRunFacet(self.batches, self.rows_in, self.filtered, self.accepted, dict(sorted(self.rejected.items())))


class RunEvents:
    """Makes the events of ``run``. ``parent``: the run that has started it. ``announced``: what the receiver's last COMPLETE covered."""

    def __init__(
        self, run: StartedRun, namespace: str, parent: facet.parent_run.ParentRunFacet | None, announced: Announced | None = None
    ) -> None:
        self._run, self._announced = run, announced
        self._namespace = namespace
        self._run_facets = run_facets(parent)
        self._job_facets = job_facets(run, spec_hash(run.spec))
        self._counted: dict[int, tuple[Mapping[str, int], Mapping[str, int]]] = {}

    def start(self) -> RunEvent:
        """Return the event of the start: all that the job reads and may write."""
        outputs = [OutputDataset(*self._name(t), facets=self._table_facets(t)) for t in self._tables]
        return self._event(RunState.START, self._run.began, {}, self._read({}), outputs)

    def running(self, counts: Counts, at: datetime) -> RunEvent:
        """Return an event of the progress."""
        return self._event(RunState.RUNNING, at, {"skyband_rejectedRows": counts.facet()})

    def end(self, outcome: Mapping[str, Any]) -> RunEvent:
        """Return the event of the end: the tables that have changed since the last COMPLETE, with their versions, counts and checks."""
        rows, errors = outcome["rows"], outcome["errors"]
        state = _STATES.get(outcome["status"], RunState.FAIL)
        counts = Counts(outcome["batches"]["count"], rows["in"], rows["filtered"], rows["accepted"], rows["rejected"])
        of_run: Facets = {"skyband_rejectedRows": counts.facet()}
        if state is RunState.FAIL and errors:
            of_run["errorMessage"] = error_facet(errors[0])
        at = datetime.fromisoformat(outcome["ended_at"]) if outcome["ended_at"] else datetime.now(UTC)
        spans = outcome["tables"]
        # A rebuild replaces all tables; one that only adds queries leaves the others where they were.
        replaced = self._run.command == "rebuild" and all(span["from"] is None for span in spans.values())
        changed = {name: span for name, span in spans.items() if not self._is_announced(name, span)}
        added = self._rows_added(outcome, changed)
        written = [self._written(name, span, outcome["checks"], added.get(name), replaced) for name, span in changed.items()]
        return self._event(state, at, of_run, self._read(self._input_counts(rows["in"])), written)

    @cached_property
    def _inputs(self) -> Mapping[str, InputTable]:
        return input_tables(self._run.plan)

    @cached_property
    def _tables(self) -> Mapping[str, TableSpec]:
        return {t.name: t for t in batch_tables(self._run.plan)}

    @cached_property
    def _lineage(self) -> Mapping[str, TableLineage]:
        return table_lineage(self._run.plan)

    def _event(
        self, state: RunState, at: datetime, of_run: Facets, inputs: list[InputDataset] | None = None,
        outputs: list[OutputDataset] | None = None,
    ) -> RunEvent:  # fmt: skip
        # The client adds facets of its own to these mappings.
        run = Run(str(self._run.run), {**self._run_facets, **of_run})
        job = Job(self._namespace, self._run.plan.job, dict(self._job_facets))
        when = at.astimezone(UTC).isoformat(timespec="milliseconds")
        return RunEvent(eventTime=when, run=run, job=job, eventType=state, inputs=inputs or [], outputs=outputs or [])

    def _read(self, counts: Facets) -> list[InputDataset]:
        return [
            InputDataset(one.dataset.namespace, one.dataset.name, facets=input_facets(one), inputFacets=dict(counts) if not name else {})
            for name, one in self._inputs.items()
        ]

    def _input_counts(self, rows: int) -> Facets:
        """Return how many rows were read from the only source."""
        return {
            "inputStatistics": facet.input_statistics_input_dataset.InputStatisticsInputDatasetFacet(rows),
            "dataQualityMetrics": facet.data_quality_metrics_input_dataset.DataQualityMetricsInputDatasetFacet({}, rows),
        }

    def _name(self, table: str) -> tuple[str, str]:
        name = output_name(self._run.root, table)
        return name.namespace, name.name

    def _table_facets(self, table: str) -> Facets:
        """Return what does not change about a table. One of a query that was added during the run has no columns here."""
        found = place_facets(output_name(self._run.root, table), "delta", "parquet")
        if table in self._tables:
            found["schema"] = output_schema(self._tables[table].schema)
        if table in self._lineage:
            found["columnLineage"] = column_lineage(self._lineage[table], self._inputs)
        return found

    def _before(self, table: str, span: Mapping[str, Any]) -> Version | None:
        """Return the version of the table that the receiver knows, None if it knows none of this table."""
        known = None if self._announced is None else self._announced.tables.get(table)
        return known if known is not None and known.id == span["id"] else None

    def _is_announced(self, table: str, span: Mapping[str, Any]) -> bool:
        before = self._before(table, span)
        if span["to"] is None:
            # Dropped, or not there yet.
            return span["from"] is None
        return before is not None and before.version == span["to"]

    def _rows_added(self, outcome: Mapping[str, Any], changed: Mapping[str, Mapping[str, Any]]) -> dict[str, int]:
        """Return the rows that were added to tables of changes and to ``rejected`` since the last COMPLETE; nothing if they are unknown."""
        named = {changes_name(query): query for query in outcome["changes"]}
        found: dict[str, int] = {}
        for table in (t for t in changed if t in named or t == "rejected"):
            known = self._before(table, changed[table]) is not None and self._announced is not None
            batch = self._announced.batch if known and self._announced is not None else None
            figures = self._figures(outcome, BEGINNING if batch is None else batch)
            if figures is not None:
                changes, rejected = figures
                found[table] = sum(rejected.values()) if table == "rejected" else changes.get(named[table], 0)
        return found

    def _figures(self, outcome: Mapping[str, Any], after: int) -> tuple[Mapping[str, int], Mapping[str, int]] | None:
        """Return the changes by query and the rejected rows by reason of the batches after ``after``."""
        first, last = outcome["batches"]["first"], outcome["last_batch"]
        if last is None or first == max(after, -1) + 1:
            return outcome["changes"], outcome["rows"]["rejected"]
        if after not in self._counted:
            try:
                counted = batch_figures(location(self._run.root), self._run.plan, after, last)
                self._counted[after] = (counted.changes, counted.rejected)
            except SkybandError:
                return None
        return self._counted[after]

    def _written(
        self, table: str, span: Mapping[str, Any], checks: Sequence[Mapping[str, Any]], added: int | None, replaced: bool
    ) -> OutputDataset:
        found = self._table_facets(table)
        if span["to"] is not None:
            found["version"] = facet.dataset_version_dataset.DatasetVersionDatasetFacet(str(span["to"]))
        if span["to"] is not None and self._before(table, span) is None:
            change = facet.lifecycle_state_change_dataset
            known = self._announced is not None and table in self._announced.tables
            what = change.LifecycleStateChange.OVERWRITE if replaced or known else change.LifecycleStateChange.CREATE
            found["lifecycleStateChange"] = change.LifecycleStateChangeDatasetFacet(what)
        own = [check for check in checks if check["table_name"] == table]
        if own:
            found["dataQualityAssertions"] = assertions_facet(own)
        statistics = facet.output_statistics_output_dataset
        counts: Facets = {} if added is None else {"outputStatistics": statistics.OutputStatisticsOutputDatasetFacet(added)}
        return OutputDataset(*self._name(table), facets=found, outputFacets=counts)


with extra("lineage", "OpenLineage"):
    from openlineage.client.client import OpenLineageClient
    from openlineage.client.event_v2 import RunEvent, RunState
    from openlineage.client.facet_v2 import parent_run

if TYPE_CHECKING:
    from skyband.framework.streaming.run.batch import Batch

BETWEEN: Final = timedelta(minutes=1)
"""The least time between two events of the progress."""


class Lineage(Observer):
    """Sends START, RUNNING after the first batch and then at most once in ``between``, and COMPLETE, FAIL or ABORT."""

    name = "OpenLineage"

    def __init__(
        self, client: OpenLineageClient, namespace: str, parent: parent_run.ParentRunFacet | None, between: timedelta = BETWEEN
    ) -> None:
        self._client = client
        self._namespace = namespace
        self._parent = parent
        self._between = between
        self._events: RunEvents | None = None
        self._counts = Counts()
        self._reported: datetime | None = None
        self._receiver = receiver_id(client)
        self._home: Location | None = None
        self._waiting: queue.SimpleQueue[tuple[RunEvent, Announced | None] | None] = queue.SimpleQueue()
        self._sender = threading.Thread(target=self._send, name="lineage", daemon=True)
        self._queued = self._sent = 0
        self._why = ""

    def started(self, run: StartedRun) -> None:
        """See ``Observer``."""
        self._home = location(run.root) / HOME
        announced = None
        with suppress(OSError):
            announced = announced_to(self._home, self._receiver)
        self._events = RunEvents(run, self._namespace, self._parent, announced)
        self._sender.start()
        self._put(self._events.start())

    def committed(self, batch: Batch, at: datetime) -> None:
        """See ``Observer``."""
        counts = self._counts
        counts.batches += 1
        counts.rows_in += batch.get(ROWS_IN)
        counts.filtered += batch.get(FILTERED)
        counts.accepted += batch.get(ACCEPTED)
        for why, rows in batch.reasons.items():
            counts.rejected[why] = counts.rejected.get(why, 0) + rows
        if self._events is not None and (self._reported is None or at - self._reported >= self._between):
            self._reported = at
            self._put(self._events.running(counts, at))

    def ended(self, outcome: Mapping[str, Any]) -> None:
        """See ``Observer``."""
        if self._events is not None:
            event = self._events.end(outcome)
            self._put(event, Announced.of(outcome) if event.eventType is RunState.COMPLETE else None)

    def close(self, seconds: float) -> None:
        """See ``Observer``. Raises NotDelivered with the number of events that the receiver did not take."""
        until = clock.monotonic() + seconds
        if self._events is not None:
            self._waiting.put(None)
            self._sender.join(seconds)
        if not self._sender.is_alive():
            self._client.close(max(0.0, until - clock.monotonic()))
        lost = self._queued - self._sent
        if lost:
            raise NotDelivered(self._why or "the receiver did not answer in time", lost)

    def _put(self, event: RunEvent, covered: Announced | None = None) -> None:
        self._queued += 1
        self._waiting.put((event, covered))

    def _send(self) -> None:
        while (waiting := self._waiting.get()) is not None:
            event, covered = waiting
            try:
                self._client.emit(event)
                self._sent += 1
            except Exception as e:  # whatever a transport or its library raises
                self._why = reason(e)
                continue
            if covered is not None and covered.tables and self._home is not None:
                # If it cannot be recorded, the next event covers all of this again.
                with suppress(OSError):
                    record_announced(self._home, self._receiver, covered)
