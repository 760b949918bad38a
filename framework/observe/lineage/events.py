"""The events of one run: its start, its progress and its end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, Final

from skyband.framework.base.extras import extra
from skyband.framework.observe.lineage import facets
from skyband.framework.observe.lineage.datasets import InputTable, input_tables, output_name
from skyband.framework.observe.lineage.facets import PRODUCER, Facets
from skyband.framework.observe.lineage.table_columns import TableLineage, table_lineage
from skyband.framework.observe.observers import StartedRun
from skyband.framework.streaming.job.run_records import spec_hash
from skyband.framework.tables.schemas import TableSpec, batch_tables, changes_name

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

    def facet(self) -> facets.RejectedRowsRunFacet:
        """Return them as a facet."""
        return facets.RejectedRowsRunFacet(self.batches, self.rows_in, self.filtered, self.accepted, dict(sorted(self.rejected.items())))


class RunEvents:
    """Makes the events of ``run``. ``parent``: the run that has started it."""

    def __init__(self, run: StartedRun, namespace: str, parent: facet.parent_run.ParentRunFacet | None) -> None:
        self._run = run
        self._namespace = namespace
        self._run_facets = facets.run_facets(parent)
        self._job_facets = facets.job_facets(run, spec_hash(run.spec))

    def start(self) -> RunEvent:
        """Return the event of the start: all that the job reads and may write."""
        outputs = [OutputDataset(*self._name(t), facets=self._table_facets(t)) for t in self._tables]
        return self._event(RunState.START, self._run.began, {}, self._read({}), outputs)

    def running(self, counts: Counts, at: datetime) -> RunEvent:
        """Return an event of the progress."""
        return self._event(RunState.RUNNING, at, {"skyband_rejectedRows": counts.facet()})

    def end(self, outcome: Mapping[str, Any]) -> RunEvent:
        """Return the event of the end: the tables that have changed, with their versions, counts and checks."""
        rows, errors = outcome["rows"], outcome["errors"]
        state = _STATES.get(outcome["status"], RunState.FAIL)
        counts = Counts(outcome["batches"]["count"], rows["in"], rows["filtered"], rows["accepted"], rows["rejected"])
        of_run: Facets = {"skyband_rejectedRows": counts.facet()}
        if state is RunState.FAIL and errors:
            of_run["errorMessage"] = facets.error_facet(errors[0])
        at = datetime.fromisoformat(outcome["ended_at"]) if outcome["ended_at"] else datetime.now(UTC)
        spans = outcome["tables"]
        # A rebuild replaces all tables; one that only adds queries leaves the others where they were.
        replaced = self._run.command == "rebuild" and all(span["from"] is None for span in spans.values())
        written = [self._written(name, span, outcome, replaced) for name, span in spans.items() if span["from"] != span["to"]]
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
            InputDataset(
                one.dataset.namespace, one.dataset.name, facets=facets.input_facets(one), inputFacets=dict(counts) if not name else {}
            )
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
        found = facets.place_facets(output_name(self._run.root, table), "delta", "parquet")
        if table in self._tables:
            found["schema"] = facets.output_schema(self._tables[table].schema)
        if table in self._lineage:
            found["columnLineage"] = facets.column_lineage(self._lineage[table], self._inputs)
        return found

    def _written(self, table: str, span: Mapping[str, int | None], outcome: Mapping[str, Any], replaced: bool) -> OutputDataset:
        found = self._table_facets(table)
        if span["to"] is not None:
            found["version"] = facet.dataset_version_dataset.DatasetVersionDatasetFacet(str(span["to"]))
        if span["from"] is None:
            change = facet.lifecycle_state_change_dataset
            what = change.LifecycleStateChange.OVERWRITE if replaced else change.LifecycleStateChange.CREATE
            found["lifecycleStateChange"] = change.LifecycleStateChangeDatasetFacet(what)
        checks = [check for check in outcome["checks"] if check["table_name"] == table]
        if checks:
            found["dataQualityAssertions"] = facets.assertions_facet(checks)
        added = {changes_name(query): count for query, count in outcome["changes"].items()}
        added["rejected"] = sum(outcome["rows"]["rejected"].values())
        statistics = facet.output_statistics_output_dataset
        counts: Facets = {"outputStatistics": statistics.OutputStatisticsOutputDatasetFacet(added[table])} if table in added else {}
        return OutputDataset(*self._name(table), facets=found, outputFacets=counts)
