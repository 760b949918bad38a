"""A rebuild through the engine: a new generation is that of a fresh job, whatever was killed, and the job goes on with it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from skyband.framework.streaming.generations import generation_of
from skyband.jobs import cli
from tests.spark.cuts import stream
from tests.spark.equality import assert_equal_tables
from tests.spark.jobs import run_apart, table, write_file, write_spec

pytestmark = [pytest.mark.spark, pytest.mark.slow]

QUERIES = "  far5: {{type: topk_pairs, scoring: far, k: {k}, carry: [x]}}\n  best: {{type: topk, scoring: near_x, k: 3}}\n"
SCORING = "  near_x: {expression: x, direction: max}"
ROWS = stream(22, 200)
POINTS = ("run.locked:2", "sink.between:3", "state.after:2", "finish.ordered", "swap.step:1", "swap.between:4", "swap.moved")
"""Where a rebuild is killed: before it begins, while it builds, while it swaps."""


def job(folder: Path, files: Sequence[int] = (0, 1, 2, 3), k: int = 5) -> Path:
    """A job over some of five files, not run yet."""
    folder.mkdir(exist_ok=True)
    for i in files:
        write_file(folder, f"{i}.csv", ROWS[40 * i : 40 * (i + 1)], at=20 * i)
    return write_spec(folder, queries=QUERIES.format(k=k), scoring=SCORING, max_files=1, partition=True)


def rebuild(spec: Path, *arguments: str, failpoint: str | None = None) -> subprocess.CompletedProcess[str]:
    env = {k: v for k, v in os.environ.items() if k != "SKYBAND_FAILPOINT"}
    env |= {"SKYBAND_MASTER": "local[2]", "SKYBAND_SHUFFLE_PARTITIONS": "2"} | ({"SKYBAND_FAILPOINT": failpoint} if failpoint else {})
    command = [sys.executable, "-m", "skyband.jobs.cli", "rebuild", str(spec), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, env=env, check=False, start_new_session=True)


def good(done: subprocess.CompletedProcess[str]) -> subprocess.CompletedProcess[str]:
    assert done.returncode == 0, done.stderr
    return done


def said_of(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert cli.main([*words]) == 0, capsys.readouterr()
    return "".join(capsys.readouterr())


def runs(folder: Path) -> list[tuple[Any, ...]]:
    return [(r["command"], r["status"]) for r in sorted(table(folder, "job_runs").to_pylist(), key=lambda r: r["run_id"])]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A job that has run over four files and was finished, and a fresh one over the same files with an edited spec."""
    folder = tmp_path_factory.mktemp("rebuild")
    good(run_apart(job(folder / "old"), "--finish"))
    good(run_apart(job(folder / "fresh", k=7), "--finish"))
    return folder


@pytest.fixture
def edited(tmp_path: Path, finished: Path) -> Path:
    """The finished job where it would be, its spec edited since: a checkpoint cannot be copied to another place."""
    shutil.rmtree(finished / "job", ignore_errors=True)
    (finished / "job").mkdir()
    spec = job(finished / "job")
    good(run_apart(spec, "--finish"))
    spec.write_text(spec.read_text().replace("k: 5", "k: 7"))
    return finished / "job"


