"""Runs in this process that meet something unusual: a damaged or restored sink, odd names, links, files without permission, a signal."""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from hypothesis import given
from hypothesis import strategies as st

from skyband.framework.base.errors import SkybandError
from skyband.framework.plan.model import Plan
from skyband.framework.settings.spark import TASKS
from skyband.framework.sources.files.ledger import Ledger
from skyband.framework.sources.logs import Taken, file_url, last_batch, local_path, taken
from skyband.framework.sources.watermark_caps import Span
from skyband.framework.storage import delta_read
from skyband.framework.streaming.bucket.bucket_states import BucketState, last_states, text_of
from skyband.framework.streaming.bucket.state_files import StateFiles
from skyband.framework.streaming.job import clocks
from skyband.framework.streaming.job.layout import JobFile, Layout, reshaped
from skyband.framework.streaming.job.migrations import Before
from skyband.framework.streaming.local import loop
from skyband.framework.streaming.local.engine import LocalEngine
from skyband.framework.streaming.local.logs import Logs
from skyband.framework.streaming.local.tasks import Blocks
from skyband.framework.streaming.rows.config import HostConfig
from skyband.framework.streaming.run import spark_backlog
from skyband.framework.streaming.run.batch import Batch
from skyband.framework.streaming.run.context import Texts
from skyband.framework.streaming.run.runner import READING, Runner
from skyband.framework.streaming.spark.stop_signal import STOP
from skyband.framework.tables.writing.factory import writer_for
from skyband.jobs.cli import main
from skyband.jobs.running import streaming
from skyband.jobs.spec import load_plan
from tests.framework.streaming.local.test_loop import (
    QUERIES,
    Read,
    Row,
    content,
    continuous,
    no_number,
    no_spark,
    rehearsed,
    run,
    tables,
    write,
    write_spec,
)
from tests.spark.jobs import table

MICROS = 60_000_000
EPOCH = 1_577_836_800_000_000
"""Minute 0 of the rows, in microseconds."""
MODIFIED = 1_600_000_000
"""Second 0 of the files' times of modification."""


def layout_of(directory: Path) -> Layout:
    return Layout(str(directory / "out"))


def present_states(layout: Layout) -> dict[int, dict[str, bytes]]:
    return {b: StateFiles(layout.state).read(b, state.token)[1] for b, state in last_states(layout.root).items()}


def while_reading(spec: Path, do: Callable[[], object], sink: str | None = None, clock: int | None = None) -> list[Batch]:
    """A run that finds what ``do`` makes after its start."""
    plan = load_plan(str(spec))
    plan = plan if sink is None else replace(plan, sink=sink)
    batches: list[Batch] = []
    done: list[str] = []

    def phase(text: str) -> None:
        if text == READING and not done:
            done.append(text)
            do()

    engine = LocalEngine(no_spark)
    Runner(engine, plan, writer_for(plan.sink), batches.append, Texts(lambda _: None, phase), clock=clock).run(once=True)
    return batches


def noted(layout: Layout) -> list[str]:
    """The names of the files in the log of files."""
    return sorted(Path(str(local_path(t.url))).name for t in taken(layout.checkpoint / "sources" / "0"))


def accepted(directory: Path) -> int:
    return sum(r["accepted"] for r in table(directory, "runs").to_pylist())


def rows_in(batches: Sequence[Batch]) -> int:
    return sum(b.get("rows_in") for b in batches)


def refuse(monkeypatch: pytest.MonkeyPatch, name: str, refused: Path, number: int = errno.EACCES) -> None:
    """Make a function of ``os`` fail for one path, as it does for a user without rights (not for root, as whom tests may run)."""
    real = getattr(os, name)

    def checked(path: Any = ".", *args: Any, **more: Any) -> Any:
        if isinstance(path, str | os.PathLike) and os.fspath(path) == str(refused):
            raise OSError(number, os.strerror(number), str(refused))
        return real(path, *args, **more)

    monkeypatch.setattr(os, name, checked)


