"""``skyband metrics``: list the metrics of runs; print the dashboard for Grafana, and the alert rules for Prometheus."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING, Any

from skyband.jobs.answer import Answer
from skyband.jobs.parser import help_page

if TYPE_CHECKING:
    from skyband.framework.observe.metrics.all_metrics import Metric


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the parser of the command."""
    p = subparsers.add_parser(
        "metrics",
        help="list the metrics of runs, or print a dashboard and alert rules",
        **help_page(
            "List the metrics that runs give to Prometheus (run --metrics-port) and OpenTelemetry. Or print a dashboard for Grafana, or "
            "alert rules for Prometheus, which use them.",
            "skyband metrics",
            "skyband metrics --dashboard > skyband-dashboard.json",
            "skyband metrics --rules > skyband-rules.yaml",
        ),
    )
    which = p.add_mutually_exclusive_group()
    which.add_argument("--dashboard", action="store_true", help="print the dashboard, for Grafana's import")
    which.add_argument("--rules", action="store_true", help="print the alert rules, for rule_files of Prometheus")
    p.set_defaults(run=run)


def run(args: argparse.Namespace) -> Answer:
    """Return the list, the dashboard or the rules."""
    from skyband.framework.observe.metrics.rendered import DASHBOARD, RULES
    from skyband.framework.observe.metrics.rules import rules

    if args.dashboard:
        text = DASHBOARD.read_text(encoding="utf-8")
        return Answer({"dashboard": json.loads(text)}, text.rstrip("\n"), rows=True)
    if args.rules:
        return Answer({"rules": rules()}, RULES.read_text(encoding="utf-8").rstrip("\n"), rows=True)
    from skyband.framework.observe.metrics.all_metrics import JOB, METRICS

    listed: list[dict[str, Any]] = [
        {
            "prometheus": metric.prometheus,
            "opentelemetry": metric.name,
            "kind": metric.kind,
            "unit": metric.unit,
            "labels": [JOB, *metric.labels],
            "description": metric.description,
        }
        for metric in METRICS
    ]
    return Answer({"metrics": listed}, "\n".join(_shown(metric) for metric in METRICS))


def _shown(metric: Metric) -> str:
    """Format a metric for people."""
    labels = f" by {', '.join(metric.labels)}" if metric.labels else ""
    return f"{metric.prometheus:<38}  {metric.kind}{labels}: {metric.description} (OpenTelemetry: {metric.name})"
