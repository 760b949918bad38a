"""A table that another writer has changed, or that is an older copy, is noticed at the next start, and by ``status`` and ``verify``."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from deltalake import DeltaTable, write_deltalake

from skyband.framework.base.errors import SkybandError
from skyband.framework.console.lines import Lines
from skyband.framework.streaming.job.consistency import check
from skyband.framework.streaming.job.status import status_of
from skyband.framework.tables.results.derive import derive
from skyband.framework.tables.writing.sink import Sink
from skyband.framework.verify.verification import verify
from tests.framework.streaming import checkpoints
from tests.framework.streaming.job.test_consistency import BATCHES, HEAD, Job
from tests.framework.streaming.job.test_status import Known
from tests.framework.tables.writing.test_sink import commit
from tests.framework.tables.writing.test_upkeep import at_once

__all__ = ["at_once"]
TRUTH = ["near_changes", "near_skyband", "heads", "rejected", "runs"]
DERIVED = ["near", "near_now"]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("behind")
    Known(directory).run(BATCHES, BATCHES)
    return directory


@pytest.fixture
def job(tmp_path: Path, finished: Path) -> Job:
    shutil.copytree(finished / "out", tmp_path / "out")
    return Known(tmp_path)


def restored(table: DeltaTable) -> None:
    """To the version of before its last commit with rows."""
    now = sorted(table.file_uris())
    for version in range(table.version() - 1, -1, -1):
        table.load_as_version(version)
        if sorted(table.file_uris()) != now:
            break
    DeltaTable(table.table_uri).restore(table.version())


def appended(table: DeltaTable) -> None:
    write_deltalake(table, table.to_pyarrow_table().slice(0, 1), mode="append")


def deleted(table: DeltaTable) -> None:
    table.delete()


def overwritten(table: DeltaTable) -> None:
    write_deltalake(table, table.to_pyarrow_table(), mode="overwrite")


CHANGES = [restored, appended, deleted, overwritten]


def refused(job: Job, name: str, code: str = "SKY-E304") -> str:
    """What a run, ``status`` and ``verify`` say of the table."""
    error = job.error()
    assert (error.code == code and f"table '{name}'" in error.message) or code == "SKY-E205"
    (said,) = status_of(job.plan).wrong
    assert f"table '{name}'" in said
    found = verify(job.plan, None, Lines())
    assert found.differences and f"table '{name}'" in found.parts[0]["said"]
    return f"{error.message} {error.hint}"


OFTEN = [
    pytest.param(name, change, marks=() if n in (0, len(TRUTH)) or (n + m) % len(CHANGES) == 0 else pytest.mark.slow)
    for n, name in enumerate((*TRUTH, *DERIVED))
    for m, change in enumerate(CHANGES)
]
"""Every table with one change, the first table of both kinds with all: the others are slow."""


@pytest.mark.parametrize(("name", "change"), OFTEN)
def test_rows_that_another_writer_changed_are_noticed(job: Job, name: str, change: Callable[[DeltaTable], None]) -> None:
    before = DeltaTable(str(job.root / name)).version()
    change(DeltaTable(str(job.root / name)))
    said = refused(job, name)
    assert "was changed by another writer" in said and f"version {before} is the last one" in said
    assert ("is RESTORE by" in said) == (change is restored)
    assert ("RESTORE it to the version" in said) == (name in TRUTH)
    assert ("--rebuild-results" in said) == (name in DERIVED)


@pytest.mark.parametrize("name", [*TRUTH, *DERIVED])
def test_a_change_that_is_taken_back_is_none(job: Job, name: str) -> None:
    before = DeltaTable(str(job.root / name)).version()
    rows = job.rows(name)
    appended(DeltaTable(str(job.root / name)))
    DeltaTable(str(job.root / name)).restore(before)
    assert check(job.plan, job.layout, HEAD).losses == [] and job.rows(name) == rows


@pytest.mark.parametrize("name", [*TRUTH, *DERIVED])
def test_what_changes_no_row_is_anybodys(job: Job, name: str) -> None:
    table = DeltaTable(str(job.root / name))
    table.optimize.compact()
    table.optimize.z_order([next(f.name for f in table.schema().fields if f.name not in table.metadata().partition_columns)])
    table.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=True)
    table.alter.set_table_properties({"delta.appendOnly": "false"})
    table.create_checkpoint()
    assert check(job.plan, job.layout, HEAD).losses == []
    assert status_of(job.plan).wrong == []


@pytest.mark.parametrize("name", [n for n in (*TRUTH, *DERIVED) if n != "rejected"])
def test_an_older_copy_of_a_table_is_noticed(job: Job, name: str, tmp_path: Path) -> None:
    """As from a backup of that directory alone. The last batch has rows for these tables."""
    shutil.copytree(job.root / name, tmp_path / "backup")
    again = Sink(job.plan, job.sink.writer, "g")
    commit(again, job.changes, BATCHES)
    checkpoints.make(job.layout.home, batches=BATCHES + 1)
    derive(again, BATCHES)
    assert check(job.plan, job.layout, HEAD).losses == []
    shutil.rmtree(job.root / name)
    (tmp_path / "backup").rename(job.root / name)
    said = refused(job, name)
    assert "lost batch" in said or "it is an older copy" in said


@pytest.mark.parametrize("name", [*TRUTH, *DERIVED])
def test_a_table_that_was_created_anew_is_refused_and_not_touched(job: Job, name: str) -> None:
    old = DeltaTable(str(job.root / name))
    rows, by = old.to_pyarrow_table(), old.metadata().partition_columns
    shutil.rmtree(job.root / name)
    write_deltalake(job.root / name, rows, partition_by=by)
    assert "recreated" in refused(job, name, "SKY-E205")
    with pytest.raises(SkybandError):
        check(job.plan, job.layout, HEAD, rebuild=True)
    assert DeltaTable(str(job.root / name)).version() == 0


def test_results_are_made_again_after_a_change_of_another_writer(job: Job) -> None:
    rows = {n: job.rows(n) for n in DERIVED}
    for name in DERIVED:
        deleted(DeltaTable(str(job.root / name)))
    check(job.plan, job.layout, HEAD, rebuild=True)
    derive(job.opened(), BATCHES - 1)
    assert {n: job.rows(n) for n in DERIVED} == rows
    assert check(job.plan, job.layout, HEAD).losses == []


@pytest.mark.parametrize("name", ["heads", "runs", "rejected"])
def test_a_change_beside_a_run_is_noticed_at_the_next_start(job: Job, name: str) -> None:
    """The run goes on from it: what it notes at its end ends before."""
    again = Sink(job.plan, job.sink.writer, "g")
    commit(again, job.changes, BATCHES)
    appended(DeltaTable(str(job.root / name)))
    checkpoints.make(job.layout.home, batches=BATCHES + 1)
    again.writer.maintain(again.specs[name])
    derive(Sink(job.plan, job.opened().writer, "g"), BATCHES)
    assert "was changed by another writer" in job.error().message


def test_a_run_that_was_killed_before_it_noted_anything_has_lost_nothing(job: Job) -> None:
    again = Sink(job.plan, job.sink.writer, "g")
    commit(again, job.changes, BATCHES)
    checkpoints.make(job.layout.home, batches=BATCHES + 1)
    assert check(job.plan, job.layout, HEAD).losses == []
    derive(job.opened(), BATCHES)
    assert check(job.plan, job.layout, HEAD).losses == []


@pytest.mark.usefixtures("at_once")
def test_the_jobs_own_upkeep_is_no_change_of_another_writer(tmp_path: Path) -> None:
    job = Known(tmp_path)
    job.sink.plan = replace(job.plan, keep_micros=1)
    job.run(BATCHES, BATCHES)
    for n in range(BATCHES, 40):
        commit(job.sink, [{q: [] for q in c} for c in job.changes[:1]] * 40, n)
    checkpoints.make(job.layout.home, batches=40)
    noted = (job.layout.home / "tables.json").read_text()
    derive(job.sink, 39)
    assert len(job.rows("runs")) < 40
    (job.layout.home / "tables.json").write_text(noted)
    assert check(job.plan, job.layout, HEAD).losses == []
