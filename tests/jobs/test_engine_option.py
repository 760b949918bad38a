"""``--engine`` takes precedence over the engine that the spec names, also where that engine cannot run the job."""

from __future__ import annotations

from pathlib import Path

import pytest

from skyband.framework.base.errors import SpecErrors
from skyband.jobs import cli
from skyband.jobs.spec import SpecText
from tests.spark.jobs import by_the_local_engine, stamp, write_file, write_spec


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    """The spec of a job that names the local engine, and that only Spark can run."""
    write_file(tmp_path, "1.csv", [[1, stamp(1), "p", 1, 1, "a"]], at=1)
    path = write_spec(tmp_path)
    path.write_text(path.read_text().replace("x < 1000000", "sin(x) < 2"))
    by_the_local_engine(path)
    return path


class _SparkStarts(Exception):
    pass


def _starts(*_: object, **__: object) -> None:
    raise _SparkStarts


@pytest.mark.parametrize("command", ["run", "rebuild"])
def test_spark_runs_a_job_whose_spec_names_the_other_engine(
    spec: Path, command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("skyband.framework.streaming.spark.session.get_session", _starts)
    for words in ([], ["--engine", "local"]):
        assert cli.main([command, str(spec), *words]) == 2
        said = capsys.readouterr().err
        assert "SKY-E137 the local engine cannot run this job: row rule sane_x uses sin()" in said and "--engine spark" in said
    # The error of Spark's start is not the user's, so it ends the command as a defect would.
    assert cli.main([command, str(spec), "--engine", "spark"]) == 3
    said = capsys.readouterr().err
    assert "_SparkStarts" in said and "SKY-E137" not in said


def test_other_mistakes_are_still_found(spec: Path) -> None:
    assert SpecText(str(spec), engine="spark").plan().engine == "local"
    spec.write_text(spec.read_text().replace("k: 5", "k: none"))
    with pytest.raises(SpecErrors) as e:
        SpecText(str(spec), engine="spark").plan()
    assert "SKY-E137" not in [x.code for x in e.value.errors]
