"""Airflow's tests are skipped where ``make airflow`` has not been run."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.airflow.home import BIN, Home


@pytest.fixture(scope="session")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A migrated database, to be copied."""
    if not (BIN / "airflow").exists():
        pytest.skip("needs Airflow in .venv-airflow: make airflow")
    home = Home(tmp_path_factory.mktemp("airflow"))
    done = home.airflow("db", "migrate")
    assert done.returncode == 0, done.stderr
    return home.directory / "airflow" / "airflow.db"


@pytest.fixture
def home(database: Path, tmp_path: Path) -> Home:
    """An Airflow with nothing in it."""
    made = Home(tmp_path)
    (tmp_path / "airflow").mkdir()
    made.specs.mkdir()
    shutil.copy(database, tmp_path / "airflow" / "airflow.db")
    return made
