"""What a batch of the streaming query makes of its packed messages, without Spark: the watermarks are those that Spark's own rule gives."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pytest

from skyband.framework.base.messages import ASIDE, COUNTS, FRONTIER, ROWS_IN, Tally
from skyband.framework.streaming.rows.config import WATERMARK, HostConfig
from skyband.framework.streaming.rows.outbox import as_it_is
from skyband.framework.streaming.run.stream import SparkTasks
from tests.framework.streaming.bucket.test_bucket import SPEC
from tests.framework.streaming.bucket.test_bucket_loyalty import plan_of

START = 1_600_000_000_000
"""In ms."""


class Done:
    """Stands for shuffle files: notes the batches whose files are removed."""

    def __init__(self) -> None:
        self.batches: list[int] = []

    def done(self, batch: int) -> None:
        self.batches.append(batch)


def packed(instants: list[int | None]) -> Any:
    """The messages of a batch whose blocks have these instants of the watermark, in microseconds; none has rows of a bucket."""
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    data = Tally({ROWS_IN: 0}).message()
    rows = [
        {"node": ASIDE, "bucket": 0, "kind": COUNTS, "data": data, WATERMARK: None if at is None else epoch + timedelta(microseconds=at)}
        for at in instants
    ]
    fields = [
        ("node", pa.int32()),
        ("bucket", pa.int32()),
        ("kind", pa.string()),
        ("data", pa.binary()),
        (WATERMARK, pa.timestamp("us", "UTC")),
    ]
    return SimpleNamespace(toArrow=lambda: pa.Table.from_pylist(rows, pa.schema(fields)))


@pytest.fixture
def config(tmp_path: Path) -> HostConfig:
    return replace(
        HostConfig.of(plan_of(tmp_path / "spec.yaml", SPEC.format(window="{count: 4}", small="{count: 2}", delay=1)), (), "test"), buckets=3
    )


@pytest.mark.parametrize(
    ("instants", "before", "after"),
    [
        ([1000 * START], 0, START - 60_000),
        # Spark counts in whole milliseconds, rounded down: no row is late that is not late to it.
        ([1000 * START + 499], 0, START - 60_000),
        ([1000 * START + 500], 0, START - 60_000),
        ([1000 * START + 999], 0, START - 60_000),
        ([1000 * START + 1000], 0, START + 1 - 60_000),
        ([None, 1000 * START + 999, 1000 * START - 5, None], 0, START - 60_000),
        # Nothing moves it, or not far enough.
        ([None], START, START),
        ([], START, START),
        ([1000 * START + 999], START, START),
        ([-1], 0, None),
    ],
)
def test_a_batch_ends_at_the_watermark_that_spark_would_move_it_to(
    config: HostConfig, tmp_path: Path, instants: list[int | None], before: int, after: int | None
) -> None:
    spark, done = SimpleNamespace(sparkContext=SimpleNamespace(setLocalProperty=lambda *_: None)), Done()
    tasks = SparkTasks(cast(Any, spark), config, tmp_path / "states", 2, as_it_is, cast(Any, done))
    *sent, (kind, last) = tasks.run(packed(instants), 7, before, None, {}, None)
    assert (kind, done.batches) == (COUNTS, [7]) and [kind for kind, _ in sent] == [COUNTS] * len(instants)
    counts = Tally()
    counts.add(last)
    assert counts == ({} if after is None else {FRONTIER: 1000 * after})
