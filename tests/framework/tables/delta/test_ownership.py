"""A directory that is not proven to be the job's is neither written, vacuumed, moved nor removed."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from skyband.framework.base.errors import SkybandError
from skyband.framework.plan.model import Plan
from skyband.framework.streaming.job.consistency import check, look
from skyband.framework.streaming.job.generations import clear, swap, swap_in, undo
from skyband.framework.streaming.job.layout import Layout, check_sink_location, fitting_job
from skyband.framework.streaming.job.run_records import RunRecord
from skyband.framework.tables.delta.ownership import OWNER, PROPERTY, TABLES, Owner
from skyband.framework.tables.schemas import tables
from skyband.framework.tables.writing import upkeep
from skyband.framework.tables.writing.driver_writer import DriverWriter
from skyband.framework.tables.writing.sink import Sink
from skyband.framework.tables.writing.table_properties import properties
from skyband.jobs.cli import main
from skyband.jobs.running import maintain as maintain_command
from skyband.jobs.running import reset as reset_command
from tests.framework.streaming.checkpoints import write
from tests.framework.streaming.job.test_consistency import BATCHES, HEAD, Job
from tests.framework.tables.plans import make_plan

FOREIGN = pa.table({"station": ["a", "b"], "wind": [1.0, 2.0]})


def everything(root: Path) -> dict[str, bytes | str]:
    """Every file and link below ``root`` with what it holds, links not followed."""
    found: dict[str, bytes | str] = {}
    for where, directories, names in os.walk(root):
        for path in (Path(where, n) for n in [*directories, *names]):
            if path.is_symlink():
                found[str(path.relative_to(root))] = os.readlink(path)
            elif path.is_file() and path.name not in ("lock", "engine.lock"):
                found[str(path.relative_to(root))] = path.read_bytes()
    return found


def table_of_another(directory: Path) -> None:
    """A Delta table with replaced files, which a careless vacuum would remove."""
    for _ in range(3):
        write_deltalake(directory, FOREIGN, mode="overwrite")


def files_of_another(directory: Path) -> None:
    write(directory / "2024" / "01" / "a.csv", "1,2")


def half_a_table(directory: Path) -> None:
    write(directory / "_delta_log" / "_last_checkpoint", "{")


def link_to_a_table(directory: Path) -> None:
    table_of_another(directory.parent.parent / "elsewhere")
    directory.symlink_to(directory.parent.parent / "elsewhere")


def link_to_nothing(directory: Path) -> None:
    directory.symlink_to(directory.parent.parent / "not there")


def link_to_an_empty_directory(directory: Path) -> None:
    (directory.parent.parent / "empty").mkdir()
    directory.symlink_to(directory.parent.parent / "empty")


def linked_log(directory: Path) -> None:
    table_of_another(directory.parent.parent / "elsewhere")
    directory.mkdir()
    (directory / "_delta_log").symlink_to(directory.parent.parent / "elsewhere" / "_delta_log")


def plain_file(directory: Path) -> None:
    write(directory, "text")


def table_of_another_job(directory: Path) -> None:
    """A table of Skyband's own making, of the same name, in another job's sink."""
    sink = Sink(make_plan(str(directory.parent.parent / "theirs")), DriverWriter(directory.parent.parent / "theirs"), "g")
    sink.ensure_all()
    shutil.copytree(directory.parent.parent / "theirs" / directory.name, directory)


OTHERS = [
    table_of_another, files_of_another, half_a_table, link_to_a_table, link_to_nothing, link_to_an_empty_directory, linked_log, plain_file,
    table_of_another_job,
]  # fmt: skip
NAMES = ["near", "near_now", "near_skyband", "heads", "runs", "job_runs", "published"]


@pytest.mark.parametrize("other", OTHERS)
@pytest.mark.parametrize("name", ["near", "runs", "job_runs"])
def test_a_first_run_refuses_a_directory_with_a_tables_name_before_it_writes(
    tmp_path: Path, other: Callable[[Path], None], name: str
) -> None:
    plan = make_plan(str(tmp_path / "out"))
    (tmp_path / "out").mkdir()
    other(tmp_path / "out" / name)
    before = everything(tmp_path)
    layout = Layout(plan.sink)
    writer = DriverWriter(layout.root)
    spec = next(t for t in tables(plan) if t.name == name)
    for refused in (lambda: check_sink_location(plan, layout), lambda: fitting_job(plan, layout), lambda: writer.ensure(spec)):
        with pytest.raises(SkybandError) as e:
            refused()
        assert e.value.code == "SKY-E205" and str(layout.root / name) in e.value.message, e.value.message
        assert everything(tmp_path) == before


@pytest.mark.parametrize("spelled", ["{0}/", "{0}/x/..", "{0}/./", "file://{0}", "//{0}", "{0}/link"])
def test_no_spelling_of_the_path_hides_it(tmp_path: Path, spelled: str) -> None:
    table_of_another(tmp_path / "out" / "near")
    (tmp_path / "out" / "link").symlink_to(tmp_path / "out")
    plan = make_plan(spelled.format(tmp_path / "out"))
    with pytest.raises(SkybandError) as e:
        check_sink_location(plan, Layout(plan.sink))
    assert e.value.code == "SKY-E205"


def test_an_empty_directory_is_taken(tmp_path: Path) -> None:
    plan = make_plan(str(tmp_path / "out"))
    (tmp_path / "out" / "near").mkdir(parents=True)
    check_sink_location(plan, Layout(plan.sink))
    Sink(plan, DriverWriter(tmp_path / "out"), "g").ensure_all()
    assert Owner(tmp_path / "out").stranger("near") is None


@pytest.mark.parametrize("inside", ["", "deep/er"])
def test_a_sink_at_or_in_a_delta_table_is_refused(tmp_path: Path, inside: str) -> None:
    """Whoever vacuums that table removes what it does not name: the job's tables."""
    table_of_another(tmp_path / "theirs")
    plan = make_plan(str(tmp_path / "theirs" / inside))
    with pytest.raises(SkybandError) as e:
        check_sink_location(plan, Layout(plan.sink))
    assert e.value.code == "SKY-E205" and "a Delta table" in e.value.message


