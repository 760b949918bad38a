"""Write ``dashboard.json`` and ``rules.yaml``: ``python -m skyband.framework.observe.metrics.rendered``. A test fails if they are old."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from skyband.framework.observe.metrics import all_metrics as m
from skyband.framework.observe.metrics.all_metrics import JOB, Metric, plain
from skyband.framework.observe.metrics.rules import rules_text

# The Grafana dashboard, rendered from the list of metrics. ``dashboard.json`` beside this file has it.

SCHEMA: Final = 39
"""Version of Grafana's schema of dashboards: that of Grafana 10.4, which later versions read."""
DATASOURCE: Final = {"type": "prometheus", "uid": "${datasource}"}
J: Final = plain(JOB)
INTERVAL: Final = "$__rate_interval"


def one(metric: Metric, suffix: str = "") -> str:
    """Return the selector of a metric for the chosen jobs."""
    return f'{metric.prometheus}{suffix}{{{J}=~"$job"}}'


def rate(metric: Metric, by: str = "", suffix: str = "") -> str:
    """Return the sum per second of a counter of each job, also by the label ``by``."""
    return f"sum by ({J}{', ' + by if by else ''}) (rate({one(metric, suffix)}[{INTERVAL}]))"


def newest(metric: Metric, by: str = "") -> str:
    """Return a gauge of each job, also by the label ``by``."""
    return f"max by ({J}{', ' + by if by else ''}) ({one(metric)})"


def quantile(share: float, metric: Metric) -> str:
    """Return a quantile of a histogram of each job."""
    return f"histogram_quantile({share:g}, {rate(metric, 'le', '_bucket')})"


def legend(text: str = "", label: str = "") -> str:
    """Return the legend of a series: the job, then what it shows."""
    return f"{{{{{J}}}}}" + (f" {text}" if text else "") + (f" {{{{{label}}}}}" if label else "")


@dataclass(frozen=True, slots=True)
class Panel:
    """One panel. ``series``: (expression, legend) of each. ``kind``: of Grafana's panels. ``unit``: of Grafana's units."""

    title: str
    description: str
    series: tuple[tuple[str, str], ...]
    unit: str = "short"
    kind: str = "timeseries"
    stacked: bool = False
    steps: tuple[tuple[str, float | None], ...] = (("green", None),)


STATS: Final = (
    Panel("Active runs", "Runs that go on now.", ((f"sum by ({J}) ({one(m.RUN_ACTIVE)})", legend()),), kind="stat",
          steps=(("red", None), ("green", 1))),
    Panel("Watermark lag", "Now less the watermark: how far results are behind the clock.", ((newest(m.WATERMARK_LAG), legend()),), "s",
          "stat"),
    Panel("Rows per second", "Rows read from the source.", ((rate(m.ROWS), legend()),), "rowsps", "stat"),
    Panel("Rejected", "Share of the rows read that were rejected.", ((f"{rate(m.REJECTED_ROWS)} / ({rate(m.ROWS)} > 0)", legend()),),
          "percentunit", "stat", steps=(("green", None), ("orange", 0.01), ("red", 0.05))),
    Panel("Files waiting", "Files of a local source that no batch has taken.", ((newest(m.BACKLOG_FILES), legend()),), kind="stat"),
    Panel("Since the last batch", "Time since the last batch was committed.", ((f"time() - {newest(m.COMMITTED)}", legend()),), "s",
          "stat"),
)  # fmt: skip
GRAPHS: Final = (
    Panel("Rows", "Rows by what became of them. Rows that wait for the watermark are not counted yet.", (
        (rate(m.ROWS), legend("read")), (rate(m.ACCEPTED_ROWS), legend("accepted")), (rate(m.FILTERED_ROWS), legend("filtered")),
        (rate(m.REJECTED_ROWS), legend("rejected"))), "rowsps"),
    Panel("Rejected rows by reason", "The reason is that of table rejected.", ((f"{rate(m.REJECTED_ROWS, 'reason')} > 0",
          legend(label="reason")),), "rowsps", stacked=True),
    Panel("Lag", "Now less the watermark, and now less the newest event time. Both rise while the source is silent.", (
        (newest(m.WATERMARK_LAG), legend("watermark")), (newest(m.NEWEST_LAG), legend("newest row"))), "s"),
    Panel("Backlog", "Files of a local source that no batch has taken.", ((newest(m.BACKLOG_FILES), legend()),)),
    Panel("Batch duration", "From the start of a batch to its commit.", (
        (quantile(0.5, m.BATCH_DURATION), legend("median")), (quantile(0.95, m.BATCH_DURATION), legend("95 %"))), "s"),
    Panel("Batch duration by stage", "Mean seconds of a batch: Spark's tasks, checks, writing tables, sending to Kafka.", (
        (f"{rate(m.STAGE_DURATION, 'stage', '_sum')} / {rate(m.STAGE_DURATION, 'stage', '_count')}", legend(label="stage")),), "s",
          stacked=True),
    Panel("Changes by query", "Rows written to the tables of changes.", ((rate(m.CHANGES, "query"), legend(label="query")),), "rowsps"),
    Panel("Time of tasks by phase", "Seconds that tasks work, per second: the cores in use.", (
        (rate(m.TASK_TIME, "phase"), legend(label="phase")),), stacked=True),
    Panel("Rows in state", "Rows of the windows and rows that are not due yet, and those that wait for the watermark.", (
        (newest(m.STATE_ROWS), legend("in state")), (newest(m.PENDING_ROWS), legend("waiting"))),),
    Panel("Size of the state", "Files of the state.", ((newest(m.STATE_SIZE, "place"), legend(label="place")),), "bytes"),
)  # fmt: skip
_WIDTH: Final = 24
_STAT: Final = (4, 4)
_GRAPH: Final = (12, 8)


