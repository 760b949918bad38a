"""A job's state and tables divided among more buckets, all but Spark's store: that is Spark's."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from skyband.framework.base.errors import SkybandError, SpecErrors
from skyband.framework.plan.fingerprint import concealed, fingerprint
from skyband.framework.plan.growth import Growth, growth, kept_buckets
from skyband.framework.plan.model import Plan
from skyband.framework.streaming.bucket.bucket_states import last_states
from skyband.framework.streaming.job import generations
from skyband.framework.streaming.job.consistency import check
from skyband.framework.streaming.job.edits import edited
from skyband.framework.streaming.job.layout import JobFile, Layout, changed_since, fitting_job
from skyband.framework.streaming.rebuild import rebucket
from skyband.framework.streaming.rebuild.new_states import read
from skyband.framework.tables.schemas import tables
from skyband.jobs.spec import load_plan
from skyband.operators.skyline.configuration import SkylineConfiguration
from tests.framework.streaming import checkpoints
from tests.framework.streaming.local.test_loop import run, write, write_spec
from tests.framework.verify import small
from tests.spark.equality import assert_equal_tables, differences
from tests.spark.jobs import sorted_rows
from tests.spark.jobs import table as table_of_job
from tests.spark.kinds import KINDS

OF = KINDS["keyed"]
Edit = Callable[[str], Plan]


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A job in 3 buckets that has run, with its states beside it."""
    directory = Path(tmp_path_factory.mktemp("ran"))
    small.make(OF.write(directory / "job", 1), OF.rows(4, 150), states=True)
    return directory


@pytest.fixture
def job(ran: Path, tmp_path: Path) -> Edit:
    """A copy of that job; what gives its plan with something else for ``buckets: 3``. Its states are on the disk."""
    shutil.copytree(ran, tmp_path, dirs_exist_ok=True)
    spec = tmp_path / "job" / "spec.yaml"
    spec.write_text(spec.read_text().replace(str(ran), str(tmp_path)))
    plan = load_plan(str(spec))
    layout = Layout(plan.sink)
    layout.save(JobFile(plan.job, "g", concealed(fingerprint(plan), plan, "s"), 2, None, salt="s"))
    for batch in range(small.BATCHES + 1):
        checkpoints.write(layout.root.parent / "in" / f"{batch}.csv", "")
    checkpoints.make(layout.home, batches=small.BATCHES + 1)
    text = spec.read_text()

    def edit(instead: str) -> Plan:
        assert "buckets: 3" in text
        spec.write_text(text.replace("buckets: 3", instead))
        return load_plan(str(spec))

    return edit


def never(text: str) -> None:
    raise AssertionError(text)


def test_the_tables_are_those_of_a_job_that_had_all_buckets(job: Edit, tmp_path: Path) -> None:
    fresh = OF.write(tmp_path / "fresh", 1)
    fresh.write_text(fresh.read_text().replace("buckets: 3", "buckets: 12"))
    small.make(fresh, OF.rows(4, 150))
    assert differences(tmp_path / "job", tmp_path / "fresh", same_cuts=False)[1]
    plan = job("buckets: 12")
    layout = Layout(plan.sink)
    was = fitting_job(plan, layout)
    assert was is not None and changed_since(plan, layout) == []
    moved = edited(plan)
    assert (moved.verdict, moved.fits, moved.differences) == ("buckets", True, ["run.buckets was 3, now 12"])
    assert moved.moves == sum(p.stat().st_size for p in layout.state.rglob("*") if p.is_file()) > 0
    of, now = rebucket.rebucket_job(plan, layout, was, never)
    assert of is plan and now == layout.load() and now.fingerprint["run"]["buckets"] == 12 and now.new_states is not None
    states = last_states(layout.root, now.new_states)
    assert now.new_states.batch == small.BATCHES and {b % 3 for b in states} == {0, 1, 2} and max(states) > 2
    for bucket, state in states.items():
        assert set(read(layout, bucket, state)) >= {"core", "keys", "pending"}
    assert differences(tmp_path / "job", tmp_path / "fresh", same_cuts=False)[1] == []
    assert not layout.added.exists() and check(plan, layout, now).losses == [] and edited(plan).verdict == "nothing"
    assert rebucket.rebucket_job(plan, layout, now, never) == (plan, now), "once is enough"
    assert [d.text() for d in small.found(plan, OF.rows(4, 150))] == []


