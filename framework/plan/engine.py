"""Decide whether this process can run a job without Spark. Opens no file."""

from __future__ import annotations

from skyband.framework.base.errors import SkybandError
from skyband.framework.plan.model import IntakeNode, Plan
from skyband.framework.plan.reader import why_not_by_arrow


def why_not_local(plan: Plan) -> str | None:
    """Return why this process cannot run the job without Spark, None if it can."""
    if plan.source.parts:
        return "it has several sources"
    read = why_not_by_arrow(plan.source, plan.intake, local=True)
    if read is not None:
        return f"only Spark reads its source: {read}"
    if "://" in plan.sink.removeprefix("file://"):
        return "its sink is on object storage"
    if plan.kafka is not None:
        return "its changes go to Kafka"
    if plan.shards != 1:
        return "run.shards divides the search for pairs among Spark's tasks"
    return _why_not_its_sql(plan.intake)


def _why_not_its_sql(intake: IntakeNode) -> str | None:
    if not intake.transforms and not intake.rules:
        return None
    # It loads sqlglot, which takes its time.
    from skyband.framework.sql_without_spark.intake_sql import IntakeSql

    try:
        IntakeSql(intake)
    except SkybandError as e:
        return e.message
    return None


def require_local_engine(plan: Plan) -> None:
    """Raise SkybandError SKY-E137 if this process cannot run the job without Spark."""
    why = why_not_local(plan)
    if why is not None:
        raise SkybandError(
            "SKY-E137", f"the local engine cannot run this job: {why}", hint="run it with --engine spark, which is the default"
        )
