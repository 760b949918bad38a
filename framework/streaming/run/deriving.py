"""Parts of results derived by Spark's tasks: they read the tables and write files, the driver commits those."""

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
    """What executors run. The plan is without the source's options: they may hold secrets."""

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
                # Spark would tell it as a failure of its own.
                yield e.code, e.message, e.hint


def on_spark(spark: SparkSession) -> Spread:
    """Makes parts in tasks of ``spark``, one a task. Raises SkybandError as the part's own, SKY-E300 if Spark fails."""

    def spread(sink: Sink, make: Make, parts: Sequence[Part]) -> list[Made]:
        root = sink.writer.task_root
        assert root is not None
        task = _Task(root, replace(sink.plan, source=replace(sink.plan.source, options=())), sink.generation, make)
        try:
            found = spark.sparkContext.parallelize(parts, len(parts)).mapPartitions(task).collect()
        except Exception as e:  # whatever Spark says
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
