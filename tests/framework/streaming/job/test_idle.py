"""When a run has nothing to do: only if the source's directory, the checkpoint and the note of the last run all say so."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from skyband.framework.plan.model import Plan
from skyband.framework.streaming.job.idle import at_rest, note, waiting
from skyband.framework.streaming.job.layout import JobFile, Layout
from skyband.jobs.spec import load_plan
from tests.framework.streaming import checkpoints
from tests.spark.jobs import write_spec

JOB = JobFile("small", "abc", {}, 2, None)


@pytest.fixture
def job(tmp_path: Path) -> tuple[Plan, Layout]:
    """A job whose two files have been taken by its two batches, as a run that declared no end left it."""
    plan = load_plan(str(write_spec(tmp_path)))
    (tmp_path / "in").mkdir()
    for number in range(2):
        (tmp_path / "in" / f"{number}.csv").write_text("id\n")
    layout = Layout(plan.sink)
    checkpoints.make(layout.home, batches=2)
    note(layout, JOB, 1, finished=False)
    return plan, layout


def rests(plan: Plan, layout: Layout, job: JobFile = JOB, finish: bool = False) -> bool:
    """As ``run`` asks."""
    return waiting(plan.source, layout) == [] and at_rest(layout, job, finish)


def test_at_rest(job: tuple[Plan, Layout]) -> None:
    plan, layout = job
    assert waiting(plan.source, layout) == []
    assert rests(plan, layout, JOB, finish=False)
    assert not rests(plan, layout, JOB, finish=True)


def test_at_rest_after_the_end_was_declared(job: tuple[Plan, Layout]) -> None:
    plan, layout = job
    note(layout, JOB, 1, finished=True)
    assert rests(plan, layout, JOB, finish=True) and rests(plan, layout, JOB, finish=False)
    # What has been declared stays so.
    note(layout, JOB, 1, finished=False)
    assert rests(plan, layout, JOB, finish=True)


def another_file(plan: Plan, layout: Layout) -> None:
    (layout.root.parent / "in" / "2.csv").write_text("id\n")


def a_file_deeper(plan: Plan, layout: Layout) -> None:
    """Spark takes a directory for one of Hive's if there is a = in its name, whatever it begins with."""
    (layout.root.parent / "in" / "_day=1").mkdir()
    (layout.root.parent / "in" / "_day=1" / "a.csv").write_text("id\n")


def a_directory_that_is_a_link(plan: Plan, layout: Layout) -> None:
    (layout.root.parent / "elsewhere").mkdir()
    (layout.root.parent / "in" / "link").symlink_to(layout.root.parent / "elsewhere")


def no_directory(plan: Plan, layout: Layout) -> None:
    (layout.root.parent / "in").rename(layout.root.parent / "gone")


def a_batch_begun(plan: Plan, layout: Layout) -> None:
    another_file(plan, layout)
    checkpoints.plan(layout.home, 2)


def a_batch_more(plan: Plan, layout: Layout) -> None:
    another_file(plan, layout)
    checkpoints.make(layout.home, batches=3)


def another_generation(plan: Plan, layout: Layout) -> None:
    note(layout, JobFile("small", "other", {}, 2, None), 1, finished=True)


def no_note(plan: Plan, layout: Layout) -> None:
    layout.rest.unlink()


def half_a_note(plan: Plan, layout: Layout) -> None:
    layout.rest.write_text('{"generation": "abc"')


def a_note_that_is_none(plan: Plan, layout: Layout) -> None:
    layout.rest.write_text("[1]")


def files_under_caps(plan: Plan, layout: Layout) -> None:
    (layout.home / "drop.json").write_text('{"caps": {}, "others": 3, "greatest": null, "released": null}')


@pytest.mark.parametrize(
    "happens",
    [
        another_file, a_file_deeper, a_directory_that_is_a_link, no_directory, a_batch_begun, a_batch_more, another_generation, no_note,
        half_a_note, a_note_that_is_none, files_under_caps,
    ],
)  # fmt: skip
def test_not_at_rest(job: tuple[Plan, Layout], happens: Callable[[Plan, Layout], None]) -> None:
    plan, layout = job
    happens(plan, layout)
    assert not rests(plan, layout, JOB, finish=False)


def test_not_at_rest_while_an_end_is_declared_and_not_ordered(job: tuple[Plan, Layout]) -> None:
    plan, layout = job
    declared = JobFile("small", "abc", {}, 2, None, finishes=[[5, 5000]])
    note(layout, declared, 1, finished=True)
    assert not rests(plan, layout, declared, finish=True)
    layout.order_finish("2020-01-01T00:00:00.000+00:00", 5000)
    assert rests(plan, layout, declared, finish=True)


@pytest.mark.parametrize("name", [".hidden.csv", "_half.csv", "a.csv._COPYING_"])
def test_files_that_spark_ignores_are_not_waiting(job: tuple[Plan, Layout], name: str) -> None:
    plan, layout = job
    (layout.root.parent / "in" / name).write_text("id\n")
    assert rests(plan, layout, JOB, finish=False)


def test_before_the_first_batch_nothing_is_noted(tmp_path: Path) -> None:
    layout = Layout(str(tmp_path))
    note(layout, JOB, -1, finished=True)
    assert not layout.rest.exists()