# Clocks of an earlier generation.


def test_a_generation_that_is_built_judges_rows_by_their_recorded_clocks(tmp_path: Path) -> None:
    directory = tmp_path / "job"
    spec = write_spec(directory)
    text = spec.read_text()
    spec.write_text(text.replace("tie_break: [x]}", "tie_break: [x], max_ahead: 1 hour}", 1))
    assert "max_ahead" in spec.read_text()
    write(directory, "0", [(1, 0, "p", 1), (2, 150, "p", 2)], 0)
    now = EPOCH + 30 * MICROS
    assert rows_in(while_reading(spec, lambda: None, clock=now)) == 2
    present, built = layout_of(directory), Layout(str(directory / "out" / "_skyband" / "next"))
    built.home.mkdir(parents=True)
    clocks.record(present, built)
    assert clocks.recorded_rows(built.home).num_rows == 1
    assert rows_in(while_reading(spec, lambda: None, sink=str(built.root), clock=now + 180 * MICROS)) == 2
    (rejected,) = delta_rows(built, "rejected")
    assert rejected["reason"] == "too_far_ahead" and json.loads(rejected["text"])["id"] == 2
    # A row that comes now is judged by the present clock.
    write(directory, "1", [(3, 151, "p", 3)], 1)
    assert rows_in(while_reading(spec, lambda: None, sink=str(built.root), clock=now + 180 * MICROS)) == 1
    assert delta_rows(built, "rejected") == [rejected]


