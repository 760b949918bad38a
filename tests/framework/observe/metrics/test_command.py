"""``skyband metrics`` gives the list, the dashboard and the rules."""

from __future__ import annotations

import json

import pytest
import yaml

from skyband.framework.observe.metrics.all_metrics import METRICS
from skyband.framework.observe.metrics.rendered import dashboard
from skyband.framework.observe.metrics.rules import rules
from skyband.jobs.cli import main


def test_the_list_the_dashboard_and_the_rules(capsys: pytest.CaptureFixture[str]) -> None:
    def said(*words: str) -> str:
        assert main(["metrics", *words]) == 0
        return capsys.readouterr().out

    lines = said().splitlines()
    assert len(lines) == len(METRICS) and all(
        m.prometheus in line and m.name in line and m.description in line for m, line in zip(METRICS, lines, strict=True)
    )
    listed = json.loads(said("--format", "json"))["metrics"]
    assert [(m["prometheus"], m["opentelemetry"], m["labels"][0]) for m in listed] == [
        (m.prometheus, m.name, "skyband.job") for m in METRICS
    ]
    assert json.loads(said("--dashboard")) == json.loads(said("--dashboard", "--format", "json"))["dashboard"] == dashboard()
    assert yaml.safe_load(said("--rules")) == json.loads(said("--rules", "--format", "json"))["rules"] == rules()
