"""What a task of Spark makes of the rows of its buckets: every bucket's new state in its file, or why there is none."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pyarrow as pa
import pytest

from skyband.framework.base.reasons import REASON
from skyband.framework.plan.fingerprint import concealed, fingerprint
from skyband.framework.plan.growth import additions
from skyband.framework.plan.model import Plan
from skyband.framework.sources.protocol import CORRUPT
from skyband.framework.streaming.bucket.fill_files import read_state, write_state
from skyband.framework.streaming.job.consistency import check
from skyband.framework.streaming.job.edits import addable
from skyband.framework.streaming.job.layout import JobFile, Layout, changed_since
from skyband.framework.streaming.rebuild import add_queries
from skyband.framework.streaming.rebuild.add_queries import Fill
from skyband.framework.streaming.rows.blocks import bytes_table
from skyband.framework.streaming.rows.config import HostConfig
from skyband.framework.tables.results.derive import derive
from skyband.framework.tables.writing.factory import writer_for
from skyband.framework.tables.writing.sink import Sink
from skyband.jobs.spec import load_plan
from tests.framework.streaming import checkpoints
from tests.framework.streaming.bucket.test_bucket import SPEC, table_of
from tests.framework.streaming.bucket.test_bucket_loyalty import plan_of
from tests.framework.streaming.rebuild.test_backfill import Driven, Row, filled, found_in
from tests.framework.verify import small
from tests.spark.equality import differences
from tests.spark.jobs import table as table_of_job
from tests.spark.kinds import KINDS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS: list[Row] = [(t, t, "pq"[t * t % 7 % 2], float(t * 5 % 7), "uv"[t % 2]) for t in range(60)]


@pytest.fixture(scope="module")
def plans(tmp_path_factory: pytest.TempPathFactory) -> tuple[Plan, Plan]:
    """A job with one query of three, and one with all."""
    path = Path(tmp_path_factory.mktemp("specs")) / "spec.yaml"
    text = SPEC.format(window="{count: 4}", small="{count: 2}", delay=0).replace("sink:", "run: {buckets: 2}\nsink:")
    new = plan_of(path, text)
    return plan_of(path, "".join(x for x in text.splitlines(keepends=True) if "near1:" not in x and "slow:" not in x)), new


def of_bucket(bucket: int) -> list[Row]:
    return [r for r in ROWS if "pq".index(r[2]) == bucket]


def driven(plan: Plan, bucket: int) -> Driven:
    """A bucket that has had its rows."""
    made = Driven(plan)
    rows = of_bucket(bucket)
    for some in (rows[:11], rows[11:]):
        made.run(some)
    return made


def sent(fill: Fill, rows: list[Row], size: int) -> dict[tuple[int, str], list[bytes]]:
    """By bucket and kind, what the task sends."""
    table = table_of(fill.config, rows)
    table = table.append_column(CORRUPT, pa.nulls(len(rows), pa.string())).append_column(REASON, pa.nulls(len(rows), pa.string()))
    out: dict[tuple[int, str], list[bytes]] = {}
    for batch in fill(iter(table.to_batches(max_chunksize=size))):
        for row in batch.to_pylist():
            out.setdefault((row["bucket"], row["kind"]), []).append(row["data"])
    return out


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_buckets_one_after_the_other_each_from_its_own_state(plans: tuple[Plan, Plan], tmp_path: Path, size: int) -> None:
    old, new = plans
    found = found_in(old, new)
    for bucket in (0, 1):
        write_state(tmp_path / "was", bucket, driven(old, bucket).state)
    got = sent(Fill(HostConfig.of(new, (), "test"), found, tmp_path, {}), of_bucket(0) + of_bucket(1), size)
    for bucket in (0, 1):
        alone = driven(old, bucket)
        told = set(alone.told)
        filled(alone, new, of_bucket(bucket), random.Random(1))
        assert got[bucket, "done"] == [b""] and read_state(tmp_path / "filling", bucket) == alone.state
        for kind in ("changes:near1", "changes:slow"):
            assert kind not in told
            rows = [r for data in got[bucket, kind] for r in bytes_table(data).to_pylist()]
            assert rows == alone.told[kind] and rows
    assert not any(kind == "changes:near2" for _, kind in got)


def test_rows_that_are_not_those_of_the_job_are_told_by_the_task(plans: tuple[Plan, Plan], tmp_path: Path) -> None:
    old, new = plans
    for bucket in (0, 1):
        write_state(tmp_path / "was", bucket, driven(old, bucket).state)
    got = sent(Fill(HostConfig.of(new, (), "test"), found_in(old, new), tmp_path, {}), of_bucket(0) + of_bucket(1)[3:], 9)
    assert (0, "done") in got and (1, "done") not in got
    code, said, hint = json.loads(got[1, "refused"][0])
    assert code == "SKY-E581" and "rows, but the job has accepted" in said and "skyband rebuild" in hint
    assert not (tmp_path / "filling" / "1").exists()


@pytest.mark.parametrize("kind", ["pairs", *(pytest.param(k, marks=pytest.mark.slow) for k in KINDS if k != "pairs")])
def test_the_tables_are_those_of_a_job_that_had_all_queries(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All but the reading: that is Spark's."""
    of = KINDS[kind]
    rows = of.rows(4, 150)
    fresh, spec = of.write(tmp_path / "fresh", 1), of.every_other_query().write(tmp_path / "job", 1)
    small.make(fresh, rows)
    states = tmp_path / "states"
    plan = small.make(spec, rows, states)
    job = JobFile(plan.job, "g", concealed(fingerprint(plan), plan, "s"), 2, None, salt="s")
    spec.write_text(fresh.read_text().replace(str(tmp_path / "fresh"), str(tmp_path / "job")))
    new, layout = load_plan(str(spec)), Layout(plan.sink)
    layout.save(job)
    for batch in range(small.BATCHES + 1):
        checkpoints.write(layout.root.parent / "in" / f"{batch}.csv", "")
    checkpoints.make(layout.home, batches=small.BATCHES + 1)
    found = additions(job.fingerprint, new, "s")
    assert found is not None and addable(new, layout, job) == found

    def were(start: object, layout: Layout, job: JobFile, directory: Path) -> list[int]:
        shutil.copytree(states, directory)
        return sorted(int(p.name) for p in states.iterdir())

    def run(start: object, plan: Plan, layout: Layout, job: JobFile, fill: Fill) -> Iterator[tuple[int, str, bytes]]:
        table = small._rows(plan, rows).sort_by(plan.intake.event_time)
        for bucket in range(plan.buckets):
            mine = [k % plan.buckets == bucket for k in table["__k1"].to_pylist()] if "__k1" in table.column_names else [True] * len(table)
            begun = fill.begun(bucket)
            for kind_, data in [*begun.take(table.filter(pa.array(mine))), *fill.ended(begun)]:
                yield bucket, kind_, data
            yield bucket, "done", b""

    monkeypatch.setattr(add_queries, "stored_states", were)
    monkeypatch.setattr(add_queries, "_run", run)
    monkeypatch.setattr(add_queries, "cache_key", lambda *_: "test")
    before = {q: table_of_job(tmp_path / "job", f"{q}_changes") for q in job.fingerprint["queries"]}
    assert add_queries.add(lambda: cast("SparkSession", None), new, layout, job, found) > 0
    for query, was in before.items():
        assert table_of_job(tmp_path / "job", f"{query}_changes").equals(was)
    kept = layout.known()
    assert changed_since(new, layout) == [] and kept.generation == "g" and kept.fill_buckets == tuple(range(plan.buckets))
    assert not layout.added.exists() and check(new, layout, kept).losses == []
    _, unequal = differences(tmp_path / "job", tmp_path / "fresh")
    assert unequal == ["runs"], "it counts no change of before"
    assert [d.text() for d in small.found(new, rows)] == []
    # From the changes all results are made again, those of the time before too.
    check(new, layout, kept, rebuild=True)
    sink = Sink(new, writer_for(new.sink), "g")
    sink.ensure_all()
    derive(sink, small.BATCHES)
    assert differences(tmp_path / "job", tmp_path / "fresh")[1] == ["runs"]
