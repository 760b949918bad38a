"""The tables are checked while Spark starts. If something is missing, the run reports the same error as without this check."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from skyband.framework.base.errors import SkybandError
from skyband.framework.streaming.job.consistency import check, look
from skyband.jobs.running.streaming import check_ahead
from tests.framework.streaming.job.test_consistency import HEAD, Job


@pytest.fixture
def job(tmp_path: Path) -> Job:
    made = Job(tmp_path)
    made.run(2, 2)
    made.layout.save(made.layout.renewed(made.plan, HEAD))
    return made


def test_a_first_run_has_nothing_to_look_at(tmp_path: Path) -> None:
    made = Job(tmp_path)
    assert check_ahead(made.plan, made.layout) == []


def test_what_was_seen_is_what_the_run_goes_by(job: Job) -> None:
    (whole,) = check_ahead(job.plan, job.layout)
    assert whole == look(job.plan, job.layout, HEAD) and whole.planned == 1 and whole.losses == []
    shutil.rmtree(job.root / "near_changes")
    (found,) = check_ahead(job.plan, job.layout)
    with pytest.raises(SkybandError, match="table 'near_changes' is gone; it had rows up to batch 1") as e:
        check(job.plan, job.layout, HEAD, found=found)
    assert e.value.code == "SKY-E304"
    assert check(job.plan, job.layout, HEAD, found=whole) is whole


def test_what_cannot_be_looked_at_is_left_to_the_run_to_tell_of(job: Job) -> None:
    job.layout.file.write_text("{")
    assert check_ahead(job.plan, job.layout) == []
