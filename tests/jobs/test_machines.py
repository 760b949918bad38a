"""What programs get from commands: one JSON document on stdout, whatever happens, with the fields that docs/reference/commands.md lists."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from skyband import __version__
from skyband.framework.console.live import LiveLines
from skyband.framework.plan.fingerprint import concealed, fingerprint
from skyband.framework.plan.model import Plan
from skyband.framework.streaming.job.layout import JobFile, Layout
from skyband.jobs.cli import _Command, main
from skyband.jobs.outcome import Outcome
from tests.framework.streaming import checkpoints
from tests.framework.verify import small
from tests.spark.cuts import stream
from tests.spark.jobs import write_file, write_spec
from tests.test_commands_doc import COMMANDS, rows

NEAR = "  near: {type: topk_pairs, scoring: near, k: 3, carry: [x]}\n"


@pytest.fixture(scope="module")
def spec(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The spec of a small job whose tables are there."""
    directory = tmp_path_factory.mktemp("machines")
    path = write_spec(directory, queries=NEAR)
    write_file(directory, "0.csv", stream(1, 60), at=0)
    plan = small.make(path, stream(1, 60))
    known(plan)
    log = Path(plan.sink) / "_skyband" / "checkpoint" / "sources" / "0" / "0"
    checkpoints.write(log, f"v1\n{json.dumps({'path': (directory / 'in' / '0.csv').as_uri(), 'timestamp': 1, 'batchId': 0})}")
    return path


def known(plan: Plan) -> None:
    """The job file of a job that was made without Spark."""
    layout = Layout(plan.sink)
    layout.save(JobFile(plan.job, "g", concealed(fingerprint(plan), plan, "s"), 2, None, salt="s"))


def answer(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, Any]:
    """The exit code and the one document of a command."""
    capsys.readouterr()
    code = main([*argv, "--format", "json"])
    out = capsys.readouterr().out
    assert out.endswith("\n") and out.count("\n") == 1, out
    return code, json.loads(out)


ARGUMENTS: dict[str, list[str]] = {
    "init": ["{new}/first.yaml"],
    "validate": ["{spec}"],
    "render": ["{spec}"],
    "explain": ["{spec}"],
    "graph": ["{spec}"],
    "plan": ["{spec}"],
    "schema": [],
    "preview": ["{spec}"],
    "test": ["{spec}"],
    "status": ["{spec}"],
    "metrics": [],
    "why": ["{spec}", "near", "1"],
    "whatif": ["{spec}", "--without", "side=a"],
    "query": ["{spec}", "near"],
    "sql": ["{spec}", "select * from near_now"],
    "views": ["{spec}"],
    "report": ["{spec}", "--out", "{new}/r.html"],
    "quality": ["{spec}"],
    "rejected": ["{spec}"],
    "verify": ["{spec}", "--replay-only"],
    "maintain": ["{spec}"],
    "airflow install": ["{new}/dags"],
    "completion": ["bash"],
    "airflow describe": ["{spec}"],
    "airflow batches": ["{spec}", "--after", "0"],
}
"""Of the commands that need no engine. The others are ``run`` and ``demo`` (their outcome has tests of its own), ``serve``, ``edge`` and
``replay-rejected``."""


