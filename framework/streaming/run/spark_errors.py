"""Spark's errors in the user's terms."""

from __future__ import annotations

from skyband.framework.base.errors import SkybandError
from skyband.framework.base.redaction import redact_values
from skyband.framework.plan.model import Plan
from skyband.framework.sources.registry import source_format
from skyband.framework.spark_adapter.failures import log_file, system_failure_error
from skyband.framework.storage.location import Location
from skyband.framework.streaming.job.checkpoint import failure as lost_part
from skyband.framework.streaming.job.layout import JobFile
from skyband.framework.streaming.spark.executors import error_from_executor
from skyband.framework.streaming.spark.jvm import worker_failed
from skyband.framework.streaming.spark.log import first_cause


def error_of(e: Exception, plan: Plan, job: JobFile, checkpoint: Location) -> SkybandError:
    """Return the error of the system, of the source, of the checkpoint or of a worker that Spark reports by ``e``, or its first cause."""
    said, log = str(e), log_file()
    of_source = source_format(plan.source.format).failure(said, job.header, plan.source.path)
    hint = f"fix what it names, then run again: nothing that was committed is lost; Spark's log is {log}"
    died = error_from_executor(said) or worker_failed(said, log)
    failed = SkybandError("SKY-E300", f"the run failed: {first_cause(redact_values(said))}", hint=hint)
    return system_failure_error(e, checkpoint, log) or of_source or lost_part(said, checkpoint) or died or failed