def delta_rows(layout: Layout, name: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = delta_read.read(delta_read.open_table(layout.root, name), ["reason", "text"]).to_pylist()
    return rows


# Names that Spark takes for patterns.


@pytest.mark.parametrize("action", ["stop", "reject"])
def test_a_file_that_was_noted_after_the_last_batch_is_taken_back(tmp_path: Path, action: str) -> None:
    """A run was killed between noting the files of a batch and planning it: the batch before it stays done."""
    directory = tmp_path / "job"
    spec = write_spec(directory, more=f"on_bad_file: {action}")
    for n in range(3):
        write(directory, str(n), [(n, 30 * n, "p", n)], n)
    run(spec)
    layout = layout_of(directory)
    checkpoint = layout.checkpoint
    done = last_batch(checkpoint / "commits")
    plan = (checkpoint / "offsets" / str(done)).read_bytes()
    path = write(directory, "b[1]", [(20, 100, "p", 1)], 20)
    Logs(checkpoint).take(
        0, [Taken(file_url(str(path)), 1000 * (MODIFIED + 20), -1)], max(t.number for t in taken(checkpoint / "sources" / "0"))
    )
    assert noted(layout) == ["0.csv", "1.csv", "2.csv", "b[1].csv"]
    if action == "stop":
        with pytest.raises(SkybandError) as e:
            run(spec)
        assert e.value.code == "SKY-E301" and str(path) in str(e.value)
        path = path.rename(path.with_name("b1.csv"))
    warnings: list[str] = []
    batches = run(spec, warnings=warnings)
    assert (checkpoint / "offsets" / str(done)).read_bytes() == plan
    assert [b.number for b in batches] == list(range(done + 1, done + 1 + len(batches))) and batches
    batch_ids = sorted(table(directory, "runs")["batch_id"].to_pylist())
    assert batch_ids == list(range(last_batch(checkpoint / "commits") + 1))
    run(spec, finish=True)
    if action == "stop":
        assert noted(layout) == ["0.csv", "1.csv", "2.csv", "b1.csv"] and accepted(directory) == 4
    else:
        assert noted(layout) == ["0.csv", "1.csv", "2.csv"] and accepted(directory) == 3
        (rejected,) = table(directory, "rejected").to_pylist()
        assert rejected["reason"] == "bad_file" and json.loads(rejected["text"])["file"] == "b[1].csv"
        assert [w for w in warnings if "b[1].csv is set aside" in w]


@pytest.mark.parametrize("name", ["b[1]", "b*"])
def test_a_run_leaves_a_file_with_the_name_of_a_pattern_to_the_next_start(tmp_path: Path, name: str) -> None:
    directory = tmp_path / "job"
    spec = write_spec(directory, more="on_bad_file: reject")
    layout = layout_of(directory)
    write(directory, "a", [(1, 0, "p", 1)], 0)
    steps: list[tuple[Callable[[], object], int]] = [
        (lambda: None, 1),
        (lambda: write(directory, name, [(2, 10, "p", 1)], 1), 1),
        (lambda: write(directory, "c", [(3, 20, "p", 1)], 2), 2),
    ]
    assert rows_in(continuous(spec, steps)) == 2
    assert noted(layout) == ["a.csv", "c.csv"] and table(directory, "rejected").num_rows == 0
    warnings: list[str] = []
    assert rows_in(run(spec, finish=True, warnings=warnings)) == 1 and accepted(directory) == 2
    (rejected,) = table(directory, "rejected").to_pylist()
    assert rejected["reason"] == "bad_file" and json.loads(rejected["text"])["file"] == f"{name}.csv"
    assert [w for w in warnings if f"{name}.csv is set aside" in w]
    assert run(spec, finish=True) == [] and noted(layout) == ["a.csv", "c.csv"]


@pytest.mark.parametrize("name", ["b[1]", "b*"])
def test_a_run_ends_at_a_file_with_the_name_of_a_pattern(tmp_path: Path, name: str) -> None:
    directory = tmp_path / "job"
    spec = write_spec(directory)
    layout = layout_of(directory)
    write(directory, "a", [(1, 0, "p", 1)], 0)
    run(spec)
    path = directory / "in" / f"{name}.csv"
    with pytest.raises(SkybandError) as e:
        while_reading(spec, lambda: write(directory, name, [(2, 10, "p", 1)], 1))
    assert e.value.code == "SKY-E301" and str(path) in str(e.value)
    assert noted(layout) == ["a.csv"]
    path.rename(path.with_name("b.csv"))
    assert rows_in(run(spec, finish=True)) == 1 and accepted(directory) == 2
    assert noted(layout) == ["a.csv", "b.csv"]


# A sink that is damaged or restored.


def job_with_states(directory: Path) -> Path:
    spec = write_spec(directory, "max_files: 1, buckets: 2")
    for n in range(2):
        write(directory, str(n), [(100 * n + i, 15 * n + i / 20, f"{i % 40:0100d}", i % 3) for i in range(200)], n)
    run(spec)
    return spec


@pytest.mark.parametrize("lost", ["directory", "list", "value"])
@pytest.mark.parametrize("idle", [False, True])
def test_a_lost_state_ends_the_next_run_at_its_start(tmp_path: Path, lost: str, idle: bool) -> None:
    directory = tmp_path / "job"
    spec = job_with_states(directory)
    lose(directory, lost)
    if not idle:
        # A row for the other bucket alone would do.
        write(directory, "2", [(900, 40, "p", 1)], 2)
    before = content(table(directory, "runs"), ())
    for finish in (False, True):
        with pytest.raises(SkybandError) as e:
            run(spec, finish=finish)
        assert e.value.code == "SKY-E303" and str(directory / "out" / "_skyband" / "state" / "1") in str(e.value)
    assert content(table(directory, "runs"), ()) == before and noted(layout_of(directory)) == ["0.csv", "1.csv"]


@pytest.mark.parametrize("lost", ["directory", "list", "value"])
def test_a_lost_state_ends_an_idle_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], lost: str
) -> None:
    """A run that finds nothing new opens no job, and makes the same checks all the same."""
    directory = tmp_path / "job"
    spec = job_with_states(directory)
    monkeypatch.setattr(streaming.StreamJob, "run", no_stream)
    command = ["run", str(spec), "--engine", "local", "--quiet"]
    assert main(command) == 0
    lose(directory, lost)
    capsys.readouterr()
    assert main(command) != 0
    assert "SKY-E303" in capsys.readouterr().err


