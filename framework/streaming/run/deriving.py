"""Derive parts of results in Spark's tasks, which read the tables and write files that the driver commits."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from pyspark.sql import SparkSession

from skyband.framework.base.errors import SkybandError
from skyband.framework.base.redaction import redact_values
from skyband.framework.plan.model import Plan
from skyband.framework.storage.locations import location
from skyband.framework.streaming.spark.executors import error_from_executor, require_driver_versions
from skyband.framework.streaming.spark.failures import system_failure_error
from skyband.framework.streaming.spark.log import first_cause, log_file
from skyband.framework.tables.results.parts import Made, Make, Part, Spread
from skyband.framework.tables.writing.driver_writer import DriverWriter
from skyband.framework.tables.writing.sink import Sink

_Refused = tuple[str, str, str | None]
"""Code, message and hint of an error."""


@dataclass(frozen=True, slots=True)
class _Task:
    """The function that executors run. The plan lacks the source's options, which may hold secrets."""

    root: str
    plan: Plan
    generation: str
    make: Make

    def __call__(self, parts: Iterable[Part]) -> Iterator[Made | _Refused]:
        require_driver_versions()
        sink = Sink(self.plan, DriverWriter(location(self.root)), self.generation)
        for part in parts:
            try:
                yield self.make(sink, part)
            except SkybandError as e:
                # Spark would wrap it into an error of its own.
                yield e.code, e.message, e.hint


def on_spark(spark: SparkSession) -> Spread:
    """Return a function that derives parts in tasks of ``spark``, one part each. Raises their SkybandErrors, SKY-E300 if Spark fails."""

    def spread(sink: Sink, make: Make, parts: Sequence[Part]) -> list[Made]:
        root = sink.writer.task_root
        assert root is not None
        source = replace(sink.plan.source, options=(), parts=())
        task = _Task(root, replace(sink.plan, source=source, lookups=()), sink.generation, make)
        try:
            found = spark.sparkContext.parallelize(parts, len(parts)).mapPartitions(task).collect()
        except Exception as e:  # Spark raises many types
            said = f"results could not be made: {first_cause(redact_values(str(e)))}"
            raise (
                system_failure_error(e, root, log_file())
                or error_from_executor(str(e))
                or SkybandError("SKY-E300", said, hint=f"Spark's log is {log_file()}")
            ) from e
        refused = [made for made in found if not isinstance(made, Made)]
        if refused:
            raise SkybandError(*refused[0])
        return [made for made in found if isinstance(made, Made)]

    return spread
