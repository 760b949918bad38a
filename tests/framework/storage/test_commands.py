"""Commands for a sink on object storage, against a real server: those that do not work there say so, others find it empty."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from skyband.framework.base.errors import SkybandError
from skyband.framework.plan.fingerprint import concealed, fingerprint
from skyband.framework.streaming.job import generations
from skyband.framework.streaming.job.layout import JobFile, Layout, reshaped
from skyband.jobs import cli
from skyband.jobs.spec import load_plan
from tests.spark.jobs import write_spec


@pytest.fixture
def spec(directory: str, tmp_path: Path) -> str:
    path = write_spec(tmp_path)
    path.write_text(path.read_text().replace(str(tmp_path), directory))
    return str(path)


@pytest.mark.parametrize("command", [["rebuild"], ["rebuild", "--added"], ["reset", "--yes"], ["replay-rejected", "x.csv"], ["serve"]])
def test_what_moves_directories_is_refused(spec: str, command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    word, *more = command
    files, options = [m for m in more if not m.startswith("-")], [m for m in more if m.startswith("-")]
    assert cli.main([word, spec, *files, *options]) == 2
    assert f"SKY-E632 {word} does not work on object storage" in capsys.readouterr().err


def test_a_sink_that_is_empty_is_a_job_that_has_not_run(spec: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["status", spec]) == 0
    assert "never run" in capsys.readouterr().out
    assert cli.main(["query", spec, "far5"]) == 2
    assert "SKY-E4" in capsys.readouterr().err


def test_a_spec_cannot_have_the_credentials(spec: str, capsys: pytest.CaptureFixture[str]) -> None:
    path = Path(spec)
    path.write_text(path.read_text().replace("s3://bucket/", "s3://other/${AWS_SECRET_ACCESS_KEY}/"))
    assert cli.main(["validate", spec]) == 2
    assert "SKY-E119" in capsys.readouterr().err


@pytest.mark.parametrize("more", ["buckets", "shards"])
def test_a_state_cannot_be_divided_there(spec: str, more: str) -> None:
    plan = load_plan(spec)
    layout = Layout(plan.sink)
    job = JobFile(plan.job, "g", concealed(fingerprint(plan), plan, "s"), 2, None, salt="s")
    assert reshaped(plan, job, layout) == []
    with pytest.raises(SkybandError, match=rf"a change of run\.{more} does not work on object storage") as found:
        reshaped(replace(plan, **{more: 4 * getattr(plan, more)}), job, layout)
    assert found.value.code == "SKY-E632"


def test_generations_are_not_moved_there(spec: str) -> None:
    layout = Layout(load_plan(spec).sink)
    for move in (generations.swap, generations.undo, lambda at: generations.swap_in(at, [], []), lambda at: generations.clear(at, [])):
        (layout.home / "old" / "_skyband" / "job.json").write_text('{"generation": "g"}')
        with pytest.raises(SkybandError) as found:
            move(layout)
        assert found.value.code == "SKY-E632"