def no_stream(job: streaming.StreamJob) -> NoReturn:
    pytest.fail("the run is not idle")


def lose(directory: Path, lost: str) -> None:
    """Remove the state of bucket 1, in whole or in part."""
    state = directory / "out" / "_skyband" / "state" / "1"
    if lost == "directory":
        shutil.rmtree(state)
        return
    token = last_states(layout_of(directory).root)[1].token
    if lost == "list":
        (state / f"{token}.list").unlink()
        return
    files, _ = StateFiles(state.parent).read(1, token)
    assert files.large
    (state / next(iter(files.large.values()))[0]).unlink()


def test_a_damaged_list_of_an_earlier_batch_fails_no_run(tmp_path: Path) -> None:
    """It may name any of the files that are there: they stay."""
    directory = tmp_path / "job"
    spec = write_spec(directory, "max_files: 1, buckets: 1")
    parts: list[list[Row]] = [[(100 * n + i, 30 * n + i / 20, f"{i:0100d}", i % 3) for i in range(60)] for n in range(4)]
    for n in range(3):
        write(directory, str(n), parts[n], n)
    run(spec)
    first = min((row for row in table(directory, "runs").to_pylist() if row["state"] != "{}"), key=lambda row: int(row["batch_id"]))
    token = json.loads(first["state"])["0"][0]
    state = directory / "out" / "_skyband" / "state" / "0"
    (state / f"{token}.list").write_bytes(b"damaged")
    before = {p.name for p in state.iterdir()}
    write(directory, "3", parts[3], 3)
    warnings: list[str] = []
    assert rows_in(run(spec, finish=True, warnings=warnings)) == 60
    told = [w for w in warnings if w.startswith("files of former states stay: ")]
    assert told and str(state / f"{token}.list") in told[0] and before < {p.name for p in state.iterdir()}
    expected = rehearsed(spec, [[r for some in parts[:3] for r in some], parts[3]], True)
    assert tables(lambda name: table(directory, name), ["best"]) == tables(expected.tables().__getitem__, ["best"])


@pytest.mark.parametrize("restored", ["offsets", "commits", "both"])
def test_logs_that_change_while_a_run_is_active_end_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, restored: str) -> None:
    directory = tmp_path / "job"
    spec = write_spec(directory)
    for n in range(4):
        write(directory, str(n), [(n, 30 * n, "p", n)], n)
    checkpoint, backup = layout_of(directory).checkpoint, tmp_path / "backup"
    done: list[int] = []

    def restore(name: str) -> None:
        if name != "local.done":
            return
        done.append(last_batch(checkpoint / "commits"))
        if len(done) == 1:
            shutil.copytree(str(checkpoint), backup)
        elif len(done) == 2:
            for log in ("offsets", "commits") if restored == "both" else (restored,):
                shutil.rmtree(str(checkpoint / log))
                shutil.copytree(backup / log, str(checkpoint / log))

    monkeypatch.setattr(loop, "failpoint", restore)
    with pytest.raises(SkybandError) as e:
        run(spec)
    assert e.value.code == "SKY-E303" and done == [0, 1]
    assert sorted(table(directory, "runs")["batch_id"].to_pylist()) == [0, 1]
    assert noted(layout_of(directory)) == ["0.csv", "1.csv"]


# What the system says of files.


