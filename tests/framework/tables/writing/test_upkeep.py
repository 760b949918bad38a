"""What thousands of small commits leave behind stays bounded, and nothing anybody needs goes with it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from deltalake.transaction import AddAction

from skyband.framework.storage import delta_read
from skyband.framework.tables import schemas
from skyband.framework.tables.delta.ownership import PROPERTY
from skyband.framework.tables.results.derive import derive
from skyband.framework.tables.writing import table_properties, upkeep
from skyband.framework.tables.writing.driver_writer import DriverWriter
from skyband.framework.tables.writing.sink import Sink
from skyband.framework.verify.stored import Stored, runs_gone
from tests.framework.streaming.checkpoints import write
from tests.framework.tables.plans import batch_blocks, make_plan, random_changes
from tests.framework.tables.writing.test_kills import content

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

START = datetime(2026, 1, 1, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


def commit(sink: Sink, number: int, at: datetime, changes: dict[str, list[dict[str, Any]]] | None = None) -> None:
    """Batch ``number``, written at ``at``."""
    blocks = {} if changes is None else batch_blocks(sink.plan, changes, number)
    row = {"batch_id": number, "batch_time": at, "rows_in": 10, "pending": number, "frontier": at, "newest": at, "counters": "{}"}
    sink.commit(number, blocks | {"runs": sink.runs_row(row)})


def sink_at(directory: Path, keep: timedelta = timedelta(days=36_500), writer: DriverWriter | None = None) -> Sink:
    plan = replace(make_plan(str(directory)), keep_micros=keep // timedelta(microseconds=1))
    sink = Sink(plan, writer or DriverWriter(directory), "g")
    sink.ensure_all()
    return sink


def files(directory: Path, pattern: str = "*") -> int:
    return sum(1 for p in directory.rglob(pattern) if p.is_file())


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables whose replaced files and log may go at once, and an upkeep that looks every time, for few files too."""
    monkeypatch.setattr(upkeep, "SPARE", 20)
    monkeypatch.setattr(upkeep, "MINUTES", dict.fromkeys(upkeep.MINUTES, 0))
    monkeypatch.setattr(table_properties, "MINUTES", upkeep.MINUTES)


BOUND = 2 * upkeep.MERGE_AT + 20 + upkeep.CHECKPOINT_INTERVAL + 60
"""Files of a table whose replaced files may go at once and that gets 50 commits between two upkeeps."""


@pytest.mark.usefixtures("at_once")
def test_commits_of_runs_leave_a_few_hundred_files(tmp_path: Path) -> None:
    sink = sink_at(tmp_path)
    spec = sink.specs["runs"]
    for n in range(300):
        commit(sink, n, START + n * MINUTE)
        if n % 50 == 49:
            sink.writer.maintain(spec)
            assert files(tmp_path / "runs") < BOUND
    assert sorted(sink.writer.read("runs")["batch_id"].to_pylist()) == list(range(300))


@pytest.mark.usefixtures("at_once")
def test_no_table_of_a_job_grows_with_its_batches(tmp_path: Path) -> None:
    sink = sink_at(tmp_path)
    changes = random_changes(sink.plan, seed=1, batches=200, steps=2)
    for n in range(200):
        commit(sink, n, START + n * MINUTE, changes[n])
        if n % 50 == 49:
            derive(sink, n)
            assert {t: f for t in sink.specs if (f := files(tmp_path / t)) >= BOUND} == {}
    assert sink.writer.read("runs").num_rows == 200
    for q in sink.plan.queries:
        assert sink.writer.read(f"{q.name}_changes").num_rows == sum(len(b[q.name]) for b in changes)


