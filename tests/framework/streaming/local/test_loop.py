"""Whole jobs in this process, without Spark: however rows come in files, batches and runs, the tables are those of the definition."""

from __future__ import annotations

import json
import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import pyarrow as pa
import pyarrow.parquet
import pytest

from skyband.framework.base.errors import SkybandError
from skyband.framework.lookups.join import Tables
from skyband.framework.plan.model import Plan
from skyband.framework.rehearsal.rehearsal import Rehearsal
from skyband.framework.sources.logs import last_batch, next_watermark, offset, taken, watermark
from skyband.framework.sources.watermark_caps import WatermarkCaps
from skyband.framework.streaming.bucket.bucket_states import last_states
from skyband.framework.streaming.job.arrow_files import readable
from skyband.framework.streaming.job.layout import JobFile, Layout
from skyband.framework.streaming.local import by_spark, loop
from skyband.framework.streaming.local.engine import LocalEngine
from skyband.framework.streaming.local.tasks import Blocks
from skyband.framework.streaming.rows.arrow_intake import ArrowIntake, capped
from skyband.framework.streaming.rows.config import HostConfig
from skyband.framework.streaming.rows.pack import Pack
from skyband.framework.streaming.run import commit
from skyband.framework.streaming.run.batch import Batch
from skyband.framework.streaming.run.context import Texts
from skyband.framework.streaming.run.runner import Finished, Runner
from skyband.framework.streaming.spark.stop_signal import STOP
from skyband.framework.tables.writing.factory import writer_for
from skyband.jobs.spec import load_plan
from tests.seeds import seeds
from tests.spark.jobs import stamp, table, write_file
from tests.specs import spec_text

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COLUMNS = ("id", "ts", "grp", "x")
Row = tuple[int | None, float | None, str | None, int | None]
"""Id, event time in minutes, group and x."""
QUERIES = {
    "best": "{type: topk, scoring: x, k: 2}",
    "hourly": "{type: topk, scoring: x, k: 2, window: {count: 4}, every: 10 minutes}",
    "pairs": "{type: topk_pairs, scoring: near, k: 2}",
}
TRANSFORM = ('{derive: {at: "ts - interval 1 minute", half: "x / 2"}}', '{where: "id is null or id % 7 <> 3"}')
RULES = (
    '{name: small, expect: "half < 1.5"}, {name: early, expect: "minute(at) < 50 or half is null"}, '
    "{name: known, expect: \"grp <> 'r' or half > 0\", severity: warn}"
)
MINUTE = 60_000_000
DELAY = 5
"""Minutes by which the watermark is behind."""


def no_spark() -> NoReturn:
    pytest.fail("Spark was started")


def run(
    spec: Path, once: bool = True, finish: bool = False, start: Callable[[], SparkSession] = no_spark,
    report: Callable[[Batch], object] = lambda batch: None, warnings: list[str] | None = None,
) -> list[Batch]:  # fmt: skip
    """A run of the job in this process, as after a restart. Return its batches."""
    plan = load_plan(str(spec))
    batches: list[Batch] = []

    def done(batch: Batch) -> None:
        batches.append(batch)
        report(batch)

    engine = LocalEngine(start)
    warn = (lambda text: None) if warnings is None else warnings.append
    finished: Finished = Runner(engine, plan, writer_for(plan.sink), done, Texts(warn)).run(once=once, finish=finish)
    assert finished.completed
    return batches


def write_spec(
    directory: Path, run_options: str = "max_files: 1", queries: Iterable[str] = ("best",), form: str = "csv", more: str = "",
    sql: bool = False,
) -> Path:  # fmt: skip
    """Write the spec of a job. ``sql``: its event time is derived, and it has filters and row rules."""
    directory.mkdir(exist_ok=True)
    path = directory / "spec.yaml"
    path.write_text(
        spec_text(
            "small", "{id: bigint, ts: timestamp, grp: string, x: double}", format=form, path=f"{directory}/in",
            options="{header: true}" if form == "csv" else None, partition_by="[grp]", sink=f"{{path: {directory}/out}}", more=more,
            event_time=f"{{column: {'at' if sql else 'ts'}, watermark: {DELAY} minutes, tie_break: [x]}}",
            **({"transform": TRANSFORM} if sql else {}), quality=f"{{max_rejected: 100%, rows: [{RULES if sql else ''}]}}",
            window="{count: 6, time: 20 minutes}",
            scoring={"x": "{expression: x, direction: max}", "near": '{expression: "abs(a.x - b.x)", direction: min}'},
            queries={name: QUERIES[name] for name in queries}, run=f"{{trigger: once, {run_options}}}",
        )
    )  # fmt: skip
    return path


