"""Killed at random moments, driver, JVM or workers, jobs of every kind come to the tables of a run left alone. More: ``make kills``.

Kills of runs of the local engine are in tests/local.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.seeds import cases
from tests.spark.kills import chain, main, summary, unclean
from tests.spark.kinds import KINDS
from tests.spark.processes import PROC

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Not among the chaos tests, which only `make test-all` runs: some kills belong to every run of the tests.
pytestmark = [pytest.mark.spark, pytest.mark.long]


@pytest.mark.skipif(not PROC.is_dir(), reason="finds the processes of a run in /proc")
def test_killed_at_random_moments_it_has_the_tables_of_the_local_engine(tmp_path: Path) -> None:
    made = chain(None, tmp_path / "chain", "keyed", seed=31, kills=cases(3))
    assert not made.faults and not made.unequal, summary([made])
    assert not unclean(made.kills), unclean(made.kills)
    assert made.kills and made.tables and made.rows


@pytest.mark.slow
@pytest.mark.skipif(not PROC.is_dir(), reason="finds the processes of a run in /proc")
@pytest.mark.parametrize("kind", KINDS)
def test_killed_at_random_moments(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    made = chain(spark, tmp_path / "chain", kind, seed=31, kills=cases(5))
    assert not made.faults and not made.unequal, summary([made])
    assert not unclean(made.kills), unclean(made.kills)
    assert made.kills and made.tables and made.rows


def test_the_command_takes_its_options(spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for more in ([], ["--directory", str(tmp_path)]):
        assert main(["--count", "0", *more]) == 0
        assert "0 kills" in capsys.readouterr().out
    assert tmp_path.is_dir()