@pytest.mark.usefixtures("at_once")
def test_exactly_once_outlives_merging_deleting_and_the_cleaning_of_the_log(tmp_path: Path) -> None:
    sink = sink_at(tmp_path, keep=timedelta(hours=1))
    changes = random_changes(sink.plan, seed=2, batches=220, steps=4)
    for n in range(220):
        commit(sink, n, START + n * MINUTE, changes[n])
        if n % 40 == 39:
            derive(sink, n)
    before = {t: (sink.writer.version(t, sink.app_id(t)), delta_read.read(delta_read.open_table(tmp_path, t)).num_rows) for t in sink.specs}
    assert before["runs"] == (219, 30)  # ten of the last upkeep, twenty since
    # The log keeps the commits since the last checkpoint that the last upkeep, twenty commits ago, has found, and no earlier ones.
    assert files(tmp_path / "runs" / "_delta_log", "*.json") <= upkeep.CHECKPOINT_INTERVAL + 20
    again = Sink(sink.plan, DriverWriter(tmp_path), "g")
    again.ensure_all()
    for n in (0, 200, 218, 219):
        commit(again, n, START, changes[n])
    for t, (version, rows) in before.items():
        assert again.writer.version(t, again.app_id(t)) == version
        assert again.writer.read(t).num_rows == rows
    assert [r["batch_id"] for r in again.last_runs(2)] == [218, 219]


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize(
    "now, kept",
    [
        (START + 63 * MINUTE, range(100)),  # overdue, but not by a sixteenth of the hour
        (START + 64 * MINUTE, range(4, 100)),
        (START + 130 * MINUTE, range(70, 100)),
        (START + timedelta(days=400), range(90, 100)),
    ],
)
def test_runs_are_kept_as_long_as_the_spec_says_and_the_last_ten_always(tmp_path: Path, now: datetime, kept: Sequence[int]) -> None:
    sink = sink_at(tmp_path, keep=timedelta(hours=1))
    for n in range(100):
        commit(sink, n, START + n * MINUTE)
    sink.maintain(now)
    assert sorted(sink.writer.read("runs")["batch_id"].to_pylist()) == list(kept)
    assert [r["pending"] for r in sink.last_runs(2)] == [98, 99]
    # `verify` says from where on sums over runs are of all batches.
    gone = 100 - len(kept)
    said = f"rows of {gone} of 100 batches are no longer kept (run.keep); sums over it begin with batch {gone}"
    assert runs_gone(Stored(sink.plan)) == (said if gone else None)


@pytest.mark.usefixtures("at_once")
def test_a_clock_that_was_wrong_costs_only_the_rows_it_dated(tmp_path: Path) -> None:
    sink = sink_at(tmp_path, keep=timedelta(hours=1))
    for n in range(60):
        commit(sink, n, datetime(1970, 1, 2, tzinfo=UTC) if n in (20, 21, 30) else START + n * MINUTE)
    sink.maintain(START + 60 * MINUTE)
    assert sorted(sink.writer.read("runs")["batch_id"].to_pylist()) == [n for n in range(60) if n not in (20, 21, 30)]


@pytest.mark.usefixtures("at_once")
def test_only_runs_lose_rows(tmp_path: Path) -> None:
    sink = sink_at(tmp_path, keep=timedelta(minutes=1))
    changes = random_changes(sink.plan, seed=3, batches=90, steps=6)
    for n in range(90):
        commit(sink, n, START + n * MINUTE, changes[n])
    derive(sink, 89)
    rows = {t: sink.writer.read(t).num_rows for t in sink.specs if t != "runs"}
    sink.maintain(START + timedelta(days=1000))
    assert {t: sink.writer.read(t).num_rows for t in rows} == rows and rows["rejected"] == 45
    assert sink.writer.read("runs").num_rows == 10


def test_a_reader_that_has_begun_reads_on(tmp_path: Path) -> None:
    sink = sink_at(tmp_path, keep=timedelta(hours=1))
    for n in range(80):
        commit(sink, n, START + n * MINUTE)
    begun = DeltaTable(str(tmp_path / "runs"))
    sink.maintain(START + 80 * MINUTE)
    later = DriverWriter(tmp_path)
    later.maintain(sink.specs["runs"])
    assert delta_read.read(begun).num_rows == 80
    assert delta_read.read(delta_read.open_table(tmp_path, "runs")).num_rows == 60


def test_replaced_files_go_when_their_time_is_up_and_no_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the log never named is not the table's, or of a commit that a kill prevented: nobody can tell, so it stays."""
    monkeypatch.setattr(upkeep, "SPARE", 20)
    sink = sink_at(tmp_path)
    for n in range(80):
        commit(sink, n, START + n * MINUTE)
    theirs = ["part-of-a-killed-commit.parquet", "notes.txt", "deeper/0.csv"]
    for name in theirs:
        write(tmp_path / "runs" / name, "theirs")
        os.utime(tmp_path / "runs" / name, (0, 0))
    sink.maintain()
    assert files(tmp_path / "runs", "part-*.parquet") > 80
    DriverWriter(tmp_path).maintain(sink.specs["runs"])
    assert files(tmp_path / "runs", "part-*.parquet") > 80
    monkeypatch.setitem(upkeep.MINUTES, "book", 0)  # time is up
    later = DriverWriter(tmp_path)
    later.ensure(sink.specs["runs"])
    later.maintain(sink.specs["runs"])
    assert files(tmp_path / "runs", "part-0*.parquet") == len(DeltaTable(str(tmp_path / "runs")).file_uris()) < 8
    assert all((tmp_path / "runs" / name).read_text() == "theirs" for name in theirs)


