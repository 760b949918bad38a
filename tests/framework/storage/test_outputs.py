"""No output of a command takes the place of a source file, of a file of a sink, of the spec, or goes where a link leads."""

from __future__ import annotations

import ast
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from skyband.framework.base.errors import SkybandError
from skyband.framework.storage import durable
from skyband.framework.storage.outputs import new_file, new_output, output_directory, output_file, replace_output
from skyband.framework.streaming.spark.log import LOG_VARIABLE, own_log
from skyband.jobs.cli import main
from skyband.jobs.outcome import Outcome
from skyband.jobs.spec import load_plan
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
    lambda spec, out: ["edge", spec, "--out", out],
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
@pytest.mark.parametrize("command", [0, 1, 2, 4])
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


def test_an_edge_message_replaces_only_edge_messages(spec: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = files(spec.parent)
    assert main(["edge", str(spec), "--out", str(spec.parent / "plain.txt")]) == 2
    assert "SKY-E202 --out" in (said := capsys.readouterr().err) and "was not written by this command" in said
    assert files(spec.parent) == before


SEVERAL = """\
job: several
source:
  id: [id]
  event_time: {{column: ts}}
sources:
  one: {{format: csv, path: {0}/one, schema: {{id: bigint, ts: timestamp, x: double}}}}
  two: {{format: csv, path: {0}/two, schema: {{id: bigint, ts: timestamp, x: double}}}}
lookups:
  other: {{format: csv, path: {0}/table, schema: {{id: bigint, y: double}}, "on": {{id: id}}, take: {{worth: y}}}}
window: {{count: 50}}
scoring: {{high: {{expression: x, direction: max}}}}
queries: {{top: {{type: topk, scoring: high, k: 3}}}}
sink: {{path: {0}/out}}
"""


def test_all_sources_and_look_ups_of_a_job_are_kept(tmp_path: Path) -> None:
    """Not those of a job with one source only."""
    spec = tmp_path / "spec.yaml"
    spec.write_text(SEVERAL.format(tmp_path))
    assert set(load_plan(str(spec)).places) == {f"{tmp_path}/{name}" for name in ("one", "two", "table", "out")}
    for name in ("one", "two", "table", "out"):
        (tmp_path / name).mkdir()
        for command in (0, 1, 4):
            assert main(COMMANDS[command](str(spec), f"{tmp_path}/{name}/new.json")) == 2
        assert os.listdir(tmp_path / name) == []


WRITING = {"write_text", "write_bytes", "touch", "symlink_to", "hardlink_to", "rename", "rmtree", "copy", "copyfile", "move"}
ALLOWED = {
    "jobs/outcome.py": "the file of `--outcome`, whose place `output_file` has checked",
    "jobs/cli.py": "the null device, and its own standard error",
    "jobs/authoring/demo_data.py": "a temporary directory beside that of the demo, which `output_directory` has checked",
    "jobs/setup/warm.py": "a temporary directory, and the archive of classes in the cache",
}


def writes(call: ast.Call) -> bool:
    """Return True if a call may write a file by something else than the functions of ``outputs``."""
    name = ast.unparse(call.func)
    last = name.rpartition(".")[2]
    words = [a.value for a in [*call.args, *(k.value for k in call.keywords)] if isinstance(a, ast.Constant) and isinstance(a.value, str)]
    if last == "open":
        return name == "os.open" or any(set(w) <= set("rwxabt+") and set(w) & set("wxa+") for w in words)
    return last in WRITING or name in (
        "durable.replace",
        "durable.create_temporary",
        "os.replace",
        "os.link",
        "os.symlink",
        "write_message",
    )


def test_commands_write_files_by_the_one_rule() -> None:
    root = Path(load_plan.__code__.co_filename).resolve().parents[1]
    found = set()
    for path in (p for p in (root / "jobs").rglob("*.py") if "plugin_template" not in p.parts):
        if any(isinstance(node, ast.Call) and writes(node) for node in ast.walk(ast.parse(path.read_text()))):
            found.add(path.relative_to(root).as_posix())
    assert found == set(ALLOWED)


def test_arguments_show_no_control_characters(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (
        ["\x1b[2Jrun"],
        ["run", "x.yaml", "--\x1b]0;x\x07"],
        ["query", "x.yaml", "q", "--limit", "\x1b[2J\u202e"],
        ["run", "a", "b\x9b2J\udc80"],
    ):
        with pytest.raises(SystemExit) as e:
            raise SystemExit(main(words))
        said = "".join(capsys.readouterr())
        assert e.value.code == 2 and said and all(c.isprintable() or c == "\n" for c in said), ascii(said)