def dashboard() -> dict[str, Any]:
    """Return the dashboard as Grafana imports it."""
    placed = _placed(STATS, _STAT, 0)
    placed += _placed(GRAPHS, _GRAPH, _STAT[1])
    return {
        "uid": "skyband-jobs",
        "title": "Skyband jobs",
        "description": "Rendered from Skyband's list of metrics: skyband metrics --dashboard",
        "tags": ["skyband"],
        "schemaVersion": SCHEMA,
        "version": 1,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "30s",
        "timezone": "browser",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {"list": [_source(), _jobs()]},
        "annotations": {"list": []},
        "links": [],
        "panels": [_panel(number, panel, place) for number, (panel, place) in enumerate(placed, 1)],
    }


def _placed(panels: Sequence[Panel], size: tuple[int, int], top: int) -> list[tuple[Panel, dict[str, int]]]:
    w, h = size
    each = _WIDTH // w
    return [(p, {"x": w * (i % each), "y": top + h * (i // each), "w": w, "h": h}) for i, p in enumerate(panels)]


def _panel(number: int, panel: Panel, place: dict[str, int]) -> dict[str, Any]:
    custom: dict[str, Any] = {"lineWidth": 1, "fillOpacity": 30 if panel.stacked else 5, "showPoints": "never"}
    custom["stacking"] = {"mode": "normal" if panel.stacked else "none", "group": "A"}
    defaults: dict[str, Any] = {
        "unit": panel.unit,
        "min": 0,
        "thresholds": {"mode": "absolute", "steps": [{"color": color, "value": value} for color, value in panel.steps]},
    }
    if panel.kind == "stat":
        options: dict[str, Any] = {"reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False}, "colorMode": "value"}
        options |= {"graphMode": "area", "textMode": "auto", "orientation": "auto", "justifyMode": "auto"}
    else:
        defaults["custom"] = custom
        options = {"legend": {"displayMode": "list", "placement": "bottom", "showLegend": True, "calcs": []}}
        options["tooltip"] = {"mode": "multi", "sort": "desc"}
    return {
        "id": number,
        "type": panel.kind,
        "title": panel.title,
        "description": panel.description,
        "datasource": DATASOURCE,
        "gridPos": place,
        "fieldConfig": {"defaults": defaults, "overrides": []},
        "options": options,
        "targets": [
            {"refId": chr(ord("A") + i), "datasource": DATASOURCE, "expr": expression, "legendFormat": text, "range": True}
            for i, (expression, text) in enumerate(panel.series)
        ],
    }


def _source() -> dict[str, Any]:
    return {"name": "datasource", "type": "datasource", "label": "Data source", "query": "prometheus", "current": {}, "hide": 0}


def _jobs() -> dict[str, Any]:
    query = f"label_values({m.RUN_INFO.prometheus}, {J})"
    return {
        "name": "job", "type": "query", "label": "Job", "datasource": DATASOURCE, "definition": query,
        "query": {"query": query, "refId": "jobs"}, "refresh": 2, "sort": 1, "multi": True, "includeAll": True, "allValue": ".+",
        "current": {"selected": True, "text": ["All"], "value": ["$__all"]}, "hide": 0,
    }  # fmt: skip


DASHBOARD: Final = Path(__file__).with_name("dashboard.json")
RULES: Final = Path(__file__).with_name("rules.yaml")


def rendered() -> dict[Path, str]:
    """Return the text of each file."""
    return {DASHBOARD: json.dumps(dashboard(), indent=1, ensure_ascii=False) + "\n", RULES: rules_text()}


if __name__ == "__main__":
    for path, text in rendered().items():
        path.write_text(text, encoding="utf-8")
