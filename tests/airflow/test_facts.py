"""What the loader knows of specs, without Airflow: asked of a command once, kept, and asked again when it may have changed."""

from __future__ import annotations

import json
import os
import re
import shlex
import stat
import sys
from pathlib import Path
from typing import Any

import pytest

from skyband.airflow_dags.skyband_airflow import doc, facts
from skyband.framework.plan import facts as plan_facts
from skyband.framework.spec.load import validate_text
from skyband.framework.spec.models.job import Schedule
from skyband.jobs import cli
from tests.spark.jobs import write_spec

FAKE = """\
import json, sys, os
open({log!r}, "a").write(" ".join(os.path.basename(p) for p in sys.argv[3:]) + "\\n")
for p in sys.argv[3:]:
    text = open(p).read()
    if "DIE" in text:
        sys.exit("no such thing")
    print(json.dumps({{"format": 1, "file": p, "findings": "bad" if "BAD" in text else None, "env": sorted(os.environ)}}), flush=True)
    if "SLOW" in text:
        import time; time.sleep(60)
"""


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[list[str], Path]:
    """(a command that describes any file, where it notes what it was asked)."""
    monkeypatch.setenv("SKYBAND_CACHE", str(tmp_path / "cache"))
    log, script = tmp_path / "log", tmp_path / "fake.py"
    log.write_text("")
    script.write_text(FAKE.format(log=str(log)))
    return [sys.executable, str(script)], log


def write(directory: Path, **texts: str) -> list[Path]:
    for name, text in texts.items():
        (directory / f"{name}.yaml").write_text(text)
    return [directory / f"{name}.yaml" for name in texts]


