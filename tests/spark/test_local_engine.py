"""The local engine beside Spark: the same tables, files that only Spark reads, and jobs that both run by turns."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from skyband.framework.streaming.local.engine import LocalEngine
from skyband.framework.streaming.run.runner import Runner
from skyband.framework.tables.writing.factory import writer_for
from skyband.jobs.spec import load_plan
from tests.spark.cuts import stream
from tests.spark.equality import assert_equal_tables, differences
from tests.spark.jobs import COLUMNS, run, run_apart, sorted_rows, stamp, table, write_file, write_spec
from tests.spark.kills import for_the_local_engine

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from skyband.framework.streaming.run.batch import Batch

pytestmark = pytest.mark.spark

MIXED = """\
  best: {type: topk, scoring: high, k: 3, carry: [x]}
  far5: {type: topk_pairs, scoring: far, k: 5, carry: [x]}
  sky: {type: skyline, dimensions: {x: min, y: max}, window: {time: 2 hours}}
  busy: {type: threshold_groups, group: side, score: sum(y), above: 20, below: 12, every: 30 minutes}
"""
CHAIN = "  peak: {type: topk, from: best, scoring: high, k: 1}\n"
HIGH = "  high: {expression: x, direction: max}\n"
KINDS: dict[str, dict[str, Any]] = {
    "pairs": {},
    "keys": {"partition": True, "buckets": 4, "queries": MIXED + CHAIN, "scoring": HIGH, "max_files": 2},
    "deletions": {"deletes": "deletes: side = 'd'", "watermark": "20 minutes", "max_files": 1},
}


def local(spec: Path, finish: bool = True, spark: SparkSession | None = None) -> list[Batch]:
    """Run the job by the local engine in this process. ``spark``: what starts where it needs Spark; None: it must not."""
    plan, batches = load_plan(str(spec)), list[Any]()

    def start() -> SparkSession:
        assert spark is not None, "Spark is not needed here"
        return spark

    Runner(LocalEngine(start), plan, writer_for(plan.sink), batches.append).run(once=True, finish=finish)
    return batches


def written(directory: Path, **about: Any) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    spec = write_spec(directory, **about)
    for_the_local_engine(spec)
    return spec


def rows_of(seed: int, deletions: bool = False) -> list[list[object]]:
    found = stream(seed, 240)
    for i, row in enumerate(found):
        if deletions and i % 7 == 6:
            row[COLUMNS.index("id")], row[COLUMNS.index("side")] = found[i - 5][0], "d"
    return found


def figures(batch: Batch) -> tuple[object, ...]:
    return batch.number, dict(batch.changes), batch.rejected(), batch.pending, batch.newest, batch.frontier


def by_batch(directory: Path, name: str) -> list[str]:
    return sorted(map(repr, table(directory, name).to_pylist()))


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_both_write_the_same_rows_in_the_same_batches(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    rows = rows_of(len(kind), deletions=kind == "deletions")
    specs = {name: written(tmp_path / name, **KINDS[kind]) for name in ("spark", "local")}
    for until in (2, 5, 6):
        for spec in specs.values():
            for i in range(0 if until == 2 else {5: 2, 6: 5}[until], until):
                write_file(spec.parent, f"{i}.csv", rows[40 * i : 40 * (i + 1)], at=10 * i)
        ours = local(specs["local"], finish=until == 6)
        assert [figures(b) for b in ours] == [figures(b) for b in run(spark, specs["spark"], finish=until == 6)]
    assert_equal_tables(tmp_path / "local", tmp_path / "spark")
    plan = load_plan(str(specs["local"]))
    for name in [f"{q.name}_changes" for q in plan.every_query] + ["rejected", "heads"]:
        assert by_batch(tmp_path / "local", name) == by_batch(tmp_path / "spark", name)


def test_files_that_only_spark_reads_give_the_rows_that_spark_gives(spark: SparkSession, tmp_path: Path) -> None:
    specs = {name: written(tmp_path / name, queries=MIXED, scoring=HIGH) for name in ("spark", "local")}
    good = rows_of(3)[:60]
    for spec in specs.values():
        write_file(spec.parent, "0.csv", good[:30], at=0)
        odd = [
            *good[30:40],
            ["x1", stamp(700), "a", "1", "2", "b"],
            [9001, "no time", "a", 1, 2, "b"],
            [9002, stamp(701), "a", "1,5", 2, "b"],
        ]
        write_file(spec.parent, "1.csv", odd, at=10)
        write_file(spec.parent, "2.csv", good[40:], at=20)
    run(spark, specs["spark"])
    local(specs["local"], spark=spark)
    assert_equal_tables(tmp_path / "local", tmp_path / "spark")
    assert by_batch(tmp_path / "local", "rejected") == by_batch(tmp_path / "spark", "rejected")
    assert table(tmp_path / "local", "rejected").num_rows >= 3


@pytest.mark.parametrize("kind", ["keys", "deletions"])
def test_both_run_one_job_by_turns(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    rows = rows_of(11, deletions=kind == "deletions")
    specs = {name: written(tmp_path / name, **KINDS[kind]) for name in ("spark", "both")}
    for part in range(3):
        for spec in specs.values():
            for i in (2 * part, 2 * part + 1):
                write_file(spec.parent, f"{i}.csv", rows[40 * i : 40 * (i + 1)], at=10 * i)
        run(spark, specs["spark"], finish=part == 2)
        if part == 1:
            local(specs["both"], finish=False)
        else:
            run(spark, specs["both"], finish=part == 2)
    assert_equal_tables(tmp_path / "both", tmp_path / "spark")


@pytest.mark.slow
@pytest.mark.chaos
@pytest.mark.parametrize("first", ["spark", "local"])
@pytest.mark.parametrize("point", ["state.after", "sink.between", "sink.after"])
def test_what_one_was_killed_in_the_other_completes(spark: SparkSession, tmp_path: Path, point: str, first: str) -> None:
    rows = rows_of(5)
    specs = {name: written(tmp_path / name, **KINDS["keys"]) for name in ("spark", "both")}
    for part in range(2):
        for spec in specs.values():
            for i in (2 * part, 2 * part + 1):
                write_file(spec.parent, f"{i}.csv", rows[40 * i : 40 * (i + 1)], at=10 * i)
        run(spark, specs["spark"], finish=part == 1)
        if part == 0:
            run(spark, specs["both"], finish=False)
    killed = run_apart(specs["both"], "--finish", "--engine", first, failpoint=point)
    done = run_apart(specs["both"], "--finish", "--engine", "local" if first == "spark" else "spark")
    assert (killed.returncode, done.returncode) == (-9, 0), killed.stderr + done.stderr
    assert_equal_tables(tmp_path / "both", tmp_path / "spark")


def test_more_buckets_divide_the_state_without_spark(tmp_path: Path) -> None:
    rows = rows_of(17)
    about = {**KINDS["keys"], "queries": MIXED}
    few, many = (written(tmp_path / name, **about) for name in ("few", "many"))
    for part in range(2):
        for spec in (few, many):
            for i in range(3 * part, 3 * part + 3):
                write_file(spec.parent, f"{i}.csv", rows[40 * i : 40 * (i + 1)], at=10 * i)
        if part:
            many.write_text(many.read_text().replace("buckets: 4", "buckets: 8"))
        for spec in (few, many):
            local(spec, finish=bool(part))
    assert any(int(p.name) >= 4 for p in (tmp_path / "many" / "out" / "_skyband" / "state").iterdir())
    # Tables partitioned by bucket have the same rows in other buckets.
    _, unequal = differences(tmp_path / "many", tmp_path / "few")
    assert sorted(unequal) == ["best_skyband", "far5_skyband", "heads", "sky_skyband"]
    for name in unequal:
        mine, theirs = (sorted_rows(table(tmp_path / of, name), ["batch_id", "bucket"]) for of in ("many", "few"))
        assert mine == theirs and mine