@pytest.mark.parametrize("kind", ["itself", "nowhere", "directory"])
@pytest.mark.parametrize("size", [1, 10])
def test_a_link_that_leads_nowhere_is_passed_over(tmp_path: Path, size: int, kind: str) -> None:
    """It is no file for which Spark has to start, and none of the backlog."""
    directory = tmp_path / "job"
    spec = write_spec(directory, f"max_files: {size}")
    write(directory, "a", [(1, 0, "p", 1)], 0)
    link = directory / "in" / "link.csv"
    link.symlink_to({"itself": "link.csv", "nowhere": "gone.csv", "directory": "."}[kind])
    assert rows_in(run(spec)) == 1
    write(directory, "b", [(2, 10, "p", 1)], 1)
    assert rows_in(run(spec)) == 1
    assert noted(layout_of(directory)) == ["a.csv", "b.csv"] and run(spec) == []


@pytest.mark.parametrize("kind", ["scandir", "stat"])
def test_what_must_not_be_read_ends_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """It may hold rows that come next: passed over, they would be late when it can be read."""
    directory = tmp_path / "job"
    spec = write_spec(directory)
    write(directory, "a", [(1, 0, "p", 1)], 0)
    run(spec)
    write(directory, "c", [(3, 60, "p", 1)], 3)
    below = directory / "in" / "closed"
    below.mkdir()
    path = below / "b.csv"
    if kind == "scandir":
        (directory / "in" / "c.csv").replace(path)
        refused = below
    else:
        refused = directory / "in" / "c.csv"
    before = content(table(directory, "runs"), ())
    with monkeypatch.context() as patch, pytest.raises(SkybandError) as e:
        refuse(patch, kind, refused)
        run(spec)
    assert e.value.code == "SKY-E301" and str(refused) in str(e.value)
    assert content(table(directory, "runs"), ()) == before and noted(layout_of(directory)) == ["a.csv"]
    # One that is gone by now is none that must not be read.
    with monkeypatch.context() as patch:
        refuse(patch, kind, refused, errno.ENOENT)
        assert run(spec) == []


# How paths are spelled.


@pytest.mark.parametrize(
    "path, spelled",
    [
        ("/in/a+b (1),x.csv", "/in/a+b%20(1),x.csv"),
        ("/in/ü.csv", "/in/ü.csv"),
        ("/in/k=v@h;!$&'*.csv", "/in/k=v@h;!$&'*.csv"),
        ("/in/a:b~c_d-e.csv", "/in/a:b~c_d-e.csv"),
        ("/in/50%.csv", "/in/50%25.csv"),
        ("/in/%41.csv", "/in/%2541.csv"),
        ("/in/a#b?c.csv", "/in/a%23b%3Fc.csv"),
        ("/in/b[1].csv", "/in/b%5B1%5D.csv"),
        ('/in/{a}|b^c`d\\e"f<g>.csv', "/in/%7Ba%7D%7Cb%5Ec%60d%5Ce%22f%3Cg%3E.csv"),
        ("/in/\n\t\x01\x7f.csv", "/in/%0A%09%01%7F.csv"),
        ("/in/\x85\xa0\u2028.csv", "/in/%C2%85%C2%A0%E2%80%A8.csv"),
        ("/in/\U0001f600中.csv", "/in/\U0001f600中.csv"),
        ("/in/\udcff.csv", "/in/%FF.csv"),
        # Neither a space nor a control: the joiner of emojis, marks of direction, private and unassigned characters.
        ("/in/a\u200db\u200ec\xad\ufeff\ue000\u0378.csv", "/in/a\u200db\u200ec\xad\ufeff\ue000\u0378.csv"),
    ],
)
def test_a_path_is_spelled_as_in_javas_uris(path: str, spelled: str) -> None:
    assert file_url(path) == f"file://{spelled}"


@given(st.binary(max_size=12))
def test_the_url_of_a_file_leads_to_it(name: bytes) -> None:
    """Of any name that a file may have, one that is no text included."""
    path = "/" + os.fsdecode(name.replace(b"\0", b""))
    assert local_path(file_url(path)) == path


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=8))
def test_the_url_of_a_file_with_a_text_as_its_name_leads_to_it(name: str) -> None:
    assert local_path(file_url(f"/{name}")) == f"/{name}"