def test_a_link_in_the_place_of_the_jobs_own_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "theirs").mkdir()
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "_skyband").symlink_to(tmp_path / "theirs")
    plan = make_plan(str(tmp_path / "out"))
    with pytest.raises(SkybandError) as e:
        check_sink_location(plan, Layout(plan.sink))
    assert e.value.code == "SKY-E205" and not any((tmp_path / "theirs").iterdir())


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("owned")
    job = Job(directory)
    job.run(BATCHES, BATCHES)
    job.layout.save(replace(HEAD, fingerprint={"queries": {"near": {}, "near3": {}}}))
    return directory


@pytest.fixture
def job(tmp_path: Path, finished: Path) -> Job:
    """A job that has run."""
    shutil.copytree(finished / "out", tmp_path / "out")
    return Job(tmp_path)


def test_every_table_says_whose_it_is(job: Job) -> None:
    owner = Owner(job.root)
    names = {t.name for t in tables(job.plan)}
    assert {DeltaTable(str(job.root / n)).metadata().configuration[PROPERTY] for n in names} == {owner.id}
    assert set(owner.noted) == names - {"job_runs"}
    assert json.loads((job.layout.home / TABLES).read_text())["making"] == []
    assert all(owner.stranger(n) is None and owner.noted[n].version == DeltaTable(str(job.root / n)).version() for n in owner.noted)
    assert check(job.plan, job.layout, HEAD).losses == []


def put_in_place(job: Job, name: str, other: Callable[[Path], None]) -> dict[str, bytes | str]:
    """Something of somebody in the place of a table of the job; all files then."""
    shutil.rmtree(job.root / name)
    other(job.root / name)
    return everything(job.root.parent)