@pytest.mark.slow
def test_killed_at_any_step_it_has_happened_or_not(job: Edit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = job("buckets: 12")
    layout, kept = Layout(plan.sink), tmp_path / "kept"
    shutil.copytree(layout.root, kept)
    bucketed = [t.name for t in tables(plan) if t.partition_by == ("bucket",)]

    def now() -> tuple[object, ...]:
        found = layout.known()
        states = last_states(layout.root, found.new_states)
        values = {bucket: read(layout, bucket, state) for bucket, state in states.items()}
        rows = [sorted_rows(table_of_job(tmp_path / "job", name)) for name in bucketed]
        return found.fingerprint, values, rows, check(plan, layout, found).losses

    rebucket.rebucket_job(plan, layout, layout.known(), never)
    whole, steps = now(), 0
    assert len(bucketed) > 1 and any(whole[2:3])
    happened = {False: 0, True: 0}
    while True:
        shutil.rmtree(layout.root)
        shutil.copytree(kept, layout.root)
        left = [steps]

        def killed(name: str, left: list[int] = left) -> None:
            left[0] -= 1
            if left[0] < 0:
                raise KeyboardInterrupt(name)

        with monkeypatch.context() as m:
            m.setattr(rebucket, "failpoint", killed)
            m.setattr(generations, "failpoint", killed)
            try:
                rebucket.rebucket_job(plan, layout, layout.known(), never)
                break
            except KeyboardInterrupt:
                steps += 1
        # As whoever takes the job's lock next does.
        generations.settle(layout)
        job_then = layout.known()
        happened[job_then.fingerprint["run"]["buckets"] == 12] += 1
        assert rebucket.rebucket_job(plan, layout, job_then, never)[1].new_states is not None
        assert now() == whole
    assert happened[False] == 1 and happened[True] > 8, "all but before the swap"


def test_an_unfinished_batch_is_repeated_first(job: Edit) -> None:
    plan = job("buckets: 6")
    layout = Layout(plan.sink)
    checkpoints.plan(layout.home, small.BATCHES + 1)
    was, said = layout.known(), list[str]()
    of, now = rebucket.rebucket_job(plan, layout, was, said.append)
    assert of.buckets == 3 and now == was == layout.load()
    assert said == [f"batch {small.BATCHES + 1} is unfinished: run.buckets is 3 in this run, and 6 from the next one on"]


def test_a_run_that_was_stopped_is_ended_first(job: Edit, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = job("buckets: 6")
    layout = Layout(plan.sink)
    monkeypatch.setattr(rebucket, "batches_behind", lambda of: 2 if of == layout.root else 0)
    was, said = layout.known(), list[str]()
    of, now = rebucket.rebucket_job(plan, layout, was, said.append)
    assert of.buckets == 3 and now == was == layout.load()
    assert said == ["the last run was stopped before its end: run.buckets is 3 in this run, and 6 from the next one on"]


def test_keys_of_two_buckets_never_come_into_one(job: Edit) -> None:
    for buckets in (1, 2, 4, 10):
        plan = job(f"buckets: {buckets}")
        layout = Layout(plan.sink)
        with pytest.raises(SkybandError, match=f"run.buckets was 3, now {buckets}: keys of two buckets") as found:
            fitting_job(plan, layout)
        assert found.value.code == "SKY-E650" and "a multiple of 3" in str(found.value.hint)
        assert changed_since(plan, layout) == [f"run.buckets was 3, now {buckets}"] and edited(plan).verdict == "state"


def test_with_other_edits_it_is_refused_as_they_are(job: Edit) -> None:
    plan = job("buckets: 6")
    spec = Path(plan.sink).parent / "spec.yaml"
    spec.write_text(spec.read_text().replace("watermark: 1 hour", "watermark: 2 hours"))
    both = load_plan(str(spec))
    with pytest.raises(SpecErrors) as found:
        fitting_job(both, Layout(both.sink))
    said = ["run.buckets was 3, now 6", "source.event_time.watermark was 1 hour, now 2 hours"]
    assert {e.code for e in found.value.errors} == {"SKY-E150"} and sorted(e.message for e in found.value.errors) == said


def test_a_state_that_does_not_say_how_stays_in_one_piece(job: Edit, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = job("buckets: 6")
    monkeypatch.delattr(SkylineConfiguration, "state_keys")
    with pytest.raises(SkybandError, match="the state of sky cannot be divided"):
        fitting_job(plan, Layout(plan.sink))


def test_the_number_is_known_where_it_came_from_the_environment(job: Edit) -> None:
    plan = replace(job("buckets: 6"), variables=((("run", "buckets"), "N"),))
    kept = concealed(fingerprint(replace(plan, buckets=3)), plan, "salt")
    assert not isinstance(kept["run"]["buckets"], int)
    assert kept_buckets(kept, "salt") == 3 and growth(kept, plan, "salt") == Growth(3, 6)
    assert kept_buckets({"run": {"buckets": "given"}}, "salt") == 0


def test_rows_that_wait_come_along_though_their_keys_are_new(tmp_path: Path) -> None:
    """A bucket that gets no key but a row of one that has not been processed yet."""
    rows = [(i, i / 10, f"key {i}", i) for i in range(20)]
    for name in ("job", "alone"):
        spec = write_spec(tmp_path / name, f"buckets: {16 if name == 'alone' else 2}")
        write(tmp_path / name, "0", rows, 0)
        run(spec)
    spec = tmp_path / "job" / "spec.yaml"
    assert table_of_job(tmp_path / "job", "runs")["pending"].to_pylist() == [20]
    spec.write_text(spec.read_text().replace("buckets: 2", "buckets: 16"))
    for name in ("job", "alone"):
        run(tmp_path / name / "spec.yaml", finish=True)
    assert_equal_tables(tmp_path / "job", tmp_path / "alone", same_cuts=False)
    assert table_of_job(tmp_path / "job", "best_changes").num_rows == 20