def write(directory: Path, name: str, rows: Sequence[Row], at: int, form: str = "csv") -> Path:
    """A file of the source, modified at second ``at``."""
    path = directory / "in" / f"{name}.{form}"
    if form == "csv":
        cells = [["" if i is None else i, "" if m is None else stamp(m), g or "", "" if x is None else x] for i, m, g, x in rows]
        write_file(directory, path.name, cells, at, COLUMNS)
        return path
    path.parent.mkdir(exist_ok=True)
    values = [{"id": i, "ts": None if m is None else _time(m), "grp": g, "x": x} for i, m, g, x in rows]
    schema = pa.schema([("id", pa.int64()), ("ts", pa.timestamp("us", "UTC")), ("grp", pa.string()), ("x", pa.float64())])
    hidden = path.with_name(f"_{path.name}")
    pyarrow.parquet.write_table(pa.Table.from_pylist(values, schema), hidden)
    os.utime(hidden, (1_600_000_000 + at, 1_600_000_000 + at))
    hidden.replace(path)
    return path


def _time(minute: float) -> datetime:
    return datetime(2020, 1, 1, tzinfo=UTC) + timedelta(minutes=minute)


def rehearsed(spec: Path, runs: Sequence[Sequence[Row]], finish: bool) -> Rehearsal:
    """The job as the semantics define it: all that is there when a run starts is a unit."""
    job = Rehearsal(load_plan(str(spec)))
    for rows in runs:
        times = [None if m is None else round(_time(m).timestamp() * 1e6) for _, m, _, _ in rows]
        job.drop([{"id": i, "ts": t, "grp": g, "x": None if x is None else float(x)} for t, (i, _, g, x) in zip(times, rows, strict=True)])
    if finish:
        job.finish()
    return job


def content(rows: pa.Table, without: Sequence[str] = ("batch_id",), order: Sequence[str] = ()) -> list[str]:
    """Rows as text: in the order of columns, or sorted where none is said."""
    if order:
        rows = rows.sort_by([(name, "ascending") for name in order])
    texts = [repr(sorted((n, str(v)) for n, v in row.items() if n not in without)) for row in rows.to_pylist()]
    return texts if order else sorted(texts)


def tables(get: Callable[[str], pa.Table], queries: Iterable[str], finished: bool = True) -> dict[str, list[str]]:
    """The tables of a job as far as neither batches nor buckets nor files are in them.

    ``finished``: the input is complete; otherwise results may be as of a frontier that nothing was due for.
    """
    of_now = ("batch_id", *(() if finished else ("as_of",)))
    found = {"rejected": content(get("rejected"), ("batch_id", "origin")), "heads": content(get("heads"), ("batch_id", "as_of", "bucket"))}
    for q in queries:
        found[f"{q}_changes"] = content(get(f"{q}_changes"), order=("grp", "step", "pos"))
        found |= {q: content(get(q)), f"{q}_now": content(get(f"{q}_now"), of_now)}
    return found


def late_by_definition(runs: Sequence[Sequence[Row]]) -> int:
    """The rows that are before F when they arrive."""
    frontier, late = float("-inf"), 0
    for rows in runs:
        usable = [m for i, m, g, _ in rows if None not in (i, m, g) and m is not None]
        late += sum(m < frontier for m in usable)
        frontier = max([frontier, *(m - DELAY for m in usable if m >= frontier)])
    return late


def random_rows(rng: random.Random, first: int, many: int, minute: int) -> list[Row]:
    """Rows with equal times, ids twice, nulls; a few are far behind."""
    rows: list[Row] = []
    for n in range(many):
        at = max(0, minute + rng.randrange(30) - (60 if rng.random() < 0.08 else 0))
        ident = first + (rng.randrange(n) if n and rng.random() < 0.15 else n)
        row: list[Any] = [ident, at, rng.choice("pqr"), rng.randrange(4) if rng.random() < 0.9 else None]
        if rng.random() < 0.06:
            row[rng.randrange(3)] = None
        rows.append((row[0], row[1], row[2], row[3]))
    return rows


