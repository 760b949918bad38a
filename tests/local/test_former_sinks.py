"""Jobs of job files of version 1 go on, wherever a change of buckets was killed. Of older ones, whose state Spark kept: tests/spark.

``sinks_of_version_1.tar.xz`` holds jobs as commit 1cba3f1 left them after three batches and a change of ``run.buckets`` from 2 to 4, whose
run was killed: spec, source files (``in``), sink (``out``) and the files that arrive next (``later``). Paths begin with ``/tmp/fx``.
"""

from __future__ import annotations

import json
import shutil
import tarfile
from pathlib import Path

import pytest

from skyband.framework.plan.fingerprint import concealed, fingerprint
from skyband.framework.streaming.job.layout import Layout
from skyband.jobs.spec import load_plan
from tests.framework.streaming.local.test_loop import run
from tests.spark.equality import assert_equal_tables
from tests.spark.jobs import table

ARCHIVE = Path(__file__).with_name("sinks_of_version_1.tar.xz")
MADE_IN = b"/tmp/fx"
KILLED = {
    "swapping": "its new states and its tables were swapped in",
    "noted": "the row for which buckets load new states was noted",
    "planned": "the batch with that row was planned",
    "committed": "that batch was committed",
    "taken": "that batch was done",
}
"""What the run was killed after, by job."""


def unpacked(directory: Path, name: str) -> Path:
    """Unpack a job as if it had been written there."""
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(directory, [m for m in archive if m.name.startswith(f"{name}/")], filter="data")
    for path in directory.rglob("*"):
        if path.is_file() and MADE_IN in (content := path.read_bytes()):
            path.write_bytes(content.replace(MADE_IN, str(directory).encode()))
    plan = load_plan(str(directory / name / "spec.yaml"))
    for file in (directory / name / "out").glob("_skyband/**/job.json"):
        content = json.loads(file.read_text())
        content["fingerprint"]["source"]["path"] = concealed(fingerprint(plan), plan, content["salt"])["source"]["path"]
        assert "version" not in content
        file.write_text(json.dumps(content))
    return directory / name


@pytest.mark.parametrize("name", KILLED)
def test_a_job_of_version_1_goes_on(tmp_path: Path, name: str) -> None:
    former, alone = unpacked(tmp_path / "former", name), unpacked(tmp_path / "alone", name)
    shutil.rmtree(alone / "out")
    for job in (former, alone):
        for file in sorted((job / "later").iterdir()):
            file.rename(job / "in" / file.name)
    # Only the files that came later are read.
    assert sum(batch.get("rows_in") for batch in run(former / "spec.yaml", finish=True)) == 20
    assert sum(batch.get("rows_in") for batch in run(alone / "spec.yaml", finish=True)) == 50
    assert_equal_tables(former, alone, same_cuts=False)
    layout = Layout(str(former / "out"))
    job = layout.known()
    assert (job.version, job.before) == (2, None) and not any((layout.home / part).exists() for part in ("filling", "added", "gone"))
    # What is no longer needed is removed once no row that is looked at is of the batch before.
    rows = table(former, "runs").sort_by("batch_id").to_pylist()
    assert json.loads(rows[-1]["state"]).keys() <= {"0", "1", "2", "3"} and "2" in json.loads(rows[-1]["state"])
    assert run(former / "spec.yaml", finish=True) == []
