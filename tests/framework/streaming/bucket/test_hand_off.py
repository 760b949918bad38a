"""A bucket goes from worker to worker, by files or by the store: what comes of it is the same, and files are as many as are needed."""

from __future__ import annotations

import contextlib
import random
from pathlib import Path
from typing import Any

import pytest

from skyband.framework.base.messages import COUNTS, Tally
from skyband.framework.streaming.bucket import hand_off, processor
from skyband.framework.streaming.bucket.hand_off import HandOff
from skyband.framework.streaming.rows.blocks import table_bytes
from skyband.framework.streaming.rows.config import HostConfig
from skyband.framework.streaming.rows.outbox import as_it_is
from tests.framework.streaming.bucket.test_bucket import SPEC, keeping_a_journal, table_of
from tests.framework.streaming.bucket.test_bucket_loyalty import plan_of
from tests.framework.streaming.spark_store import Store
from tests.seeds import seeds

ROWS = 60


class Job:
    """Batches of one bucket, each run by one of several workers; without a ``directory`` nothing is handed on."""

    def __init__(self, config: HostConfig, directory: Path | None, workers: int, monkeypatch: pytest.MonkeyPatch) -> None:
        self.config, self.directory, self.patch = config, directory, monkeypatch
        self.store = Store()
        self.caches: list[dict[Any, Any]] = [{} for _ in range(workers)]

    def batch(self, number: int, worker: int, whole: bool = True) -> list[tuple[str, bytes]]:
        """What the bucket says, but for how long it took and how many expired rows it still has.

        ``whole``: the batch is done, else it will have to be repeated.
        """
        self.patch.setattr(processor, "_CACHE", self.caches[worker])
        host = processor.HostProcessor(self.config, as_it_is, self.directory)
        host.init(self.store)  # type: ignore[arg-type]
        rows = [(t, t, "pq"[t % 2], float(t * 7 % 11), "u") for t in range(number * ROWS, (number + 1) * ROWS)]
        told = list(host._run(0, processor.Inputs([table_bytes(table_of(self.config, rows))]), number * ROWS * 60_000))
        self.store.commit(whole)
        tally, out = Tally(), []
        for kind, data in told:
            if kind == COUNTS:
                tally.add(data)
            else:
                out.append((kind, data))
        counts = sorted((k, v) for k, v in tally.items() if not k.startswith(("us_", "kept:")))
        return [*out, (COUNTS, repr(counts).encode())]


@pytest.fixture
def config(tmp_path: Path) -> HostConfig:
    return HostConfig.of(plan_of(tmp_path / "spec.yaml", SPEC.format(window="{count: 200}", small="{count: 20}", delay=0)), (), "test")


def spoil(directory: Path, how: str) -> None:
    """Something happens to what is handed on."""
    if how == "list":
        for path in directory.glob("0/*"):
            if path.suffix != ".value":
                path.write_bytes(path.read_bytes()[:-200])
    elif how == "file":
        for path in list(directory.glob("0/*.value"))[:1]:
            path.unlink()
    elif how == "all" and (directory / "0").is_dir():
        for path in directory.glob("0/*"):
            path.unlink()
        (directory / "0").rmdir()
        (directory / "0").write_text("somebody else's")


