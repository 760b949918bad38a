"""A Delta source by Spark, by the local engine and by turns: the same positions, batches and tables."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from skyband.framework.sources.delta.added_files import Position
from skyband.framework.sources.logs import offset_line
from tests.spark.equality import assert_equal_tables
from tests.spark.jobs import START, run, table
from tests.spark.test_local_engine import by_batch, figures, local
from tests.specs import spec_text

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

SCHEMA = pa.schema(
    {"id": pa.int64(), "ts": pa.timestamp("us", "UTC"), "grp": pa.string(), "x": pa.float64(), "n": pa.int32(), "day": pa.date32()}
)


def rows_of(first: int, end: int) -> list[dict[str, Any]]:
    return [
        {
            "id": i if i % 9 else None, "ts": START + timedelta(minutes=i * 7 % 60 + i), "grp": None if i % 13 == 5 else "ab"[i % 2],
            "x": i * 31 % 17 / 4, "n": i % 5, "day": (datetime(2020, 1, 1, tzinfo=UTC) + timedelta(days=i % 3)).date(),
        }
        for i in range(first, end)
    ]  # fmt: skip


def spec_of(directory: Path, table_path: Path, options: str = "{}", run_: str = "{max_files: 2, buckets: 2}") -> Path:
    directory.mkdir()
    path = directory / "spec.yaml"
    path.write_text(
        spec_text(
            "followed", "{id: bigint, ts: timestamp, grp: string, x: double, n: bigint, day: date}", format="delta", path=str(table_path),
            options=options, event_time="{column: ts, watermark: 30 minutes}", partition_by="[grp]", sink=f"{{path: {directory}/out}}",
            quality={"max_rejected": "100%", "rows": ('{name: small, expect: "x < 4"}',)}, window="{count: 20, time: 3 hours}",
            scoring={"high": "{expression: x, direction: max}", "near": '{expression: "abs(a.x - b.x)", direction: min}'},
            queries={"best": "{type: topk, scoring: high, k: 3, carry: [n, day]}", "pairs": "{type: topk_pairs, scoring: near, k: 3}"},
            run=run_,
        )
    )  # fmt: skip
    return path


def positions(directory: Path) -> dict[int, Position | None]:
    """The positions of the batches whose plans are still in the checkpoint: Spark removes old ones."""
    checkpoint = directory / "out" / "_skyband" / "checkpoint"
    batches = [int(p.name) for p in (checkpoint / "offsets").glob("[0-9]*")]
    return {batch: Position.of(offset_line(checkpoint, batch)) for batch in sorted(batches)}


def assert_same_positions(one: Path, other: Path) -> None:
    mine, theirs = positions(one), positions(other)
    both = mine.keys() & theirs.keys()
    assert len(both) > 1 and {batch: mine[batch] for batch in both} == {batch: theirs[batch] for batch in both}


@pytest.mark.parametrize("bound", ["{max_files: 2, buckets: 2}", pytest.param("{max_bytes: 6kB, buckets: 2}", marks=pytest.mark.slow)])
def test_both_engines_continue_each_other(spark: SparkSession, tmp_path: Path, bound: str) -> None:
    path = tmp_path / "t"
    write_deltalake(str(path), pa.Table.from_pylist(rows_of(0, 30), SCHEMA), partition_by=["grp", "day"])
    specs = {name: spec_of(tmp_path / name, path, run_=bound) for name in ("spark", "local", "turns")}
    for part in range(3):
        first = 30 + 60 * part
        if part == 1:
            # Spark writes instants as INT96 and keeps sums beside its files; nothing is taken away by a commit that only compacts.
            rows = pa.Table.from_pylist(rows_of(first, first + 60), SCHEMA)
            spark.createDataFrame(rows).repartition(3).write.format("delta").mode("append").save(str(path))
            DeltaTable(str(path)).optimize.compact()
        elif part:
            write_deltalake(str(path), pa.Table.from_pylist(rows_of(first, first + 30), SCHEMA), mode="append")
            write_deltalake(str(path), pa.Table.from_pylist(rows_of(first + 30, first + 60), SCHEMA), mode="append")
        last = part == 2
        ours = local(specs["local"], finish=last)
        assert [figures(b) for b in ours] == [figures(b) for b in run(spark, specs["spark"], finish=last)]
        assert_same_positions(tmp_path / "local", tmp_path / "spark")
        if part % 2:
            local(specs["turns"], finish=last)
        else:
            run(spark, specs["turns"], finish=last)
    assert any(p is not None and p.initial for p in positions(tmp_path / "local").values())
    for name in ("local", "turns"):
        assert_same_positions(tmp_path / name, tmp_path / "spark")
        assert_equal_tables(tmp_path / name, tmp_path / "spark")
        for of in ("best_changes", "pairs_changes", "rejected"):
            assert by_batch(tmp_path / name, of) == by_batch(tmp_path / "spark", of)
    reasons = set(table(tmp_path / "local", "rejected")["reason"].to_pylist())
    assert {"rule:small", "null_id", "null_key"} <= reasons


def test_both_begin_at_the_same_commit_and_pass_over_deletions(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    for part in range(3):
        rows = pa.Table.from_pylist(rows_of(30 * part, 30 * part + 30), SCHEMA)
        write_deltalake(str(path), rows, partition_by=["grp"], mode="append")
    DeltaTable(str(path)).delete("grp = 'a'")
    write_deltalake(str(path), pa.Table.from_pylist(rows_of(90, 120), SCHEMA), partition_by=["grp"], mode="append")
    options = '{startingVersion: "1", ignoreDeletes: "true"}'
    specs = {name: spec_of(tmp_path / name, path, options, "{max_files: 3, buckets: 1}") for name in ("spark", "local")}
    assert [figures(b) for b in local(specs["local"])] == [figures(b) for b in run(spark, specs["spark"])]
    assert_same_positions(tmp_path / "local", tmp_path / "spark")
    assert_equal_tables(tmp_path / "local", tmp_path / "spark")
    assert sum(r["rows_in"] for r in table(tmp_path / "local", "runs").to_pylist()) == 90