def in_files(rng: random.Random, rows: Sequence[Row]) -> list[list[Row]]:
    """Rows cut into files, which are by their times of event, or by nothing."""
    rows = sorted(rows, key=lambda r: r[1] or 0) if rng.random() < 0.6 else rng.sample(rows, len(rows))
    cuts = sorted(rng.sample(range(len(rows) + 1), rng.randrange(min(5, len(rows)))))
    return [list(rows[a:b]) for a, b in zip([0, *cuts], [*cuts, len(rows)], strict=True)]


@pytest.mark.long
@pytest.mark.parametrize("seed", seeds(0, 14))
@pytest.mark.parametrize("sql", [False, True])
def test_tables_are_those_of_the_definition(tmp_path: Path, sql: bool, seed: int) -> None:
    rng = random.Random(seed)
    form = "parquet" if seed % 5 == 4 else "csv"
    queries = rng.sample(sorted(QUERIES), rng.randrange(1, 4))
    size = rng.choice(
        ["max_files: 1", "max_files: 2", "max_files: 3", "max_bytes: 1k"] if form == "csv" else ["max_files: 1", "max_files: 2"]
    )
    spec = write_spec(tmp_path / "job", f"{size}, buckets: {rng.randrange(1, 5)}", queries, form, sql=sql)
    runs: list[list[Row]] = []
    finish, many = rng.random() < 0.7, rng.randrange(1, 4)

    def cut_short(batch: Batch) -> None:
        if rng.random() < 0.15:
            raise KeyboardInterrupt

    for n in range(many):
        rows = random_rows(rng, 1_000 * n, rng.randrange(1, 40), 25 * n)
        for i, some in enumerate(in_files(rng, rows)):
            write(tmp_path / "job", f"{n}-{rng.randrange(10)}-{i}", some, at=10 * n + rng.randrange(4), form=form)
        runs.append(rows)
        if rng.random() < 0.3:
            # Batch by batch, each run ended where its batch is in the tables and the log does not say so.
            for _ in range(3):
                try:
                    run(spec, report=cut_short)
                except KeyboardInterrupt:
                    continue
        run(spec, finish=finish and n == many - 1)
    batches = table(tmp_path / "job", "runs").sort_by("batch_id").to_pylist()
    job = rehearsed(spec, runs, finish)
    expected = tables(job.tables().__getitem__, queries, finish)
    assert tables(lambda name: table(tmp_path / "job", name), queries, finish) == expected
    assert [b["batch_id"] for b in batches] == list(range(len(batches)))
    assert sum(b["rows_in"] for b in batches) == sum(len(rows) for rows in runs)
    assert sum(b["rejected_late"] for b in batches) == job.counts["late"]
    assert sql or job.counts["late"] == late_by_definition(runs)
    assert [sum(b[name] for b in batches) for name in ("filtered", "rejected_rule")] == [
        job.counts[n] for n in ("filtered", "rejected_rule")
    ]
    assert sum((Counter(json.loads(b["warned"])) for b in batches), Counter[str]()) == job.counts.warned()
    assert sum(b["accepted"] for b in batches) == job.counts["accepted"]
    assert sum(b["pending_change"] for b in batches) == job.counts["pending"]
    assert not finish or job.counts["pending"] == 0


