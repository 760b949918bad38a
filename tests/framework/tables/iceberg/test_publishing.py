"""Every publish gives Iceberg readers the published versions, whatever happened before, during and after it."""

from __future__ import annotations

import io
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from skyband.framework.base.errors import SkybandError
from skyband.framework.console.lines import Lines
from skyband.framework.queries.registry import QUERY_TYPES
from skyband.framework.streaming.job.generations import clear
from skyband.framework.streaming.job.layout import Layout
from skyband.framework.tables.delta.ownership import Owner
from skyband.framework.tables.iceberg import export, exported
from skyband.framework.tables.iceberg.exported import exported_tables
from skyband.framework.tables.iceberg.publishing import export_published
from skyband.framework.tables.results.derive import derive
from skyband.framework.tables.writing.driver_writer import DriverWriter
from skyband.framework.tables.writing.published import publish, unreadable
from skyband.framework.tables.writing.sink import Sink
from tests.framework.tables.iceberg.readers import check_all, delta_rows, files, opened, published, rows
from tests.framework.tables.plans import make_plan, random_changes
from tests.framework.tables.writing import test_published
from tests.framework.tables.writing.test_sink import commit
from tests.framework.verify.test_corruptions import make

at_once = test_published.at_once
TABLES = 11
"""The tables of the plan of these tests, without ``published``."""


class Job:
    def __init__(self, root: Path, batches: int = 6) -> None:
        self.root = root
        self.sink = Sink(replace(make_plan(str(root), ("grp",)), iceberg=True), DriverWriter(root), "g")
        self.sink.ensure_all()
        self.changes = random_changes(self.sink.plan, seed=5, batches=batches, steps=12)
        self.said = ""

    def run(self, batch: int) -> None:
        commit(self.sink, self.changes, batch)
        derive(self.sink, batch)

    def publish(self, batch: int, **changed: Any) -> None:
        publish(self.sink.plan, self.sink.writer, self.sink.app_id("published"), batch)
        self.export(**changed)

    def export(self, **changed: Any) -> None:
        err = io.StringIO()
        export_published(replace(self.sink.plan, **changed), Lines(err, err))
        self.said = err.getvalue()


@pytest.fixture
def job(tmp_path: Path) -> Job:
    return Job(tmp_path / "a sink")


def test_every_publish_shows_the_published_versions(job: Job) -> None:
    for batch in range(3):
        job.run(batch)
        if batch > 0:
            assert published(job.root) != {n: DeltaTable(str(job.root / n)).version() for n in published(job.root)}
        job.publish(batch)
        assert job.said == ""
        counts = check_all(job.sink.plan, job.root, TABLES)
    assert min(counts[n] for n in ("near_changes", "near", "near_now", "near3", "heads", "near_skyband", "runs", "rejected")) > 0
    assert counts["near"] > counts["near_now"]


def test_a_version_that_is_not_published_is_not_shown(job: Job) -> None:
    job.run(0)
    job.publish(0)
    before = {n: rows(job.root, n) for n in published(job.root)}
    for batch in (1, 2, 3):
        job.run(batch)
    assert all(rows(job.root, n) == r for n, r in before.items())
    assert any(delta_rows(job.root, n) != r for n, r in before.items())


def test_a_publish_of_unchanged_tables_writes_nothing(job: Job) -> None:
    job.run(0)
    job.publish(0)
    before = {n: files(job.root, n) for n in exported_tables(job.root)}
    job.publish(0)
    assert before == {n: files(job.root, n) for n in exported_tables(job.root)}
    job.run(1)
    job.publish(1)
    changed = {n for n, f in before.items() if f != files(job.root, n)}
    assert "near_changes" in changed and "checks" not in changed