def test_an_edited_spec_is_rebuilt_and_the_job_goes_on(finished: Path, edited: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spec, out = edited / "spec.yaml", edited / "out"
    refused = run_apart(spec)
    assert refused.returncode == 2 and "SKY-E150 queries.far5.k was 5, now 7" in refused.stderr and "skyband rebuild" in refused.stderr
    before = generation_of(out / "_skyband")
    told = edited / "outcome.json"
    done = good(rebuild(spec, "--finish", "--outcome", str(told)))
    assert "swapped in" in done.stderr and generation_of(out / "_skyband") != before
    assert generation_of(out / "_skyband" / "old" / "_skyband") == before and (out / "_skyband" / "old" / "far5_now").is_dir()
    assert_equal_tables(edited, finished / "fresh")
    # Nothing in the checkpoint still knows the place where it was built.
    assert not [p for p in (out / "_skyband" / "checkpoint").rglob("*") if p.is_file() and b"/_skyband/next/" in p.read_bytes()]
    outcome = json.loads(told.read_text())
    assert outcome["tables"]["far5_now"]["from"] is None and outcome["tables"]["far5_now"]["to"] >= 0 and outcome["status"] == "done"
    assert runs(edited) == [("run", "done"), ("run", "refused"), ("rebuild", "done")]
    said_of(capsys, "verify", str(spec), "--instants", "3")
    # The job goes on from there, finish after finish, as the fresh one does.
    for folder in (edited, finished / "fresh"):
        write_file(folder, "4.csv", ROWS[160:], at=80)
        good(run_apart(folder / "spec.yaml", "--finish"))
    assert_equal_tables(edited, finished / "fresh")
    said_of(capsys, "verify", str(spec), "--instants", "3")
    # And back: the former generation is whole, and the former spec goes on with it.
    said_of(capsys, "rebuild", str(spec), "--undo")
    assert generation_of(out / "_skyband") == before and table(edited, "far5_now").num_rows > 0
    spec.write_text(spec.read_text().replace("k: 7", "k: 5"))
    write_file(finished / "old", "4.csv", ROWS[160:], at=80)
    for folder in (edited, finished / "old"):
        good(run_apart(folder / "spec.yaml", "--finish"))
    assert_equal_tables(edited, finished / "old")
    said_of(capsys, "verify", str(spec), "--instants", "3")
    assert "removed" in said_of(capsys, "rebuild", str(spec), "--drop-old") and not (out / "_skyband" / "old").exists()
    said_of(capsys, "reset", str(spec), "--yes")
    assert sorted(p.name for p in out.rglob("*") if p.is_file()) == ["engine.lock", "lock"]
    (finished / "fresh" / "in" / "4.csv").unlink()
    (finished / "old" / "in" / "4.csv").unlink()


def test_what_does_not_pass_its_gate_is_not_swapped_in(edited: Path) -> None:
    spec, out = edited / "spec.yaml", edited / "out"
    before, text = generation_of(out / "_skyband"), spec.read_text()
    rows = table(edited, "far5_now").to_pylist()
    check = "  tables:\n    - {table: far5, expectation: expect_column_values_to_be_between, column: score, max_value: 0.001}\n"
    spec.write_text(text.replace("  max_rejected: 100%\n", f"  max_rejected: 100%\n{check}"))
    failed = rebuild(spec, "--finish")
    assert failed.returncode == 1 and "SKY-E511" in failed.stderr and generation_of(out / "_skyband") == before
    assert table(edited, "far5_now").to_pylist() == rows and not (out / "_skyband" / "old").exists()
    anyway = rebuild(spec, "--finish", "--anyway")
    assert anyway.returncode == 1 and "going on with a rebuild that was interrupted" in anyway.stderr, anyway.stderr
    assert generation_of(out / "_skyband") != before and (out / "_skyband" / "old" / "far5_now").is_dir()
    (edited / "in" / "1.csv").unlink()
    gone = rebuild(spec)
    assert gone.returncode == 2 and "SKY-E510 1 of the 4 files that the job has read are gone" in gone.stderr


@pytest.mark.chaos
@pytest.mark.parametrize(
    "at", ["run.locked:2", "sink.between:3", "state.after:2", "finish.ordered", "swap.step:1", "swap.between:4", "swap.moved"]
)
def test_killed_anywhere_there_is_the_old_generation_or_the_new_one(
    finished: Path, edited: Path, at: str, capsys: pytest.CaptureFixture[str]
) -> None:
    spec, out = edited / "spec.yaml", edited / "out"
    before, rows = generation_of(out / "_skyband"), table(edited, "far5_now").to_pylist()
    killed = rebuild(spec, "--finish", failpoint=at)
    assert killed.returncode == -9, killed.stderr
    # Whoever comes next finds one of them whole.
    found = said_of(capsys, "query", str(spec), "best", "--format", "json")
    if at.startswith("swap"):
        assert generation_of(out / "_skyband") != before and found
        assert_equal_tables(edited, finished / "fresh")
    else:
        assert generation_of(out / "_skyband") == before and table(edited, "far5_now").to_pylist() == rows
        good(rebuild(spec, "--finish"))
        assert_equal_tables(edited, finished / "fresh")
    for folder in (edited, finished / "fresh"):
        good(run_apart(folder / "spec.yaml", "--finish"))
    assert_equal_tables(edited, finished / "fresh")
    said_of(capsys, "verify", str(spec), "--instants", "3")
    assert ("rebuild", "killed") in runs(edited)
