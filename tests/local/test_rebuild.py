"""A rebuild: a new generation is that of a fresh job, whatever was killed, and the job goes on with it."""

from __future__ import annotations

from pathlib import Path

import pytest

from skyband.framework.streaming.job.generations import generation_of
from skyband.jobs import cli
from tests.spark.equality import assert_equal_tables
from tests.spark.jobs import table
from tests.spark.rebuilds import assert_rebuilt_and_goes_on, job, rebuild, runs, said_of

pytestmark = [pytest.mark.long, pytest.mark.slow]


@pytest.fixture
def finished(tmp_path: Path) -> Path:
    """A fresh job over four files, finished, with the edited spec."""
    assert cli.main(["run", str(job(tmp_path / "fresh", k=7, engine="local")), "--finish"]) == 0
    return tmp_path


@pytest.fixture
def edited(finished: Path) -> Path:
    """A job over the same files, finished, its spec edited since."""
    spec = job(finished / "job", engine="local")
    assert cli.main(["run", str(spec), "--finish"]) == 0
    spec.write_text(spec.read_text().replace("k: 5", "k: 7"))
    return finished / "job"


def test_an_edited_spec_is_rebuilt_and_the_job_goes_on(finished: Path, edited: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert_rebuilt_and_goes_on(finished, edited, capsys)


def test_what_does_not_pass_its_gate_is_not_swapped_in(edited: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spec, out = edited / "spec.yaml", edited / "out"
    before, text = generation_of(out / "_skyband"), spec.read_text()
    rows = table(edited, "far5_now").to_pylist()
    check = "  tables:\n    - {table: far5, expectation: expect_column_values_to_be_between, column: score, max_value: 0.001}\n"
    spec.write_text(text.replace("  max_rejected: 100%\n", f"  max_rejected: 100%\n{check}"))
    assert "SKY-E511" in said_of(capsys, "rebuild", str(spec), "--finish", code=1) and generation_of(out / "_skyband") == before
    assert table(edited, "far5_now").to_pylist() == rows and not (out / "_skyband" / "old").exists()
    anyway = said_of(capsys, "rebuild", str(spec), "--finish", "--anyway", code=1)
    assert "continuing the interrupted rebuild" in anyway and "swapped in" in anyway
    assert generation_of(out / "_skyband") != before and (out / "_skyband" / "old" / "far5_now").is_dir()
    (edited / "in" / "1.csv").unlink()
    assert "SKY-E510 1 of the 4 files that the job has read are gone" in said_of(capsys, "rebuild", str(spec), code=2)


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
    # A reader finds one of the two generations complete, or is told which command completes the swap.
    if at.startswith("swap"):
        assert "SKY-E513" in said_of(capsys, "query", str(spec), "best", code=2)
        said_of(capsys, "maintain", str(spec))
    assert said_of(capsys, "query", str(spec), "best", "--format", "json")
    if at.startswith("swap"):
        assert generation_of(out / "_skyband") != before
        assert_equal_tables(edited, finished / "fresh")
    else:
        assert generation_of(out / "_skyband") == before and table(edited, "far5_now").to_pylist() == rows
        said_of(capsys, "rebuild", str(spec), "--finish")
        assert_equal_tables(edited, finished / "fresh")
    assert ("rebuild", "killed") in runs(edited) or at.startswith("swap")
    said_of(capsys, "run", str(spec), "--finish")
    assert ("rebuild", "killed") in runs(edited)
    said_of(capsys, "verify", str(spec), "--instants", "3")