@pytest.mark.parametrize("sql", [False, True])
def test_a_backlog_in_the_wrong_order_is_a_unit(tmp_path: Path, sql: bool) -> None:
    """The file with the last event times is read first: none of the others is late."""
    spec = write_spec(tmp_path / "job", "max_files: 1, buckets: 3", QUERIES, sql=sql)
    rows: list[list[Row]] = [[(10 * n + i, 30 * n + 3 * i, "pq"[i % 2], (i * n) % 5) for i in range(10)] for n in range(4)]
    for at, n in enumerate((3, 1, 2, 0)):
        write(tmp_path / "job", str(n), rows[n], at)
    warnings: list[str] = []
    batches = run(spec, finish=True, warnings=warnings)
    assert [t.split(":")[0] for t in warnings] == [
        "4 files are waiting, more than one batch takes, and their modification times are not in the order of their event times"
    ]
    job = rehearsed(spec, [[r for some in rows for r in some]], True)
    assert sum(b.get("rows_in") for b in batches) == 40
    assert sum(b.get("accepted") for b in batches) == job.counts["accepted"]
    assert job.counts["accepted"] < 35 if sql else job.counts["accepted"] == 40
    assert tables(lambda name: table(tmp_path / "job", name), QUERIES) == tables(job.tables().__getitem__, QUERIES)
    # Afterwards the watermark is where one batch would have put it: a row of before is late.
    write(tmp_path / "job", "late", [(999, 30, "p", 1)], 10)
    assert [b.get("late") for b in run(spec)] == [1]


def test_batches_take_files_as_spark_would(tmp_path: Path) -> None:
    """By their times of modification, then by name; none without files follows, and the logs say all that."""
    directory = tmp_path / "job"
    spec = write_spec(directory, "max_files: 2")
    for name, minute, at in (("b", 0, 1), ("a", 1, 1), ("c", 2, 0), ("e", 40, 5), ("d", 38, 5)):
        write(directory, name, [(ord(name), minute, "p", 1)], at)
    run(spec)
    checkpoint = directory / "out" / "_skyband" / "checkpoint"
    logged = [(t.number, Path(t.url).name, t.modified_ms) for t in taken(checkpoint / "sources" / "0")]
    assert [(n, name) for n, name, _ in sorted(logged)] == [(0, "a.csv"), (0, "c.csv"), (1, "b.csv"), (1, "d.csv"), (2, "e.csv")]
    assert {name: ms for _, name, ms in logged}["e.csv"] == 1_600_000_005_000
    last = last_batch(checkpoint / "commits")
    assert last_batch(checkpoint / "offsets") == last
    assert [offset(checkpoint, batch) for batch in range(last + 1)] == [0, 1, 2]
    # Each batch begins with the watermark to which those before it have moved it.
    ends = [_time(minute - DELAY) for minute in (2, 38, 40)]
    assert watermark(checkpoint) == round(ends[1].timestamp() * 1000) and next_watermark(checkpoint) == round(ends[2].timestamp() * 1000)
    rows = table(directory, "runs").sort_by("batch_id").to_pylist()
    assert [(r["rows_in"], r["accepted"], r["pending"]) for r in rows] == [(2, 0, 2), (2, 3, 1), (1, 0, 2)]
    assert [r["frontier"] for r in rows] == ends


def test_an_idle_run_and_a_second_finish_change_nothing(tmp_path: Path) -> None:
    directory = tmp_path / "job"
    spec = write_spec(directory, "max_files: 1, buckets: 2", ("best", "hourly"))
    write(directory, "a", [(i, i, "pq"[i % 2], i % 3) for i in range(30)], 0)
    assert run(spec) and run(spec) == []
    assert run(spec, finish=True)

    def snapshot() -> dict[str, Any]:
        checkpoint = directory / "out" / "_skyband" / "checkpoint"
        files = {str(p.relative_to(checkpoint)): p.read_bytes() for p in checkpoint.rglob("*") if p.is_file()}
        states = {str(p): p.read_bytes() for p in (directory / "out" / "_skyband" / "state").rglob("*") if p.is_file()}
        names = ("runs", "rejected", "heads", "best_changes", "best", "best_now", "hourly_changes", "hourly", "hourly_now")
        return {"files": files, "states": states, **{name: content(table(directory, name), ()) for name in names}}

    before = snapshot()
    for finish in (True, False, True):
        assert run(spec, finish=finish) == []
        assert snapshot() == before
    # A finish after more rows is another one.
    write(directory, "b", [(100, 40, "p", 1)], 1)
    batches = run(spec, finish=True)
    assert sum(b.get("accepted") for b in batches) == 1
    assert table(directory, "runs").num_rows == len(before["runs"]) + len(batches)


