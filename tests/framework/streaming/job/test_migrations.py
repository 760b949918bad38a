"""Job files of earlier versions become those of the present one; those of a later version are refused."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from skyband.framework.base.errors import SkybandError
from skyband.framework.storage.records import InvalidRecord
from skyband.framework.streaming.job.layout import JobFile, Layout
from skyband.framework.streaming.job.migrations import MIGRATIONS, VERSION, Before, Filling, migrated

FIRST: dict[str, Any] = {
    "job": "j", "generation": "g", "fingerprint": {"run": {"buckets": 2}}, "partitions": 2, "header": None, "finishes": [[5, 4999]],
    "names": 2, "salt": "s", "escape": '"',
}  # fmt: skip
"""A job file of version 1, without the fields that version 2 has no longer."""


def loaded(directory: Path, fields: dict[str, Any]) -> JobFile:
    layout = Layout(str(directory))
    layout.home.mkdir(exist_ok=True)
    layout.file.write_text(json.dumps(fields))
    return layout.known()


def test_each_version_has_a_migration() -> None:
    assert len(MIGRATIONS) == VERSION - 1
    present = json.dumps(asdict(JobFile("j", "g", {}, 2, None))).encode()
    assert migrated(present, VERSION) == present and json.loads(present)["version"] == VERSION


@pytest.mark.parametrize(
    ("fields", "before"),
    [
        ({"state": "files"}, None),
        ({"state": "files", "filling": None, "moving": None, "resharding": False}, None),
        ({}, Before()),
        ({"moving": 7}, Before(moving=7)),
        ({"resharding": True, "shards": [2, 2]}, Before(resharding=True)),
        ({"state": "files", "filling": {"token": "t", "buckets": [0, 3]}}, Before("files", Filling("t", [0, 3]))),
    ],
    ids=str,
)
def test_what_kept_the_state_in_version_1_stays_to_be_taken_over(tmp_path: Path, fields: dict[str, Any], before: Before | None) -> None:
    job = loaded(tmp_path, FIRST | fields)
    assert (job.version, job.before, job.finishes, job.new_states) == (VERSION, before, [[5, 4999]], None)
    assert job.spark_keeps == (before is not None and before.state == "spark")
    assert job.state_steps == (1 if job.spark_keeps else 0)
    # It is written in the present form.
    Layout(str(tmp_path)).save(job)
    written = json.loads(Layout(str(tmp_path)).file.read_text())
    assert written["version"] == VERSION and not {"state", "filling", "moving", "resharding"} & written.keys()
    assert Layout(str(tmp_path)).known() == job


def test_shards_had_tasks_and_a_step_of_their_own(tmp_path: Path) -> None:
    job = loaded(tmp_path, FIRST | {"shards": [3, 2]})
    assert (job.shards, job.state_steps) == (3, 2)
    assert (loaded(tmp_path, FIRST).shards, loaded(tmp_path, FIRST | {"shards": None}).shards) == (1, 1)


def test_a_quote_was_escaped_by_a_backslash_where_nothing_says_otherwise(tmp_path: Path) -> None:
    assert loaded(tmp_path, FIRST).escape == '"'
    assert loaded(tmp_path, {name: value for name, value in FIRST.items() if name != "escape"}).escape == "\\"


@pytest.mark.parametrize(
    ("name", "value"),
    [("state", "elsewhere"), ("filling", {"token": "../x", "buckets": []}), ("filling", {}), ("moving", 0), ("resharding", "yes")],
)
def test_a_field_of_version_1_that_does_not_fit_is_named(tmp_path: Path, name: str, value: object) -> None:
    with pytest.raises(InvalidRecord, match=name):
        migrated(json.dumps(FIRST | {name: value}).encode(), 1)
    with pytest.raises(SkybandError, match=f"SKY-E303.*{name}"):
        loaded(tmp_path, FIRST | {name: value})


@pytest.mark.parametrize(
    "shards", [[0, 1], [1, 0], [3], [2, 2, 2], [], [2, 10**9], [2.5, 2], ["2", 2], [True, 2], [None, 2], 2, "2", {}], ids=str
)
def test_numbers_of_shards_that_cannot_be_are_refused(tmp_path: Path, shards: object) -> None:
    with pytest.raises(SkybandError, match="SKY-E303"):
        loaded(tmp_path, FIRST | {"shards": shards})


@pytest.mark.parametrize("version", [VERSION + 1, 99])
def test_a_later_version_is_refused(tmp_path: Path, version: int) -> None:
    """Whatever most of its fields are."""
    with pytest.raises(SkybandError, match=f"has version {version}, and this version of Skyband reads versions up to {VERSION}") as e:
        loaded(tmp_path, FIRST | {"version": version, "partitions": {"of": "then"}})
    assert e.value.code == "SKY-E309" and "run the job with the version of Skyband that ran it last" in str(e.value.hint)
