"""Files of tables that tasks put on object storage: those of a directory, and reached by what no plan holds."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark import cloudpickle

from skyband.framework.base.errors import SkybandError
from skyband.framework.settings import spark
from skyband.framework.settings.spark import CONF, MASTER, SparkOptions
from skyband.framework.storage.location import location
from skyband.framework.storage.settings import executors_env, reached_by_tasks, store_options, workers_env
from skyband.framework.streaming.rows import blocks
from skyband.framework.streaming.rows.outbox import LEAST
from skyband.framework.streaming.run import delivery
from skyband.framework.streaming.run.commit import Received
from skyband.framework.streaming.run.delivery import Delivery
from skyband.framework.streaming.spark import executors
from skyband.framework.tables.delta import data_files
from skyband.framework.tables.results import derive as parts
from skyband.framework.tables.results.derive import Made, Make, Part, derive
from skyband.framework.tables.writing import upkeep
from skyband.framework.tables.writing.driver_writer import DriverWriter
from skyband.framework.tables.writing.sink import Sink
from tests.framework.streaming.run import test_delivery, test_deriving
from tests.framework.streaming.run.test_delivery import REJECTED, ROWS, Task, bad_rows, heads_block, messages, sink_of
from tests.framework.tables.plans import random_changes
from tests.framework.tables.writing.test_sink import NAMES, flat, replay

KEY = "AKIDOFTHISTEST"


@pytest.fixture
def task(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Task]]:
    monkeypatch.setattr(delivery, "TaskContext", Task)
    yield Task
    Task.number = 0


def test_a_file_is_what_it_is_in_a_directory(directory: str, tmp_path: Path) -> None:
    (tmp_path / "t").mkdir()
    for rows, partition in ((ROWS, None), (ROWS.drop_columns(["i"]), {"i": "3"})):
        there, here = (data_files.write(root, "t", rows, partition, "part-7") for root in (location(directory), tmp_path))
        assert (there.size, there.rows, there.stats, there.partition) == (here.size, here.rows, here.stats, here.partition)
        assert there.path.startswith("i=3/part-7-" if partition else "part-7-")
        put = location(directory) / "t" / there.path
        assert put.read_bytes() == (tmp_path / "t" / here.path).read_bytes()
        assert pq.read_table(put.open("rb")).equals(rows)  # type: ignore[no-untyped-call]


def test_files_that_are_not_there_or_not_whole_are_found(directory: str, tmp_path: Path) -> None:
    for root in (location(directory), tmp_path):
        (root / "t").mkdir(exist_ok=True)
        whole, cut, gone, last = (data_files.write(root, "t", ROWS) for _ in range(4))
        assert data_files.missing_files(root, "t", [whole, cut, gone, last]) == data_files.missing_files(root, "t", []) == []
        (root / "t" / cut.path).write_bytes((root / "t" / cut.path).read_bytes()[:-1])
        (root / "t" / gone.path).unlink()
        assert data_files.missing_files(root, "t", [whole, cut, gone, last]) == [cut, gone]
        assert data_files.missing_files(root, "t", [gone]) == [gone] and data_files.missing_files(root, "t", [whole]) == []


@pytest.mark.parametrize("least", [0, 600])
def test_tables_are_those_that_the_driver_writes_to_a_directory(
    directory: str, tmp_path: Path, task: type[Task], monkeypatch: pytest.MonkeyPatch, least: int
) -> None:
    monkeypatch.setenv(LEAST, str(least))
    here, there = sink_of(tmp_path), sink_of(location(directory))
    changes = random_changes(here.plan, seed=5, batches=3, steps=30)
    in_files = 0
    for number in range(3):
        task.number = number
        sent = [*messages(here, changes, number), heads_block(here, 1, "pqr"[: number + 1], number), heads_block(here, 2, "xy", number)]
        deliver = Delivery.of(there)
        assert deliver is not None
        # As it comes to a task.
        deliver = cloudpickle.loads(cloudpickle.dumps(deliver))
        delivered = [deliver(*m) for m in sent]
        in_files += sum(kind.startswith("file:") for kind, _ in delivered)
        test_delivery.commit(here, number, Received.of(sent))
        for _ in range(2):  # a batch that comes again is not told again
            test_delivery.commit(there, number, Received.of(delivered))
    assert in_files > 4
    for name in here.specs:
        mine, theirs = (sorted(s.writer.read(name).to_pylist(), key=repr) for s in (there, here))
        assert mine == theirs, name
        assert mine or name not in ("near_changes", "rejected", "heads")


def test_a_file_that_is_gone_or_cut_is_an_error_and_nothing_is_committed(
    directory: str, task: type[Task], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(LEAST, "0")
    sink = sink_of(location(directory))
    deliver = Delivery.of(sink)
    assert deliver is not None
    for spoil in ("cut", "gone"):
        received = Received.of([deliver(REJECTED, blocks.table_bytes(bad_rows(2)))])
        (file,) = received.files[REJECTED]
        at = location(directory) / "rejected" / file.path
        at.write_bytes(at.read_bytes()[1:]) if spoil == "cut" else at.unlink()
        with pytest.raises(SkybandError, match="a task has written") as e:
            test_delivery.commit(sink, 0, received)
        assert e.value.code == "SKY-E620"
    assert sink_of(location(directory)).writer.read("rejected").num_rows == 0


def test_a_store_that_cannot_be_written_is_told_as_the_store_s(directory: str, task: type[Task], monkeypatch: pytest.MonkeyPatch) -> None:
    deliver = Delivery.of(sink_of(location(directory)))
    assert deliver is not None
    elsewhere = Delivery("s3://nobucket/x", deliver.specs, deliver.keys, 0, "")
    with pytest.raises(SkybandError) as e:
        elsewhere(REJECTED, blocks.table_bytes(bad_rows(2)))
    assert e.value.code == "SKY-E630"
    # As Spark tells it.
    heard = executors.error_from_executor(f"Job aborted:\nskyband.framework.errors.SkybandError: {e.value.render()}\n\tat a.b")
    assert heard is not None and heard.code == "SKY-E630" and "s3://nobucket/x/rejected/part-" in heard.message


def test_executors_say_which_objects_and_files_they_do_not_see(directory: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    there, gone, here = f"{directory}/there", f"{directory}/gone", str(tmp_path)
    location(there).write_bytes(b"x")
    assert executors.unseen([there, gone, here, f"{here}/gone"]) == [gone, f"{here}/gone"]
    # An executor that does not know where the store is.
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    monkeypatch.setattr("skyband.framework.storage.paths._SECONDS", 1)
    assert executors.unseen([there, here]) == [there]


def test_what_travels_to_tasks_holds_no_credentials(directory: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.setenv(name, KEY)
    deliver = Delivery.of(sink_of(location(directory)))
    assert deliver is not None and deliver.root == directory
    sent = cloudpickle.dumps(deliver)
    assert directory.encode() in sent and KEY.encode() not in sent and KEY not in str(executors_env())


def test_results_of_many_keys_are_made_in_tasks(directory: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "PART_ROWS", 5)
    sink = test_deriving.job(location(directory))
    changes = random_changes(sink.plan, seed=8, batches=3, steps=30)
    engines: list[test_deriving.FakeSpark] = []

    def spread(of: Sink, make: Make, cut: Sequence[Part]) -> list[Made]:
        engines.append(test_deriving.FakeSpark())
        return test_deriving.on_spark(engines[-1])(of, make, cut)  # type: ignore[arg-type]

    for n in range(3):
        test_deriving.commit(sink, changes, n)
        if n:
            derive(sink, n, spread)
    assert len(engines) > 2
    for q in sink.plan.queries:
        assert flat(sink.writer.read(q.name).to_pylist(), ["grp", *NAMES]) == flat(replay(sink.plan, changes, q.name), ["grp", *NAMES])


def test_upkeep_removes_files_of_attempts_that_failed_once_they_are_old(
    directory: str, task: type[Task], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(LEAST, "0")
    root = location(directory)
    for minutes in (15, 0):
        for life in upkeep.MINUTES:
            monkeypatch.setitem(upkeep.MINUTES, life, minutes)
        sink = sink_of(root)
        writer = sink.writer
        assert isinstance(writer, DriverWriter)
        deliver = Delivery.of(sink)
        assert deliver is not None
        left = [json.loads(deliver(*m)[1])["path"] for m in _attempt(sink)]
        task.number = 0 if minutes else 1
        test_delivery.commit(sink, task.number, Received.of([deliver(*m) for m in _attempt(sink)]))
        # The store tells times in seconds.
        time.sleep(1.1)
        for name, path in zip(("rejected", "heads"), left, strict=True):
            writer.tidy(sink.specs[name])
            assert (root / name / path).exists() == bool(minutes), (name, minutes)
        assert sink.writer.read("rejected").num_rows == 2 + 2 * task.number and sink.writer.read("heads").num_rows == 2


def _attempt(sink: object) -> list[tuple[str, bytes]]:
    return [(REJECTED, blocks.table_bytes(bad_rows(2))), heads_block(sink, 1, "ab", 1)]  # type: ignore[arg-type]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> pytest.MonkeyPatch:
    """No settings but those of the test."""
    monkeypatch.chdir(tmp_path)
    for name in ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT", "AWS_REGION", "AWS_DEFAULT_REGION", CONF, MASTER):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(spark, "_process_options", SparkOptions())
    return monkeypatch


S3A = "spark.hadoop.fs.s3a."


def test_workers_reach_the_store_by_the_settings_that_count_for_the_command(asked: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert workers_env() == {}
    (tmp_path / "skyband.toml").write_text(f'[engine.conf]\n"{S3A}endpoint" = "http://file"\n"{S3A}access.key" = "of file"\n')
    asked.setenv(CONF, f"{S3A}endpoint=http://variable\nspark.executor.memory=3g")
    asked.setattr(spark, "_process_options", SparkOptions(conf=(f"{S3A}endpoint=http://option", f"{S3A}secret.key={KEY}")))
    mine, env = store_options("s3://b/x"), workers_env()
    assert mine is not None and mine["aws_endpoint"] == "http://option" and mine["aws_secret_access_key"] == KEY
    # A worker has the variables, and does not know the options.
    asked.setattr(spark, "_process_options", SparkOptions())
    assert list(env) == [CONF] and store_options("s3://b/x", env) == mine
    assert spark.spark_settings(env=env).conf["spark.executor.memory"] == "3g"


def test_executors_of_a_cluster_are_told_where_the_store_is_and_have_credentials_of_their_own(asked: pytest.MonkeyPatch) -> None:
    assert executors_env() == {}
    asked.setenv("AWS_ENDPOINT_URL_S3", "http://store")
    asked.setenv("AWS_DEFAULT_REGION", "r1")
    asked.setenv("AWS_SECRET_ACCESS_KEY", KEY)
    assert executors_env() == {"AWS_ENDPOINT_URL": "http://store", "AWS_REGION": "r1"}
    asked.setenv(CONF, f"{S3A}endpoint=http://other\n{S3A}secret.key={KEY}\n{S3A}endpoint.region=r2")
    assert executors_env() == {"AWS_ENDPOINT_URL": "http://other", "AWS_REGION": "r2"}


@pytest.mark.parametrize("name", ["access.key", "secret.key", "session.token"])
def test_where_only_the_engine_has_the_credentials_the_driver_writes(asked: pytest.MonkeyPatch, name: str) -> None:
    asked.setenv(MASTER, "spark://head:7077")
    assert reached_by_tasks("s3://b/x") and DriverWriter(location("s3://b/x")).task_root == "s3://b/x"
    asked.setenv(CONF, f"{S3A}{name}={KEY}")
    assert not reached_by_tasks("s3://b/x") and DriverWriter(location("s3://b/x")).task_root is None
    assert reached_by_tasks("/shared/x")
    asked.setenv(MASTER, "local[2]")
    assert reached_by_tasks("s3://b/x")