def test_the_same_version_has_the_same_snapshot(job: Job, tmp_path: Path) -> None:
    job.run(0)
    job.publish(0)
    ids = {n: opened(job.root, n).metadata.current_snapshot_id for n in exported_tables(job.root)}
    assert len(set(ids.values())) == TABLES and all(i is not None and 0 < i < 2**63 for i in ids.values())
    shutil.rmtree(job.root / "_iceberg")
    job.export()
    assert ids == {n: opened(job.root, n).metadata.current_snapshot_id for n in exported_tables(job.root)}


def test_appended_tables_keep_their_manifests(job: Job) -> None:
    for batch in range(3):
        job.run(batch)
        job.publish(batch)
    for name in ("near_changes", "runs"):
        table = opened(job.root, name)
        snapshot = table.current_snapshot()
        assert snapshot is not None
        manifests = snapshot.manifests(table.io)
        assert [m.added_files_count for m in manifests] == [1] * len(manifests) and len(manifests) == len(
            DeltaTable(str(job.root / name)).file_uris()
        )


def test_many_manifests_are_merged(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export, "MOST_MANIFESTS", 2)
    counts = []
    for batch in range(4):
        job.run(batch)
        job.publish(batch)
        table = opened(job.root, "runs")
        snapshot = table.current_snapshot()
        assert snapshot is not None
        counts.append(len(snapshot.manifests(table.io)))
    assert counts == [1, 2, 1, 2]
    check_all(job.sink.plan, job.root, TABLES)


@pytest.mark.slow
@pytest.mark.usefixtures("at_once")
def test_what_readers_see_outlives_upkeep(job: Job) -> None:
    job.changes = random_changes(job.sink.plan, seed=5, batches=16, steps=12)
    for batch in range(5):
        job.run(batch)
    job.publish(4)
    before = {n: rows(job.root, n) for n in exported_tables(job.root)}
    for batch in range(5, 16):
        job.run(batch)
        if batch % 5 == 0:
            DriverWriter(job.root).maintain(job.sink.specs["near"])
            for spec in job.sink.specs.values():
                job.sink.writer.maintain(spec)
    assert before == {n: rows(job.root, n) for n in before}
    assert not all(rows(job.root, n) == delta_rows(job.root, n) for n in before)
    # Once two more publishes have taken its place, nothing of it stays.
    versions = {n: int(opened(job.root, n).metadata.properties["skyband.delta-version"]) for n in before}
    for batch in (15, 16):
        publish(job.sink.plan, job.sink.writer, job.sink.app_id("published"), batch)
        job.export()
        job.sink.writer.append("heads", DeltaTable(str(job.root / "heads")).to_pyarrow_table().slice(0, 1), "x", batch)
    DriverWriter(job.root).maintain(job.sink.specs["heads"])
    assert unreadable(job.root, "heads", versions["heads"]) is not None


class Killed(BaseException):
    """The process ends here."""


@pytest.mark.parametrize("point", ["iceberg.listed", "iceberg.metadata", "iceberg.pointed"])
def test_a_killed_export_is_made_by_the_next_run(job: Job, monkeypatch: pytest.MonkeyPatch, point: str) -> None:
    job.run(0)
    job.publish(0)
    before = rows(job.root, "near_changes")
    job.run(1)

    def die(name: str) -> None:
        if name == point:
            raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(export, "failpoint", die)
        patch.setattr(exported, "failpoint", die)
        with pytest.raises(Killed):
            job.publish(1)
    # ``near_changes`` is the first table.
    after = delta_rows(job.root, "near_changes")
    assert rows(job.root, "near_changes") == (after if point == "iceberg.pointed" else before) != []
    assert before != after
    job.export()
    assert job.said == ""
    check_all(job.sink.plan, job.root, TABLES)
    # Nothing of the killed export is left once its files are old.
    monkeypatch.setattr(exported, "GRACE", -60.0)
    job.run(2)
    job.publish(2)
    used = exported.Exports(job.root, "near_changes", Owner(job.root).id).newest(2)
    needed = {"version-hint.text", *(f for e in used for f in (exported.metadata_name(e.number), *e.files))}
    assert len(used) == 2 and set(files(job.root, "near_changes")) == needed