def test_the_origin_of_a_row_is_spelled_as_its_url(tmp_path: Path) -> None:
    directory = tmp_path / "job"
    spec = write_spec(directory, "max_files: 10")
    for n, name in enumerate(["a+b (1),x", "ü", "k=v@h;!$&'", "a b#c%41"]):
        write(directory, name, [(None, n, "p", 1), (n, n, "p", 1)], n)
    assert rows_in(run(spec)) == 8
    origins = sorted(table(directory, "rejected")["origin"].to_pylist())
    assert origins == ["a%20b%23c%2541.csv", "a+b%20(1),x.csv", "k=v@h;!$&'.csv", "ü.csv"]
    assert run(spec) == []


# Files that only Spark reads.


class Interrupted(Read):
    """Stands for Spark that gets a terminal's Ctrl-C, too, while it reads."""

    def _packed(
        self,
        spark: object,
        plan: Plan,
        job: JobFile,
        config: HostConfig,
        urls: Sequence[str],
        clock: int | None,
        caps: object,
        lookups: object,
    ) -> Blocks:
        self.urls.append([Path(u).name for u in urls])
        STOP.signal = signal.SIGINT
        raise RuntimeError(f"Job aborted while reading file {urls[0]}. It was cancelled")


@pytest.mark.parametrize("action", ["stop", "reject"])
def test_a_signal_while_spark_reads_sets_no_file_aside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, action: str) -> None:
    directory = tmp_path / "job"
    spec = write_spec(directory, more=f"on_bad_file: {action}")
    write(directory, "0", [(1, 0, "p", 1)], 0)
    no_number(write(directory, "1", [(2, 30, "p", 1)], 1))
    plan = load_plan(str(spec))
    read = Interrupted(monkeypatch)
    engine = LocalEngine(read.start)
    monkeypatch.setattr(spark_backlog, "spans_by_spark", Spans(directory).spans)
    try:
        done = Runner(engine, plan, writer_for(plan.sink), lambda _: None, Texts(lambda _: None)).run(once=True, finish=True)
    finally:
        STOP.signal = None
    assert not done.completed and read.urls == [["1.csv"]]
    layout = layout_of(directory)
    assert (last_batch(layout.checkpoint / "offsets"), last_batch(layout.checkpoint / "commits")) == (1, 0)
    assert not Ledger.load(layout.home).aside and table(directory, "runs")["batch_id"].to_pylist() == [0]
    write(directory, "1", [(2, 30, "p", 1)], 1)
    assert run(spec, finish=True)[0].number == 1
    assert accepted(directory) == 2 and table(directory, "rejected").num_rows == 0


