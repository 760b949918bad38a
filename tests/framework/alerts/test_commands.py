"""Commands and alerts: what ``validate`` and ``run`` say of channels, and that a job without alerts loads nothing of them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from skyband.jobs.cli import main
from tests.framework.alerts.jobs import text_of


def spec_in(directory: Path, alerts: str = "\n  hot: {channel: pagr}") -> str:
    (directory / "in").mkdir()
    path = directory / "spec.yaml"
    path.write_text(text_of(alerts))
    return str(path)


def test_channels_are_checked_where_they_are_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    spec, channels = spec_in(tmp_path), tmp_path / "channels.toml"
    monkeypatch.delenv("SKYBAND_CHANNELS", raising=False)
    assert main(["validate", spec]) == 0
    said = capsys.readouterr()
    warned = "SKY-E661 channel 'pagr' of alert 'hot' is not declared: SKYBAND_CHANNELS is not set"
    assert f"{spec}:19:18" in said.out + said.err and warned in said.out + said.err
    channels.write_text("[pager]\ncommand = 'cat'\n")
    channels.chmod(0o600)
    monkeypatch.setenv("SKYBAND_CHANNELS", str(channels))
    capsys.readouterr()
    assert main(["validate", spec]) == 2
    said = capsys.readouterr().err
    assert f"{spec}:19:18 SKY-E661" in said and "did you mean 'pager'?" in said and "hot: {channel: pagr}" in said
    assert main(["run", spec]) == 2
    said = capsys.readouterr().err
    assert (
        "SKY-E661 alert 'hot' of job 'machines' needs channel 'pagr', which is not configured" in said and not (tmp_path / "out").exists()
    )
    channels.write_text("[pagr]\n")
    assert main(["validate", spec]) == 2 and "channels.toml:1:1 SKY-E660" in capsys.readouterr().err


def test_a_job_without_alerts_loads_nothing_of_them(tmp_path: Path) -> None:
    code = (
        "import sys\n"
        "import skyband.framework.streaming.run.runner, skyband.framework.streaming.job.status, skyband.jobs.running.run\n"
        "from skyband.framework.streaming.spark.packages import packages\n"
        "from skyband.jobs.running.alerting import check_channels\n"
        "from skyband.jobs.spec import load_plan\n"
        f"plan = load_plan({spec_in(tmp_path, '{}')!r})\n"
        "check_channels(plan), packages(plan)\n"
        "print(*sorted(m for m in sys.modules if '.framework.alerts.' in m))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["skyband.framework.alerts.template"], done.stderr
