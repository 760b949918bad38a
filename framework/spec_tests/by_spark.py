"""Run a test of a spec on Spark: one run per input batch, from Parquet files, in a temporary directory."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from skyband.framework.lookups.table import nodes
from skyband.framework.plan.model import Plan, SourceNode
from skyband.framework.sources.values import arrow_column
from skyband.framework.spec.models.job import SpecTest
from skyband.framework.spec_tests.loading import clock_of, input_batches, lookup_rows
from skyband.framework.spec_tests.tables import REJECTED, Tables, tables_of_query
from skyband.framework.storage.delta_read import exists, open_table, read


def tables_of(plan: Plan, test: SpecTest, spark: Any) -> Tables:
    """Return the job's tables after the test's rows. Takes seconds per batch. Raises SkybandError as runs do, and SKY-E530."""
    from skyband.framework.streaming.run.runner import Runner
    from skyband.framework.streaming.run.spark_engine import SparkEngine
    from skyband.framework.tables.writing.factory import writer_for

    batches, clock = input_batches(plan, test), clock_of(test)
    with tempfile.TemporaryDirectory(prefix="skyband-test-") as directory:
        landing, sink = Path(directory, "in"), Path(directory, "out")
        landing.mkdir()
        lookups = _lookups(plan, test, Path(directory, "lookups"))
        intake = plan.intake if clock is not None else replace(plan.intake, ahead_micros=None)
        # Rows of tests have positions of their own: to Spark they are columns like others.
        fields = (*plan.source.fields, *(replace(f, source_name=f.name) for f in plan.source.position))
        source = replace(
            plan.source, format="parquet", path=str(landing), options=(), written=None, relative=None, fields=fields, position=(), parts=()
        )
        # Nothing of a test is sent to anyone.
        own = replace(plan.unshared, source=source, intake=intake, lookups=lookups, sink=str(sink), variables=(), check_every=None)
        for n, batch in enumerate(batches):
            _write(landing / f"{n:06}.parquet", own, batch.rows)
            runner = Runner(SparkEngine(spark), own, writer_for(own.sink, spark), lambda _: None, clock=clock)
            last = n + 1 == len(batches)
            runner.run(once=True, finish=last and test.finish is not False, finish_at=test.finish_at)
        names = [*(n for q in plan.every_query for n in tables_of_query(q)), REJECTED]
        return {n: read(open_table(sink, n)) for n in names if exists(sink, n)}


def _lookups(plan: Plan, test: SpecTest, directory: Path) -> tuple[SourceNode, ...]:
    """Write the tables of look-ups, and return where they are."""
    made = []
    for node, source in nodes(plan):
        path = directory / node.name
        path.mkdir(parents=True)
        pq.write_table(lookup_rows(test, node, source), path / "table.parquet", coerce_timestamps="us")
        made.append(replace(source, format="parquet", path=str(path), options=()))
    return tuple(made)


def _write(path: Path, plan: Plan, rows: list[dict[str, Any]]) -> None:
    if not rows:
        return
    columns = {str(f.source_name): arrow_column([r.get(f.name) for r in rows], f.type) for f in plan.source.fields}
    # Hidden until it is complete, so that Spark does not read half a file.
    hidden = path.with_name("_" + path.name)
    pq.write_table(pa.table(columns), hidden, coerce_timestamps="us")
    hidden.rename(path)
