"""``skyband status``: what it says is what lies there; it neither writes nor holds anything."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable

from skyband.framework.plan.fingerprint import concealed, fingerprint
from skyband.framework.streaming.job.layout import JobFile, Layout
from skyband.framework.streaming.job.migrations import Before
from skyband.framework.streaming.job.status import jvm_pid, status_of
from skyband.framework.tables.schemas import tables
from skyband.jobs.cli import main
from skyband.jobs.reading.status import _lines
from tests.framework.streaming.job.test_consistency import BATCHES, Job
from tests.framework.streaming.job.test_locks import holder
from tests.spark.jobs import write_spec


class Known(Job):
    """A job without a JVM that has its job file."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        kept = concealed(fingerprint(self.plan), self.plan, "s")
        self.layout.save(JobFile(self.plan.job, "g", kept, 2, None, salt="s", before=Before()))


def everything(root: Path) -> dict[str, tuple[int, int]]:
    found = (os.path.join(where, n) for where, _, names in os.walk(root) for n in names)
    return {path: (os.stat(path).st_mtime_ns, os.path.getsize(path)) for path in found}


def test_contents_of_a_sink(tmp_path: Path) -> None:
    job = Known(tmp_path)
    job.run(BATCHES, BATCHES)
    before = everything(tmp_path)
    found = status_of(job.plan)
    assert everything(tmp_path) == before and found.bytes == sum(size for p, (_, size) in before.items() if p.startswith(str(job.root)))
    assert (found.state, found.process, found.wrong) == ("stopped", None, [])
    assert [t.name for t in found.tables] == [t.name for t in tables(job.plan)]
    for t in found.tables:
        table = DeltaTable(str(job.root / t.name))
        assert (t.version, t.rows, t.files) == (table.version(), table.to_pyarrow_table().num_rows, len(table.file_uris()))
    runs = DeltaTable(str(job.root / "runs")).to_pyarrow_table()
    assert found.batch == BATCHES - 1 and found.rows["rows_in"] == pc.sum(runs["rows_in"]).as_py()
    assert found.since == pc.min(runs["batch_time"]).as_py()


def test_other_generations_are_counted_apart(tmp_path: Path) -> None:
    job = Known(tmp_path)
    job.run(BATCHES, BATCHES)
    assert (status_of(job.plan).next_bytes, status_of(job.plan).old_bytes) == (0, 0)
    for name, size in (("next", 3000), ("old", 5000)):
        (job.layout.home / name / "q").mkdir(parents=True)
        (job.layout.home / name / "q" / "part").write_bytes(b"x" * size)
    found = status_of(job.plan)
    assert (found.state, found.next_bytes, found.old_bytes) == ("stopped", 3000, 5000) and found.bytes > 8000
    shown = "\n".join(_lines(found))
    assert "3 KB of it belong to a rebuild" in shown and "5 KB of it belong to the generation before" in shown
    engine = holder(Layout(str(job.layout.next)), "4711")
    try:
        found = status_of(job.plan)
        assert (found.state, found.process) == ("rebuilding", engine.pid)
    finally:
        engine.communicate("")


def test_what_is_wrong_is_said(tmp_path: Path) -> None:
    job = Known(tmp_path)
    job.run(BATCHES, BATCHES + 1)
    assert status_of(job.plan).state == "stopped in a batch"
    shutil.rmtree(job.root / "rejected")
    (said,) = status_of(job.plan).wrong
    assert "table 'rejected' is gone" in said


def test_an_active_jvm_is_detected_and_left_alone(tmp_path: Path) -> None:
    layout = Layout(str(tmp_path / "out"))
    assert jvm_pid(layout) is None
    engine = holder(layout, "4711")
    try:
        job = Known(tmp_path)
        job.run(1, 1)
        found = status_of(job.plan)
        assert (found.state, found.process) == ("running", engine.pid)
        assert jvm_pid(job.layout) == engine.pid
    finally:
        engine.kill()
        engine.wait()
    assert status_of(job.plan).state == "stopped"


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    spec = write_spec(tmp_path)
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.csv").write_text("id\n1\n")
    assert main(["status", str(spec)]) == 0
    assert capsys.readouterr().out.splitlines() == [f"job small: never run, in {tmp_path}/out", "waiting: 1 file to take"]
    assert not Layout(str(tmp_path / "out")).root.exists()

    job = Known(tmp_path / "other")
    job.run(BATCHES, BATCHES)
    monkeypatch.setattr("skyband.jobs.spec.load_plan", lambda path, **_: job.plan)
    assert main(["status", str(spec), "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["job"], found["state"], found["batch"]) == ("tests", "stopped", BATCHES - 1)
    shutil.rmtree(job.root / "near_now")
    assert main(["status", str(spec)]) == 1
    out = capsys.readouterr().out
    assert out.splitlines()[-1].startswith("WRONG: table 'near_now' is gone") and "near_changes" in out


def test_a_lost_job_file_is_no_job_that_has_never_run(tmp_path: Path) -> None:
    job = Known(tmp_path)
    job.run(BATCHES, BATCHES)
    job.layout.file.unlink()
    before = everything(tmp_path)
    found = status_of(job.plan)
    assert everything(tmp_path) == before and found.state == "damaged" and found.batch == BATCHES - 1 and found.tables
    (said,) = found.wrong
    assert "tables of earlier runs but not their job.json" in said and "skyband rebuild SPEC" in said
    shutil.rmtree(job.layout.home)
    assert status_of(job.plan).state == "damaged"
    job = Known(tmp_path / "without rows")
    job.layout.file.unlink()
    assert (status_of(job.plan).state, status_of(job.plan).wrong) == ("never run", [])


@pytest.mark.parametrize(
    "part", ["commits", "offsets", "metadata", "state/0/1", "state/0/_metadata", "sources/0/1", "offsets/3", "../control", "."]
)
def test_lost_parts_of_a_checkpoint_are_named(
    tmp_path: Path, part: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    job = Known(tmp_path)
    job.run(BATCHES, BATCHES)
    path = job.layout.checkpoint / part
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()
    found = status_of(job.plan)
    assert found.state == "damaged" and any("restore" in w for w in found.wrong), found.wrong
    monkeypatch.setattr("skyband.jobs.spec.load_plan", lambda path, **_: job.plan)
    assert main(["status", "x.yaml", "--format", "json"]) == 1
    assert json.loads(capsys.readouterr().out)["state"] == "damaged"


def test_lost_tables_beside_a_whole_checkpoint(tmp_path: Path) -> None:
    job = Known(tmp_path)
    job.run(BATCHES, BATCHES)
    for table in tables(job.plan):
        shutil.rmtree(job.root / table.name, ignore_errors=True)
    found = status_of(job.plan)
    assert found.state == "damaged" and "a checkpoint but not its tables" in found.wrong[0]
