"""Buckets with many keys save their input and defer tables: the run ends with all of them, and a kill or a stop loses nothing."""

from __future__ import annotations

import json
import random
import signal
from pathlib import Path

import pytest

from skyband.framework.base.messages import behind
from skyband.framework.tables.results.reader import Reader
from skyband.framework.tables.schemas import skyband_name
from skyband.jobs.spec import load_plan
from tests.local.jobs import run, run_apart
from tests.spark.cuts import verified
from tests.spark.jobs import changes, sorted_rows, stamp, table, write_file, write_spec

pytestmark = pytest.mark.long
KEYS, PARTS = 20_000, 5
QUERIES = """\
  best: {type: topk, scoring: high, k: 1, carry: [y]}
  near: {type: topk_pairs, scoring: near, k: 1}
"""
SCORING = "  high: {expression: x, direction: max}\n"
TABLES = ("best", "best_now", "near", "near_now", "best_changes", "near_changes")


def rows_of(number: int, rng: random.Random) -> list[list[object]]:
    """Two rows of every key in file 0, 100 rows of some and of new ones in others."""
    keys = range(2 * KEYS) if number == 0 else rng.sample(range(KEYS + 40 * number), 100)
    return [[1_000_000 * number + i, stamp(60 * number + i / 5000), f"k{k % (2 * KEYS):05}" if number else f"k{k % KEYS:05}",
             rng.randrange(50), rng.randrange(4), "a"] for i, k in enumerate(keys)]  # fmt: skip


def job(directory: Path, max_files: int) -> Path:
    directory.mkdir()
    rng = random.Random(1)
    for number in range(1 + PARTS):
        write_file(directory, f"{number}.csv", rows_of(number, rng), at=number)
    return write_spec(
        directory, window="{count: 3}", watermark="0 seconds", partition=True, max_files=max_files, buckets=2, queries=QUERIES,
        scoring=SCORING,
    )  # fmt: skip


def lags(directory: Path) -> list[int]:
    """How many batches the tables of states are behind, after every batch."""
    runs = table(directory, "runs").sort_by("batch_id")
    return [behind(c) for c in runs["counters"].to_pylist()]


def assert_same(directory: Path, whole: Path) -> None:
    for name in TABLES:
        assert sorted_rows(table(directory, name), ["batch_id", "as_of"]) == sorted_rows(table(whole, name), ["batch_id", "as_of"]), name
    for name in ("best", "near"):
        assert changes(directory, name, ["grp"]).equals(changes(whole, name, ["grp"]))
    states = [skyband_name(o.name) for o in load_plan(str(whole / "spec.yaml")).operators]
    assert len(states) == 2
    for name in ("heads", *states):
        assert sorted_rows(table(directory, name), ["as_of"]) == sorted_rows(table(whole, name), ["as_of"]), name
    assert verified(directory / "spec.yaml")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A job with all rows in one batch, which saves the whole state."""
    directory = tmp_path_factory.mktemp("journal") / "whole"
    run(job(directory, max_files=100))
    assert lags(directory)[0] == lags(directory)[-1] == 0 and table(directory, "heads").num_rows > KEYS
    return directory


def test_tables_are_complete_at_the_end_of_a_run(tmp_path: Path, whole: Path) -> None:
    spec = job(tmp_path / "parts", max_files=1)
    run(spec)
    assert max(lags(tmp_path / "parts")) >= PARTS and lags(tmp_path / "parts")[-1] == 0
    assert_same(tmp_path / "parts", whole)
    states = table(tmp_path / "parts", "runs").to_pylist()
    assert sum(json.loads(r["counters"]).get("deferred", 0) for r in states) > PARTS


@pytest.mark.slow
def test_a_killed_run_is_behind_until_the_next_one_has_ended(tmp_path: Path, whole: Path) -> None:
    spec = job(tmp_path / "killed", max_files=1)
    assert run_apart(spec, "--finish", failpoint="sink.after:4").returncode == -signal.SIGKILL
    lag = lags(tmp_path / "killed")[-1]
    assert lag > 0
    # What the tables of states say is as of the batch that they have: that of file 0, whose last row waits.
    best: dict[str, int] = {}
    for row in rows_of(0, random.Random(1))[:-1]:
        best[str(row[2])] = max(int(str(row[3])), best.get(str(row[2]), 0))
    shown = Reader(load_plan(str(spec))).snapshot("best").rows
    assert dict(zip(shown["grp"].to_pylist(), shown["score"].to_pylist(), strict=True)) == best
    run(spec)
    assert lags(tmp_path / "killed")[-1] == 0
    assert_same(tmp_path / "killed", whole)
