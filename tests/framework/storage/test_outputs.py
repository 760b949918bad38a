"""No output of a command takes the place of a source file, of a file of a sink, of the spec, or goes where a link leads."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from skyband.framework.base.errors import SkybandError
from skyband.framework.console.outcome import Outcome
from skyband.framework.storage import durable
from skyband.framework.storage.outputs import new_file, new_output, output_directory, output_file, replace_output
from skyband.framework.streaming.spark.log import LOG_VARIABLE, own_log
from skyband.jobs.cli import main
from tests.spark.jobs import write_file, write_spec


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    """A spec with its source directory ``in`` and a sink ``out`` that has a job file."""
    write_file(tmp_path, "0.csv", [], at=0)
    (tmp_path / "out" / "_skyband").mkdir(parents=True)
    (tmp_path / "out" / "_skyband" / "job.json").write_text("{}")
    (tmp_path / "theirs" / "_delta_log").mkdir(parents=True)
    (tmp_path / "theirs" / "x.parquet").write_bytes(b"rows")
    (tmp_path / "plain.txt").write_text("text")
    (tmp_path / "link").symlink_to(tmp_path / "plain.txt")
    (tmp_path / "to_in").symlink_to(tmp_path / "in")
    (tmp_path / "to_nothing").symlink_to(tmp_path / "in" / "new.csv")
    os.mkfifo(tmp_path / "pipe")
    return write_spec(tmp_path)


def files(directory: Path) -> dict[str, bytes | str]:
    """What lies below ``directory``, but for the two lock files."""
    found: dict[str, bytes | str] = {}
    for where, directories, names in os.walk(directory):
        for path in (Path(where, n) for n in [*directories, *names]):
            held = os.readlink(path) if path.is_symlink() else path.read_bytes() if path.is_file() else "other"
            if path.name not in ("lock", "engine.lock"):
                found[str(path.relative_to(directory))] = held
    return found


BAD_FILES = [
    "in/0.csv", "in/new.csv", "in", "out/_skyband/job.json", "out/report.html", "out/", "in/../out/_skyband/job.json", "to_in/0.csv",
    "link", "to_nothing", "pipe", "spec.yaml", "./spec.yaml", "theirs/x.parquet", "theirs/deep/new.html", ".", "/",
]  # fmt: skip
"""Paths that a command must not write a file to."""
COMMANDS: list[Callable[[str, str], list[str]]] = [
    lambda spec, out: ["report", spec, "--out", out],
    lambda spec, out: ["run", spec, "--outcome", out],
    lambda spec, out: ["rebuild", spec, "--outcome", out],
    lambda spec, out: ["rejected", spec, "--reason", "parse", "--export", out],
]


@pytest.mark.parametrize("out", BAD_FILES)
@pytest.mark.parametrize("option", ["--out", "--outcome", "--export"])
def test_the_rule_for_files(spec: Path, out: str, option: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(spec.parent)
    before = files(spec.parent)
    places = (str(spec.parent / "in"), str(spec.parent / "out"))
    with pytest.raises(SkybandError) as e:
        if option == "--export":
            new_file(Path(out), option, places)
            # A new name is what is left of those.
            raise AssertionError(out)
        output_file(Path(out), option, places, str(spec))
    assert e.value.code in ("SKY-E201", "SKY-E202", "SKY-E203") and e.value.hint
    assert files(spec.parent) == before


@pytest.mark.parametrize("out", [f for f in BAD_FILES if f not in ("/", ".", "in", "out/")])
@pytest.mark.parametrize("command", [0, 1, 2])
def test_no_command_writes_there(
    spec: Path, out: str, command: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before it does anything else: no engine is started, and nothing is in any place that was not there."""
    monkeypatch.chdir(spec.parent)
    (spec.parent / "out" / "_skyband" / "job.json").unlink()
    (spec.parent / "out" / "_skyband").rmdir()
    (spec.parent / "out").rmdir()
    before = files(spec.parent)
    assert main(COMMANDS[command](str(spec), out)) == 2
    assert "SKY-E20" in capsys.readouterr().err
    assert files(spec.parent) == before


