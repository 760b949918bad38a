"""Dashboard and alert rules use metrics of the list, are valid PromQL, and the alerts fire when they should."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from skyband.framework.observe.metrics.all_metrics import METRICS
from skyband.framework.observe.metrics.rendered import INTERVAL, RULES, SCHEMA, dashboard, rendered
from skyband.framework.observe.metrics.rules import rules

SERIES = {m.prometheus + suffix: m for m in METRICS for suffix in (("_bucket", "_sum", "_count") if m.kind == "histogram" else ("",))}
OF_PROMETHEUS = {"up"}
WORDS = {"by", "on", "and", "or", "offset", "job", "le", "instance"}
UNITS = {"s", "short", "bytes", "percentunit", "rowsps"}


@pytest.fixture(scope="module")
def promtool() -> str:
    found = shutil.which("promtool")
    if found is None:
        pytest.skip("needs promtool of Prometheus")
    return found


def expressions() -> list[str]:
    """Every expression of the dashboard, as Grafana sends it, and of the rules."""
    shown = [target["expr"] for panel in dashboard()["panels"] for target in panel["targets"]]
    shown = [e.replace(INTERVAL, "5m").replace("$job", ".+") for e in shown]
    return shown + [rule["expr"] for group in rules()["groups"] for rule in group["rules"]]


def test_the_files_are_current() -> None:
    assert {p: p.read_text(encoding="utf-8") for p in rendered()} == rendered(), "run: python -m skyband.framework.observe.metrics.rendered"


def test_every_metric_and_label_of_an_expression_is_in_the_list() -> None:
    used: set[str] = set()
    for expression in expressions():
        bare = re.sub(r'"[^"]*"', "", expression)
        names = {n for n in re.findall(r"\b[a-z][a-z_]*\b(?!\s*\()", bare)} - WORDS - {"by", "m", "sum", "max"}
        series = {n for n in names if n in SERIES or n in OF_PROMETHEUS}
        assert series, expression
        labels = {label for n in series if n in SERIES for label in SERIES[n].prometheus_labels}
        unknown = {n for n in names - series if n not in labels}
        assert not unknown, f"{expression}: neither a metric nor one of its labels: {unknown}"
        used |= {SERIES[n].name for n in series if n in SERIES}
    unused = {m.name for m in METRICS} - used
    # These are for a closer look than a dashboard of all jobs.
    assert unused == {
        "skyband.rows.warned", "skyband.rows.unusable", "skyband.batches", "skyband.batch.id", "skyband.watermark.timestamp",
        "skyband.newest.timestamp", "skyband.backlog.size", "skyband.run.info",
    }  # fmt: skip


def test_the_dashboard_is_what_grafana_imports() -> None:
    found: dict[str, Any] = json.loads(json.dumps(dashboard()))
    assert found["schemaVersion"] == SCHEMA and found["uid"] and found["title"] and "id" not in found
    source, job = found["templating"]["list"]
    assert (source["type"], source["query"], job["type"]) == ("datasource", "prometheus", "query")
    assert "skyband_run_info" in job["query"]["query"]
    cells: set[tuple[int, int]] = set()
    assert len({p["id"] for p in found["panels"]}) == len({p["title"] for p in found["panels"]}) == len(found["panels"]) >= 12
    for panel in found["panels"]:
        place = panel["gridPos"]
        own = {(x, y) for x in range(place["x"], place["x"] + place["w"]) for y in range(place["y"], place["y"] + place["h"])}
        assert own and not own & cells and place["x"] + place["w"] <= 24, panel["title"]
        cells |= own
        assert panel["type"] in ("stat", "timeseries") and panel["description"] and panel["fieldConfig"]["defaults"]["unit"] in UNITS
        assert [t["refId"] for t in panel["targets"]] == [chr(65 + i) for i in range(len(panel["targets"]))]
        for at in (panel, *panel["targets"]):
            assert at["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
        for target in panel["targets"]:
            # A series is named by labels that its expression keeps.
            for label in re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]):
                assert re.search(rf"by \([^)]*\b{label}\b[^)]*\)", target["expr"]), target


def test_prometheus_takes_every_expression(promtool: str, tmp_path: Path) -> None:
    panels = [{"record": f"panel:{i}", "expr": e} for i, e in enumerate(expressions())]
    file = tmp_path / "panels.yaml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": panels}]}))
    for path in (file, RULES):
        done = subprocess.run([promtool, "check", "rules", str(path)], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(panels)} rules found" in subprocess.run([promtool, "check", "rules", str(file)], capture_output=True, text=True).stdout


def fires(promtool: str, directory: Path, name: str, series: dict[str, str], at: str, expected: list[dict[str, str]]) -> None:
    """``promtool test rules`` with ``series`` of one value a minute: ``expected`` has the labels of the alerts that fire ``at``."""
    (rule,) = (r for group in rules()["groups"] for r in group["rules"] if r["alert"] == name)
    (directory / "rules.yaml").write_text(RULES.read_text())
    test = {
        "rule_files": ["rules.yaml"],
        "evaluation_interval": "1m",
        "tests": [
            {
                "interval": "1m",
                "input_series": [{"series": s, "values": v} for s, v in series.items()],
                "alert_rule_test": [
                    {
                        "eval_time": at,
                        "alertname": name,
                        "exp_alerts": [
                            {
                                "exp_labels": {"severity": rule["labels"]["severity"], **{k: v for k, v in e.items() if k != "summary"}},
                                "exp_annotations": {"summary": e["summary"], "description": rule["annotations"]["description"]},
                            }
                            for e in expected
                        ],
                    }
                ],
            }
        ],
    }
    file = directory / "test.yaml"
    file.write_text(yaml.safe_dump(test, sort_keys=False))
    done = subprocess.run([promtool, "test", "rules", str(file)], capture_output=True, text=True, check=False, cwd=directory)
    assert done.returncode == 0, done.stdout + done.stderr


A, B = '{skyband_job="a"}', '{skyband_job="b"}'


def test_a_run_that_does_not_answer(promtool: str, tmp_path: Path) -> None:
    series = {'up{job="skyband-a", instance="x:1"}': "1x5 0x20", 'up{job="other", instance="y:1"}': "0x30"}
    fires(promtool, tmp_path, "SkybandDown", series, "9m", [])
    said = "The metrics of x:1 cannot be read"
    fires(promtool, tmp_path, "SkybandDown", series, "12m", [{"job": "skyband-a", "instance": "x:1", "summary": said}])


def test_a_failed_run(promtool: str, tmp_path: Path) -> None:
    series = {
        'skyband_run_exit_code{skyband_job="a", instance="1"}': "_x3 3x2",
        'skyband_run_exit_code{skyband_job="b", instance="2"}': "_x3 143x2",
        'skyband_run_exit_code{skyband_job="c", instance="3"}': "_x3 0x2",
    }
    said = {"skyband_job": "a", "summary": "A run of a ended with exit code 3"}
    fires(promtool, tmp_path, "SkybandRunFailed", series, "2m", [])
    fires(promtool, tmp_path, "SkybandRunFailed", series, "10m", [said])
    fires(promtool, tmp_path, "SkybandRunFailed", series, "40m", [])


def test_results_that_are_late(promtool: str, tmp_path: Path) -> None:
    series = {f"skyband_watermark_lag_seconds{A}": "3500+60x60", f"skyband_watermark_lag_seconds{B}": "100x60"}
    fires(promtool, tmp_path, "SkybandWatermarkLag", series, "10m", [])
    said = {"skyband_job": "a", "summary": "Results of a are 1h 18m 20s behind the clock"}
    fires(promtool, tmp_path, "SkybandWatermarkLag", series, "20m", [said])


def test_no_batch_for_long_also_none_at_all(promtool: str, tmp_path: Path) -> None:
    series = {
        f"skyband_run_start_timestamp_seconds{A}": "0x120", f"skyband_run_active{A}": "1x120",
        f"skyband_run_start_timestamp_seconds{B}": "0x120", f"skyband_run_active{B}": "1x120",
        f"skyband_batch_commit_timestamp_seconds{B}": "0+60x120",
        'skyband_run_start_timestamp_seconds{skyband_job="over"}': "0x120", 'skyband_run_active{skyband_job="over"}': "0x120",
    }  # fmt: skip
    fires(promtool, tmp_path, "SkybandNoBatch", series, "30m", [])
    said = {"skyband_job": "a", "summary": "a has committed no batch for 40m 0s"}
    fires(promtool, tmp_path, "SkybandNoBatch", series, "40m", [said])


def test_rejected_rows(promtool: str, tmp_path: Path) -> None:
    series = {
        f"skyband_rows_total{A}": "0+1000x60", 'skyband_rows_rejected_total{skyband_job="a", reason="late"}': "0+10x60",
        'skyband_rows_rejected_total{skyband_job="a", reason="parse"}': "0+10x60",
        f"skyband_rows_total{B}": "0+1000x60", 'skyband_rows_rejected_total{skyband_job="b", reason="late"}': "0+9x60",
        # It reads nothing, and rejects what has waited.
        'skyband_rows_total{skyband_job="c"}': "0x60", 'skyband_rows_rejected_total{skyband_job="c", reason="late"}': "0+9x60",
    }  # fmt: skip
    said = {"skyband_job": "a", "summary": "a rejects 2% of its rows"}
    fires(promtool, tmp_path, "SkybandRowsRejected", series, "30m", [said])


def test_a_backlog_that_grows(promtool: str, tmp_path: Path) -> None:
    series = {
        f"skyband_backlog_files{A}": "2x45 300x60",
        # Every batch takes all files.
        f"skyband_backlog_files{B}": "1 0 2 0 1 0 9 0 3 0 8 0 30 0 40 0 50 0 60 0 70 0 80 0 90 0 99 0" + " 99 0" * 40,
        'skyband_backlog_files{skyband_job="c"}': "7x110",
    }
    fires(promtool, tmp_path, "SkybandBacklogGrowing", series, "45m", [])
    said = {"skyband_job": "a", "summary": "300 files wait for a, more than twice as many as half an hour ago"}
    fires(promtool, tmp_path, "SkybandBacklogGrowing", series, "70m", [said])


def test_the_page_has_every_metric_and_every_alert(root: Path) -> None:
    page = (root / "docs" / "how-to" / "observe.md").read_text(encoding="utf-8")
    rows = [f"| `{m.prometheus}` | {m.kind} | {', '.join(f'`{label}`' for label in m.labels) or '-'} | {m.description} |" for m in METRICS]
    alerts = [f"| `{rule['alert']}` |" for group in rules()["groups"] for rule in group["rules"]]
    assert [line for line in page.splitlines() if line.startswith("| `skyband_")] == rows
    assert [line for line in page.splitlines() if line.startswith(tuple(alerts))] and all(alert in page for alert in alerts)
