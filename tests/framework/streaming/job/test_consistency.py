"""A table, or a commit of one, that is gone is told by name; a job killed anywhere has lost nothing."""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable, write_deltalake

from skyband.framework.base.errors import SkybandError
from skyband.framework.plan.model import Plan
from skyband.framework.storage import delta_read
from skyband.framework.streaming.job.consistency import check, look
from skyband.framework.streaming.job.layout import JobFile, Layout
from skyband.framework.tables.delta.ownership import TABLES
from skyband.framework.tables.results.derive import derive
from skyband.framework.tables.writing import sink as sink_module
from skyband.framework.tables.writing.factory import writer_for
from skyband.framework.tables.writing.sink import Sink
from tests.framework.streaming import checkpoints
from tests.framework.tables.plans import make_plan, random_changes
from tests.framework.tables.writing.test_sink import commit

BATCHES = 4
HEAD = JobFile("tests", "g", {}, 2, None)


class Job:
    """A job without a JVM: its tables, and a checkpoint."""

    def __init__(self, directory: Path) -> None:
        self.plan: Plan = make_plan(str(directory / "out"), ("grp",))
        self.changes = random_changes(self.plan, seed=3, batches=BATCHES + 1, steps=25)
        self.layout = Layout(self.plan.sink)
        self.root = self.layout.root
        self.sink = self.opened()

    def opened(self) -> Sink:
        made = Sink(self.plan, writer_for(self.plan.sink), "g")
        made.ensure_all()
        return made

    def run(self, done: int, planned: int) -> None:
        for n in range(done):
            commit(self.sink, self.changes, n)
        checkpoints.make(self.layout.home, batches=done, planned=planned)
        derive(self.sink, done - 1)

    def error(self, rebuild: bool = False) -> SkybandError:
        with pytest.raises(SkybandError) as e:
            check(self.plan, self.layout, HEAD, rebuild)
        return e.value

    def rows(self, name: str) -> list[str]:
        return sorted(repr(r) for r in delta_read.read(delta_read.open_table(self.root, name)).to_pylist())


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("intact")
    Job(directory).run(BATCHES, BATCHES)
    return directory


@pytest.fixture
def job(tmp_path: Path, finished: Path) -> Job:
    shutil.copytree(finished / "out", tmp_path / "out")
    return Job(tmp_path)


def test_what_is_whole_has_lost_nothing(job: Job) -> None:
    found = check(job.plan, job.layout, HEAD)
    assert (found.planned, found.done, found.losses, found.ahead, found.unfinished_committed) == (3, 3, [], None, False)
    assert found.versions["runs"] == found.versions["near_now"] == 3
    committed = delta_read.read(delta_read.open_table(job.root, "runs"), ["batch_id", "committed"]).sort_by("batch_id")
    last = json.loads(committed["committed"][3].as_py())
    assert set(last) == {"near_changes", "near3_changes", "near_skyband", "heads", "rejected"} and last["heads"] == 3


@pytest.mark.parametrize("name", ["near", "near_now", "near_changes", "near_skyband", "heads", "rejected", "runs", "checks", "published"])
def test_a_table_that_is_gone_is_named_and_not_made_again(job: Job, name: str) -> None:
    shutil.rmtree(job.root / name)
    told = job.error()
    assert told.code == "SKY-E304" and f"table '{name}' is gone" in told.message
    if name in ("near", "near_now", "checks", "published"):
        assert "--rebuild-results" in str(told.hint)
    else:
        assert "start again from the source" in str(told.hint)
        assert job.error(rebuild=True).code == "SKY-E304"
        assert (job.root / "near").is_dir()
    assert not (job.root / name).exists()


@pytest.mark.parametrize("name", ["near_changes", "heads", "rejected", "near_skyband", "runs"])
def test_the_last_commit_of_a_table_is_missed(job: Job, name: str) -> None:
    last = max((job.root / name / "_delta_log").glob("*.json"))
    last.unlink()
    told = job.error()
    assert told.code == "SKY-E304"
    assert f"table '{name}' has lost batch" in told.message and told.message.count("table") == 1
    assert look(job.plan, job.layout, HEAD).losses[0].kind == "truth"


def test_a_data_file_that_is_gone_is_missed(job: Job) -> None:
    path = next((job.root / "near_changes").glob("*.parquet"))
    path.unlink()
    told = job.error()
    assert told.code == "SKY-E304"
    assert "table 'near_changes' has lost 1 of its " in told.message and path.name in told.message


def test_an_unreadable_log_is_reported(job: Job) -> None:
    min((job.root / "heads" / "_delta_log").glob("*.json")).write_text("{")
    assert "table 'heads' cannot be opened" in job.error().message


def test_a_checkpoint_older_than_the_tables_is_refused(job: Job) -> None:
    shutil.rmtree(job.layout.checkpoint)
    checkpoints.make(job.layout.home, batches=BATCHES - 1)
    told = job.error()
    assert told.code == "SKY-E303" and "older than the tables" in told.message


