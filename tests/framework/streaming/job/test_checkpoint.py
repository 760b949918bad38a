"""A checkpoint that has lost a part is refused by name, before Spark is asked."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from skyband.framework.base.errors import SkybandError
from skyband.framework.streaming.job.checkpoint import failure, whole
from tests.framework.streaming import checkpoints

FINISHES = [[5, 4001], [9, 8001]]


def looked_at(home: Path, finishes: list[list[int]] | None = None) -> None:
    whole(home / "checkpoint", home / "control", 2, finishes or [])


@pytest.fixture
def home(tmp_path: Path) -> Path:
    checkpoints.make(tmp_path / "out" / "_skyband", batches=3)
    return tmp_path / "out" / "_skyband"


def test_a_whole_checkpoint_is_taken(home: Path) -> None:
    looked_at(home)
    checkpoints.plan(home, 3)
    looked_at(home)
    # Spark clears away what it no longer needs; the last batch may not be marked done.
    for gone in ("offsets/0", "commits/0", "commits/2"):
        (home / "checkpoint" / gone).unlink()
    (home / "checkpoint" / "offsets" / "3").unlink()
    looked_at(home)


def test_a_first_batch_that_was_never_finished_is_no_loss(tmp_path: Path) -> None:
    checkpoints.make(tmp_path / "_skyband", batches=0, planned=1)
    looked_at(tmp_path / "_skyband")


@pytest.mark.parametrize(
    ("gone", "told"),
    [
        ("checkpoint/metadata", "metadata is gone"),
        ("checkpoint/commits", "commits is gone"),
        ("checkpoint/offsets/2", "offsets/2 is gone"),
        ("checkpoint/state", "state/0/_metadata is gone"),
        ("checkpoint/state/0/_stateSchema", "state/0/_stateSchema is gone"),
        ("checkpoint/state/0/0", "state/0/0/1.changelog is gone"),
        ("checkpoint/state/0/1/3.changelog", "state/0/1/3.changelog is gone"),
        ("checkpoint/state/0/1/2.changelog", "state/0/1/2.changelog is gone"),
        ("checkpoint/state/0/1/SSTs", "state/0/1/SSTs/a.sst is gone"),
        ("control", "of the job's finishes is gone"),
    ],
)
def test_a_part_that_is_gone_is_named(home: Path, gone: str, told: str) -> None:
    path = home / gone
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    with pytest.raises(SkybandError) as e:
        looked_at(home)
    assert e.value.code == "SKY-E303" and told in e.value.message
    assert "from one backup" in str(e.value.hint)


@pytest.mark.parametrize("cut", ["metadata", "offsets/2", "commits/2", "state/0/0/1.zip", "state/0/0/3.changelog"])
@pytest.mark.parametrize("text", ["", "v1\n{"])
def test_a_part_that_is_cut_off_is_named(home: Path, cut: str, text: str) -> None:
    if text and cut.endswith(("metadata", "changelog")):
        text = ""  # what these hold is Spark's own business
    (home / "checkpoint" / cut).write_text(text)
    with pytest.raises(SkybandError) as e:
        looked_at(home)
    assert e.value.code == "SKY-E303" and cut in e.value.message


def test_finishes_and_their_files_belong_together(home: Path) -> None:
    control = home / "control"
    for _, frontier in FINISHES:
        checkpoints.write(control / f"finish-{frontier}.json", "{}")
    looked_at(home, FINISHES)
    (control / "finish-8001.json").unlink()
    looked_at(home, FINISHES)  # declared, and killed before it was ordered
    (control / "finish-4001.json").unlink()
    with pytest.raises(SkybandError, match=r"finish-4001\.json is gone"):
        looked_at(home, FINISHES)
    checkpoints.write(control / "finish-8001.json", "{}")
    with pytest.raises(SkybandError, match=r"job\.json is older"):
        looked_at(home, FINISHES[:1])


def test_the_control_sources_log_must_reach_the_last_batch(home: Path) -> None:
    checkpoints.write(home / "checkpoint" / "offsets" / "2", 'v1\n{}\n{"logOffset":2}\n{"logOffset":0}')
    with pytest.raises(SkybandError, match="sources/1/0 is gone"):
        looked_at(home)
    checkpoints.write(home / "checkpoint" / "sources" / "1" / "0", "v1\n")
    looked_at(home)


def test_sparks_errors_about_the_checkpoint_are_reported_by_file_name(home: Path) -> None:
    checkpoint = home / "checkpoint"
    said = f"query failed\nCaused by: java.io.FileNotFoundException: File file:{checkpoint}/state/0/0/17.changelog does not exist\n"
    for text in (said, "[CANNOT_LOAD_STATE_STORE.UNCATEGORIZED] An error occurred during loading state."):
        told = failure(text, checkpoint)
        assert told is not None and told.code == "SKY-E303"
    assert failure(f"Caused by: java.io.IOException: No space left on device: {checkpoint}/commits/3", checkpoint) is None
    assert failure("java.io.FileNotFoundException: File file:/in/a.csv does not exist", checkpoint) is None