def test_a_job_without_rows(tmp_path: Path) -> None:
    spec = write_spec(tmp_path / "job")
    (tmp_path / "job" / "in").mkdir()
    for _ in range(2):
        with pytest.raises(SkybandError) as e:
            run(spec, finish=True)
        assert e.value.code == "SKY-E301" and str(tmp_path / "job" / "in") in str(e.value)
    assert not (tmp_path / "job" / "out" / "runs").exists()
    write(tmp_path / "job", "none", [], 0)
    assert [b.get("rows_in") for b in run(spec, finish=True)] == [0]
    write(tmp_path / "job", "one", [(1, 0, "p", 1)], 1)
    assert sum(b.get("accepted") for b in run(spec, finish=True)) == 1


def test_only_files_of_states_that_runs_names_stay(tmp_path: Path) -> None:
    directory = tmp_path / "job"
    spec = write_spec(directory, "max_files: 1, buckets: 2")
    for n in range(6):
        write(directory, str(n), [(10 * n + i, 4 * n + i, "pqrs"[i], i) for i in range(4)], n)
    run(spec, finish=True)
    named: dict[str, set[str]] = {}
    for row in table(directory, "runs").to_pylist():
        for bucket, (token, _) in json.loads(row["state"]).items():
            named.setdefault(bucket, set()).add(token)
    assert len(named) == 2
    for bucket, tokens in named.items():
        there = {p.name for p in (directory / "out" / "_skyband" / "state" / bucket).iterdir()}
        assert {name.partition(".")[0] for name in there if name.endswith(".list")} <= tokens
        assert f"{last_states(directory / 'out')[int(bucket)].token}.list" in there


