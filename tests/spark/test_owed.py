"""A run that ends between a batch and the one that follows for the watermark alone: the next run makes that batch."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from skyband.framework.base.errors import SkybandError
from skyband.framework.sources.logs import last_batch, owed
from skyband.framework.streaming.run.stream import Stream
from tests.spark.cuts import write
from tests.spark.equality import assert_equal_tables
from tests.spark.jobs import run, table
from tests.spark.kinds import KINDS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark")]


class Ends:
    """Has Spark fail when it begins the batch that follows batch ``batch``."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, batch: int) -> None:
        self.patch, self.batch = monkeypatch, batch
        self.in_the_way: Path | None = None

    def run(self, spark: SparkSession, spec: Path, finish: bool) -> bool:
        """Whether the run got there."""
        original = Stream._on_batch

        def then_no_more(stream: Stream, df: DataFrame, batch_id: int) -> None:
            original(stream, df, batch_id)
            if batch_id == self.batch:
                self.in_the_way = stream._context.layout.checkpoint / "offsets" / str(batch_id + 1)
                self.in_the_way.mkdir()

        with self.patch.context() as patch:
            patch.setattr(Stream, "_on_batch", then_no_more)
            try:
                run(spark, spec, finish)
            except SkybandError:
                assert self.in_the_way is not None
        if self.in_the_way is not None:
            self.in_the_way.rmdir()
        return self.in_the_way is not None


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "finish"), [("pairs", True), ("deletions", True), ("pairs", False)])
def test_wherever_a_run_ends_the_next_one_makes_the_batch_that_is_owed(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, finish: bool
) -> None:
    rows = KINDS[kind].rows(3, 120)
    alone = KINDS[kind].write(tmp_path / "alone", 100)
    write(alone.parent, rows, 4)
    run(spark, alone, finish)
    owing = []
    for batch in range(12):
        spec = KINDS[kind].write(tmp_path / f"job{batch}", 3)
        write(spec.parent, rows, 4)
        if not Ends(monkeypatch, batch).run(spark, spec, finish):
            break
        checkpoint = spec.parent / "out" / "_skyband" / "checkpoint"
        assert last_batch(checkpoint / "commits") == last_batch(checkpoint / "offsets") == batch
        owing.append(owed(checkpoint))
        run(spark, spec, finish)
        assert not owed(checkpoint)
        assert_equal_tables(spec.parent, alone.parent, same_cuts=False)
        if finish:
            last = [table(directory, "runs").sort_by("batch_id")["frontier"].to_pylist()[-1] for directory in (spec.parent, alone.parent)]
            assert last[0] == last[1] is not None
    assert sum(owing) >= 2 and not all(owing)
