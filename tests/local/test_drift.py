"""A file without a column that the spec reads: the run stops before its batch is written, or reads nulls and says so."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from skyband.framework.base.errors import SkybandError
from tests.local.jobs import run
from tests.spark.cuts import verified
from tests.spark.jobs import START, table, write_spec

pytestmark = pytest.mark.long


def put(directory: Path, number: int, **without: None) -> None:
    n = range(10 * number, 10 * number + 10)
    columns = {
        "id": pa.array(n), "ts": pa.array([START + timedelta(minutes=i) for i in n], pa.timestamp("us", "UTC")), "grp": ["p"] * 10,
        "x": [float(i % 7) for i in n], "y": [1.0] * 10, "side": ["a"] * 10, "more": [1] * 10,
    }  # fmt: skip
    left_out = {"more", *without} if number == 0 else set(without)
    (directory / "in").mkdir(exist_ok=True)
    pq.write_table(pa.table({c: v for c, v in columns.items() if c not in left_out}), directory / "in" / f"{number}.parquet")


def test_a_column_that_is_gone_stops_a_run_or_is_null_and_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    queries = "  far5: {type: topk_pairs, scoring: far, k: 5, carry: [x]}\n"
    spec = write_spec(tmp_path, queries=queries, watermark="1 minute")
    text = spec.read_text().replace("format: csv", "format: parquet").replace("  options: {header: true}\n", "  on_drift: stop\n")
    spec.write_text(text)
    put(tmp_path, 0)
    run(spec, finish=False)
    put(tmp_path, 1, x=None)
    with pytest.raises(SkybandError) as e:
        run(spec, finish=False)
    assert e.value.code == "SKY-E308" and "1.parquet: column 'x' is missing" in e.value.message
    assert sum(r["rows_in"] for r in table(tmp_path, "runs").to_pylist()) == 10
    spec.write_text(text.replace("on_drift: stop", "on_drift: warn"))
    run(spec)
    assert "1.parquet: column 'x' is missing, which the spec accepts" in capsys.readouterr().err
    runs = sorted(table(tmp_path, "runs").to_pylist(), key=lambda r: r["batch_id"])
    assert [json.loads(r["drift"]) for r in runs if r["rows_in"]] == [
        [], ["1.parquet: column 'x' is missing", "1.parquet: column 'more' is new"],
    ]  # fmt: skip
    assert sum(json.loads(r["unusable"]).get("far5", 0) for r in runs) == 10
    assert verified(spec)