@pytest.mark.parametrize("other", [o for o in OTHERS if o not in (files_of_another, plain_file, link_to_nothing, half_a_table)])
@pytest.mark.parametrize("name", ["near", "near_changes", "runs"])
def test_what_took_a_tables_place_is_refused_by_a_run_and_left_alone(job: Job, name: str, other: Callable[[Path], None]) -> None:
    before = put_in_place(job, name, other)
    for rebuild in (False, True):
        with pytest.raises(SkybandError) as e:
            check(job.plan, job.layout, HEAD, rebuild)
        assert e.value.code == "SKY-E205" and str(job.root / name) in e.value.message
    with pytest.raises(SkybandError) as e:
        DriverWriter(job.root).ensure(next(t for t in tables(job.plan) if t.name == name))
    assert e.value.code == "SKY-E205"
    assert everything(job.root.parent) == before
    assert any(x.table == name and x.kind == "stranger" for x in look(job.plan, job.layout, HEAD).losses)


@pytest.mark.parametrize("other", [table_of_another, files_of_another, table_of_another_job])
def test_forged_notes_make_nothing_the_jobs(job: Job, other: Callable[[Path], None]) -> None:
    """Who can write `_skyband` can name a directory of somebody else in its notes: the directory itself has to prove it."""
    shutil.rmtree(job.root / "near")
    other(job.root / "near")
    notes = json.loads((job.layout.home / TABLES).read_text())
    notes["making"] = ["near"]
    del notes["made"]["near"]
    if (job.root / "near" / "_delta_log").exists():
        table = DeltaTable(str(job.root / "near"))
        notes["made"]["near"] = {"id": str(table.metadata().id), "version": table.version()}
    (job.layout.home / TABLES).write_text(json.dumps(notes))
    before = everything(job.root / "near")
    assert Owner(job.root).stranger("near") is not None
    with pytest.raises(SkybandError) as e:
        clear(job.layout, ["near"])
    assert e.value.code == "SKY-E205" and everything(job.root / "near") == before


LINKS = (link_to_a_table, link_to_nothing, link_to_an_empty_directory, linked_log)


