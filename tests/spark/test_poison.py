"""Rows dated ahead of the clock: a repeated batch, a rebuild and added queries, which Spark fills, decide by the recorded clock."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from skyband.framework.base.errors import SkybandError
from skyband.framework.sources.logs import last_batch
from skyband.framework.streaming.run import commit
from skyband.jobs import cli
from tests.local.jobs import LOCAL
from tests.spark.cuts import stream, verified
from tests.spark.jobs import sorted_rows, table, write_file, write_spec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

QUERIES = "  far5: {type: topk_pairs, scoring: far, k: 5, carry: [x]}\n"
ROWS = stream(23, 60)
DAYS_AGO = 10


def planned_earlier(directory: Path, batch: int, clock_ms: int) -> None:
    """Let the plan of a batch say that it was made at ``clock_ms``: the run ended then."""
    entry = directory / "out" / "_skyband" / "checkpoint" / "offsets" / str(batch)
    version, settings, *sources = entry.read_text().splitlines()
    entry.write_text("\n".join([version, json.dumps(json.loads(settings) | {"batchTimestampMs": clock_ms}), *sources]))
    entry.with_name(f".{batch}.crc").unlink(missing_ok=True)


def far(directory: Path) -> list[tuple[str, str]]:
    """The rows of ``rejected`` that were too far ahead: their origins and ids."""
    rows = table(directory, "rejected").to_pylist()
    return sorted((r["origin"], json.loads(r["text"])["id"]) for r in rows if r["reason"] == "too_far_ahead")


def counters(directory: Path) -> list[dict[str, Any]]:
    rows = sorted(table(directory, "runs").to_pylist(), key=lambda r: r["batch_id"])
    return [json.loads(r["counters"]) for r in rows if r["rows_in"]]


def test_a_repeated_batch_a_rebuild_and_an_added_query_decide_by_the_recorded_clock(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = tmp_path / "job"
    directory.mkdir()
    spec = write_spec(directory, queries=QUERIES)
    write_file(directory, "0.csv", ROWS, at=0)
    assert cli.main(["run", str(spec), *LOCAL]) == 0
    recently = f"{datetime.now(UTC) - timedelta(hours=1):%Y-%m-%dT%H:%M:%SZ}"
    ahead = [[9001, "9998-01-01T00:00:00Z", "a", 1, 1, "a"], [9002, recently, "a", 500, 2, "a"], [9003, recently, "a", 7, 3, "b"]]
    write_file(directory, "1.csv", ahead, at=10)

    def end(point: str) -> None:
        if point == "state.after":
            raise SkybandError("SKY-E300", "the run ends between the plan of its batch and the commit")

    with monkeypatch.context() as patched:
        patched.setattr(commit, "failpoint", end)
        assert cli.main(["run", str(spec), *LOCAL]) == 3
    offsets = directory / "out" / "_skyband" / "checkpoint" / "offsets"
    batch = last_batch(offsets)
    clock = int(1000 * (time.time() - DAYS_AGO * 86_400))
    planned_earlier(directory, batch, clock)

    # The batch is repeated by its clock; one of its rows comes again, in a batch planned now.
    assert cli.main(["run", str(spec), *LOCAL]) == 0
    expected = [("1.csv", 9001), ("1.csv", 9002), ("1.csv", 9003)]
    assert far(directory) == expected and counters(directory)[-1]["clock_ms"] == clock
    write_file(directory, "2.csv", [ahead[1]], at=20)
    began = time.time()
    capsys.readouterr()
    assert cli.main(["run", str(spec), *LOCAL]) == 0
    assert "WARNING: the watermark jumped by" in "".join(capsys.readouterr())
    last = counters(directory)[-1]
    assert far(directory) == expected and last["clock_ms"] >= 1000 * began - 1 and last["jump_ms"] > 5 * 3_600_000
    assert verified(spec)

    before = sorted_rows(table(directory, "far5_changes"), without=["batch_id"])
    assert cli.main(["rebuild", str(spec), *LOCAL]) == 0
    assert far(directory) == expected
    # The rebuild may be ahead: its one batch has passed all of the first file's rows.
    assert set(before) <= set(sorted_rows(table(directory, "far5_changes"), without=["batch_id"])) and verified(spec)

    # Rows that come later are judged by the clock of their batch, whatever was recorded of others.
    write_file(directory, "3.csv", [ahead[2]], at=30)
    spec.write_text(spec.read_text().replace(QUERIES, QUERIES + "  far2: {type: topk_pairs, scoring: far, k: 2, carry: [x]}\n"))
    assert cli.main(["rebuild", str(spec), *LOCAL, "--added"]) == 0
    assert len(far(directory)) == 3 and table(directory, "far2_changes").num_rows and verified(spec)
