"""A job that gets more buckets goes on as if it had had them from its beginning, whatever is killed."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from skyband.framework.sources.logs import last_batch, partitions_of
from skyband.framework.streaming.job.layout import Layout
from skyband.jobs import cli
from tests.spark.equality import assert_equal_tables
from tests.spark.jobs import write_file
from tests.spark.kinds import KINDS, Kind, groups
from tests.spark.rebuilds import rebuild

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]

BATCHES = 5


def keyed(kind: str, buckets: int) -> Kind:
    """The jobs of ``kind``, with keys."""
    of = KINDS[kind]
    return Kind(of.queries, of.rows, of.more | {"partition": True, "buckets": buckets}, of.sections)


@dataclass
class Two:
    """A job that gets more buckets, and one that has had them from its start, over the same files in the same runs."""

    directory: Path
    kind: str
    sizes: tuple[int, int]

    def __post_init__(self) -> None:
        self.job, self.fresh = self.directory / "job", self.directory / "fresh"
        few, many = (keyed(self.kind, n) for n in self.sizes)
        self.spec, self.whole = few.write(self.job, 100), many.write(self.fresh, 100)
        self.files = groups(few.rows(5, 240), BATCHES, seed=5)
        self.come = 0

    def more(self) -> None:
        """A file more for both."""
        for directory in (self.job, self.fresh):
            write_file(directory, f"{self.come}.csv", self.files[self.come], at=20 * self.come)
        self.come += 1

    def run(self, *words: str) -> None:
        for spec in (self.spec, self.whole):
            assert cli.main(["run", str(spec), "--quiet", *words]) == 0

    def edit(self) -> None:
        self.spec.write_text(self.whole.read_text().replace(str(self.fresh), str(self.job)))

    def equal(self) -> None:
        assert_equal_tables(self.job, self.fresh, same_cuts=False)


@pytest.fixture
def two(spark: SparkSession, tmp_path: Path, request: pytest.FixtureRequest) -> Two:
    """After two files, each taken by a run of its own, the first one finished; then the number of buckets is edited."""
    made = Two(tmp_path, *getattr(request, "param", ("keyed", (2, 6))))
    for finish in (("--finish",), ()):
        made.more()
        made.run(*finish)
    made.edit()
    return made


@pytest.mark.parametrize(
    "two",
    [(k, s) for k, s in zip(KINDS, itertools.cycle([(1, 8), (2, 4), (1, 3), (3, 6), (1, 4), (2, 6)]), strict=False)],
    indirect=True,
    ids=list(KINDS),
)
def test_a_job_grows(two: Two, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["plan", str(two.spec)]) == 0
    said = capsys.readouterr().out
    assert f"run.buckets was {two.sizes[0]}, now {two.sizes[1]}" in said and "MB of state" in said
    two.more()
    assert cli.main(["run", str(two.spec)]) == 0
    assert "the state is divided first" in capsys.readouterr().err
    assert cli.main(["run", str(two.whole), "--quiet"]) == 0
    two.equal()
    home = Layout(str(two.job / "out")).home
    assert not any((home / name).exists() for name in ("added", "filling", "gone", "swap.json"))
    assert "the state fits" in (cli.main(["plan", str(two.spec)]) == 0 and capsys.readouterr().out)
    for finish in ((), ("--finish",)):
        two.more()
        two.run(*finish)
        two.equal()
    assert cli.main(["verify", str(two.spec), "--instants", "3"]) == 0


def test_a_job_grows_with_nothing_to_read(two: Two) -> None:
    assert cli.main(["run", str(two.spec), "--quiet"]) == 0
    two.more()
    two.run("--finish")
    two.equal()


@pytest.mark.chaos
@pytest.mark.parametrize(
    "at", ["grown.made", "swap.step:2", "swap.between:1", "swap.moved", "state.after:1", "sink.between:2", "sink.after:1"]
)
def test_killed_anywhere_it_has_happened_or_not(two: Two, at: str) -> None:
    two.more()
    killed = rebuild(two.spec, command="run", failpoint=at)
    assert killed.returncode == -9, killed.stderr
    two.run()
    two.equal()
    two.more()
    two.run("--finish")
    two.equal()


@pytest.mark.chaos
def test_a_batch_that_is_unfinished_is_repeated_with_the_buckets_of_before(two: Two, capsys: pytest.CaptureFixture[str]) -> None:
    edited = two.spec.read_text()
    two.spec.write_text(edited.replace("buckets: 6", "buckets: 2"))
    two.more()
    assert rebuild(two.spec, command="run", failpoint="sink.between:2").returncode == -9
    two.spec.write_text(edited)
    assert cli.main(["run", str(two.spec), "--quiet"]) == 0
    assert "run.buckets is 2 in this run, and 6 from the next one on" in capsys.readouterr().err
    assert cli.main(["run", str(two.whole), "--quiet"]) == 0
    two.more()
    two.run("--finish")
    two.equal()


def test_keys_of_two_buckets_never_come_into_one(two: Two, capsys: pytest.CaptureFixture[str]) -> None:
    for wanted in (1, 3):
        two.spec.write_text(two.spec.read_text().replace("buckets: 6", f"buckets: {wanted}"))
        assert cli.main(["run", str(two.spec), "--quiet"]) == 2
        assert f"SKY-E650 run.buckets was 2, now {wanted}" in capsys.readouterr().err
        two.edit()


@pytest.fixture
def tasks(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Asks for so many tasks of the stateful step."""
    return lambda n: monkeypatch.setenv("SKYBAND_SHUFFLE_PARTITIONS", str(n))