def test_results_ahead_of_their_changes_are_reported(tmp_path: Path) -> None:
    """All but the derived tables were restored from an older backup."""
    older = Job(tmp_path)
    older.run(BATCHES - 1, BATCHES - 1)
    shutil.copytree(older.root, tmp_path / "newer" / "out")
    newer = Job(tmp_path / "newer")
    commit(newer.sink, newer.changes, BATCHES - 1)
    derive(newer.sink, BATCHES - 1)
    for name in ("near", "near_now"):
        shutil.rmtree(older.root / name)
        shutil.copytree(newer.root / name, older.root / name)
    told = older.error()
    assert told.code == "SKY-E304" and "table 'near_now' is derived up to batch 3, `runs` ends with batch 2" in told.message


def test_results_that_a_kill_left_behind_are_brought_up(job: Job) -> None:
    commit(job.sink, job.changes, BATCHES)
    checkpoints.make(job.layout.home, batches=BATCHES + 1)
    check(job.plan, job.layout, HEAD)
    derive(job.opened(), BATCHES)
    assert check(job.plan, job.layout, HEAD).versions["near_now"] == BATCHES


def test_results_that_have_lost_a_commit_are_reported_and_made_anew(job: Job) -> None:
    before = job.rows("near_now")
    max((job.root / "near_now" / "_delta_log").glob("*.json")).unlink()
    told = job.error()
    assert told.code == "SKY-E304" and "table 'near_now' is at version" in told.message and "--rebuild-results" in str(told.hint)
    check(job.plan, job.layout, HEAD, rebuild=True)
    derive(job.opened(), BATCHES - 1)
    assert job.rows("near_now") == before


def test_results_are_made_anew_from_the_changes(job: Job) -> None:
    names = ("near", "near_now", "near3", "near3_now")
    before = {n: job.rows(n) for n in names}
    shutil.rmtree(job.root / "near")
    max((job.root / "near3_now" / "_delta_log").glob("*.json")).write_text("{")
    check(job.plan, job.layout, HEAD, rebuild=True)
    assert not any((job.root / n).exists() for n in names) and (job.root / "checks").exists()
    derive(job.opened(), BATCHES - 1)
    assert {n: job.rows(n) for n in names} == before
    assert len(before["near"]) > 20


def test_a_link_is_not_followed_to_remove_results(job: Job, tmp_path: Path) -> None:
    (job.root / "near").rename(tmp_path / "elsewhere")
    (job.root / "near").symlink_to(tmp_path / "elsewhere")
    assert job.error(rebuild=True).code == "SKY-E205"
    assert (tmp_path / "elsewhere" / "_delta_log").is_dir()


class Killed(BaseException):
    """Where a fail point would kill."""


def dies_at(hit: int) -> Callable[[str], None]:
    hits = iter(range(1_000))

    def point(name: str) -> None:
        if next(hits) == hit:
            raise Killed(name)

    return point


@pytest.mark.parametrize("hit", range(8))
def test_a_batch_killed_anywhere_has_lost_nothing(job: Job, monkeypatch: pytest.MonkeyPatch, hit: int) -> None:
    checkpoints.plan(job.layout.home, BATCHES)
    with monkeypatch.context() as m:
        m.setattr(sink_module, "failpoint", dies_at(hit))
        with contextlib.suppress(Killed):
            commit(job.opened(), job.changes, BATCHES)
    found = check(job.plan, job.layout, HEAD)
    assert found.unfinished_committed == (hit > 0)
    again = job.opened()
    commit(again, job.changes, BATCHES)
    rows = delta_read.read(delta_read.open_table(job.root, "runs"), ["batch_id", "committed"])
    assert rows.num_rows == BATCHES + 1
    text = rows.filter(pc.equal(rows["batch_id"], BATCHES))["committed"][0].as_py()
    assert json.loads(text) == again.committed
    check(job.plan, job.layout, HEAD)


def test_runs_of_an_older_version_say_nothing_and_are_taken(job: Job) -> None:
    table = DeltaTable(str(job.root / "runs"))
    rows = table.to_pyarrow_table()
    cleared = rows.set_column(rows.schema.get_field_index("committed"), "committed", pa.nulls(rows.num_rows, pa.string()))
    write_deltalake(table, cleared, mode="overwrite")
    (job.layout.home / TABLES).unlink()
    assert check(job.plan, job.layout, HEAD).losses == []
    shutil.rmtree(job.root / "heads")
    assert job.error().message == "table 'heads' is gone"


def test_another_generation_has_no_commits(job: Job) -> None:
    told = look(job.plan, job.layout, replace(HEAD, generation="other")).losses
    assert [x.table for x in told] == ["runs"] and told[0].what == "has lost batches 0 to 3"