def test_the_tasks_of_a_batch_are_over_when_it_is_measured_and_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What ``Tasks`` returns has run: the fail point after it comes after the states are saved, and ``batch_ms`` has the time it took."""
    directory = tmp_path / "job"
    spec = write_spec(directory)
    write(directory, "0", [(1, 0, "p", 1)], 0)
    saved: list[int] = []

    def noted(name: str) -> None:
        if name == "state.after":
            saved.append(len(list((directory / "out" / "_skyband" / "state").glob("*/*.list"))))

    monkeypatch.setattr(commit, "failpoint", noted)
    run(spec)
    assert saved[0] == 1


# Signals and a source that grows.


def continuous(spec: Path, steps: Sequence[tuple[Callable[[], object], int]], **more: Any) -> list[Batch]:
    """Run until the last of ``steps``: each is done when the batches so far have had the rows of the one before; then a signal comes."""
    seen = [0]
    waiting = list(steps)
    failed: list[BaseException] = []

    def report(batch: Batch) -> None:
        seen[0] += batch.get("rows_in")

    def act() -> None:
        try:
            for do, rows in waiting:
                do()
                until = time.monotonic() + 60
                while seen[0] < rows and time.monotonic() < until:
                    time.sleep(0.01)
                assert seen[0] == rows
        except BaseException as e:
            failed.append(e)
        finally:
            STOP.signal = signal.SIGTERM

    acting = threading.Thread(target=act)
    acting.start()
    try:
        return run(spec, once=False, report=report, **more)
    finally:
        acting.join()
        STOP.signal = None
        assert failed == []


def test_a_continuous_run_takes_the_files_that_appear(tmp_path: Path) -> None:
    directory = tmp_path / "job"
    spec = write_spec(directory, "max_files: 1, buckets: 2", QUERIES)
    parts: list[list[Row]] = [[(10 * n + i, 20 * n + 2 * i, "pq"[i % 2], (3 * i + n) % 5) for i in range(8)] for n in range(4)]
    write(directory, "0", parts[0], 0)
    write(directory, "1", parts[1], 1)
    batches = continuous(
        spec, [(lambda: None, 16), (lambda: write(directory, "2", parts[2], 2), 24), (lambda: write(directory, "3", parts[3], 3), 32)]
    )
    assert sum(b.get("rows_in") for b in batches) == 32 and sum(b.get("late") for b in batches) == 0
    run(spec, finish=True)
    expected = rehearsed(spec, [[r for p in parts for r in p]], True)
    assert tables(lambda name: table(directory, name), QUERIES) == tables(expected.tables().__getitem__, QUERIES)


def test_rows_of_a_stream_may_be_late(tmp_path: Path) -> None:
    directory = tmp_path / "job"
    spec = write_spec(directory)
    write(directory, "0", [(1, 60, "p", 1)], 0)
    batches = continuous(spec, [(lambda: None, 1), (lambda: write(directory, "1", [(2, 54, "p", 1), (3, 55, "p", 1)], 1), 3)])
    assert sum(b.get("late") for b in batches) == 1
    (rejected,) = table(directory, "rejected").to_pylist()
    assert rejected["reason"] == "late" and json.loads(rejected["text"])["id"] == 2


def test_a_signal_ends_a_run_after_its_batch(tmp_path: Path) -> None:
    directory = tmp_path / "job"
    spec = write_spec(directory)
    for n in range(4):
        write(directory, str(n), [(n, 30 * n, "p", n)], n)
    plan = load_plan(str(spec))
    batches: list[Batch] = []

    def report(batch: Batch) -> None:
        batches.append(batch)
        if len(batches) == 2:
            STOP.signal = signal.SIGTERM

    try:
        done = Runner(LocalEngine(no_spark), plan, writer_for(plan.sink), report).run(once=True, finish=True)
    finally:
        STOP.signal = None
    assert not done.completed and [b.number for b in batches] == [0, 1]
    checkpoint = directory / "out" / "_skyband" / "checkpoint"
    assert (last_batch(checkpoint / "offsets"), last_batch(checkpoint / "commits")) == (1, 1)
    after = run(spec, finish=True)
    assert after[0].number == 2
    everything: list[Row] = [(n, 30 * n, "p", n) for n in range(4)]
    expected = rehearsed(spec, [everything], True)
    assert tables(lambda name: table(directory, name), ["best"]) == tables(expected.tables().__getitem__, ["best"])


# Files that are lost or cannot be read.


def test_a_file_of_an_unfinished_batch_that_is_gone_ends_the_run(tmp_path: Path) -> None:
    directory = tmp_path / "job"
    spec = write_spec(directory)
    write(directory, "0", [(1, 0, "p", 1)], 0)
    path = write(directory, "1", [(2, 30, "p", 2)], 1)

    def report(batch: Batch) -> None:
        if batch.number == 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(spec, report=report)
    path.rename(directory / "aside.csv")
    before = content(table(directory, "runs"), ())
    for _ in range(2):
        with pytest.raises(SkybandError) as e:
            run(spec, finish=True)
        assert e.value.code == "SKY-E301" and str(path) in str(e.value)
        assert content(table(directory, "runs"), ()) == before
    (directory / "aside.csv").rename(path)
    assert run(spec, finish=True)[0].number == 1
    expected = rehearsed(spec, [[(1, 0, "p", 1), (2, 30, "p", 2)]], True)
    assert tables(lambda name: table(directory, name), ["best"]) == tables(expected.tables().__getitem__, ["best"])


@pytest.mark.parametrize("action", ["stop", "reject"])
def test_a_file_that_disappears_while_its_batch_runs_ends_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, action: str) -> None:
    """A file that is gone is not one that cannot be read: it is neither set aside nor a reason to start Spark."""
    directory = tmp_path / "job"
    spec = write_spec(directory, more=f"on_bad_file: {action}")
    path = write(directory, "0", [(1, 0, "p", 1)], 0)
    kept = path.read_bytes()

    def gone(name: str) -> None:
        if name == "local.planned":
            path.unlink(missing_ok=True)

    monkeypatch.setattr(loop, "failpoint", gone)
    with pytest.raises(SkybandError) as e:
        run(spec)
    assert e.value.code == "SKY-E301" and str(path) in str(e.value)
    assert table(directory, "runs").num_rows == 0
    monkeypatch.undo()
    path.write_bytes(kept)
    os.utime(path, (1_600_000_000, 1_600_000_000))
    assert sum(b.get("accepted") for b in run(spec, finish=True)) == 1
    assert table(directory, "rejected").num_rows == 0


@pytest.mark.parametrize("size", ["max_files: 1", "max_bytes: 1k"])
def test_a_file_that_disappears_before_its_batch_is_planned(tmp_path: Path, size: str) -> None:
    """A batch does without it or names it in an error; no row is lost."""
    directory = tmp_path / "job"
    spec = write_spec(directory, size)
    for n in range(3):
        path = write(directory, str(n), [(100 * n + i, 40 * n + i, "p", i % 4) for i in range(30)], n)
    kept = path.read_bytes()
    try:
        run(spec, report=lambda batch: path.unlink() if batch.number == 0 else None)
    except SkybandError as e:
        assert e.code == "SKY-E301" and str(path) in str(e)
    assert sum(r["rows_in"] for r in table(directory, "runs").to_pylist()) == 60
    path.write_bytes(kept)
    os.utime(path, (1_600_000_002, 1_600_000_002))
    run(spec, finish=True)
    assert sum(r["accepted"] for r in table(directory, "runs").to_pylist()) == 90


@pytest.mark.parametrize("action", ["stop", "reject"])
@pytest.mark.parametrize("files", [1, 3])
def test_a_file_with_a_line_that_is_too_long(tmp_path: Path, action: str, files: int) -> None:
    directory = tmp_path / "job"
    spec = write_spec(directory, f"max_files: {files}", more=f"on_bad_file: {action}\nmax_line: 1k")
    write(directory, "0", [(1, 0, "p", 1)], 0)
    large = write(directory, "1", [(7, 20, "p" * 3_000, 1)], 1)
    write(directory, "2", [(2, 30, "p", 2)], 2)
    if action == "stop":
        with pytest.raises(SkybandError) as e:
            run(spec, finish=True)
        assert e.value.code == "SKY-E301" and str(large) in str(e.value)
        # Fixed under the same name, it goes on.
        write(directory, "1", [(7, 20, "p", 1)], 1)
        assert sum(b.get("accepted") for b in run(spec, finish=True)) >= 2
        assert table(directory, "rejected").num_rows == 0 and sum(r["accepted"] for r in table(directory, "runs").to_pylist()) == 3
        return
    warnings: list[str] = []
    run(spec, finish=True, warnings=warnings)
    (rejected,) = table(directory, "rejected").to_pylist()
    assert rejected["reason"] == "bad_file" and rejected["origin"] == "1.csv"
    assert json.loads(rejected["text"])["file"] == "1.csv" and json.loads(rejected["text"])["bytes"] == large.stat().st_size
    assert [w for w in warnings if "1.csv" in w and "is set aside" in w]
    runs = table(directory, "runs").to_pylist()
    assert (sum(r["rows_in"] for r in runs), sum(r["accepted"] for r in runs), sum(r["rejected_bad_file"] for r in runs)) == (3, 2, 1)
    assert [(r["grp"], r["id"]) for r in table(directory, "best_now").sort_by("rank").to_pylist()] == [("p", 2)]
    assert run(spec, finish=True) == [] and table(directory, "rejected").num_rows == 1


# Files that Arrow does not read as Spark would.


class Read:
    """Stands for Spark: notes what it is to read, and reads the files of the same names in ``instead``, or fails with what is ``said``."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, instead: Path | None = None, said: str = "") -> None:
        self.urls: list[list[str]] = []
        self.session = object()
        self._instead, self._said = instead, said
        monkeypatch.setattr(by_spark, "packed_by_spark", self._packed)

    def start(self) -> Any:
        return self.session

    def _packed(
        self,
        spark: object,
        plan: Plan,
        job: JobFile,
        config: HostConfig,
        urls: Sequence[str],
        clock: int | None,
        caps: WatermarkCaps | None,
        lookups: Tables,
    ) -> Blocks:
        assert spark is self.session
        self.urls.append([Path(u).name for u in urls])
        if self._instead is None:
            raise RuntimeError(self._said)
        there = replace(plan, source=replace(plan.source, path=str(self._instead / "in")))
        pack, reader = Pack(config, clock=lambda: clock), readable(there, job)
        read = [(u, t) for u in urls for t in reader.tables((self._instead / "in" / Path(u).name).as_uri())]
        rows = [(u, ArrowIntake(config.intake, lookups).judged(t, Path(u).name)) for u, t in read]
        made = pack.packed(t if caps is None else capped(config.intake, t, caps.cap(u)) for u, t in rows)
        return pack.latest, [m for b in made for m in b.to_pylist()]


