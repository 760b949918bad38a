"""What a sink's directory must hold for a run to go on, and what is refused."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from skyband.framework.base.errors import SkybandError, SpecErrors
from skyband.framework.plan.model import Plan
from skyband.framework.sources.files.ledger import LEDGER
from skyband.framework.streaming.job.layout import Layout, changed_since, check_sink_location, fitting_job
from skyband.framework.streaming.job.migrations import Before
from skyband.jobs.spec import load_plan
from tests.framework.streaming import checkpoints
from tests.spark.jobs import QUERIES, write_spec


@pytest.fixture
def plan(tmp_path) -> Plan:
    return load_plan(str(write_spec(tmp_path)))


def after_a_run(plan: Plan) -> Layout:
    layout = Layout(plan.sink)
    layout.create(plan, 2, ["id"])
    checkpoints.make(layout.home)
    (layout.root / "runs").mkdir()
    (layout.root / "runs" / "0.parquet").touch()
    return layout


def test_a_first_run_and_one_that_fits(plan):
    assert fitting_job(plan, Layout(plan.sink)) is None
    layout = after_a_run(plan)
    job = fitting_job(plan, layout)
    assert job is not None
    assert (job.job, job.header, job.partitions) == ("small", ["id"], 2)


def test_a_changed_spec_is_refused_by_name(plan, tmp_path):
    layout = after_a_run(plan)
    spec = Path(write_spec(tmp_path))
    spec.write_text(spec.read_text().replace("k: 5", "k: 50"))
    with pytest.raises(SpecErrors) as e:
        fitting_job(load_plan(str(spec)), layout)
    assert "queries.far5.k was 5, now 50" in e.value.render()
    assert "new sink path" in e.value.render()


def test_tables_without_their_checkpoint_are_refused(plan):
    layout = after_a_run(plan)
    shutil.rmtree(layout.checkpoint)
    with pytest.raises(SkybandError) as e:
        fitting_job(plan, layout)
    assert e.value.code == "SKY-E303"
    assert "start again from the source" in e.value.render()


def test_tables_without_what_says_whose_they_are_are_refused(plan):
    layout = after_a_run(plan)
    shutil.rmtree(layout.home)
    with pytest.raises(SkybandError) as e:
        fitting_job(plan, layout)
    assert e.value.code == "SKY-E205" and str(layout.root / "runs") in e.value.message
    assert "including _skyband" in str(e.value.hint)


def test_a_checkpoint_without_its_tables_is_refused(plan):
    layout = after_a_run(plan)
    shutil.rmtree(layout.root / "runs")
    with pytest.raises(SkybandError) as e:
        fitting_job(plan, layout)
    assert "a checkpoint but not its tables" in e.value.message


def test_a_run_that_wrote_nothing_freezes_nothing(plan, tmp_path):
    layout = Layout(plan.sink)
    layout.create(plan, 2, ["id"])
    (layout.checkpoint / "offsets").mkdir(parents=True)
    (layout.checkpoint / "offsets" / "0").touch()
    (layout.home / LEDGER).write_text("{}")
    spec = write_spec(tmp_path, window="{count: 9}", queries=QUERIES.replace("{count: 20}", "{count: 2}"))
    changed = load_plan(str(spec))
    assert fitting_job(changed, layout) is None
    layout.create(changed, 2, ["id"])
    assert not layout.checkpoint.exists() and not (layout.home / LEDGER).exists()


def test_a_sink_on_another_file_system_is_refused(plan):
    with pytest.raises(SkybandError) as e:
        Layout(replace(plan, sink="hdfs://host/x").sink)
    assert e.value.code == "SKY-E203"


def test_a_finish_is_ordered_once(plan):
    layout = after_a_run(plan)
    layout.order_finish("2020-01-01T00:00:00.001+00:00", 1)
    before = sorted(layout.control.iterdir())
    layout.order_finish("2020-01-01T00:00:00.002+00:00", 1)
    assert sorted(layout.control.iterdir()) == before
    assert len(before) == 1


def files_of(directory: Path) -> list[str]:
    return sorted(str(p.relative_to(directory)) for p in directory.rglob("*"))


def refused(plan: Plan, directory: Path) -> str:
    """Why the plan is refused in its sink; nothing may have been written."""
    before = files_of(directory)
    with pytest.raises(SkybandError) as e:
        fitting_job(plan, Layout(plan.sink))
    with pytest.raises(SkybandError) as again:
        check_sink_location(plan, Layout(plan.sink))
    assert e.value.code == again.value.code == "SKY-E205"
    assert files_of(directory) == before
    return e.value.message


def test_a_sink_inside_another_jobs_is_refused(plan: Plan, tmp_path: Path) -> None:
    layout = after_a_run(plan)
    inside = replace(plan, job="other", sink=str(layout.root / "far5"))
    assert "inside the sink of another job" in refused(inside, tmp_path)


def test_a_sink_whose_table_is_another_jobs_sink_is_refused(plan: Plan, tmp_path: Path) -> None:
    other = replace(plan, job="other", sink=str(tmp_path / "all" / plan.queries[0].name))
    after_a_run(other)
    assert "into the sink of another job" in refused(replace(plan, sink=str(tmp_path / "all")), tmp_path)


def test_a_link_does_not_hide_the_location_of_a_sink(plan: Plan, tmp_path: Path) -> None:
    assert plan.source.path is not None
    Path(plan.source.path).mkdir(parents=True, exist_ok=True)
    (tmp_path / "link").symlink_to(plan.source.path)
    assert "above or below the source" in refused(replace(plan, sink=str(tmp_path / "link" / "out")), tmp_path)


def test_another_jobs_sink_is_refused_before_it_has_rows_too(plan: Plan) -> None:
    layout = Layout(plan.sink)
    layout.create(replace(plan, job="other"), 2, ["id"])
    with pytest.raises(SkybandError) as e:
        fitting_job(plan, layout)
    assert e.value.code == "SKY-E205" and "'other'" in e.value.message


def test_tables_of_before_are_refused_by_name(plan: Plan) -> None:
    """Their columns `at`, `current` and `table` are reserved words in one engine or another."""
    layout = after_a_run(plan)
    old = json.loads(layout.file.read_text())
    del old["names"]
    layout.file.write_text(json.dumps(old))
    before = layout.file.read_text()
    for asked in (lambda: fitting_job(plan, layout), lambda: changed_since(plan, layout)):
        with pytest.raises(SkybandError) as e:
            asked()
        assert e.value.code == "SKY-E307" and str(layout.root) in e.value.message
        hint = e.value.hint or ""
        assert "new sink path" in hint and "at is changed_at now, current is is_current now" in hint
    assert layout.file.read_text() == before


def secretive(directory: Path, monkeypatch: pytest.MonkeyPatch, k: str = "5", rule: str = "1000000") -> Plan:
    spec = Path(write_spec(directory))
    monkeypatch.setenv("K", k)
    monkeypatch.setenv("RULE", rule)
    spec.write_text(spec.read_text().replace("k: 5", 'k: "${K}"').replace("x < 1000000", "x < ${RULE}"))
    return load_plan(str(spec))


def test_no_two_jobs_share_a_salt_nor_a_hash(plan: Plan, tmp_path: Path) -> None:
    kept = [set(re.findall("[0-9a-f]{64}", Layout(str(tmp_path / n)).create(plan, 2, None).rules)) for n in "ab"]
    assert kept[0] and not kept[0] & kept[1]


def test_what_came_from_the_environment_since_is_not_kept_in_the_clear(plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    layout = after_a_run(plan)
    assert '"k": 5' in layout.file.read_text()
    now = secretive(tmp_path, monkeypatch)
    job = fitting_job(now, layout)
    assert job is not None
    layout.renew(now, job)
    assert '"k": 5' not in layout.file.read_text() and changed_since(plan, layout) == []


@pytest.mark.parametrize("text", ["", "{", '{"job": "small"}', "[]"])
def test_an_unreadable_job_file_is_reported(plan: Plan, text: str) -> None:
    layout = after_a_run(plan)
    layout.file.write_text(text)
    with pytest.raises(SkybandError) as e:
        fitting_job(plan, layout)
    assert e.value.code == "SKY-E303" and "job.json cannot be read" in e.value.message


@pytest.mark.parametrize("gone", ["metadata", "commits", "state/0/_metadata"])
def test_a_checkpoint_that_lost_a_part_is_refused(plan: Plan, gone: str) -> None:
    layout = after_a_run(plan)
    checkpoints.plan(layout.home, 1)
    path = layout.checkpoint / gone
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    if gone.startswith("state/"):
        # It has a state in the checkpoint only if an earlier version ran the job last.
        assert fitting_job(plan, layout) is not None
        layout.save(replace(layout.known(), before=Before()))
    with pytest.raises(SkybandError) as e:
        fitting_job(plan, layout)
    assert e.value.code == "SKY-E303" and f"{gone} is gone" in e.value.message