@pytest.mark.usefixtures("at_once")
def test_a_file_that_was_replaced_long_ago_still_goes(tmp_path: Path) -> None:
    """Checkpoints forget what was replaced: the log's commits name it until it has gone."""
    sink = sink_at(tmp_path)
    for n in range(30):
        commit(sink, n, START + n * MINUTE)
    table = DeltaTable(str(tmp_path / "runs"))
    table.optimize.compact()
    table.create_checkpoint()
    DriverWriter(tmp_path).tidy(sink.specs["runs"])
    assert files(tmp_path / "runs", "part-0*.parquet") == len(DeltaTable(str(tmp_path / "runs")).file_uris()) == 1


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize("mine", [True, False])
def test_a_file_that_no_commit_names_goes_if_the_job_wrote_it(tmp_path: Path, mine: bool) -> None:
    """As an attempt of a task leaves one that failed; one of another job's stays."""
    sink = sink_at(tmp_path / "out")
    other = sink_at(tmp_path / "other")
    rows = sink.specs["rejected"].schema.empty_table()
    (file,) = (sink if mine else other).writer._write("rejected", pa.Table.from_pylist([{"reason": "x"}], rows.schema), {})  # type: ignore
    path = tmp_path / "out" / "rejected" / file.path
    if not mine:
        (tmp_path / "other" / "rejected" / file.path).rename(path)
    os.utime(path, (0, 0))
    DriverWriter(tmp_path / "out").tidy(sink.specs["rejected"])
    assert path.exists() != mine


@pytest.mark.usefixtures("at_once")
def test_a_link_in_a_tables_directory_leads_to_no_removal(tmp_path: Path) -> None:
    """The log names ``deeper/0.parquet``, and where that was there is a link to a directory of somebody's."""
    sink = sink_at(tmp_path / "out")
    write(tmp_path / "theirs" / "0.parquet", "theirs")
    table = DeltaTable(str(tmp_path / "out" / "rejected"))
    (tmp_path / "out" / "rejected" / "deeper").symlink_to(tmp_path / "theirs")
    for action in (AddAction("deeper/0.parquet", 6, {}, 0, True, "{}"), None):
        table.create_write_transaction([action] if action else [], "overwrite", table.schema(), partition_by=[])
        table.update_incremental()
    DriverWriter(tmp_path / "out").tidy(sink.specs["rejected"])
    assert (tmp_path / "theirs" / "0.parquet").read_text() == "theirs"


def test_tables_stay_open_over_an_upkeep_that_has_nothing_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sink, opened = sink_at(tmp_path), []
    commit(sink, 0, START)
    original = delta_read.open_table
    monkeypatch.setattr(delta_read, "open_table", lambda root, name: opened.append(name) or original(root, name))
    for n in range(1, 5):
        sink.maintain(START + n * MINUTE)
        commit(sink, n, START + n * MINUTE)
    assert set(opened) <= set(sink.specs) and len(opened) == len(set(opened))
    # After one that merged, or removed a part of the log, they are opened again.
    for n in range(5, 70):
        commit(sink, n, START + n * MINUTE)
    before = opened.count("runs")
    sink.maintain(START + 70 * MINUTE)
    commit(sink, 70, START + 70 * MINUTE)
    assert opened.count("runs") == before + 1
    assert sorted(sink.writer.read("runs")["batch_id"].to_pylist()) == list(range(71))


def test_rows_are_merged_a_few_at_a_time_not_all_again(tmp_path: Path) -> None:
    writer = DriverWriter(tmp_path)
    spec = schemas.TableSpec("t", pa.schema([pa.field("batch_id", pa.int64()), pa.field("x", pa.binary())]), "")
    writer.ensure(spec)
    big = os.urandom(300 << 10)
    writer.append("t", pa.table({"batch_id": [0], "x": [big]}, schema=spec.schema), "a", 0)
    (large,) = DeltaTable(str(tmp_path / "t")).file_uris()
    for n in range(1, 70):
        writer.append("t", pa.table({"batch_id": [n], "x": [b"x"]}, schema=spec.schema), "a", n)
    writer.maintain(spec)
    found = DeltaTable(str(tmp_path / "t")).file_uris()
    assert large in found and len(found) == 2


def test_tables_of_an_earlier_version_get_their_new_terms_once(tmp_path: Path) -> None:
    writer = DriverWriter(tmp_path)
    spec = next(t for t in schemas.tables(make_plan(str(tmp_path))) if t.name == "runs")
    old = table_properties.properties(spec, "") | {"delta.logRetentionDuration": "interval 7 days", "delta.checkpointInterval": "25"}
    del old[PROPERTY], old["delta.enableExpiredLogCleanup"]
    DeltaTable.create(str(tmp_path / "runs"), spec.schema, configuration=old)
    write(tmp_path / "_skyband" / "job.json", '{"job": "tests", "generation": "g"}')
    for _ in range(2):
        writer.ensure(spec)
        writer = DriverWriter(tmp_path)
    table = DeltaTable(str(tmp_path / "runs"))
    assert table.metadata().configuration == table_properties.properties(spec, writer.owner.made_id())
    assert table.version() == 1


