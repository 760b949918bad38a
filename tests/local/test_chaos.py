"""Killed at the worst moments and started again, a job's tables equal those of a run that was left alone."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.local.jobs import run_apart, start_apart
from tests.spark import ranked
from tests.spark.cuts import stream, write
from tests.spark.equality import assert_equal_tables
from tests.spark.jobs import write_spec

pytestmark = [pytest.mark.chaos, pytest.mark.slow]

POINTS = (
    "state.after:2",
    "sink.before",
    "sink.between:3",
    "sink.after",
    "derive.between",
    "derive.before",
    "finish.declared",
    "finish.ordered",
    "sink.after:3",
    "local.taken:2",
    "local.planned:2",
    "local.done:2",
)
WAIT_SECONDS = 240


def job(directory: Path) -> Path:
    directory.mkdir()
    write(directory, stream(11, 240), 6)
    return write_spec(directory, max_files=2)


@pytest.fixture(scope="module")
def left_alone(tmp_path_factory) -> Path:
    directory = tmp_path_factory.mktemp("chaos") / "alone"
    done = run_apart(job(directory), "--finish")
    assert done.returncode == 0, done.stderr
    return directory


@pytest.mark.parametrize("point", POINTS)
def test_killed_and_started_again(tmp_path, left_alone, point):
    directory = tmp_path / "killed"
    spec = job(directory)
    killed = run_apart(spec, "--finish", failpoint=point)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    again = run_apart(spec, "--finish")
    assert again.returncode == 0, again.stderr
    assert_equal_tables(directory, left_alone)


def interrupted(spec: Path, how: str, code: int) -> str:
    """Sends Ctrl-C to a run after its second batch and waits for it to end with ``code``; what it said after that."""
    process = start_apart(spec, how)
    try:
        assert process.stderr is not None
        for line in process.stderr:
            if line.startswith("batch 1:"):
                break
        os.kill(process.pid, signal.SIGINT)
        rest = process.stderr.read()
        assert process.wait(WAIT_SECONDS) == code, rest
    finally:
        process.kill()
    return rest


def test_interrupted_it_stops_cleanly_and_goes_on_later(tmp_path, left_alone):
    directory = tmp_path / "interrupted"
    spec = job(directory)
    rest = interrupted(spec, "--continuous", 0)
    assert "Traceback" not in rest
    assert "done:" in rest
    again = run_apart(spec, "--finish")
    assert again.returncode == 0, again.stderr
    assert_equal_tables(directory, left_alone)


def test_interrupted_it_declares_nothing_finished(tmp_path, left_alone):
    directory = tmp_path / "interrupted"
    spec = job(directory)
    spec.write_text(spec.read_text().replace("max_files: 2", "max_files: 1"))
    interrupted(spec, "--finish", 130)
    assert not list((directory / "out" / "_skyband" / "control").glob("finish*"))
    again = run_apart(spec, "--finish")
    assert again.returncode == 0, again.stderr
    assert_equal_tables(directory, left_alone)


RANKED = {
    "deletions": {"queries": ranked.QUERIES, "deletes": "deletes: side = 'd'"},
    # No operator needs the whole window: state holds only the rows that results can still show.
    "retained": {"queries": "".join(x for x in ranked.QUERIES.splitlines(True) if "many" not in x)},
}


def ranked_job(directory: Path, kind: str) -> Path:
    directory.mkdir()
    ranked.write_queries(directory)
    write(directory, ranked.deleting_stream(12, 240), 6)
    return write_spec(directory, max_files=2, scoring=ranked.SCORING, **RANKED[kind])


@pytest.mark.parametrize("kind", RANKED)
def test_killed_top_k_and_thresholds(tmp_path, kind):
    alone = tmp_path / "alone"
    done = run_apart(ranked_job(alone, kind), "--finish")
    assert done.returncode == 0, done.stderr
    for point in ("state.after:2", "sink.between:3"):
        directory = tmp_path / point.replace(":", "-")
        spec = ranked_job(directory, kind)
        assert run_apart(spec, "--finish", failpoint=point).returncode == -signal.SIGKILL
        again = run_apart(spec, "--finish")
        assert again.returncode == 0, again.stderr
        assert_equal_tables(directory, alone)
