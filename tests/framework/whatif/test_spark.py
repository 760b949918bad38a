"""``skyband whatif`` of a job that Spark has run: its tables are reproduced in memory, from rows read with Spark and without."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import skyband
from skyband.framework.whatif import whatif
from skyband.framework.whatif.wording import document
from skyband.jobs.answer import plain
from skyband.jobs.reading.whatif import ask
from tests.framework.whatif import ran
from tests.spark.cuts import stream
from tests.spark.jobs import run, write_file, write_spec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

QUERIES = """\
  near: {type: topk_pairs, scoring: near, k: 3, where: "a.side <> b.side"}
  best: {type: topk, scoring: s, k: 3, carry: [x]}
  loud: {type: topk_groups, group: side, score: sum(y), k: 1}
"""
SCORING = "  s: {expression: x + y, direction: max}\n"


@pytest.mark.spark
def test_a_job_that_has_run_is_reproduced(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = write_spec(tmp_path, "{count: 30, time: 3 hours}", QUERIES, "10 minutes", partition=True, buckets=2, scoring=SCORING)
    rows = stream(3, 160)
    again = [[*row[:3], 7, *row[4:]] for row in rows[90:95]]
    for n, part in enumerate((rows[:120] + again, rows[20:30] + rows[120:])):
        write_file(tmp_path, f"{n}.csv", part, at=10 * n)
        run(spark, spec, finish=False)
    job = skyband.load(spec)
    rejected = job.table("rejected")["reason"].to_pylist()
    assert {"late", "duplicate_id"} <= set(rejected)
    before = ran.content(tmp_path / "out")
    changes: list[dict[str, Any]] = [
        {"with_": ["rejected"]}, {"without": ["side=a,y=2"]}, {"settings": ["queries.near.k=5"]},
        {"settings": ["quality.rows.0.expect=x < 8", "window={count: 20, time: 2 hours}"]},
    ]  # fmt: skip
    for change in changes:
        arguments = [change.get(name, []) for name in ("with_", "without", "settings")]
        local = plain(document(ask(str(spec), *arguments, None, None, None)))
        assert local["differences"] and all(q["unknown"] is None for q in local["queries"])
        with monkeypatch.context() as m:
            m.setattr(whatif, "read_rows", lambda plan, layout: None)
            by_spark = plain(document(ask(str(spec), *arguments, None, None, None)))
        assert by_spark == local
    assert ran.content(tmp_path / "out") == before
