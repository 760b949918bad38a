"""The facets of events: what a run, a job and its datasets are. They hold names, types, counts and versions, never values of rows."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Final

import pyarrow as pa

from skyband.framework.base.counts import counted
from skyband.framework.base.extras import extra
from skyband.framework.base.redaction import redact_values
from skyband.framework.observe.lineage.table_columns import FILE, DatasetName, InputColumn, InputTable, Origin, TableLineage
from skyband.framework.observe.observers import StartedRun
from skyband.framework.plan.model import Plan
from skyband.framework.sources.registry import source_format

with extra("lineage", "OpenLineage"):
    import attr
    from openlineage.client import facet_v2 as facet
    from openlineage.client.generated.column_lineage_dataset import ColumnLineageDatasetFacet, Fields, InputField, Transformation

PRODUCER: Final = "urn:skyband"
SCHEMA: Final = "urn:skyband:openlineage:1"
"""The id of ``custom_facets.schema.json``."""
_SEVERITIES: Final = {"critical": "error", "warning": "warn"}
Facets = dict[str, Any]


@attr.define
class RejectedRowsRunFacet(facet.RunFacet):
    """What became of the rows that a run has read so far."""

    batches: int
    rowsIn: int
    filtered: int
    accepted: int
    rejected: dict[str, int]

    @staticmethod
    def _get_schema() -> str:
        return f"{SCHEMA}#/$defs/RejectedRowsRunFacet"


@attr.define
class SpecJobFacet(facet.JobFacet):
    """The spec of a job, without its text."""

    sha256: str

    @staticmethod
    def _get_schema() -> str:
        return f"{SCHEMA}#/$defs/SpecJobFacet"


def installed(package: str) -> str:
    """Return the version of an installed package."""
    try:
        return version(package)
    except PackageNotFoundError:
        return "unknown"


def job_facets(run: StartedRun, spec_hash: str | None) -> Facets:
    """Return the facets of a job: what it is, without the text of its spec."""
    kind = facet.job_type_job
    pattern = kind.EmissionPattern("PERIODIC" if run.continuous else "EVENT_BASED", "ACCUMULATIVE")
    found: Facets = {
        "jobType": kind.JobTypeJobFacet("STREAMING" if run.continuous else "BATCH", "SKYBAND", "JOB", pattern),
        "documentation": facet.documentation_job.DocumentationJobFacet(_description(run.plan), "text/plain"),
    }
    return found if spec_hash is None else found | {"skyband_spec": SpecJobFacet(spec_hash)}


def run_facets(parent: facet.parent_run.ParentRunFacet | None) -> Facets:
    """Return the facets that all events of a run have. ``parent``: the run that has started it."""
    engine = facet.processing_engine_run.ProcessingEngineRunFacet(installed("pyspark"), "spark", installed("skyband"))
    return {"processing_engine": engine} | ({} if parent is None else {"parent": parent})


def error_facet(error: Mapping[str, Any]) -> facet.error_message_run.ErrorMessageRunFacet:
    """Return the error of a run, as its outcome has it: redacted, with its code."""
    return facet.error_message_run.ErrorMessageRunFacet(f"{error['code']} {error['message']}", "PYTHON")


def schema_facet(columns: Iterable[tuple[str, str, str | None]]) -> facet.schema_dataset.SchemaDatasetFacet:
    """Return a schema of (name, type, description)."""
    module = facet.schema_dataset
    fields = [module.SchemaDatasetFacetFields(name, type_, said, n) for n, (name, type_, said) in enumerate(columns, 1)]
    return module.SchemaDatasetFacet(fields)


def place_facets(dataset: DatasetName, layer: str, file_format: str | None) -> Facets:
    """Return where a dataset is and how it is stored."""
    found: Facets = {"dataSource": facet.datasource_dataset.DatasourceDatasetFacet(dataset.namespace, dataset.uri)}
    return found | {"storage": facet.storage_dataset.StorageDatasetFacet(layer, file_format)}


def input_facets(table: InputTable) -> Facets:
    """Return the facets of a dataset that is read."""
    columns = ((redact_values(f.source_name or f.name), f.type, None) for f in table.fields)
    kind = source_format(table.format)
    layer = FILE if kind.of_files else table.format
    file_format = table.format if kind.of_files else "parquet" if kind.of_table else None
    return {"schema": schema_facet(columns)} | place_facets(table.dataset, layer, file_format)


def output_schema(schema: pa.Schema) -> facet.schema_dataset.SchemaDatasetFacet:
    """Return the columns of a table, with their meanings from the data dictionary."""
    return schema_facet((f.name, spark_type(f.type), f.metadata[b"comment"].decode()) for f in schema)


def column_lineage(table: TableLineage, inputs: Mapping[str, InputTable]) -> ColumnLineageDatasetFacet:
    """Return the facet of a table's columns. What decides which rows it has is that of the whole dataset."""
    fields = {name: Fields(_inputs(origin, inputs)) for name, origin in table.columns.items()}
    rows = _inputs(Origin({}, table.rows), inputs)
    return ColumnLineageDatasetFacet({name: f for name, f in fields.items() if f.inputFields}, rows)


def _inputs(origin: Origin, inputs: Mapping[str, InputTable]) -> list[InputField]:
    found: dict[InputColumn, list[Transformation]] = {c: [Transformation("DIRECT", kind)] for c, kind in origin.direct.items()}
    for column, kinds in origin.indirect.items():
        found.setdefault(column, []).extend(Transformation("INDIRECT", kind) for kind in sorted(kinds))
    known = ((c, how, inputs[c.table].dataset) for c, how in found.items() if c.table in inputs)
    return [InputField(d.namespace, d.name, redact_values(c.column), how) for c, how, d in known]


def assertions_facet(checks: Sequence[Mapping[str, Any]]) -> facet.data_quality_assertions_dataset.DataQualityAssertionsDatasetFacet:
    """Return the checks of one table, as the outcome has them: what was expected and whether it holds, not the values observed."""
    module = facet.data_quality_assertions_dataset
    made = [
        module.Assertion(
            check["expectation"], bool(check["success"]), _column(check["arguments"]),
            _SEVERITIES.get(check["severity"], check["severity"]),
            params={name: check[name] for name in ("rows_checked", "unexpected") if check[name] is not None},
        )
        for check in checks
    ]  # fmt: skip
    return module.DataQualityAssertionsDatasetFacet(made)


def _column(arguments: str) -> str | None:
    """Return the column that an expectation is about; None if it is about the table, or several columns."""
    try:
        column = json.loads(arguments).get("column")
    except (ValueError, AttributeError):
        return None
    return redact_values(column) if isinstance(column, str) else None


def spark_type(kind: pa.DataType) -> str:
    """Return the Spark SQL type of a column of a table."""
    if pa.types.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    if pa.types.is_list(kind):
        return f"array<{spark_type(kind.value_type)}>"
    if pa.types.is_timestamp(kind):
        return "timestamp"
    named = {"int8": "tinyint", "int16": "smallint", "int32": "int", "int64": "bigint", "bool": "boolean", "date32[day]": "date"}
    return named.get(str(kind), str(kind))


def _description(plan: Plan) -> str:
    queries = ", ".join(f"{q.name} ({q.type})" for q in plan.every_query)
    return f"{counted(len(plan.every_query), 'query', 'queries')} over sliding windows: {queries}; source: {plan.source.shown}"