def no_number(path: Path) -> None:
    """Add a row that does not parse, which Arrow does not read as Spark would."""
    at = path.stat().st_mtime
    path.write_text(path.read_text() + "not a number,2020-01-01T00:00:00Z,p,1\n")
    os.utime(path, (at, at))


@pytest.mark.parametrize("order", ["forwards", "backwards"])
@pytest.mark.parametrize("size", [2, 10])
def test_only_files_that_arrow_does_not_read_start_spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int, order: str) -> None:
    directory, good = tmp_path / "job", tmp_path / "good"
    spec = write_spec(directory, f"max_files: {size}, buckets: 2", QUERIES)
    rows: list[list[Row]] = [[(10 * n + i, 12 * n + i, "pq"[i % 2], (i * n) % 5) for i in range(4)] for n in range(6)]
    for n, some in enumerate(rows):
        for where in (directory, good):
            write(where, str(n), some, n if order == "forwards" else 9 - n)
    for name in ("4.csv", "1.csv"):
        no_number(directory / "in" / name)
    read = Read(monkeypatch, good)
    warnings: list[str] = []
    batches = run(spec, start=read.start, warnings=warnings, finish=True)
    # In the order of the batch, each once, and nothing of them by Arrow.
    ordered = ["1.csv", "4.csv"] if order == "forwards" else ["4.csv", "1.csv"]
    assert read.urls == ([ordered] if size == 10 else [[name] for name in ordered])
    assert sum(b.get("rows_in") for b in batches) == 24 and sum(b.get("late") for b in batches) == 0
    told = [w for w in warnings if "Spark" in w]
    assert len(told) == 1 and told[0].startswith(ordered[0]) and "can only be read by Spark, which starts for it: " in told[0]
    assert ("and 1 other file" in told[0]) == (size == 10)
    expected = rehearsed(spec, [[r for some in rows for r in some]], True)
    assert tables(lambda name: table(directory, name), QUERIES) == tables(expected.tables().__getitem__, QUERIES)