@pytest.mark.parametrize("seed", seeds(0, 6))
@pytest.mark.parametrize("least", [0, 700, 1 << 20])
@pytest.mark.parametrize("journal", [False, True])
def test_whoever_runs_a_batch_and_whatever_happens_to_files(
    seed: int, least: int, journal: bool, config: HostConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``least``: every value in a file, some of them, none. The state is that of one worker to whom nothing is handed, the token apart."""
    monkeypatch.setattr(hand_off, "_LARGE", least)
    chance = random.Random(seed)
    alone = Job(config, None, 1, monkeypatch)
    several = Job(config, tmp_path / "states", 3, monkeypatch)
    with keeping_a_journal() if journal else contextlib.nullcontext():
        for number in range(25):
            while chance.random() < 0.3:
                # Spark ends the batch before it is done.
                several.batch(number, chance.randrange(3), whole=False)
            assert several.batch(number, chance.randrange(3)) == alone.batch(number, 0)
            assert several.store.values() == alone.store.values()
            spoil(tmp_path / "states", chance.choice(["", "", "", "list", "file", "all"]))


def test_another_worker_asks_the_store_for_nothing(config: HostConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = Job(config, tmp_path / "states", 2, monkeypatch)
    for number in range(8):
        job.batch(number, number % 2)
    assert job.store.read == 0
    # Without files, and with those of a batch that was not done, it does.
    job.batch(8, 1, whole=False)
    job.batch(8, 0)
    assert job.store.read > 0
    before, job.directory = job.store.read, None
    job.batch(9, 1)
    assert job.store.read > before


def test_what_a_worker_took_over_and_did_not_change_is_not_written_again(
    config: HostConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = Job(config, tmp_path / "states", 2, monkeypatch)
    job.batch(0, 0)
    job.batch(1, 1)
    written: list[str] = []
    update = Store.updateValue

    def noted(self: Store, key: Any, value: Any) -> None:
        written.append(key[0])
        update(self, key, value)

    monkeypatch.setattr(Store, "updateValue", noted)
    host = processor.HostProcessor(config, as_it_is, tmp_path / "states")
    monkeypatch.setattr(processor, "_CACHE", job.caches[0])
    host.init(job.store)  # type: ignore[arg-type]
    list(host._run(0, processor.Inputs(), ROWS * 60_000))
    assert "keys" in job.store.values() and "keys" not in written and written != ["mark"]


def test_files_are_those_of_the_state_alone(config: HostConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hand_off, "_LARGE", 0)
    job = Job(config, tmp_path / "states", 2, monkeypatch)
    for number in range(30):
        job.batch(number, number % 3 % 2)
        assert len(list((tmp_path / "states" / "0").iterdir())) == len(job.store.values()) + 1


def test_a_directory_that_cannot_be_written_is_given_up(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    for name, value in (("small", b"1"), ("large", bytes(1 << 20))):
        one = HandOff.new(tmp_path / "taken" / "0")
        one.put(name, value)
        one.commit("t")
        one.put(name, value)
        one.drop(name)
        one.commit("u")
        assert HandOff.read(tmp_path / "taken" / "0", "u") is None
    one = HandOff.new(tmp_path / "0")
    one.put("large", bytes(1 << 20))
    one.commit("t")
    found = HandOff.read(tmp_path / "0", "t")
    assert found is not None and found[1] == {"large": bytes(1 << 20)} and HandOff.read(tmp_path / "0", "u") is None
    assert HandOff.read(None, "t") is None


class Context:
    def __init__(self, master: str, cores: int) -> None:
        self.master, self.defaultParallelism = master, cores


class Session:
    def __init__(self, master: str, cores: int) -> None:
        self.sparkContext = Context(master, cores)


def test_who_hands_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers of one machine; a job has its own directory, which is gone when its queries have ended, however they do."""
    monkeypatch.setattr(hand_off, "scratch_directory", lambda: tmp_path)
    assert hand_off.hand_off_directory(Context("spark://somewhere:7077", 8), "job") is None  # type: ignore[arg-type]
    assert hand_off.hand_off_directory(Context("local[1]", 1), "job") is None  # type: ignore[arg-type]
    directory = hand_off.hand_off_directory(Context("local[2]", 2), "job")  # type: ignore[arg-type]
    other = hand_off.hand_off_directory(Context("local[2]", 2), "another")  # type: ignore[arg-type]
    assert directory is not None and other is not None and directory != other
    HandOff.new(other / "0").commit("t")
    for error in (None, ValueError):
        with contextlib.suppress(ValueError), hand_off.hand_off_during(Session("local[2]", 2), "job"):  # type: ignore[arg-type]
            HandOff.new(directory / "0").commit("t")
            assert HandOff.read(directory / "0", "t") is not None
            if error is not None:
                raise error
        assert not directory.exists() and HandOff.read(other / "0", "t") is not None
    with hand_off.hand_off_during(Session("spark://somewhere:7077", 8), "another"):  # type: ignore[arg-type]
        pass
    assert other.exists()