def test_upkeep_looks_through_a_directory_four_times_per_retention(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upkeep, "SPARE", 20)
    sink = sink_at(tmp_path)
    for n in range(80):
        commit(sink, n, START + n * MINUTE)
    looked: list[Path] = []
    now = [time.monotonic()]
    real: Callable[[Path], Any] = upkeep._files
    monkeypatch.setattr(upkeep, "_files", lambda root: (looked.append(root), real(root))[1])
    monkeypatch.setattr(upkeep.clock, "monotonic", lambda: now[0])
    for _ in range(30):
        sink.writer.maintain(sink.specs["runs"])
        now[0] += 60
    assert len(looked) == 8


@pytest.mark.spark
@pytest.mark.usefixtures("at_once")
def test_what_the_engine_writes_is_kept_small_too(tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    from skyband.framework.tables.writing.spark_writer import SparkWriter

    monkeypatch.setattr(upkeep, "MERGE_AT", 2)
    monkeypatch.setattr(upkeep, "SPARE", 0)
    spec = next(t for t in schemas.tables(make_plan(str(tmp_path))) if t.name == "runs")
    writer = SparkWriter(str(tmp_path), spark)
    terms = {PROPERTY: writer.owner.made_id(), "delta.checkpointInterval": "2"}
    DeltaTable.create(str(tmp_path / "runs"), spec.schema, configuration=terms, raise_if_key_not_exists=False)
    monkeypatch.setattr(upkeep, "CHECKPOINT_INTERVAL", 2)
    monkeypatch.setattr(table_properties, "CHECKPOINT_INTERVAL", 2)
    writer.ensure(spec)
    writer.ensure(spec)
    assert DeltaTable(str(tmp_path / "runs")).version() == 1
    rows = [pa.table({f.name: pa.array([n if f.name == "batch_id" else None], f.type) for f in spec.schema}) for n in range(8)]
    for n in range(6):
        assert writer.append("runs", rows[n], "a", n)
    writer.maintain(spec, [(0, 1)])
    assert files(tmp_path / "runs", "*.parquet") - files(tmp_path / "runs" / "_delta_log", "*.parquet") == 1
    assert files(tmp_path / "runs" / "_delta_log", "*.json") < 6
    assert not writer.append("runs", rows[5], "a", 5) and writer.append("runs", rows[6], "a", 6)
    assert sorted(r.batch_id for r in spark.read.format("delta").load(str(tmp_path / "runs")).collect()) == [2, 3, 4, 5, 6]


KILLED = 14
SCRIPT = f"""
import sys
from datetime import UTC, datetime, timedelta
from skyband.framework.tables.writing import table_properties, upkeep
from skyband.framework.tables.results.derive import derive
from tests.framework.tables.plans import random_changes
from tests.framework.tables.writing.test_upkeep import START, commit, sink_at
upkeep.MERGE_AT, upkeep.SPARE, upkeep.MINUTES = 2, 0, dict.fromkeys(upkeep.MINUTES, 0)
table_properties.MINUTES = upkeep.MINUTES
from pathlib import Path
sink = sink_at(Path(sys.argv[1]), timedelta(minutes=1))
changes = random_changes(sink.plan, seed=6, batches={KILLED}, steps=10)
last = sink.last_run()
for n in range(0 if last is None else last["batch_id"], {KILLED}):
    commit(sink, n, START, changes[n])
    if n % 4 == 3:
        derive(sink, n)
derive(sink, {KILLED - 1})
"""


def run_apart(directory: Path, point: str | None = None) -> int:
    env = {k: v for k, v in os.environ.items() if k != "SKYBAND_FAILPOINT"} | ({"SKYBAND_FAILPOINT": point} if point else {})
    root = Path(__file__).resolve().parents[4]
    done = subprocess.run([sys.executable, "-c", SCRIPT, str(directory)], env=env, cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode in (0, -signal.SIGKILL), done.stderr
    return done.returncode


@pytest.fixture(scope="module")
def left_alone(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    directory = tmp_path_factory.mktemp("alone")
    assert run_apart(directory) == 0
    return content(directory)


@pytest.mark.chaos
@pytest.mark.parametrize("hit", [pytest.param(n, marks=[] if n == 17 else [pytest.mark.slow]) for n in (1, 2, 9, 17, 26, 33)])
def test_killed_in_its_upkeep_and_started_again(tmp_path: Path, left_alone: dict[str, list[str]], hit: int) -> None:
    assert run_apart(tmp_path, f"upkeep.between:{hit}") == -signal.SIGKILL
    assert run_apart(tmp_path) == 0
    found = content(tmp_path)
    assert found == left_alone
    assert len(found["runs"]) == 10