@pytest.mark.parametrize("command", ARGUMENTS)
def test_the_document_of_a_command_has_the_fields_of_the_docs(
    command: str, spec: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = [a.format(spec=spec, new=tmp_path) for a in ARGUMENTS[command]]
    code, found = answer(capsys, *command.split(), *given)
    assert code in (0, 1)
    assert set(found) == set(re.findall(r"`(\w+)`", rows()[command][2].split(";")[0]))


@pytest.mark.parametrize(
    "command",
    sorted(
        set(COMMANDS)
        - {"init", "schema", "metrics", "demo", "warm", "airflow install", "airflow describe", "validate", "test", "completion"}
    ),
)
def test_a_broken_spec_is_an_error_in_json(command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bad = write_spec(tmp_path)
    bad.write_text(bad.read_text().replace("watermark", "watermerk"))
    rest = {"query": ["near4"], "why": ["near4", "1"], "sql": ["select 1"], "replay-rejected": ["rows.csv"]}
    rest |= {"queries add": ["more.yaml"], "queries remove": ["near4"]}
    code, found = answer(capsys, *command.split(), str(bad), *rest.get(command, []))
    (error,) = found["errors"]
    line = next(n for n, text in enumerate(bad.read_text().splitlines(), 1) if "watermerk" in text)
    assert code == 2 and error["code"] == "SKY-E110" and error["hint"] == "did you mean 'watermark'?"
    assert (error["where"]["file"], error["where"]["line"]) == (str(bad), line) and error["where"]["column"] > 1
    assert not (tmp_path / "out").exists()


def test_mistakes_of_specs_are_part_of_validates_answer(spec: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, found = answer(capsys, "validate", str(spec), str(tmp_path / "none.yaml"))
    good, bad = found["specs"]
    assert (code, good["good"], good["queries"], bad["good"]) == (2, True, ["near"], False)
    assert [(e["code"], e["where"]) for e in bad["errors"]] == [("SKY-E100", None)]


def test_arguments_that_are_none_are_an_error_in_json(capsys: pytest.CaptureFixture[str]) -> None:
    for argv in (["query"], ["status", "a.yaml", "--bogus"], ["nonsense"]):
        with pytest.raises(SystemExit) as e:
            main([*argv, "--format=json"])
        told = capsys.readouterr()
        assert e.value.code == 2 and [x["code"] for x in json.loads(told.out)["errors"]] == ["SKY-E201"]
        assert told.err.startswith("usage: skyband") and "Traceback" not in told.err


def test_what_a_run_says_is_its_outcome(spec: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "outcome.json"
    code, found = answer(capsys, "run", str(tmp_path / "none.yaml"), "--outcome", str(out))
    written = json.loads(out.read_text())
    assert code == 2 and {**found, "ended_at": "", "wall_seconds": 0} == {**written, "ended_at": "", "wall_seconds": 0}
    assert found["status"] == "refused" and [e["code"] for e in found["errors"]] == ["SKY-E100"]


def test_verify_tells_people_on_stderr_and_programs_on_stdout(spec: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", str(spec), "--replay-only", "--format", "json"]) in (0, 1)
    told = capsys.readouterr()
    found = json.loads(told.out)
    assert [p["said"] for p in found["parts"]] == [line for line in told.err.splitlines() if not line.startswith("verify: ")]


def test_a_spec_from_standard_input(spec: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def given(text: str) -> None:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))

    given(spec.read_text())
    assert main(["validate", "-"]) == 0
    assert capsys.readouterr().out == "-: good (1 query)\n"
    given(spec.read_text())
    assert answer(capsys, "explain", "-")[1]["queries"][0]["name"] == "near"
    given(spec.read_text().replace("k: 3", "k: -3"))
    code, found = answer(capsys, "validate", "-")
    assert code == 2 and found["specs"][0]["errors"][0]["where"]["file"] == "-"


def test_nothing_of_the_environment_is_in_an_answer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLACE", str(tmp_path / "hunter2"))
    path = write_spec(tmp_path)
    path.write_text(path.read_text().replace(f"{tmp_path}/out", "${PLACE}"))
    for command in ("validate", "explain", "status", "views"):
        assert "hunter2" not in json.dumps(answer(capsys, command, str(path)))


def test_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--version"])
    assert capsys.readouterr().out == f"skyband {__version__}\n"
    text = (Path(__file__).resolve().parents[2] / "pyproject.toml").read_text(encoding="utf-8")
    assert f'version = "{__version__}"' in text


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("environment", [{}, {"NO_COLOR": "1"}])
def test_a_terminal_gets_no_colour(environment: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    terminal = _Terminal()
    lines = LiveLines(terminal)
    lines.show(lambda: "batch 3: 100 rows")
    lines.tell("warning", "warning", "WARNING: careful")
    lines.close()
    assert "WARNING: careful" in terminal.getvalue() and "batch 3" in terminal.getvalue()
    # Of the colours and styles of a terminal (select graphic rendition) only "as usual" may be there.
    assert {m for m in re.findall(r"\x1b\[([\d;]*)m", terminal.getvalue())} <= {"", "0"}


def test_help_and_validate_load_nothing_heavy(spec: Path) -> None:
    heavy = {"pyspark", "pyarrow", "pandas", "numba", "duckdb", "great_expectations", "deltalake", "rich"}
    code = (
        "import sys; from skyband.jobs.cli import main\n"
        "try: main(sys.argv[1:])\n"
        "except SystemExit: pass\n"
        "print(*sys.modules, file=sys.stderr)\n"
    )
    for argv in (["query", "--help"], ["validate", str(spec)]):
        done = subprocess.run([sys.executable, "-c", code, *argv], capture_output=True, text=True, check=True, env=dict(os.environ))
        assert heavy & set(done.stderr.split()) == set(), argv


def test_a_run_that_a_signal_ends_has_its_document(capsys: pytest.CaptureFixture[str]) -> None:
    command = _Command(io.StringIO())
    command.json, command.outcome = True, Outcome(None, wanted=True)
    assert command.stopped(15) == 143
    assert json.loads(capsys.readouterr().out)["status"] == "stopped"
