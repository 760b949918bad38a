"""A job with shards makes the tables of one without, byte for byte, whatever their number, and when it changes between runs."""

from __future__ import annotations

import re
import signal
from dataclasses import dataclass
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from skyband.framework.streaming.job.layout import Layout
from skyband.framework.streaming.rows.shards import Shards
from skyband.jobs import cli
from tests.spark.cuts import verified
from tests.spark.equality import assert_equal_tables
from tests.spark.jobs import run, run_apart, table, write_file
from tests.spark.kinds import KINDS, Kind, groups

pytestmark = pytest.mark.spark


def sharded(shards: int, keyed: bool = False) -> Kind:
    """Jobs of every query type whose search is shared, and some whose is not."""
    of = KINDS["shards"]
    return Kind(of.queries, of.rows, of.more | {"shards": shards, "partition": keyed, "buckets": 2 if keyed else None}, of.sections)


def test_numbers_of_shards_are_none_of_buckets() -> None:
    shards = Shards(3, 4)
    numbers = {(b, s): shards.number(b, s) for b in range(4) for s in range(3)}
    assert {place: shards.place(number) for place, number in numbers.items()} == {place: place for place in numbers}
    assert len(set(numbers.values())) == 12 and max(numbers.values()) < 0


@pytest.mark.parametrize("keyed", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_their_number_leaves_no_trace(spark, tmp_path: Path, keyed: bool) -> None:
    """None, 2, 3, 5 and none again, from run to run, with rows that wait between runs."""
    files = groups(KINDS["shards"].rows(5, 240), 5, seed=5)
    plain, job = tmp_path / "plain", tmp_path / "job"
    whole = sharded(1, keyed).write(plain, 100)
    spec = sharded(1, keyed).write(job, 100)
    for n, (rows, shards) in enumerate(zip(files, (1, 2, 3, 5, 1), strict=True)):
        for directory in (plain, job):
            write_file(directory, f"{n}.csv", rows, at=20 * n)
        text = spec.read_text()
        spec.write_text(text.replace(text[text.index("shards: ") :].split("}")[0], f"shards: {shards}"))
        run(spark, whole, finish=n == len(files) - 1)
        run(spark, spec, finish=n == len(files) - 1)
        made = Layout(str(job / "out")).known()
        assert made.shards == shards
        counted = [c for c in table(job, "runs").sort_by("batch_id")["counters"].to_pylist() if ".us" in c]
        assert bool(counted) == (n > 0)
    assert_equal_tables(job, plain)
    assert verified(spec)


@dataclass
class Edited:
    """A job whose number of shards is edited, and one that has none, over the same files in the same runs."""

    spark: SparkSession
    directory: Path
    keyed: bool = False

    def __post_init__(self) -> None:
        self.job, self.plain = self.directory / "job", self.directory / "plain"
        self.spec, self.whole = (sharded(1, self.keyed).write(of, 100) for of in (self.job, self.plain))
        self.files = groups(KINDS["shards"].rows(5, 240), 4, seed=5)
        self.come = 0

    def more(self) -> None:
        """A file more for both, which the job without shards takes; with the last one it is finished."""
        for directory in (self.job, self.plain):
            write_file(directory, f"{self.come}.csv", self.files[self.come], at=20 * self.come)
        self.come += 1
        run(self.spark, self.whole, finish=self.come == len(self.files))

    def edit(self, **to: object) -> None:
        """Set fields of ``run``."""
        text = self.spec.read_text()
        for name, value in to.items():
            text = re.sub(rf"{name}: \w+", f"{name}: {value}", text)
        self.spec.write_text(text)

    def run(self) -> None:
        """Run the job over what is there; with the last file it is finished."""
        run(self.spark, self.spec, finish=self.come == len(self.files))

    def kill(self, point: str, **environment: str) -> None:
        """Run the job in a process of its own, which is killed at ``point``."""
        words = ("--finish",) if self.come == len(self.files) else ()
        killed = run_apart(self.spec, *words, failpoint=point, **environment)
        assert killed.returncode == -signal.SIGKILL, killed.stderr

    @property
    def shards(self) -> int:
        """How many the job has."""
        return Layout(str(self.job / "out")).known().shards

    def end(self, shards: int) -> None:
        """Take the remaining files. The tables are those of the job without shards."""
        while self.come < len(self.files):
            self.more()
            self.run()
            assert self.shards == shards
        assert_equal_tables(self.job, self.plain, same_cuts=False)


@pytest.mark.slow
@pytest.mark.chaos
@pytest.mark.parametrize(("was", "now"), [(2, 3), (1, 2), (2, 1)])
def test_killed_at_every_step_of_a_change(spark, tmp_path: Path, was: int, now: int) -> None:
    """One job is killed at one step after the other: before the job file names the new states, after it, and in the next batch."""
    job = Edited(spark, tmp_path)
    job.edit(shards=was)
    for _ in range(2):
        job.more()
        job.run()
    assert job.shards == was
    job.edit(shards=now)
    job.more()
    for point in ("shards.made", "shards.saved", "state.after", "sink.between:2", "sink.after"):
        job.kill(point)
    job.run()
    assert job.shards == now
    job.end(now)
    assert verified(job.spec)


@pytest.mark.slow
@pytest.mark.chaos
def test_other_tasks_after_a_kill_in_the_middle_of_a_change(spark, tmp_path: Path, monkeypatch) -> None:
    job = Edited(spark, tmp_path)
    job.more()
    job.run()
    job.edit(shards=2)
    job.more()
    job.kill("shards.saved")
    monkeypatch.setenv("SKYBAND_SHUFFLE_PARTITIONS", "3")
    job.run()
    made = Layout(str(job.job / "out")).known()
    assert (made.partitions, made.shards) == (3, 2)
    # Both change at once, and this is killed, too.
    job.edit(shards=3)
    job.more()
    job.kill("shards.saved", SKYBAND_SHUFFLE_PARTITIONS="4")
    monkeypatch.setenv("SKYBAND_SHUFFLE_PARTITIONS", "4")
    job.run()
    assert Layout(str(job.job / "out")).known().shards == 3
    job.end(3)


@pytest.mark.slow
@pytest.mark.chaos
def test_an_unfinished_batch_is_repeated_with_the_shards_of_before(spark, tmp_path: Path, capsys) -> None:
    job = Edited(spark, tmp_path)
    job.edit(shards=2)
    job.more()
    job.run()
    job.more()
    job.kill("sink.between:2")
    job.edit(shards=3)
    assert cli.main(["run", str(job.spec), "--quiet"]) == 0
    assert "run.shards is 2 in this run, and 3 from the next one on" in capsys.readouterr().err
    assert job.shards == 2
    job.end(3)


@pytest.mark.slow
@pytest.mark.chaos
def test_shards_and_buckets_change_at_once(spark, tmp_path: Path) -> None:
    job = Edited(spark, tmp_path, keyed=True)
    # Tables say the bucket of a key.
    job.whole.write_text(job.whole.read_text().replace("buckets: 2", "buckets: 4"))
    job.edit(shards=2)
    job.more()
    job.run()
    job.edit(shards=3, buckets=4)
    job.more()
    for point in ("grown.made", "swap.moved", "shards.made", "state.after"):
        job.kill(point)
    job.run()
    assert job.shards == 3
    job.end(3)


@pytest.mark.slow
def test_a_query_is_added_to_a_job_with_shards(spark, tmp_path: Path) -> None:
    """Shards take up the states of added operators, too."""
    job = Edited(spark, tmp_path)
    job.edit(shards=2)
    more = "  added: {type: topk_pairs, scoring: near, k: 3, window: {count: 25}}\n"
    text = job.whole.read_text()
    job.whole.write_text(text.replace("queries:\n", f"queries:\n{more}", 1))
    job.more()
    job.run()
    text = job.spec.read_text()
    job.spec.write_text(text.replace("queries:\n", f"queries:\n{more}", 1))
    assert cli.main(["rebuild", "--added", str(job.spec)]) == 0
    job.edit(shards=3)
    job.more()
    job.run()
    assert job.shards == 3
    job.end(3)
    assert verified(job.spec)