@pytest.mark.parametrize("other", LINKS)
def test_maintain_and_reset_refuse_a_sink_with_a_link(
    job: Job, other: Callable[[Path], None], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(upkeep, "MINUTES", dict.fromkeys(upkeep.MINUTES, 0))
    before = put_in_place(job, "near", other)
    for command in (maintain_command, reset_command):
        monkeypatch.setattr(command, "load_plan", lambda spec, **_: job.plan)
    for words in (["maintain", "spec.yaml"], ["reset", "spec.yaml", "--yes"]):
        assert main(words) == 2
        assert f"SKY-E518 {job.root / 'near'}" in capsys.readouterr().err
        assert everything(job.root.parent) == before


@pytest.mark.parametrize("other", [o for o in OTHERS if o not in LINKS])
def test_maintain_and_reset_leave_it_alone_and_say_so(
    job: Job, other: Callable[[Path], None], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(upkeep, "MINUTES", dict.fromkeys(upkeep.MINUTES, 0))
    put_in_place(job, "near", other)
    theirs = [job.root / "near", job.root.parent / "elsewhere"]
    before = {str(t): everything(t) for t in theirs}
    monkeypatch.setattr(maintain_command, "load_plan", lambda spec, **_: job.plan)
    assert main(["maintain", "spec.yaml"]) == 0
    shown = capsys.readouterr().out
    assert f"left alone, as it is not proven to be a table of this job: {job.root / 'near'}" in shown
    assert {str(t): everything(t) for t in theirs} == before
    monkeypatch.setattr(reset_command, "load_plan", lambda spec, **_: job.plan)
    assert main(["reset", "spec.yaml", "--yes"]) == 0
    assert {str(t): everything(t) for t in theirs} == before
    assert not (job.root / "near_changes").exists() and not job.layout.file.exists()
    with pytest.raises(SkybandError) as e:
        check_sink_location(job.plan, job.layout)
    assert e.value.code == "SKY-E205"


@pytest.mark.parametrize("other", [table_of_another, link_to_a_table, linked_log, table_of_another_job])
def test_no_swap_moves_it(job: Job, other: Callable[[Path], None]) -> None:
    new = Sink(replace(job.plan, sink=str(job.layout.next)), DriverWriter(job.layout.next), "g2")
    new.ensure_all()
    Layout(str(job.layout.next)).save(replace(HEAD, generation="g2", fingerprint={"queries": {"near": {}, "near3": {}}}))
    before = put_in_place(job, "near", other)
    for moves in (lambda: swap(job.layout), lambda: swap_in(job.layout, ["near"], ["near"]), lambda: clear(job.layout, ["near"])):
        with pytest.raises(SkybandError) as e:
            moves()
        assert e.value.code == "SKY-E205" and everything(job.root.parent) == before


def test_a_generation_that_is_built_is_of_the_job_and_stays_so_when_it_is_swapped_in(job: Job) -> None:
    built = Layout(str(job.layout.next))
    new = Sink(replace(job.plan, sink=str(built.root)), DriverWriter(built.root), "g2")
    new.ensure_all()
    built.save(replace(HEAD, generation="g2", fingerprint={"queries": {"near": {}, "near3": {}}}))
    owner = Owner(job.root)
    assert Owner(built.root).id == owner.id and not (built.home / OWNER).exists()
    old = dict(owner.noted)
    swap(job.layout)
    after = Owner(job.root)
    assert after.id == owner.id and set(after.noted) == set(old) and after.noted["near"] != old["near"]
    assert [n for t in tables(job.plan) if (n := after.stranger(t.name)) is not None] == []
    RunRecord(job.layout).begin("run", "spec.yaml")
    Sink(job.plan, DriverWriter(job.root), "g2").ensure_all()


def test_tables_that_are_swapped_in_by_themselves_are_the_jobs(job: Job) -> None:
    made = Sink(replace(job.plan, sink=str(job.layout.added)), DriverWriter(job.layout.added), "g")
    made.writer.ensure(made.specs["near"])
    swap_in(job.layout, ["near"], ["near"])
    assert Owner(job.root).stranger("near") is None
    Sink(job.plan, DriverWriter(job.root), "g").ensure_all()
    assert Owner(job.root).noted["near"].id == str(DeltaTable(str(job.root / "near")).metadata().id)


def test_a_first_run_killed_while_it_made_a_directory_goes_on(tmp_path: Path) -> None:
    plan = make_plan(str(tmp_path / "out"))
    Owner(tmp_path / "out").claim(["near"])
    write(tmp_path / "out" / "near" / "_delta_log" / ".tmp", "half")
    check_sink_location(plan, Layout(plan.sink))
    Sink(plan, DriverWriter(tmp_path / "out"), "g").ensure_all()
    assert "near" in Owner(tmp_path / "out").noted


def of_before(job: Job) -> None:
    """The job's sink as a version without ids and notes has left it."""
    for spec in tables(job.plan):
        log = job.root / spec.name / "_delta_log"
        for path in [*log.glob("*.parquet"), *log.glob("_last_checkpoint")]:
            path.unlink()
        for path in log.glob("*.json"):
            lines = [json.loads(line) for line in path.read_text().splitlines()]
            for line in lines:
                line.get("metaData", {}).get("configuration", {}).pop(PROPERTY, None)
            path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    (job.layout.home / OWNER).unlink()
    (job.layout.home / TABLES).unlink()


@pytest.fixture
def former(tmp_path: Path) -> Job:
    """A job of a version without ids and notes: `checks` and `published` have never had a row."""
    made = Job(tmp_path)
    RunRecord(made.layout).end({})
    record = RunRecord(made.layout)
    record.begin("run", "spec.yaml")
    record.end({"status": "done"})
    made.run(BATCHES, BATCHES)
    # As the gate writes what it has asked: each with a transaction of its own, none of the table's name alone.
    row = pa.Table.from_pylist([{"run_id": "g"}], made.sink.specs["checks"].schema)
    made.sink.writer.append("checks", row, made.sink.app_id("checks/asked"), 3)
    made.layout.save(replace(HEAD, fingerprint={"queries": {"near": {}, "near3": {}}}))
    of_before(made)
    return made


def test_a_transaction_that_only_a_checkpoint_names_proves_it_too(former: Job) -> None:
    log = former.root / "checks" / "_delta_log"
    DeltaTable(str(former.root / "checks")).create_checkpoint()
    for path in log.glob("*.json"):
        path.unlink()
    assert Owner(former.root).stranger("checks") is None
    assert Owner(former.root, ("tests", "other")).stranger("checks") is not None


def goes_on(plan: Plan, layout: Layout) -> None:
    check_sink_location(plan, layout)
    RunRecord(layout).begin("run", "spec.yaml")
    assert check(plan, layout, HEAD).losses == []
    Sink(plan, DriverWriter(layout.root), "g").ensure_all()


def test_a_job_of_a_version_without_ids_goes_on_and_has_one_then(former: Job) -> None:
    rows = {n: former.rows(n) for n in ("near", "near_changes", "runs")}
    owner = Owner(former.root)
    assert owner.id is None and [t.name for t in tables(former.plan) if owner.stranger(t.name)] == []
    goes_on(former.plan, former.layout)
    after = Owner(former.root)
    assert {DeltaTable(str(former.root / t.name)).metadata().configuration[PROPERTY] for t in tables(former.plan)} == {after.id}
    assert rows == {n: former.rows(n) for n in rows}


def test_so_does_one_that_lacks_a_table(former: Job) -> None:
    """The notes that begin with the missing table name the others, too: those without a row are proven by them from then on."""
    shutil.rmtree(former.root / "job_runs")
    goes_on(former.plan, former.layout)
    assert Owner(former.root).stranger("checks") is None


def test_so_does_one_killed_while_its_tables_got_the_id(former: Job) -> None:
    specs = {t.name: t for t in tables(former.plan)}
    for name in ("job_runs", "runs", "near"):
        DriverWriter(former.root).ensure(specs[name])
    goes_on(former.plan, former.layout)


def test_so_does_a_generation_of_it_that_is_put_back(former: Job) -> None:
    """A rebuild of this version took its place, and is undone: the id stays, the notes go with the generation."""
    record = RunRecord(former.layout)
    record.begin("rebuild", "spec.yaml")
    built = Layout(str(former.layout.next))
    built.save(replace(HEAD, generation="g2", fingerprint={"queries": {"near": {}, "near3": {}}}))
    Sink(replace(former.plan, sink=str(built.root)), DriverWriter(built.root), "g2").ensure_all()
    swap(former.layout)
    record.end({"status": "done"})
    Sink(former.plan, DriverWriter(former.root), "g2").ensure_all()
    owner = Owner(former.root).id
    undo(former.layout)
    assert not Owner(former.root).knows
    goes_on(former.plan, former.layout)
    assert Owner(former.root).id == owner


def test_a_foreign_table_in_such_a_job_is_no_table_of_it(former: Job) -> None:
    for name, other in (("near", table_of_another), ("rejected", table_of_another)):
        shutil.rmtree(former.root / name)
        other(former.root / name)
        assert Owner(former.root).stranger(name) is not None
    before = everything(former.root / "near")
    with pytest.raises(SkybandError) as e:
        check(former.plan, former.layout, HEAD)
    assert e.value.code == "SKY-E205"
    with pytest.raises(SkybandError):
        DriverWriter(former.root).ensure(next(t for t in tables(former.plan) if t.name == "near"))
    assert everything(former.root / "near") == before


@pytest.mark.parametrize("name", [OWNER, TABLES])
@pytest.mark.parametrize(
    "text", ["", "null", "[]", "{", '{"id": "../../x"}', '{"id": 3}', '{"made": {"../x": {"id": "a", "version": 1}}}', "\0"]
)
def test_notes_with_odd_content_are_refused_by_name(job: Job, name: str, text: str) -> None:
    (job.layout.home / name).write_text(text)
    if name == TABLES and text.startswith('{"id"'):
        # Fields of a later version.
        return
    with pytest.raises(SkybandError) as e:
        Sink(job.plan, DriverWriter(job.root), "g").ensure_all()
    assert e.value.code == "SKY-E303" and str(job.layout.home / name) in e.value.message


def test_a_table_that_cannot_be_read_is_the_jobs_if_its_log_says_so(job: Job) -> None:
    """So that results can be made anew."""
    max((job.root / "near" / "_delta_log").glob("*.json")).write_text("{")
    assert Owner(job.root).stranger("near") is None
    check(job.plan, job.layout, HEAD, rebuild=True)
    assert not (job.root / "near").exists()


def test_properties_are_the_same_whoever_the_owner_is() -> None:
    spec = tables(make_plan("x"))[0]
    assert {**properties(spec, "a"), PROPERTY: "b"} == properties(spec, "b")
