"""The alerts of a job before a run and in a run that needs no Spark. Imports nothing more for a job without alerts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skyband.jobs.running.opening import warning

if TYPE_CHECKING:
    from skyband.framework.console.lines import Lines
    from skyband.framework.plan.model import Plan
    from skyband.framework.streaming.job.layout import JobFile, Layout


def check_channels(plan: Plan) -> None:
    """Raise SkybandError SKY-E660 or SKY-E661 if a channel that an alert names is not configured for the job."""
    if plan.alerts:
        from skyband.framework.alerts.channels import channels_of

        channels_of(plan.job, plan.alerts)


def needs_spark(plan: Plan, layout: Layout, job: JobFile) -> bool:
    """Return True if messages of a job at rest wait that only Spark can send: those for a topic of Kafka."""
    if not plan.alerts:
        return False
    from skyband.framework.alerts.channels import channels_of

    return any(channel.kafka for channel in channels_of(plan.job, plan.alerts).values()) and not _caught_up(plan, layout, job)


def send_waiting(plan: Plan, layout: Layout, job: JobFile, lines: Lines) -> None:
    """Send what alerts of a job at rest have not sent yet, without Spark. Only for a caller that holds the job's lock."""
    if not plan.alerts or _caught_up(plan, layout, job):
        return
    from skyband.framework.alerts.alerts import Alerts
    from skyband.framework.alerts.channels import channels_of
    from skyband.framework.sources.logs import last_batch

    alerts = Alerts(plan, layout, job, last_batch(layout.checkpoint / "commits"), channels_of(plan.job, plan.alerts))
    warn = warning(lines)
    for text in alerts.close(complete=True):
        warn(text)


def _caught_up(plan: Plan, layout: Layout, job: JobFile) -> bool:
    from skyband.framework.alerts.alerts import caught_up
    from skyband.framework.sources.logs import last_batch

    return caught_up(plan, layout, job, last_batch(layout.checkpoint / "commits"))
