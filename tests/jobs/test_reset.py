"""``skyband reset`` removes a job's sink, and nothing else."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest

from skyband.framework.streaming.job.layout import Layout
from skyband.framework.tables.delta.ownership import Owner
from skyband.jobs import cli
from tests.framework.streaming import checkpoints
from tests.framework.streaming.job.test_locks import holder
from tests.spark.jobs import write_file, write_spec


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    """A job that has run, and its source."""
    write_file(tmp_path, "0.csv", [], at=0)
    out = tmp_path / "out"
    Owner(out).claim(["runs", "far5", "job_runs"])
    for path in ("runs/_delta_log/0.json", "far5/_delta_log/0.json", "far5/x.parquet", "job_runs/_delta_log/0.json", "mine.txt"):
        checkpoints.write(out / path, "x")
    checkpoints.write(out / "_skyband" / "job.json", json.dumps({"job": "small", "fingerprint": {"queries": {"far5": {}}}}))
    return write_spec(tmp_path)


def files(directory: Path) -> set[str]:
    return {str(p.relative_to(directory)) for p in directory.rglob("*") if p.is_file() and not p.name.endswith("lock")}


def test_all_of_the_job_goes_and_nothing_else(spec: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["reset", str(spec), "--yes"]) == 0
    assert "removed state and 2 tables of job small" in capsys.readouterr().out
    assert files(spec.parent) == {"in/0.csv", "spec.yaml", "out/mine.txt"}
    assert cli.main(["reset", str(spec), "--yes"]) == 2 and "SKY-E512" in capsys.readouterr().err


@pytest.mark.parametrize(("answer", "removed"), [("y\n", True), ("YES\n", True), ("n\n", False), ("\n", False), ("", False)])
def test_it_asks(spec: Path, monkeypatch: pytest.MonkeyPatch, answer: str, removed: bool) -> None:
    before = files(spec.parent)

    class Terminal:
        def isatty(self) -> bool:
            return True

        def readline(self) -> str:
            return answer

    monkeypatch.setattr(sys, "stdin", Terminal())
    assert cli.main(["reset", str(spec)]) == (0 if removed else 1)
    assert (files(spec.parent) != before) == removed


def test_what_is_not_its_own_is_refused(spec: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    before = files(spec.parent)

    def refused(code: str, exit_code: int = 2) -> None:
        assert cli.main(["reset", str(spec), *([] if code == "SKY-E201" else ["--yes"])]) == exit_code
        assert code in capsys.readouterr().err and files(spec.parent) == before

    monkeypatch.setattr(sys, "stdin", io.StringIO())
    refused("SKY-E201")
    home = spec.parent / "out" / "_skyband"
    text = (home / "job.json").read_text()
    (home / "job.json").write_text(text.replace("small", "other"))
    refused("SKY-E205")
    (home / "job.json").write_text(text)
    monkeypatch.setenv("SKYBAND_ENGINE_WAIT", "0")
    (home / "engine.lock").unlink(missing_ok=True)
    home.rename(home.with_name("aside"))
    engine = holder(Layout(str(spec.parent / "out")), "4711")
    try:
        (home / "job.json").write_text(text)
        before = files(spec.parent)
        refused("SKY-E302", 3)
    finally:
        engine.communicate("")
