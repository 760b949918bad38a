"""``skyband rejected`` and ``skyband quality`` on tables written without Spark: what they print, write and refuse."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path

import pyarrow as pa
import pytest

from skyband.framework.plan.model import Plan
from skyband.framework.streaming.job.layout import JobFile
from skyband.framework.streaming.job.replay_records import DIRECTORY, Replay
from skyband.jobs.cli import main
from skyband.jobs.reading import quality, rejected
from tests.framework.quality.test_gate import Job, new

EVIL = '{"id":1,"grp":"\x1b]0;owned\x07"}'


@pytest.fixture
def plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Plan:
    job = Job(tmp_path / "out", new(), new(max_value=0, severity="warning"))
    plan = replace(job.sink.plan, source=replace(job.sink.plan.source, path=str(tmp_path / "in")))
    job.batch(0)
    rows = [("rule:sane", EVIL), ("rule:sane,other", "{}"), ("parse", "1,2"), ("late", '{"id":2}')]
    table = [{"reason": r, "text": t, "batch_id": 0, "origin": "replayed-1.csv" if r == "late" else "a.csv"} for r, t in rows]
    job.sink.writer.append("rejected", pa.Table.from_pylist(table, job.sink.specs["rejected"].schema), "test", 0)
    home = tmp_path / "out" / "_skyband"
    (home / DIRECTORY).mkdir(parents=True)
    (home / "job.json").write_text(json.dumps(asdict(JobFile(plan.job, "g", {}, 2, ["id", "grp"]))))
    record = Replay("replayed-1.csv", "mended.csv", "00", 5, 4, {"late": 1}, (1, 2), 0, -1, None, "2026-01-01T00:00:00+00:00")
    (home / DIRECTORY / "replayed-1.csv.json").write_text(json.dumps(asdict(record)))
    for command in (rejected, quality):
        monkeypatch.setattr(command, "load_plan", lambda spec: plan)
    return plan


def test_reasons_are_listed_with_examples_and_replayed_rows(plan: Plan, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rejected", "spec.yaml"]) == 0
    out = capsys.readouterr().out
    assert "\x1b" not in out and "\x07" not in out
    lines = out.splitlines()
    assert [line.split(":")[0] for line in lines if not line.startswith(" ")][:3] == ["late", "parse", "rule"]
    assert "4 fixed rows were put back as replayed-1.csv at 2026-01-01T00:00:00+00:00; rejected again: 1" in lines
    assert main(["rejected", "spec.yaml", "--format", "json", "--reason", "rule"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [(r["reason"], r["rows"], r["last_batch"]) for r in found["reasons"]] == [("rule:sane", 1, 0), ("rule:sane,other", 1, 0)]
    assert found["reasons"][0]["examples"] == [EVIL]
    assert [(r["name"], r["placed"], r["rejected"]) for r in found["replayed"]] == [("replayed-1.csv", 4, 1)]


def test_rows_are_exported_where_no_job_reads_or_writes(plan: Plan, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ask = ["rejected", "spec.yaml", "--reason", "rule", "--export"]
    (tmp_path / "in").mkdir()
    for target, code in (("in/x.csv", "SKY-E201"), ("out/x.csv", "SKY-E201"), ("no/x.csv", "SKY-E203"), ("x.txt", "SKY-E201")):
        assert main([*ask, str(tmp_path / target)]) == 2
        assert code in capsys.readouterr().err and not (tmp_path / target).exists()
    assert main([*ask, str(tmp_path / "x.csv")]) == 0
    assert "2 rows are in" in capsys.readouterr().out and len((tmp_path / "x.csv").read_text().splitlines()) == 3
    assert main([*ask, str(tmp_path / "x.csv")]) == 2
    assert "SKY-E202" in capsys.readouterr().err
    assert main(["rejected", "spec.yaml", "--export", "y.csv"]) == 2
    assert main(["rejected", "spec.yaml", "--reason", "rul"]) == 2
    assert "no row was rejected for 'rul'" in capsys.readouterr().err


@pytest.mark.long
def test_checks_are_asked_now_and_nothing_is_written(plan: Plan, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = sorted(p for p in (tmp_path / "out").rglob("*") if p.is_file())
    assert main(["quality", "spec.yaml"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("ok near_changes: expect_table_row_count") and lines[1].startswith("FAILED (warning) near_changes")
    assert lines[-1] == "2 checks after batch 0, 1 failed; nothing is published"
    assert main(["quality", "spec.yaml", "--format", "json", "--docs", str(tmp_path / "docs")]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [c["success"] for c in found["checks"]] == [True, False] and (tmp_path / "docs" / "index.html").is_file()
    for place in ("out/docs", "in", "."):
        assert main(["quality", "spec.yaml", "--docs", str(tmp_path / place)]) == 2
        assert "SKY-E201" in capsys.readouterr().err
    assert sorted(p for p in (tmp_path / "out").rglob("*") if p.is_file()) == before