def test_a_failure_is_a_warning_and_the_next_publish_tries_again(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    job.run(0)
    job.publish(0)
    job.run(1)
    with monkeypatch.context() as patch:
        patch.setattr(export.TableExport, "_write", _full)
        job.publish(1)
    assert "WARNING: table 'near_changes', and " in job.said and "No space left on device" in job.said and "Traceback" not in job.said
    assert published(job.root)["near_changes"] == DeltaTable(str(job.root / "near_changes")).version()
    job.export()
    assert job.said == ""
    check_all(job.sink.plan, job.root, TABLES)


def _full(*_: Any) -> None:
    raise OSError(28, "No space left on device")


def test_earlier_files_go_and_only_the_jobs(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exported, "GRACE", -60.0)
    job.run(0)
    job.publish(0)
    directory = job.root / "_iceberg" / "runs" / "metadata"
    foreign = {
        "v7.metadata.json": "{}", "notes.txt": "x", "snap-1.avro": "x", "skyband-0123456789abcdef-1-list.avro": "x",
        "v3.metadata.json": (directory / "v1.metadata.json").read_text().replace(str(Owner(job.root).id), "f" * 32),
    }  # fmt: skip
    for name, text in foreign.items():
        (directory / name).write_text(text)
    for batch in range(1, 4):
        job.run(batch)
        job.publish(batch)
    names = set(files(job.root, "runs"))
    assert names >= set(foreign) and {n for n in names if n.startswith("v")} == {
        "v7.metadata.json", "v3.metadata.json", "version-hint.text", "v9.metadata.json", "v10.metadata.json",
    }  # fmt: skip
    check_all(job.sink.plan, job.root, TABLES)
    job.export(iceberg=False)
    assert set(files(job.root, "runs")) == set(foreign)
    assert exported_tables(job.root) == ["runs"]


def test_turned_off_nothing_is_left_to_be_taken_for_current(job: Job) -> None:
    job.run(0)
    job.publish(0)
    job.export(iceberg=False)
    assert not (job.root / "_iceberg").exists() and job.said == ""
    job.export()
    check_all(job.sink.plan, job.root, TABLES)


def test_reset_removes_the_export(job: Job) -> None:
    job.run(0)
    job.publish(0)
    clear(Layout(str(job.root)), list(job.sink.specs))
    assert sorted(p.name for p in job.root.iterdir()) == ["_skyband"]


def test_a_rebuilt_table_is_exported_from_where_it_is(job: Job) -> None:
    for batch in range(2):
        job.run(batch)
        job.publish(batch)
    # As a rebuild does it: a sink of its own, whose tables are then moved.
    built = Job(job.root / "_skyband" / "next")
    built.changes = random_changes(built.sink.plan, seed=9, batches=3, steps=12)
    for batch in range(3):
        built.run(batch)
    publish(built.sink.plan, built.sink.writer, "x", 2)
    before = rows(job.root, "near_changes")
    for name in built.sink.specs:
        shutil.rmtree(job.root / name)
        (built.root / name).rename(job.root / name)
    job.export()
    assert job.said == ""
    assert check_all(job.sink.plan, job.root, TABLES)["near_changes"] > 0 and rows(job.root, "near_changes") != before
    # What was not published of a rebuilt table is not shown, and the former table, whose files are gone, is not either.
    shutil.rmtree(job.root / "published")
    DriverWriter(job.root).ensure(job.sink.specs["published"])
    shutil.rmtree(job.root / "near_now")
    DriverWriter(job.root).ensure(job.sink.specs["near_now"])
    job.export()
    assert "near_now" not in exported_tables(job.root) and "near" in exported_tables(job.root)


def test_a_table_that_the_job_no_longer_has_is_no_longer_shown(job: Job) -> None:
    job.run(0)
    job.publish(0)
    for name in ("near3", "near3_changes", "near3_now"):
        shutil.rmtree(job.root / name)
    job.export(queries=job.sink.plan.queries[:1])
    check_all(job.sink.plan, job.root, TABLES - 3)


def test_a_moved_sink_is_exported_from_where_it_is(job: Job, tmp_path: Path) -> None:
    job.run(0)
    job.publish(0)
    moved = tmp_path / "moved"
    job.root.rename(moved)
    job.export(sink=str(moved))
    check_all(job.sink.plan, moved, TABLES)


def test_links_are_refused(job: Job, tmp_path: Path) -> None:
    job.run(0)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (job.root / "_iceberg").symlink_to(elsewhere)
    job.publish(0)
    assert "link" in job.said and list(elsewhere.iterdir()) == []
    with pytest.raises(SkybandError) as e:
        exported.remove_exports(job.root, ["near"])
    assert e.value.code == "SKY-E518"


def test_forged_metadata_leads_nowhere(job: Job, tmp_path: Path) -> None:
    job.run(0)
    job.publish(0)
    directory = job.root / "_iceberg" / "runs" / "metadata"
    whole = (directory / "v1.metadata.json").read_text()
    elsewhere = tmp_path / "elsewhere.avro"
    shutil.copy(next(directory.glob("*-list.avro")), elsewhere)
    (listed,) = directory.glob("*-list.avro")
    (directory / "v1.metadata.json").write_text(whole.replace(f"file://{listed}", f"file://{elsewhere}"))
    job.run(1)
    job.publish(1)
    # Metadata that names other files is not followed: the table is exported from scratch.
    assert job.said == ""
    check_all(job.sink.plan, job.root, TABLES)
    assert len(opened(job.root, "runs").current_snapshot().manifests(opened(job.root, "runs").io)) == 1  # type: ignore[union-attr]
    # Names of other files are no names that the job gives: the metadata is not the job's, and the table is exported from scratch.
    (directory / "v1.metadata.json").write_text(whole.replace(listed.name, "../../../near/part.parquet"))
    job.export()
    assert job.said == ""
    check_all(job.sink.plan, job.root, TABLES)


@pytest.fixture(scope="module")
def of_every_type(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[tuple[Any, Path]]]:
    root = tmp_path_factory.mktemp("jobs")
    kinds = ("pairs", "keyed", "corrections", "skylines", "sets", "loyalty", "groups")
    yield [(make(kind, root / kind), root / kind) for kind in kinds]


@pytest.mark.slow
def test_the_tables_of_every_query_type_are_read(of_every_type: list[tuple[Any, Path]]) -> None:
    types: set[str] = set()
    for plan, root in of_every_type:
        writer = DriverWriter(Path(plan.sink))
        publish(plan, writer, "x", 1)
        err = io.StringIO()
        export_published(replace(plan, iceberg=True), Lines(err, err))
        assert err.getvalue() == "", root
        counts = check_all(plan, Path(plan.sink), len(exported_tables(Path(plan.sink))))
        types |= {q.type for q in plan.queries if counts[f"{q.name}_changes"] > 0}
    assert types == set(QUERY_TYPES.all())


def test_without_it_pyiceberg_is_not_imported(tmp_path: Path) -> None:
    code = f"""
import io, sys
import skyband.framework.quality.gate, skyband.framework.tables.writing.driver_writer
from skyband.framework.console.lines import Lines
from skyband.framework.tables.iceberg.publishing import export_published
from tests.framework.tables.plans import make_plan
export_published(make_plan({str(tmp_path)!r}), Lines())
assert "pyiceberg" not in sys.modules and "skyband.framework.tables.iceberg.export" not in sys.modules
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=Path(__file__).parents[4])
    assert done.returncode == 0, done.stderr
    assert list(tmp_path.iterdir()) == []