def test_a_batch_whose_files_spark_cannot_read_is_not_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = tmp_path / "job"
    spec = write_spec(directory)
    write(directory, "0", [(1, 0, "p", 1)], 0)
    no_number(write(directory, "1", [(2, 30, "p", 1)], 1))
    read = Read(monkeypatch, said="Spark cannot read it")
    with pytest.raises(SkybandError, match="Spark cannot read it") as e:
        run(spec, start=read.start, warnings=[])
    assert e.value.code == "SKY-E300" and read.urls == [["1.csv"]]
    checkpoint = directory / "out" / "_skyband" / "checkpoint"
    assert (last_batch(checkpoint / "offsets"), last_batch(checkpoint / "commits")) == (1, 0)
    assert table(directory, "runs")["batch_id"].to_pylist() == [0]
    write(directory, "1", [(2, 30, "p", 1)], 1)
    assert run(spec, finish=True)[0].number == 1
    assert sum(r["accepted"] for r in table(directory, "runs").to_pylist()) == 2


# A long life.


def test_a_source_whose_taken_files_are_all_forgotten_goes_on(tmp_path: Path) -> None:
    """Pruning leaves a merged list in which no file is: its number is the last all the same, and new files are read."""
    directory = tmp_path / "job"
    spec = write_spec(directory, "max_files: 1, keep: 1 day")
    for n in range(10):
        write(directory, str(n), [(n, 10 * n, "p", n)], n)
    run(spec)
    layout = Layout(str(directory / "out"))
    assert (layout.checkpoint / "sources" / "0" / "9.compact").exists()
    for n in range(10):
        (directory / "in" / f"{n}.csv").unlink()
    layout.taken_of(0).write_text(json.dumps([["2020-01-01T00:00:00+00:00", 9]]))
    write(directory, "new", [(100, 200, "p", 5)], 100)
    batches = run(spec, finish=True)
    assert sum(b.get("rows_in") for b in batches) == 1
    assert sum(r["accepted"] for r in table(directory, "runs").to_pylist()) == 11
    write(directory, "newer", [(101, 201, "p", 5)], 101)
    assert sum(b.get("rows_in") for b in run(spec)) == 1