class Spans:
    """Stands for Spark that reads files for their event times: notes their names. Each has rows of minute 30 n to 30 n + 9."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.asked: list[list[str]] = []

    def spans(self, spark: object, plan: Plan, part: object, urls: Sequence[str], lookups: object, latest: int | None) -> dict[str, Span]:
        self.asked.append([Path(u).name for u in urls])
        starts = {u: EPOCH + 30 * int(Path(u).stem) * MICROS for u in urls}
        return {u: (start, start + 9 * MICROS) for u, start in starts.items()}


def no_time(path: Path) -> None:
    """Add a row whose event time does not parse."""
    at = path.stat().st_mtime
    path.write_text(path.read_text() + "7,no time,p,1\n")
    os.utime(path, (at, at))


@pytest.mark.parametrize("order", ["forwards", "backwards"])
@pytest.mark.parametrize("bad", ["0", "2", "3"])
def test_spark_is_asked_for_the_event_times_of_its_files_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, order: str, bad: str
) -> None:
    directory, good = tmp_path / "job", tmp_path / "good"
    spec = write_spec(directory)
    rows: list[list[Row]] = [[(10 * n + i, 30 * n + i, "p", (i * n) % 5) for i in range(10)] for n in range(4)]
    for n, some in enumerate(rows):
        for where in (directory, good):
            write(where, str(n), some, n if order == "forwards" else 9 - n)
    no_time(directory / "in" / f"{bad}.csv")
    read, spans = Read(monkeypatch, good), Spans(directory)
    monkeypatch.setattr(spark_backlog, "spans_by_spark", spans.spans)
    warnings: list[str] = []
    batches = run(spec, start=read.start, warnings=warnings, finish=True)
    assert spans.asked == [[f"{bad}.csv"]] and read.urls == [[f"{bad}.csv"]]
    # Files that are in the order of event times wait for none.
    waits = [w for w in warnings if "files are waiting" in w]
    assert len(waits) == (order == "backwards")
    assert rows_in(batches) == sum(b.get("accepted") for b in batches) == 40
    expected = rehearsed(spec, [[r for some in rows for r in some]], True)
    assert tables(lambda name: table(directory, name), ["best"]) == tables(expected.tables().__getitem__, ["best"])


# What a run costs.


def test_looks_at_files_grow_with_their_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counted = {}
    real = os.path.exists
    for files in (20, 40):
        directory = tmp_path / str(files)
        spec = write_spec(directory)
        for n in range(files):
            write(directory, f"{n:02}", [(n, n, "p", 1)], n)
        looks: list[str] = []

        def exists(path: Any, directory: Path = directory, looks: list[str] = looks) -> bool:
            if str(path).startswith(str(directory / "in")):
                looks.append(str(path))
            return real(path)

        with monkeypatch.context() as patch:
            patch.setattr(os.path, "exists", exists)
            assert len(run(spec)) >= files
        counted[files] = len(looks)
    assert counted[20] >= 20 and counted[40] <= 2 * counted[20]


def test_only_the_last_row_of_runs_is_read_for_its_states(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    last = {0: BucketState("0123456789abcdef", 7), 2: BucketState("fedcba9876543210", None)}
    texts = ["no states", "", "{", text_of(last)]
    # The last batch, not the row that stands last.
    rows = pa.table({"batch_id": pa.array([0, 11, 7, 12][: len(texts)], pa.int64()), "state": texts})
    write_deltalake(str(tmp_path / "runs"), rows.slice(3))
    write_deltalake(str(tmp_path / "runs"), rows.slice(0, 3), mode="append")
    seen: list[list[Any]] = []
    real = delta_read.read

    def read(*args: Any, **more: Any) -> pa.Table:
        found = real(*args, **more)
        if "state" in found.column_names:
            seen.append(found["state"].to_pylist())
        return found

    monkeypatch.setattr(delta_read, "read", read)
    assert last_states(Layout(str(tmp_path)).root) == last
    assert seen == [[text_of(last)]]


# What a run says of the state before it starts.


def test_tasks_are_nothing_to_a_state_and_shards_are_made_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = tmp_path / "job"
    spec = write_spec(directory, queries=QUERIES)
    write(directory, "0", [(1, 0, "p", 1)], 0)
    run(spec)
    plan, layout = load_plan(str(spec)), layout_of(directory)
    job = layout.known()
    monkeypatch.setenv(TASKS, "4")
    for before in (None, Before(), Before(moving=3)):
        kept = replace(job, before=before)
        assert [reshaped(plan, made, layout) for made in (kept, replace(kept, partitions=9))] == [[], []]
        # Whichever engine goes on, and with as many shards as its plan asks for.
        assert reshaped(plan, replace(kept, shards=2), layout) == ["run.shards was 2, now 1: the state of shards is made first"]
        assert reshaped(replace(plan, shards=2), replace(kept, shards=2), layout) == []
    # Buckets are divided whichever engine runs the job.
    (said,) = reshaped(replace(plan, buckets=2 * plan.buckets), job, layout)
    assert "run.buckets" in said
