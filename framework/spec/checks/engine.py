"""Check that the engine that a spec names can run its job."""

from __future__ import annotations

from skyband.framework.plan.compile import compile_job
from skyband.framework.plan.engine import why_not_local
from skyband.framework.spec.models.job import Job
from skyband.framework.spec.parsing.document import Document


def check_engine(doc: Document, job: Job) -> None:
    """Report an engine that cannot run ``job``, of which no other mistake is known."""
    if job.run.engine != "local" or doc.errors:
        return
    why = why_not_local(compile_job(job))
    if why is not None:
        where = doc.where_value(("run", "engine"))
        doc.add("SKY-E137", f"the local engine cannot run this job: {why}", where, "run it by Spark: engine: spark, which is the default")
