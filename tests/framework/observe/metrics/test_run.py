"""A run: what Prometheus and a collector get is what the run wrote into its tables."""

from __future__ import annotations

import json
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from skyband.framework.observe.metrics.prometheus import PrometheusServer
from skyband.jobs import cli
from tests.framework.observe.metrics.collector import collecting
from tests.framework.observe.metrics.test_prometheus import free_port
from tests.spark.cuts import stream
from tests.spark.jobs import by_the_local_engine, sorted_rows, table, write_file, write_spec

pytestmark = pytest.mark.long


@pytest.fixture(params=["local", pytest.param("spark", marks=[pytest.mark.spark, pytest.mark.slow])])
def engine(request: pytest.FixtureRequest) -> str:
    """What runs the job; Spark starts before the test."""
    if request.param == "spark":
        request.getfixturevalue("spark")
    return str(request.param)


def test_the_figures_are_those_of_the_tables(engine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scraped: list[str] = []
    close = PrometheusServer.close

    def scrape_and_close(self: PrometheusServer, seconds: float) -> None:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=60) as response:
            scraped.append(response.read().decode())
        close(self, seconds)

    monkeypatch.setattr(PrometheusServer, "close", scrape_and_close)
    spec = write_spec(tmp_path, max_files=1)
    if engine == "local":
        by_the_local_engine(spec)
    rows = stream(1, 240)
    for i in range(3):
        write_file(tmp_path, f"{i}.csv", rows[80 * i : 80 * i + 80], at=i)
    with collecting() as collector:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
        code = cli.main(["run", str(spec), "--finish", "--metrics-port", str(free_port()), "--outcome", str(tmp_path / "o.json")])
        monkeypatch.delenv("OTEL_EXPORTER_OTLP_ENDPOINT")
    assert code == 0
    runs = sorted(table(tmp_path, "runs").to_pylist(), key=lambda r: r["batch_id"])
    total = {name: sum(r[name] for r in runs) for name in ("rows_in", "filtered", "accepted", "rejected", "changes")}
    assert total["rows_in"] == 240 and total["rejected"] > 0 and total["changes"] > 0 and len(runs) == 4
    reasons = table(tmp_path, "rejected").to_pandas()["reason"].value_counts().to_dict()

    samples = [s for f in text_string_to_metric_families(scraped[0]) for s in f.samples]
    job = {s.labels["skyband_job"] for s in samples}
    assert len(scraped) == 1 and len(job) == 1

    def summed(name: str) -> float:
        return sum(s.value for s in samples if s.name == name)

    def by(name: str, label: str) -> dict[str, float]:
        return {s.labels[label]: s.value for s in samples if s.name == name and s.value}

    assert summed("skyband_rows_total") == total["rows_in"] and summed("skyband_rows_filtered_total") == total["filtered"]
    assert summed("skyband_rows_accepted_total") == total["accepted"] and summed("skyband_changes_total") == total["changes"]
    assert by("skyband_rows_rejected_total", "reason") == reasons
    per_query = {q: table(tmp_path, f"{q}_changes").num_rows for q in ("far5", "far3", "near4", "hourly")}
    assert by("skyband_changes_total", "query") == {q: n for q, n in per_query.items() if n}
    assert summed("skyband_batches_total") == len(runs) == summed("skyband_batch_duration_seconds_count")
    assert summed("skyband_batch_id") == runs[-1]["batch_id"] and summed("skyband_rows_pending") == runs[-1]["pending"] == 0
    assert summed("skyband_watermark_timestamp_seconds") == pytest.approx(runs[-1]["frontier"].timestamp())
    assert summed("skyband_backlog_files") >= 0 and summed("skyband_run_active") == summed("skyband_run_exit_code") == 0
    tasks = [s for s in samples if s.name == "skyband_batch_stage_duration_seconds_sum" and s.labels["stage"] == "tasks"]
    assert tasks[0].value == pytest.approx(sum(r["engine_ms"] for r in runs) / 1000)
    operator = sum(r["operator_ms"] for r in runs) / 1000
    assert by("skyband_task_time_seconds_total", "phase")["operator"] == pytest.approx(operator)
    # The windows keep at most what was accepted.
    assert 0 < summed("skyband_state_rows") <= total["accepted"]
    assert by("skyband_state_size_bytes", "place")["disk"] > 0

    points = collector.points()
    assert {dict(k)["reason"]: p.as_int for k, p in points["skyband.rows.rejected"].items() if p.as_int} == reasons
    assert sum(p.as_int for p in points["skyband.rows"].values()) == 240
    spans = collector.spans()
    (root,) = (s for s in spans if s.name.startswith("run "))
    batches = [s for s in spans if s.name == "batch"]
    assert sorted(a.value.int_value for s in batches for a in s.attributes if a.key == "skyband.batch") == [r["batch_id"] for r in runs]
    outcome = json.loads((tmp_path / "o.json").read_text())
    lasted = (root.end_time_unix_nano - root.start_time_unix_nano) / 1e9
    assert 0 < lasted <= outcome["wall_seconds"] + 1
    # All of a run happens in it.
    assert all(root.start_time_unix_nano <= s.start_time_unix_nano <= s.end_time_unix_nano <= root.end_time_unix_nano for s in spans)


@pytest.mark.slow
@pytest.mark.parametrize("how", [{"hangs": True}, {"code": 500}])
def test_a_collector_that_does_not_work_changes_no_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], how: dict[str, Any]
) -> None:
    found = []
    for name in ("with", "without"):
        directory = tmp_path / name
        directory.mkdir()
        spec = write_spec(directory)
        by_the_local_engine(spec)
        write_file(directory, "0.csv", stream(2, 120), at=0)
        with collecting(**how) as collector:
            if name == "with":
                monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
            assert cli.main(["run", str(spec), "--finish"]) == 0
            monkeypatch.delenv("OTEL_EXPORTER_OTLP_ENDPOINT", raising=False)
            said = [line for line in capsys.readouterr().err.splitlines() if "metrics and traces" in line]
            assert len(said) == (name == "with") and bool(collector.metrics) == (name == "with"), said
        tables = ("far5_changes", "near4_changes", "rejected", "heads")
        found.append([sorted_rows(table(directory, t), without=("origin",)) for t in tables])
    assert found[0] == found[1] and found[0][0]
