"""Rows dated ahead of the clock, through Spark: a repeated batch, a rebuild and added queries decide by the recorded clock."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from skyband.jobs import cli
from tests.spark.cuts import stream, verified
from tests.spark.jobs import run_apart, sorted_rows, table, write_file, write_spec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

QUERIES = "  far5: {type: topk_pairs, scoring: far, k: 5, carry: [x]}\n"
ROWS = stream(23, 60)
DAYS_AGO = 10


def planned_earlier(directory: Path, clock_ms: int) -> None:
    """Let Spark's plan of batch 0 say that it was made at ``clock_ms``: the run was killed then."""
    entry = directory / "out" / "_skyband" / "checkpoint" / "offsets" / "0"
    version, settings, *sources = entry.read_text().splitlines()
    entry.write_text("\n".join([version, json.dumps(json.loads(settings) | {"batchTimestampMs": clock_ms}), *sources]))
    entry.with_name(".0.crc").unlink(missing_ok=True)


def far(directory: Path) -> list[tuple[str, str]]:
    """The rows of ``rejected`` that were too far ahead: their origins and ids."""
    rows = table(directory, "rejected").to_pylist()
    return sorted((r["origin"], json.loads(r["text"])["id"]) for r in rows if r["reason"] == "too_far_ahead")


def counters(directory: Path) -> list[dict[str, Any]]:
    rows = sorted(table(directory, "runs").to_pylist(), key=lambda r: r["batch_id"])
    return [json.loads(r["counters"]) for r in rows if r["rows_in"]]


def test_a_repeated_batch_a_rebuild_and_an_added_query_decide_by_the_recorded_clock(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = tmp_path / "job"
    directory.mkdir()
    spec = write_spec(directory, queries=QUERIES)
    recently = f"{datetime.now(UTC) - timedelta(hours=1):%Y-%m-%dT%H:%M:%SZ}"
    ahead = [[9001, "9998-01-01T00:00:00Z", "a", 1, 1, "a"], [9002, recently, "a", 500, 2, "a"], [9003, recently, "a", 7, 3, "b"]]
    write_file(directory, "0.csv", [*ROWS, *ahead], at=0)
    assert run_apart(spec, failpoint="state.after").returncode == -9
    clock = int(1000 * (time.time() - DAYS_AGO * 86_400))
    planned_earlier(directory, clock)

    # The batch is repeated by its clock; one of its rows comes again, in a batch planned now.
    assert cli.main(["run", str(spec)]) == 0
    write_file(directory, "1.csv", [ahead[1]], at=10)
    began = time.time()
    capsys.readouterr()
    assert cli.main(["run", str(spec)]) == 0
    assert "WARNING: the watermark jumped by" in "".join(capsys.readouterr())
    assert far(directory) == [("0.csv", 9001), ("0.csv", 9002), ("0.csv", 9003)]
    first, second = counters(directory)
    assert first["clock_ms"] == clock and second["clock_ms"] >= 1000 * began - 1 and second["jump_ms"] > 5 * 3_600_000
    assert verified(spec)

    before = sorted_rows(table(directory, "far5_changes"), without=["batch_id"])
    assert cli.main(["rebuild", str(spec)]) == 0
    assert far(directory) == [("0.csv", 9001), ("0.csv", 9002), ("0.csv", 9003)]
    assert sorted_rows(table(directory, "far5_changes"), without=["batch_id"]) == before and verified(spec)

    # Rows that come later are judged by the clock of their batch, whatever was recorded of others.
    write_file(directory, "2.csv", [ahead[2]], at=20)
    spec.write_text(spec.read_text().replace(QUERIES, QUERIES + "  far2: {type: topk_pairs, scoring: far, k: 2, carry: [x]}\n"))
    assert cli.main(["rebuild", str(spec), "--added"]) == 0
    assert len(far(directory)) == 3 and table(directory, "far2_changes").num_rows and verified(spec)
