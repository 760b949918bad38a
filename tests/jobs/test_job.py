"""``import skyband``: the answers of a job are those of the commands, its mistakes the same errors."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest

import skyband
from skyband.framework.plan.model import Plan
from skyband.framework.tables.results.reader import Reader
from skyband.jobs.cli import main
from skyband.jobs.running import run
from skyband.jobs.spec import load_plan
from tests.framework.verify import small
from tests.jobs.test_machines import NEAR, known
from tests.spark.cuts import stream
from tests.spark.jobs import write_spec


@pytest.fixture(scope="module")
def spec(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = write_spec(tmp_path_factory.mktemp("api"), queries=NEAR)
    known(small.make(path, stream(2, 60)))
    return path


def test_a_spec_is_loaded_or_all_its_mistakes_are_raised(spec: Path, tmp_path: Path) -> None:
    job = skyband.load(spec)
    assert (job.name, job.queries, job.path) == ("small", ("near",), str(spec))
    assert {"near", "near_changes", "near_now", "runs"} <= set(job.tables)
    assert skyband.validate(spec) == [] and "state near" in job.explain()
    bad = write_spec(tmp_path)
    bad.write_text(bad.read_text().replace("watermark", "watermerk").replace("k: 5", "k: 0"))
    with pytest.raises(skyband.SpecErrors) as e:
        skyband.load(bad)
    assert [(x.code, x.where.file) for x in e.value.errors if x.where] == [("SKY-E110", str(bad)), ("SKY-E114", str(bad))]
    assert [x.render() for x in skyband.validate(bad)] == [x.render() for x in e.value.errors]


def test_the_package_lists_what_it_offers() -> None:
    code = "import sys, skyband; print(dir(skyband)); print([m for m in ('pyarrow', 'skyband.jobs.job') if m in sys.modules])"
    names, loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.splitlines()
    assert names == str(sorted(skyband.__all__)) and loaded == "[]"
    assert all(getattr(skyband, name) is not None for name in dir(skyband))


def test_variables_may_be_given(tmp_path: Path) -> None:
    path = write_spec(tmp_path)
    path.write_text(path.read_text().replace(f"{tmp_path}/out", "${WHERE_TO}"))
    assert [e.code for e in skyband.validate(path, env={})] == ["SKY-E106"]
    job = skyband.load(path, env={"WHERE_TO": str(tmp_path / "there")})
    assert job.status().sink == str(tmp_path / "there")


def test_data_is_looked_at_if_asked(spec: Path) -> None:
    assert [e.code for e in skyband.validate(spec, data=True)] == ["SKY-E206"]


def test_answers_are_those_of_the_commands(spec: Path, capsys: pytest.CaptureFixture[str]) -> None:
    job = skyband.load(spec)
    rows = job.query("near")
    assert isinstance(rows, pa.Table) and rows.num_rows == 3 and rows.equals(Reader(load_plan(str(spec))).as_of("near").rows)
    assert main(["query", str(spec), "near", "--format", "json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert [r["score"] for r in shown["rows"]] == rows["score"].to_pylist()
    found = job.ask("near")
    assert found.as_of is not None and shown["as_of"] == found.as_of.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    earlier = job.query("near", at="2020-01-01T01:00")
    assert earlier.equals(job.query("near", at=datetime(2020, 1, 1, 1, tzinfo=UTC))) and not earlier.equals(rows)
    assert job.query("near", k=2, window="20 rows").num_rows == 2 and job.query("near", limit=1).num_rows == 1
    assert job.sql("select count(*) as n from near").to_pylist() == [{"n": job.table("near").num_rows}]
    assert main(["status", str(spec), "--format", "json"]) in (0, 1)
    assert json.loads(capsys.readouterr().out)["batch"] == job.status().batch


def test_what_it_would_do_is_told_before_it_runs(spec: Path, tmp_path: Path) -> None:
    job = skyband.load(spec)
    assert job.plan().fits and job.graph().startswith("flowchart") and job.graph("dot").startswith('digraph "small"')
    changed = tmp_path / "spec.yaml"
    changed.write_text(spec.read_text().replace("k: 3", "k: 2"))
    assert skyband.load(changed).plan().differences == ["queries.near.k was 3, now 2"]


def test_what_cannot_be_answered_is_an_error_with_a_code(spec: Path, tmp_path: Path) -> None:
    job = skyband.load(spec)
    for code, ask in (
        ("SKY-E201", lambda: job.query("nearr")),
        ("SKY-E201", lambda: job.query("near", at="noon")),
        ("SKY-E201", lambda: job.query("near", k=9)),
        ("SKY-E402", lambda: job.query("near", at="2050-01-01")),
        ("SKY-E404", lambda: job.sql("select nothing from near")),
        ("SKY-E400", lambda: skyband.load(write_spec(tmp_path)).query("near4")),
    ):
        with pytest.raises(skyband.SkybandError) as e:
            ask()
        assert e.value.code == code and e.value.message


def test_a_run_is_the_commands(spec: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What Spark does is held by the notebook's test and by those of the command; here: it gets what was asked for."""
    asked = []

    def ran(args: object) -> int:
        asked.append(args)
        args.lines.tell("info", "batch", "batch 0", batch=0)  # type: ignore[attr-defined]
        args.recorded.add(0, {"in": 5, "filtered": 0, "accepted": 4}, {"late": 1}, {"near": 7}, 0)  # type: ignore[attr-defined]
        return 4

    monkeypatch.setattr(run, "run", ran)
    heard: list[str] = []
    found = skyband.load(spec).run(finish=True, demote=["sane_x"], log=heard.append)
    (args,) = asked
    assert isinstance(args.plan, Plan) and (args.once, args.finish, args.demote, args.quiet) == (True, True, ["sane_x"], False)
    assert (found.ok, found.status, found.exit_code) == (False, "too_many_rejected", 4) and heard == ["batch 0"]
    assert found.outcome["rows"]["rejected"] == {"late": 1} and found.outcome["changes"]["near"] == 7


def test_every_argument_that_a_run_looks_at_is_given(spec: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A new option of ``run`` is one of ``Job.run``, or has its default there."""
    import argparse

    asked: list[argparse.Namespace] = []
    monkeypatch.setattr(run, "run", lambda args: asked.append(args) or 0)
    skyband.load(spec).run()
    subparsers = argparse.ArgumentParser().add_subparsers()
    run.add_parser(subparsers)
    options = vars(subparsers.choices["run"].parse_args([str(spec)]))
    assert set(options) - set(vars(asked[0])) <= {"run", "log_format", "outcome"}


def test_verify_tells_in_its_answer(spec: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = skyband.load(spec).verify(source=False)
    told = capsys.readouterr()
    assert (told.out, told.err) == ("", "") and found.job == "small" and found.parts


def test_importing_it_is_light_and_everything_it_names_is_there() -> None:
    code = (
        "import sys, skyband\n"
        "assert not [m for m in sys.modules if m.startswith('skyband.')]\n"
        "assert all(getattr(skyband, n) for n in skyband.__all__)\n"
        "print(*sorted({'pyspark', 'pyarrow', 'pandas', 'numba', 'duckdb'} & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, "", "")
    with pytest.raises(AttributeError):
        skyband.nonsense  # noqa: B018