def tasks_of(directory: Path) -> tuple[int, int | None]:
    """What the job file says, and Spark's log of the last batch."""
    layout = Layout(str(directory / "out"))
    return layout.known().partitions, partitions_of(layout.checkpoint, last_batch(layout.checkpoint / "offsets"))


@pytest.mark.parametrize(
    "two", [("keyed", (4, 4)), ("keyed", (2, 8)), ("loyalty", (1, 4))], indirect=True, ids=["tasks", "both", "loyalty"]
)
def test_a_job_gets_other_tasks(two: Two, tasks: Callable[[int], None], capsys: pytest.CaptureFixture[str]) -> None:
    # As many as it has buckets, if those are less than two.
    before = tasks_of(two.job)[0]
    tasks(5)
    two.more()
    assert cli.main(["run", str(two.spec)]) == 0
    assert f"the state is moved from {before} tasks to 5 first" in capsys.readouterr().err
    assert tasks_of(two.job) == (5, 5)
    tasks(2)
    assert cli.main(["run", str(two.whole), "--quiet"]) == 0
    two.equal()
    # With less, and nothing to read; then as it is.
    tasks(3)
    assert cli.main(["run", str(two.spec), "--quiet"]) == 0
    assert tasks_of(two.job) == (3, 3) and tasks_of(two.fresh) == (2, 2)
    tasks(2)
    two.more()
    assert cli.main(["run", str(two.whole), "--quiet"]) == 0
    tasks(3)
    assert cli.main(["run", str(two.spec)]) == 0
    assert "the state is moved" not in capsys.readouterr().err
    two.equal()
    two.more()
    assert cli.main(["run", str(two.spec), "--quiet", "--finish"]) == 0
    tasks(2)
    assert cli.main(["run", str(two.whole), "--quiet", "--finish"]) == 0
    two.equal()
    assert cli.main(["verify", str(two.spec), "--instants", "3"]) == 0


@pytest.mark.chaos
@pytest.mark.parametrize("at", ["partitions.begun", "partitions.moved", "sink.before:1", "sink.after:1"])
@pytest.mark.parametrize("two", [("keyed", (2, 6))], indirect=True)
def test_killed_while_it_gets_other_tasks(two: Two, at: str, tasks: Callable[[int], None]) -> None:
    two.more()
    killed = rebuild(two.spec, command="run", failpoint=at, tasks=4)
    assert killed.returncode == -9, killed.stderr
    # What has begun is gone on with, whatever is asked for now.
    assert cli.main(["run", str(two.spec), "--quiet"]) == 0
    assert tasks_of(two.job) == (4, 4)
    assert cli.main(["run", str(two.whole), "--quiet"]) == 0
    two.equal()
    two.more()
    two.run("--finish")
    two.equal()
