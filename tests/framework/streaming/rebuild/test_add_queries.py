"""What a task of Spark makes of the rows of its buckets: every bucket's new state in its file, or why there is none."""

from __future__ import annotations

import json
import random
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
from skyband.framework.streaming.bucket.bucket_states import BucketState, last_states, parsed
from skyband.framework.streaming.bucket.state_files import StateFiles
from skyband.framework.streaming.job.consistency import check
from skyband.framework.streaming.job.edits import addable
from skyband.framework.streaming.job.layout import JobFile, Layout, changed_since
from skyband.framework.streaming.rebuild import add_queries
from skyband.framework.streaming.rebuild.add_queries import Fill
from skyband.framework.streaming.rebuild.new_states import read, written
from skyband.framework.streaming.rows.blocks import bytes_table
from skyband.framework.streaming.rows.config import HostConfig
from skyband.framework.streaming.rows.outbox import Block
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


def begun(plan: Plan, layout: Layout) -> dict[int, BucketState]:
    """The states of both buckets, after all rows."""
    files = StateFiles(layout.state)
    return {bucket: written(files, bucket, driven(plan, bucket).state) for bucket in (0, 1)}


def sent(fill: Fill, rows: list[Row], size: int) -> list[Block]:
    """What the task sends."""
    table = table_of(fill.config, rows)
    table = table.append_column(CORRUPT, pa.nulls(len(rows), pa.string())).append_column(REASON, pa.nulls(len(rows), pa.string()))
    batches = fill(iter(table.to_batches(max_chunksize=size)))
    return [(row["kind"], row["data"]) for batch in batches for row in batch.to_pylist()]


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_buckets_one_after_the_other_each_from_its_own_state(plans: tuple[Plan, Plan], tmp_path: Path, size: int) -> None:
    old, new = plans
    found = found_in(old, new)
    layout = Layout(str(tmp_path))
    got = sent(Fill(HostConfig.of(new, (), "test"), found, layout, begun(old, layout), None, {}), of_bucket(0) + of_bucket(1), size)
    states = [parsed(data) for kind, data in got if kind == "done"]
    assert [sorted(state) for state in states] == [[0], [1]]
    for bucket in (0, 1):
        alone = driven(old, bucket)
        told = set(alone.told)
        filled(alone, new, of_bucket(bucket), random.Random(1))
        assert read(layout, bucket, states[bucket][bucket]) == alone.state
        for kind in ("changes:near1", "changes:slow"):
            assert kind not in told
            rows = [r for k, data in got if k == kind for r in bytes_table(data).to_pylist() if r["grp"] == "pq"[bucket]]
            assert rows == alone.told[kind] and rows
    assert not any(kind == "changes:near2" for kind, _ in got)


def test_rows_that_are_not_those_of_the_job_are_told_by_the_task(plans: tuple[Plan, Plan], tmp_path: Path) -> None:
    old, new = plans
    layout = Layout(str(tmp_path))
    got = sent(
        Fill(HostConfig.of(new, (), "test"), found_in(old, new), layout, begun(old, layout), None, {}), of_bucket(0) + of_bucket(1)[3:], 9
    )
    (done,) = (parsed(data) for kind, data in got if kind == "done")
    assert list(done) == [0] and got[-1][0] == "refused"
    code, said, hint = json.loads(got[-1][1])
    assert code == "SKY-E581" and "rows, but the job has accepted" in said and "skyband rebuild" in hint
    assert len(list((layout.state / "1").glob("*.list"))) == 1


@pytest.mark.parametrize("kind", ["pairs", *(pytest.param(k, marks=pytest.mark.slow) for k in KINDS if k != "pairs")])
def test_the_tables_are_those_of_a_job_that_had_all_queries(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All but the reading: that is Spark's."""
    of = KINDS[kind]
    rows = of.rows(4, 150)
    fresh, spec = of.write(tmp_path / "fresh", 1), of.every_other_query().write(tmp_path / "job", 1)
    small.make(fresh, rows)
    plan = small.make(spec, rows, states=True)
    job = JobFile(plan.job, "g", concealed(fingerprint(plan), plan, "s"), 2, None, salt="s")
    spec.write_text(fresh.read_text().replace(str(tmp_path / "fresh"), str(tmp_path / "job")))
    new, layout = load_plan(str(spec)), Layout(plan.sink)
    layout.save(job)
    for batch in range(small.BATCHES + 1):
        checkpoints.write(layout.root.parent / "in" / f"{batch}.csv", "")
    checkpoints.make(layout.home, batches=small.BATCHES + 1)
    found = additions(job.fingerprint, new, "s")
    assert found is not None and addable(new, layout, job) == found

    def run(start: object, plan: Plan, layout: Layout, job: JobFile, fill: Fill) -> Iterator[Block]:
        table = small._rows(plan, rows).sort_by(plan.intake.event_time)
        for bucket in range(plan.buckets):
            mine = [k % plan.buckets == bucket for k in table["__k1"].to_pylist()] if "__k1" in table.column_names else [True] * len(table)
            begun = fill.begun(bucket)
            yield from [*begun.take(table.filter(pa.array(mine))), *fill.ended(begun)]

    monkeypatch.setattr(add_queries, "_run", run)
    monkeypatch.setattr(add_queries, "cache_key", lambda *_: "test")
    before = {q: table_of_job(tmp_path / "job", f"{q}_changes") for q in job.fingerprint["queries"]}
    assert add_queries.add(lambda: cast("SparkSession", None), new, layout, job, found) > 0
    for query, was in before.items():
        assert table_of_job(tmp_path / "job", f"{query}_changes").equals(was)
    kept = layout.known()
    assert changed_since(new, layout) == [] and kept.generation == "g" and kept.new_states is not None
    assert sorted(last_states(layout.root, kept.new_states)) == list(range(plan.buckets)) and kept.new_states.batch == small.BATCHES
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
