"""``skyband maintain``: fewer files and a shorter way to open them, the same rows, and nothing gone that is still needed."""

from __future__ import annotations

from pathlib import Path

import pytest
from deltalake import DeltaTable

from skyband.framework.storage import delta_read
from skyband.framework.streaming.job.layout import Layout
from skyband.framework.streaming.job.locks import one_run
from skyband.framework.tables.results.derive import derive
from skyband.framework.tables.schemas import result_tables, tables
from skyband.framework.tables.writing.driver_writer import DriverWriter
from skyband.framework.tables.writing.published import PUBLISHED, publish, unreadable
from skyband.framework.tables.writing.sink import Sink
from skyband.jobs.cli import main
from skyband.jobs.running import maintain as command
from tests.framework.tables.plans import make_plan, random_changes
from tests.framework.tables.results.test_reader import job
from tests.framework.tables.writing.test_kills import content
from tests.framework.tables.writing.test_upkeep import MINUTE, START, at_once, commit, files

__all__ = ["at_once"]
BATCHES = 30


@pytest.fixture
def sink(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sink:
    """A job of many small commits, its results derived three times, those of the first time published."""
    made = Sink(make_plan(str(tmp_path)), DriverWriter(tmp_path), "g")
    Layout(str(tmp_path)).create(made.plan, 2, None)
    made.ensure_all()
    changes = random_changes(made.plan, seed=4, batches=BATCHES, steps=4)
    for n in range(BATCHES):
        commit(made, n, START + n * MINUTE, changes[n])
        if n % 10 == 9:
            derive(made, n)
        if n == 9:
            publish(made.plan, made.writer, made.app_id(PUBLISHED), n)
    monkeypatch.setattr(command, "load_plan", lambda spec, **_: made.plan)
    return made


def test_it_merges_writes_checkpoints_and_keeps_every_row(sink: Sink, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = content(tmp_path)
    told = {t: sink.writer.version(t, sink.app_id(t)) for t in sink.specs}
    assert DeltaTable(str(tmp_path / "near_changes")).version() > 10
    assert main(["maintain", "spec.yaml"]) == 0
    shown = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert [line[0] for line in shown[2:]] == [t.name for t in tables(sink.plan)]
    (near,) = [line for line in shown if line[0] == "near_changes"]
    assert int(near[1]) > 10 and near[2] == "1"
    assert content(tmp_path) == before
    for name, version in told.items():
        again = Sink(sink.plan, DriverWriter(tmp_path), "g")
        assert again.writer.version(name, again.app_id(name)) == version
        table = DeltaTable(str(tmp_path / name))
        assert list((tmp_path / name / "_delta_log").glob(f"{table.version():020}.checkpoint*")), name
        assert len(table.file_uris()) <= 2 or "bucket" in table.metadata().partition_columns
        # What was replaced a moment ago, a reader may still be reading.
        assert all(unreadable(tmp_path, name, v) is None for v in range(table.version() + 1)), name


@pytest.mark.usefixtures("at_once")
def test_what_is_old_goes_and_what_is_published_stays(sink: Sink, tmp_path: Path) -> None:
    rows = content(tmp_path)
    named = {r["table_name"]: r["version"] for r in delta_read.read(delta_read.open_table(tmp_path, PUBLISHED)).to_pylist()}
    assert set(named) == set(result_tables(sink.plan))
    before = files(tmp_path, "*.parquet")
    assert main(["maintain", "spec.yaml"]) == 0
    assert files(tmp_path, "*.parquet") < before and content(tmp_path) == rows
    assert {t for t, v in named.items() if unreadable(tmp_path, t, v)} == set()
    assert unreadable(tmp_path, "runs", 3) is not None


def test_a_second_time_changes_nothing(sink: Sink, tmp_path: Path) -> None:
    assert main(["maintain", "spec.yaml"]) == 0
    there = {p: p.stat().st_mtime_ns for p in tmp_path.rglob("*.parquet") if "checkpoint" not in p.name}
    assert main(["maintain", "spec.yaml"]) == 0
    assert {p: p.stat().st_mtime_ns for p in tmp_path.rglob("*.parquet") if "checkpoint" not in p.name} == there


def test_not_beside_a_run_and_not_before_the_first(
    tmp_path: Path, sink: Sink, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import threading

    held, done = threading.Event(), threading.Event()

    def run() -> None:
        with one_run(Layout(str(tmp_path)), "tests"):
            held.set()
            done.wait(30)

    other = threading.Thread(target=run)
    other.start()
    try:
        assert held.wait(30)
        assert main(["maintain", "spec.yaml"]) == 3
        assert "SKY-E302 another run of job 'tests'" in capsys.readouterr().err
    finally:
        done.set()
        other.join()
    nowhere = tmp_path.with_name("nowhere")
    monkeypatch.setattr(command, "load_plan", lambda spec, **_: make_plan(str(nowhere)))
    assert main(["maintain", "spec.yaml"]) == 2
    assert "SKY-E402 there are no tables" in capsys.readouterr().err and not nowhere.exists()


def test_tables_of_later_versions_may_be_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import shutil

    plan, _ = job(tmp_path, ())
    shutil.rmtree(tmp_path / PUBLISHED)
    monkeypatch.setattr(command, "load_plan", lambda spec, **_: plan)
    assert main(["maintain", "spec.yaml"]) == 0 and not (tmp_path / PUBLISHED).exists()
