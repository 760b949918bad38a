"""The alert rules for Prometheus, rendered from the list of metrics. ``rules.yaml`` beside this file has them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import yaml

from skyband.framework.observe.metrics import all_metrics as m
from skyband.framework.observe.metrics.all_metrics import JOB, Metric, plain

J: Final = plain(JOB)
NAMED: Final = f"{{{{ $labels.{J} }}}}"


def _by_job(metric: Metric, function: str = "max", over: str = "{}") -> str:
    return f"{function} by ({J}) ({over.format(metric.prometheus)})"


@dataclass(frozen=True, slots=True)
class Rule:
    """One alert. ``lasting``: how long ``expression`` has to hold."""

    name: str
    expression: str
    lasting: str
    severity: str
    summary: str
    description: str


def _waiting(function: str, when: str = "") -> str:
    return _by_job(m.BACKLOG_FILES, over=f"{function}_over_time({{}}[15m]{when})")


_ROWS = _by_job(m.ROWS, "sum", "increase({}[15m])")
RULES: Final = (
    Rule(
        "SkybandDown", 'up{job=~"skyband.*"} == 0', "5m", "critical",
        "The metrics of {{ $labels.instance }} cannot be read",
        "The run has ended, or does not answer. See `skyband history`. Remove the target if the run is over for good.",
    ),
    Rule(
        "SkybandRunFailed", f"({_by_job(m.EXIT_CODE, over='last_over_time({}[15m])')} >= 1) <= 4", "0m", "critical",
        f"A run of {NAMED} ended with exit code {{{{ $value }}}}",
        "The codes are those of `skyband run --help`; `skyband history` has the error. Seen by OpenTelemetry only.",
    ),
    Rule(
        "SkybandWatermarkLag", f"{_by_job(m.WATERMARK_LAG)} > 3600", "10m", "warning",
        f"Results of {NAMED} are {{{{ $value | humanizeDuration }}}} behind the clock",
        "The job is slow, or its source is late: compare the lag of the newest row. Set the limit to what the readers of results need.",
    ),
    Rule(
        "SkybandNoBatch",
        f"time() - max by ({J}) ({m.COMMITTED.prometheus} or {m.RUN_START.prometheus}) > 1800 and on ({J}) {_by_job(m.RUN_ACTIVE)} == 1",
        "5m", "warning",
        f"{NAMED} has committed no batch for {{{{ $value | humanizeDuration }}}}",
        "The source is silent, or a batch does not end. Set the limit above the longest silence of the source.",
    ),
    Rule(
        "SkybandRowsRejected", f"{_by_job(m.REJECTED_ROWS, 'sum', 'increase({}[15m])')} / ({_ROWS} > 0) > 0.01", "5m", "warning",
        f"{NAMED} rejects {{{{ $value | humanizePercentage }}}} of its rows",
        "`skyband rejected` shows them, with their reasons.",
    ),
    Rule(
        "SkybandBacklogGrowing", f"{_waiting('avg')} > 2 * {_waiting('avg', ' offset 30m')} and {_waiting('min')} > 0", "15m", "warning",
        f"{{{{ $value | humanize }}}} files wait for {NAMED}, more than twice as many as half an hour ago",
        "Files arrive faster than batches take them. Compare the batch duration by stage.",
    ),
)  # fmt: skip
"""All alerts. Their limits are to be edited: what is late, and how silent a source may be, differs by job."""


def rules() -> dict[str, Any]:
    """Return the file of rules as Prometheus reads it."""
    return {
        "groups": [
            {
                "name": "skyband",
                "rules": [
                    {
                        "alert": rule.name,
                        "expr": rule.expression,
                        "for": rule.lasting,
                        "labels": {"severity": rule.severity},
                        "annotations": {"summary": rule.summary, "description": rule.description},
                    }
                    for rule in RULES
                ],
            }
        ]
    }


def rules_text() -> str:
    """Return the text of ``rules.yaml``."""
    head = "# Alert rules of Skyband for Prometheus, rendered from its list of metrics: skyband metrics --rules\n"
    return head + yaml.safe_dump(rules(), sort_keys=False, allow_unicode=True, width=1000)
