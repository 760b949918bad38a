"""Row rules may change between runs, and within a batch as far as no table has rows of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from skyband.framework.base.errors import SpecErrors
from skyband.framework.plan.model import Plan
from skyband.framework.sources.files.ledger import Ledger, SetAside
from skyband.framework.streaming.job.consistency import Found
from skyband.framework.streaming.job.layout import JobFile, Layout, fitting_job
from skyband.framework.streaming.job.unfinished import settle
from skyband.jobs.spec import load_plan
from tests.framework.streaming import checkpoints
from tests.spark.jobs import write_spec

BEGUN = 1
BEGUN_FILES = {"offsets/1", "sources/0/1"}
UNTOUCHED, WRITTEN = Found(BEGUN, 0, {"runs": 0, "heads": 0}), Found(BEGUN, 0, {"runs": 0, "heads": BEGUN})


def ruled(plan: Plan, **rule: Any) -> Plan:
    return replace(plan, intake=replace(plan.intake, rules=(replace(plan.intake.rules[0], **rule),)))


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    return load_plan(str(write_spec(tmp_path)))


@pytest.fixture
def job(plan: Plan) -> tuple[Layout, JobFile]:
    """Batch 0 is done, batch 1 has begun."""
    layout = Layout(plan.sink)
    layout.create(plan, 2, ["id"])
    checkpoints.make(layout.home)
    (layout.root / "runs").mkdir()
    (layout.root / "runs" / "0.parquet").touch()
    checkpoints.plan(layout.home, BEGUN)
    found = fitting_job(plan, layout)
    assert found is not None
    return layout, found


def begun(layout: Layout) -> set[str]:
    """What there is of the batch that has begun."""
    checkpoint = layout.checkpoint
    there = [*(checkpoint / "offsets").iterdir(), *(checkpoint / "sources" / "0").iterdir()]
    return {str(p.relative_to(checkpoint)) for p in there} & BEGUN_FILES


@pytest.mark.parametrize("found", [UNTOUCHED, WRITTEN])
def test_what_has_not_changed_is_repeated_as_it_was(plan: Plan, job: tuple[Layout, JobFile], found: Found) -> None:
    settle(plan, *job, found)
    assert begun(job[0]) == BEGUN_FILES


def test_between_batches_rules_may_change(plan: Plan, job: tuple[Layout, JobFile]) -> None:
    checkpoints.write(job[0].checkpoint / "commits" / "1", 'v1\n{"nextBatchWatermarkMs":0}')
    settle(ruled(plan, sql="x < 5"), *job, WRITTEN)
    assert begun(job[0]) == BEGUN_FILES


def test_a_batch_that_no_table_has_rows_of_is_planned_anew(plan: Plan, job: tuple[Layout, JobFile]) -> None:
    settle(ruled(plan, sql="x < 5"), *job, UNTOUCHED)
    assert begun(job[0]) == set()
    # The batch before it stays as it was planned.
    assert (job[0].checkpoint / "offsets" / "0").exists() and (job[0].checkpoint / "sources" / "0" / "0").exists()
    assert fitting_job(plan, job[0]) is not None


def test_a_batch_that_is_partly_written_is_not(plan: Plan, job: tuple[Layout, JobFile]) -> None:
    for changed in (ruled(plan, sql="x < 5"), ruled(plan, name="other"), ruled(plan, severity="warn")):
        with pytest.raises(SpecErrors) as e:
            settle(changed, *job, WRITTEN)
        assert "SKY-E150 quality.rows, source.options or event_time.max_ahead changed while batch 1 is unfinished" in e.value.render()
    assert begun(job[0]) == BEGUN_FILES


def test_to_stop_at_a_row_or_to_reject_it_accepts_the_same_rows(plan: Plan, job: tuple[Layout, JobFile]) -> None:
    layout, kept = job
    fails = ruled(plan, severity="fail")
    settle(fails, layout, kept, UNTOUCHED)
    settle(plan, layout, replace(kept, stopping=["sane_x"]), WRITTEN)
    settle(fails, layout, replace(kept, stopping=["sane_x"]), WRITTEN)
    assert begun(layout) == BEGUN_FILES
    with pytest.raises(SpecErrors) as e:
        # Its row may be in `rejected` already: the run would stop at it for ever.
        settle(fails, layout, kept, WRITTEN)
    assert "rule sane_x has severity fail now while batch 1 is unfinished" in e.value.render()


def test_rules_that_only_warn_may_come_and_go(plan: Plan, job: tuple[Layout, JobFile]) -> None:
    more = replace(plan.intake.rules[0], name="odd", severity="warn")
    settle(replace(plan, intake=replace(plan.intake, rules=(*plan.intake.rules, more))), *job, WRITTEN)


def test_what_cannot_be_taken_back_is_refused(plan: Plan, job: tuple[Layout, JobFile]) -> None:
    layout, kept = job
    ledger = Ledger.load(layout.home)
    ledger.aside["file:///x.csv"] = SetAside(BEGUN, 1, "torn")
    ledger.save()
    with pytest.raises(SpecErrors, match="--demote"):
        settle(ruled(plan, sql="x < 5"), layout, kept, UNTOUCHED)
    ledger.aside.clear()
    ledger.save()
    checkpoints.write(layout.checkpoint / "sources" / "0" / "1.compact", "v1")
    with pytest.raises(SpecErrors, match="--demote"):
        settle(ruled(plan, sql="x < 5"), layout, kept, UNTOUCHED)
    assert (layout.checkpoint / "offsets" / "1").exists()


def test_a_job_file_of_before_there_were_severities_is_read(plan: Plan, job: tuple[Layout, JobFile]) -> None:
    layout, _ = job
    text = layout.file.read_text().replace('"stopping": []', '"names": 2').replace(' "names": 2,\n', "", 1)
    layout.file.write_text(text)
    found = fitting_job(plan, layout)
    assert found is not None and found.stopping == []
