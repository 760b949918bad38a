"""Relative paths of a spec start at the directory of its file: whatever directory cron, Airflow or a user is in, it is the same job."""

from __future__ import annotations

from pathlib import Path

import pytest

from skyband.framework.base.redaction import redact_values
from skyband.framework.plan.compile import compile_job
from skyband.framework.plan.fingerprint import fingerprint
from skyband.framework.plan.model import Plan
from skyband.framework.spec.load import validate_file, validate_text
from tests.framework.spec.examples import ENV, SENSORS


def spec(directory: Path, source: str = "landing", sink: str = "../tables/x") -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / "spec.yaml"
    path.write_text(SENSORS.replace("${LANDING}/sensors/", source).replace("${WAREHOUSE}/sensor_anomalies", sink))
    return path


def plan(path: Path | str, env: dict[str, str] | None = None) -> Plan:
    job, errors = validate_file(path, env or ENV)
    assert job is not None, errors
    return compile_job(job)


def test_a_job_is_the_same_from_every_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = spec(tmp_path / "jobs")
    (tmp_path / "elsewhere").mkdir()
    seen = []
    for here, name in ((tmp_path, "jobs/spec.yaml"), (tmp_path / "jobs", "spec.yaml"), (tmp_path / "elsewhere", str(path))):
        monkeypatch.chdir(here)
        found = plan(name)
        assert (found.source.path, found.sink) == (f"{tmp_path}/jobs/landing", f"{tmp_path}/tables/x")
        seen.append(fingerprint(found))
    assert seen[0] == seen[1] == seen[2]


@pytest.mark.parametrize("path", ["/data/in/", "s3://bucket/in", "file:///data/in", "file:/data/../in", "/data/{a,b}/*"])
def test_paths_that_are_not_relative_stay_as_they_are(tmp_path: Path, path: str) -> None:
    found = plan(spec(tmp_path, path, "/out/"))
    assert (found.source.path, found.source.relative, found.sink) == (path, None, "/out/")


def test_what_came_from_the_environment_stays_masked(tmp_path: Path) -> None:
    found = plan(spec(tmp_path, "${LANDING}/in", "${WAREHOUSE}"), {"LANDING": "../secret-place", "WAREHOUSE": "secret-sink/x"})
    assert found.source.path == f"{tmp_path}/../secret-place/in"
    assert "secret" not in redact_values(f"{found.source.path} {found.sink}")


def test_a_text_that_is_no_file_starts_at_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    job, _ = validate_text(SENSORS.replace("${LANDING}/sensors/", "in"), ENV)
    assert job is not None and job.source.path == f"{tmp_path}/in"
