"""Killed at every step of a batch, and started again, a job of the local engine comes to the tables of one that was left alone."""

from __future__ import annotations

import json
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from skyband.framework.sources.logs import files_log_damage, last_batch, offset
from tests.framework.streaming.local.test_loop import QUERIES, Row, write, write_spec
from tests.seeds import cases
from tests.spark.equality import differences
from tests.spark.jobs import run_apart, table

pytestmark = [pytest.mark.chaos, pytest.mark.slow]


class Kind(NamedTuple):
    """A job. ``run``: entries of its section ``run``. ``files``: of its source, the first is read first; the fields of each are rows."""

    run: str
    queries: tuple[str, ...]
    files: list[list[Row]]


def rows_of(n: int, step: int) -> list[Row]:
    """Rows of one file, with equal times, an id twice and a null; files overlap."""
    rows: list[Row] = [
        (20 * n + i, step * n + 2 * (i // 2), "pqrs"[(i + n) % 4], None if (i + n) % 7 == 0 else (3 * i + n) % 5) for i in range(9)
    ]
    return [*rows, (20 * n + 3, step * n + 9, rows[3][2], 1)]


KINDS = {
    # A backlog with caps, whose last rows come first: many batches in several buckets, and the file log is merged on the way.
    "keyed": Kind("max_files: 1, buckets: 3", tuple(QUERIES), [rows_of(n, 6) for n in (*range(5, 11), *range(5))]),
    "plain": Kind("max_files: 2, buckets: 1", ("best", "hourly"), [rows_of(n, 15) for n in range(6)]),
}
POINTS = [
    ("keyed", "caps.planned"),
    ("keyed", "local.planned:10"),
    ("keyed", "sink.between:9"),
    ("keyed", "local.done:7"),
    ("keyed", "caps.released"),
    ("plain", "local.done:2"),
    ("plain", "finish.ordered"),
    ("plain", "derive.between:2"),
    ("plain", "derive.after"),
]


def made(directory: Path, kind: Kind) -> Path:
    """The job with all of its files; its spec."""
    spec = write_spec(directory, kind.run, kind.queries)
    for at, rows in enumerate(kind.files):
        write(directory, f"{at:02}", rows, at)
    return spec


def run_to_the_end(spec: Path) -> None:
    done = run_apart(spec, "--engine", "local", "--finish", "--quiet")
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr


@pytest.fixture(scope="module")
def left_alone(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The directory of a job that was never killed."""
    directories: dict[str, Path] = {}

    def find(kind: str) -> Path:
        if kind not in directories:
            directories[kind] = tmp_path_factory.mktemp("alone") / kind
            run_to_the_end(made(directories[kind], KINDS[kind]))
        return directories[kind]

    return find


def assert_whole(directory: Path) -> None:
    """Nothing is left of what was killed: the logs are complete, and states are those that `runs` names."""
    checkpoint = directory / "out" / "_skyband" / "checkpoint"
    last = last_batch(checkpoint / "commits")
    rows = table(directory, "runs").sort_by("batch_id").to_pylist()
    assert last_batch(checkpoint / "offsets") == last and [r["batch_id"] for r in rows] == list(range(last + 1))
    assert files_log_damage(checkpoint / "sources" / "0", offset(checkpoint, last)) is None
    named: dict[str, set[str]] = {}
    for row in rows:
        for bucket, (token, _) in json.loads(row["state"]).items():
            named.setdefault(bucket, set()).add(token)
    for bucket, tokens in named.items():
        there = {p.name.partition(".")[0] for p in (directory / "out" / "_skyband" / "state" / bucket).glob("*.list")}
        assert there <= tokens and json.loads(rows[-1]["state"])[bucket][0] in there


def assert_equal(directory: Path, alone: Path) -> None:
    rows, unequal = differences(directory, alone, same_cuts=False)
    assert unequal == []
    assert all(n > 0 for name, n in rows.items() if name.endswith(("_changes", "_now")) or name in ("heads", "rejected"))
    assert_whole(directory)


@pytest.mark.parametrize(("kind", "point"), POINTS[: cases(len(POINTS))])
def test_killed_once(tmp_path: Path, left_alone: Callable[[str], Path], kind: str, point: str) -> None:
    spec = made(tmp_path / kind, KINDS[kind])
    killed = run_apart(spec, "--engine", "local", "--finish", failpoint=point)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    run_to_the_end(spec)
    assert_equal(tmp_path / kind, left_alone(kind))


def test_killed_again_and_again_at_every_step(tmp_path: Path, left_alone: Callable[[str], Path]) -> None:
    """Each run gets a little further than the one before."""
    spec = made(tmp_path / "keyed", KINDS["keyed"])
    for point in ("local.taken", "state.after", "sink.before", "sink.between", "sink.after"):
        killed = run_apart(spec, "--engine", "local", "--finish", failpoint=point)
        assert killed.returncode == -signal.SIGKILL, (point, killed.stderr)
    run_to_the_end(spec)
    assert_equal(tmp_path / "keyed", left_alone("keyed"))


def test_a_batch_that_is_repeated_does_not_need_what_the_killed_process_saved(tmp_path: Path, left_alone: Callable[[str], Path]) -> None:
    """Its states were saved and no row of `runs` names them: they are made again under other names."""
    directory = tmp_path / "keyed"
    spec = made(directory, KINDS["keyed"])
    killed = run_apart(spec, "--engine", "local", "--finish", failpoint="sink.before:5")
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    rows = table(directory, "runs").sort_by("batch_id").to_pylist()
    state = directory / "out" / "_skyband" / "state"
    named = {(bucket, token) for row in rows for bucket, (token, _) in json.loads(row["state"]).items()}
    unnamed = [p for p in state.glob("*/*.list") if (p.parent.name, p.stem) not in named]
    assert len(rows) == 4 and unnamed
    for path in unnamed:
        for mine in path.parent.glob(f"{path.stem}.*"):
            mine.unlink()
    # What another process was about to write.
    shutil.copy(spec, unnamed[0].parent / ".0123456789abcdef.list.0a0a0a0a0a0a")
    run_to_the_end(spec)
    assert_equal(directory, left_alone("keyed"))
