"""A rebuild through Spark: a new generation is that of a fresh job, and the job goes on with it. More: tests/local."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from skyband.jobs import cli
from tests.spark.rebuilds import assert_rebuilt_and_goes_on, job

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.fixture
def finished(spark: SparkSession, tmp_path: Path) -> Path:
    """A fresh job over four files, finished, with the edited spec."""
    assert cli.main(["run", str(job(tmp_path / "fresh", k=7, engine="spark")), "--finish"]) == 0
    return tmp_path


@pytest.fixture
def edited(finished: Path) -> Path:
    """A job over the same files, finished, its spec edited since."""
    spec = job(finished / "job", engine="spark")
    assert cli.main(["run", str(spec), "--finish"]) == 0
    spec.write_text(spec.read_text().replace("k: 5", "k: 7"))
    return finished / "job"


def test_an_edited_spec_is_rebuilt_and_the_job_goes_on(finished: Path, edited: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert_rebuilt_and_goes_on(finished, edited, capsys)