@pytest.mark.parametrize(
    "directory", ["in", "in/docs", "out", "out/docs", "out/near", "to_in", "to_in/docs", "theirs/docs", "plain.txt", ".", "/"]
)
def test_the_rule_for_directories(spec: Path, directory: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(spec.parent)
    with pytest.raises(SkybandError) as e:
        output_directory(Path(directory), "--docs", (str(spec.parent / "in"), f"file://{spec.parent / 'out'}"))
    assert e.value.code in ("SKY-E201", "SKY-E202")


@pytest.mark.parametrize(
    "words", [["init", "{0}/out/job.yaml"], ["init", "--plugin", "{0}/out/plug"], ["airflow", "install", "{0}/out/dags"]]
)
def test_commands_without_a_spec_keep_out_of_sinks(spec: Path, words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    before = files(spec.parent)
    assert main([w.format(spec.parent) for w in words]) == 2
    assert "is in the sink of a job" in capsys.readouterr().err and files(spec.parent) == before


@pytest.mark.parametrize("source", ["{0}/in/*.csv", "{0}/in/{{a,b}}*", "file:{0}/in", "{0}/to_in"])
def test_every_spelling_of_the_source_counts(spec: Path, source: str) -> None:
    place = source.format(spec.parent)
    with pytest.raises(SkybandError):
        output_file(spec.parent / "in" / "a1.csv", "--out", (place, None))
    assert output_file(spec.parent / "new.html", "--out", (place, None))


def test_a_source_on_another_system_is_in_nobodys_way(spec: Path) -> None:
    assert output_file(spec.parent / "new.html", "--out", ("s3://bucket/in", "s3://bucket/out", None))


@pytest.mark.parametrize("content", ["", json.dumps({"format": 1, "exit_code": 3, "job": None})])
def test_only_an_outcome_is_replaced_by_an_outcome(tmp_path: Path, content: str) -> None:
    path = tmp_path / "out.json"
    path.write_text(content)
    outcome = Outcome(str(path))
    outcome.begin()
    assert path.read_text() == content
    outcome.place((str(tmp_path / "in"), str(tmp_path / "out")), "spec.yaml")
    assert not path.exists()
    outcome.write(0, [])
    assert json.loads(path.read_text())["exit_code"] == 0 and os.listdir(tmp_path) == ["out.json"]


@pytest.mark.parametrize("content", ["id,x\n1,2\n", "{}", "[1]", "\0\xff", '{"format": 1}'])
def test_a_file_that_is_no_outcome_stays(tmp_path: Path, content: str) -> None:
    path = tmp_path / "precious"
    path.write_text(content)
    outcome = Outcome(str(path))
    with pytest.raises(SkybandError) as e:
        outcome.begin()
    assert e.value.code == "SKY-E202"
    outcome.write(2, [])
    assert path.read_text() == content


@pytest.mark.parametrize("name", ["in/0.csv", "out/_skyband/job.json", "link", "theirs/x.parquet"])
def test_the_log_of_the_engine_is_an_output_too(spec: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    before = files(spec.parent)
    monkeypatch.setenv(LOG_VARIABLE, str(spec.parent / name))
    with pytest.raises(SkybandError) as e:
        own_log((str(spec.parent / "in"), str(spec.parent / "out")))
    assert e.value.code in ("SKY-E201", "SKY-E202")
    assert main(["run", str(spec)]) == 2 and files(spec.parent) == before


def test_a_planted_link_beside_the_file_leads_nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its name was `.NAME.PID` once, which anybody can know who may write there."""
    (tmp_path / "victim").write_text("precious")
    (tmp_path / f".page.html.{os.getpid()}").symlink_to(tmp_path / "victim")
    durable.replace(tmp_path / "page.html", "page")
    monkeypatch.setattr(os, "urandom", lambda n: bytes(n))
    (tmp_path / f".page.html.{bytes(6).hex()}").symlink_to(tmp_path / "victim")
    with pytest.raises(SkybandError) as e:
        replace_output(tmp_path / "page.html", "--out", "other")
    assert e.value.code == "SKY-E203"
    assert (tmp_path / "victim").read_text() == "precious" and (tmp_path / "page.html").read_text() == "page"


def test_a_file_that_cannot_be_written_whole_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(KeyError), new_output(tmp_path / "rows.csv") as out:
        out.write("half")
        raise KeyError
    assert os.listdir(tmp_path) == []
    with pytest.raises(FileExistsError), new_output(tmp_path / "rows.csv") as out:
        out.write("mine")
        (tmp_path / "rows.csv").write_text("theirs")
    assert os.listdir(tmp_path) == ["rows.csv"] and (tmp_path / "rows.csv").read_text() == "theirs"
    with new_output(tmp_path / "more.csv") as out:
        out.write("whole")
    assert sorted(os.listdir(tmp_path)) == ["more.csv", "rows.csv"]


@pytest.mark.parametrize("name", ["x" * 300, "a\0b", "file/below.html"])
def test_a_name_that_no_file_can_have_is_an_error_of_ours(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").write_text("")
    for check in (output_file, output_directory):
        with pytest.raises(SkybandError) as e:
            check(tmp_path / name, "--out")
        assert e.value.code == "SKY-E203"