def test_specs_are_files_with_a_schedule_of_their_own(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    for directory in (one, two):
        directory.mkdir()
    write(one, b="job: x\nschedule: {}\n", a='"schedule" : 1\n', nested="x:\n  schedule: 1\n", none="job: x\n", _hidden="schedule: 1\n")
    (two / "c.yml").write_text("schedule:\n")
    (two / "d.txt").write_text("schedule:\n")
    (two / "e.yaml").mkdir()
    found = facts.specs(os.pathsep.join([str(two), str(one), "", str(tmp_path / "gone")]))
    assert [p.name for p in found] == ["a.yaml", "b.yaml", "c.yml"]


def test_each_text_is_asked_for_once(tmp_path: Path, fake: tuple[list[str], Path]) -> None:
    words, log = fake
    paths = write(tmp_path, a="1", b="2")
    first = facts.facts(paths, words)
    assert [f["file"] for f in first] == [str(p) for p in paths]
    assert facts.facts(paths, words) == first and log.read_text() == "a.yaml b.yaml\n"
    write(tmp_path, b="3")
    facts.facts(paths, words)
    assert log.read_text() == "a.yaml b.yaml\nb.yaml\n"
    cache = tmp_path / "cache" / "airflow"
    assert stat.S_IMODE(cache.stat().st_mode) == 0o700 and len(list(cache.iterdir())) == 3


def test_a_whole_new_directory_is_told_by_several_processes(
    tmp_path: Path, fake: tuple[list[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    words, log = fake
    monkeypatch.setattr(facts.os, "cpu_count", lambda: 3)
    paths = write(tmp_path, **{f"s{n:02}": "BAD" if n == 7 else "x" for n in range(2 * facts.SHARE + 1)})
    found = facts.facts(paths, words)
    assert [f["file"] for f in found] == [str(p) for p in paths] and [f["file"] for f in found if f["findings"]] == [str(paths[7])]
    asked = [line.split() for line in log.read_text().splitlines()]
    assert len(asked) == 2 and sorted(n for names in asked for n in names) == [p.name for p in paths]


def test_a_variable_that_a_spec_names_is_part_of_what_is_known(
    tmp_path: Path, fake: tuple[list[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    words, log = fake
    paths = write(tmp_path, a="path: ${PLACE_OF_IT}", b="path: x")
    for value in ("one", "two", "two"):
        monkeypatch.setenv("PLACE_OF_IT", value)
        facts.facts(paths, words)
    assert log.read_text() == "a.yaml b.yaml\na.yaml\n"


def test_what_a_spec_includes_and_its_profile_are_part_of_what_is_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec, part = tmp_path / "a.yaml", tmp_path / "parts" / "_b.yaml"
    part.parent.mkdir()
    spec.write_text("include: [parts/_b.yaml, ../no.yaml, /etc/no.yaml]\n")
    keys = [facts._key(spec, ["x"])]
    part.write_text("window: {count: 1}\n")
    keys.append(facts._key(spec, ["x"]))
    part.write_text("window: {count: 2}\nsink: {path: '${PLACE}'}\n")
    keys.append(facts._key(spec, ["x"]))
    for name in ("PLACE", "SKYBAND_PROFILE"):
        monkeypatch.setenv(name, "prod")
        keys.append(facts._key(spec, ["x"]))
    assert len(set(keys)) == len(keys) and facts._key(spec, ["x"]) == keys[-1]


def test_findings_are_looked_at_again_soon(tmp_path: Path, fake: tuple[list[str], Path], monkeypatch: pytest.MonkeyPatch) -> None:
    words, log = fake
    paths = write(tmp_path, a="BAD", b="good")
    now = facts.clock.time()
    for later in (0, facts.BROKEN_FOR - 5, facts.BROKEN_FOR + 5, facts.GOOD_FOR + facts.BROKEN_FOR + 5):
        monkeypatch.setattr(facts.clock, "time", lambda at=now + later: at)
        facts.facts(paths, words)
    assert log.read_text().split("\n") == ["a.yaml b.yaml", "a.yaml", "a.yaml b.yaml", ""]


def test_what_there_is_no_time_for_is_left_for_the_next_time(
    tmp_path: Path, fake: tuple[list[str], Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words, log = fake
    monkeypatch.setattr(facts, "SECONDS", 2.0)
    paths = write(tmp_path, a="SLOW", b="x")
    assert [Path(f["file"]).name for f in facts.facts(paths, words)] == ["a.yaml"]
    assert "1 of 2 specs are left for the next parse" in capsys.readouterr().err
    assert [Path(f["file"]).name for f in facts.facts(paths, words)] == ["a.yaml", "b.yaml"]
    assert log.read_text() == "a.yaml b.yaml\nb.yaml\n"


def test_a_command_that_fails_breaks_only_what_it_did_not_tell(tmp_path: Path, fake: tuple[list[str], Path]) -> None:
    words, _ = fake
    paths = write(tmp_path, a="x", b="DIE", c="x")
    good, *bad = facts.facts(paths, words)
    assert good["findings"] is None
    for fact in bad:
        assert "cannot be run: no such thing\n  hint: SKYBAND_COMMAND" in fact["findings"]
    # That is not kept.
    write(tmp_path, b="fine")
    assert [f["findings"] for f in facts.facts(paths, words)] == [None] * 3


def test_no_password_of_airflow_reaches_the_pipeline(tmp_path: Path, fake: tuple[list[str], Path], monkeypatch: pytest.MonkeyPatch) -> None:
    words, _ = fake
    monkeypatch.setenv("AIRFLOW__DATABASE__SQL_ALCHEMY_CONN", "s3cr3t")
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_PROD", "spark://:s3cr3t@head:7077")
    monkeypatch.setenv("AIRFLOW_VAR_KEY", "s3cr3t")
    monkeypatch.setenv("AIRFLOW_HOME", "kept")
    (fact,) = facts.facts(write(tmp_path, a="x"), words)
    assert "AIRFLOW_HOME" in fact["env"] and not [n for n in fact["env"] if n.startswith(("AIRFLOW__", "AIRFLOW_CONN_", "AIRFLOW_VAR_"))]


def test_a_directory_that_others_may_write_is_not_used(tmp_path: Path, fake: tuple[list[str], Path]) -> None:
    words, log = fake
    directory = tmp_path / "cache" / "airflow"
    directory.mkdir(parents=True)
    directory.chmod(0o777)
    paths = write(tmp_path, a="x")
    facts.facts(paths, words)
    facts.facts(paths, words)
    assert log.read_text() == "a.yaml\na.yaml\n" and not list(directory.iterdir())


def test_the_command_as_a_shell_spells_it(monkeypatch: pytest.MonkeyPatch) -> None:
    assert facts.command(shlex.join(["/a b/skyband", "-x"])) == ["/a b/skyband", "-x"]
    assert Path(facts.command(None)[0]).name == "skyband"


def test_a_description_is_of_the_form_that_the_loader_takes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert plan_facts.FORMAT == facts.FORMAT
    monkeypatch.setenv("PLACE", str(tmp_path / "s3cr3t-place"))
    spec = write_spec(tmp_path, queries="  far5: {type: topk_pairs, scoring: far, k: 5}\n")
    good = spec.read_text().replace(f"{tmp_path}/out", "${PLACE}/out") + "schedule: {cron: '@daily', timeout: 90 minutes, tags: [a]}\n"
    spec.write_text(good)
    broken = tmp_path / "broken.yaml"
    broken.write_text(good.replace("{header: true}", "{header: true, password: h1dden}"))
    assert cli.main(["airflow", "describe", str(spec), str(broken), str(tmp_path / "gone.yaml")]) == 0
    said = capsys.readouterr().out
    assert "s3cr3t" not in said and "h1dden" not in said
    first, second, third = (json.loads(line) for line in said.splitlines())
    assert first["findings"] is None and first["tables"] == dict.fromkeys(("far5_changes", "far5", "far5_now"), "far5")
    assert first["schedule"] == {
        "id": "small", "description": None, "owner": "skyband", "tags": ["a"], "cron": "@daily", "assets": None,
        "retries": {"count": 2, "wait": 60, "longest": 3600}, "timeout": 5400, "maintain": 86400, "connection": None, "paused": False,
    }  # fmt: skip
    assert "${PLACE}/out" in first["text"] and "topk_pairs" in first["graph"] and "job small" in first["plan"]
    assert second["findings"].startswith(f"{broken}:") and second["schedule"] is None and "password: *" in second["text"]
    assert "SKY-E100" in third["findings"] and third["text"] == ""


def test_no_text_of_a_spec_ends_its_block() -> None:
    evil = "a: |\n  ```\n  # Heading\n  ````\n  <script>x</script>\n"
    fact: dict[str, Any] = {"file": "a`b.yaml", "graph": "flowchart LR", "plan": "x", "text": evil, "findings": "y"}
    for text in (doc.of_good(fact), doc.of_broken(fact)):
        assert f"`````yaml\n{evil.rstrip()}\n`````\n" in text and "`` a`b.yaml ``" in text and not text.endswith(".md")


def test_the_schedule_in_the_docs_is_one(tmp_path: Path) -> None:
    page = (Path(facts.__file__).resolve().parents[2] / "docs" / "how-to" / "airflow.md").read_text()
    (said,) = re.findall(r"```text\n(schedule:\n.*?)```", page, re.DOTALL)
    text = write_spec(tmp_path).read_text() + said
    job, errors = validate_text(text)
    assert job is not None and job.schedule is not None, errors
    assert set(Schedule.model_fields) - {"assets"} == job.schedule.model_fields_set and "# assets: [" in said
