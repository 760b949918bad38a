"""Send the alerts of a job while it runs. Nothing of it is imported, started or read for a job without alerts."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from skyband.framework.console.receivers import NotDelivered
from skyband.framework.sources.kafka.client import connection, refused
from skyband.framework.streaming.run.context import OpenedJob, RunContext
from skyband.framework.streaming.spark.log import first_cause
from skyband.framework.streaming.spark.stop_signal import STOP

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from skyband.framework.alerts.alerts import Alerts
    from skyband.framework.alerts.channels import Channel

_AFTER_SIGNAL: Final = 2.0
"""The seconds that a run which a signal ends waits for its alerts."""
_BETWEEN_PLANS: Final = 1.0
"""The seconds that a run waits for them before it goes on with other live queries."""


class Alerting:
    """The alerts of one run, if its job has any. A context manager: at its end it waits for what is being sent."""

    def __init__(self, context: RunContext) -> None:
        self._context = context
        self._alerts: Alerts | None = None
        self._complete = False

    def __enter__(self) -> Alerting:
        return self

    def __exit__(self, *_: Any) -> None:
        self._close()

    def complete(self) -> None:
        """Note that the run has read all that there was to read, or that it ends as a continuous run does."""
        self._complete = True

    def begin(self, opened: OpenedJob, last: int) -> None:
        """Send the alerts of ``opened`` from now on; ``last`` is its last complete batch. Ends those of an earlier plan of the run."""
        self._close(_BETWEEN_PLANS)
        plan, context = opened.plan, self._context
        if not plan.alerts:
            # An alert that is declared later begins then, also if there was one of its name before.
            with suppress(OSError):
                (context.layout.home / "alerts.json").unlink(missing_ok=True)
            return
        from skyband.framework.alerts.alerts import Alerts
        from skyband.framework.alerts.channels import channels_of

        def records(channel: Channel, pairs: Sequence[tuple[str, str]], seconds: float) -> None:
            write_records(context.spark, channel, pairs, seconds)

        self._alerts = Alerts(plan, context.layout, opened.job, last, channels_of(plan.job, plan.alerts), records)
        self._tell(self._alerts.committed(last))

    def committed(self, batch: int) -> None:
        """Have the messages of ``batch``, which has just been committed, sent. Returns at once."""
        if self._alerts is not None:
            self._tell(self._alerts.committed(batch))

    def _close(self, seconds: float | None = None) -> None:
        if self._alerts is not None:
            from skyband.framework.alerts.alerts import PATIENCE

            alerts, self._alerts = self._alerts, None
            seconds = _AFTER_SIGNAL if STOP.signal is not None else seconds
            self._tell(alerts.close(PATIENCE if seconds is None else seconds, self._complete))

    def _tell(self, news: Sequence[str]) -> None:
        for text in news:
            self._context.warn(text)


def write_records(spark: SparkSession, channel: Channel, pairs: Sequence[tuple[str, str]], seconds: float) -> None:
    """Write (key, value) to the topic of ``channel``, in their order. Raises NotDelivered."""
    limit = str(max(1_000, int(seconds * 1000)))
    limits = {f"kafka.{name}.ms": limit for name in ("max.block", "request.timeout", "delivery.timeout")} | {"kafka.linger.ms": "0"}
    rows = spark.createDataFrame([(channel.topic, key, value) for key, value in pairs], "topic string, key string, value string")
    try:
        rows.coalesce(1).write.format("kafka").options(**connection(dict(channel.kafka)), **limits).save()
    except Exception as e:  # whatever Spark says
        known = refused(str(e))
        raise NotDelivered(known[0] if known is not None else first_cause(str(e))) from e
