"""A value that came from the environment is stored and printed nowhere: by a run, by what asks its tables, by what goes wrong."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake

from skyband.framework.spark_adapter.failures import log_file
from skyband.framework.streaming.spark import log as spark_log
from skyband.jobs import cli
from tests.spark.jobs import START, table

pytestmark = pytest.mark.spark

SPEC = """\
job: secretive
source:
  format: delta
  path: "{directory}/${{PLACE}}"
  options: {{startingTimestamp: "${{SINCE}}"}}
  schema: {{id: bigint, ts: timestamp, x: double, side: string}}
  id: [id]
  event_time: {{column: ts}}
transform:
  - derive: {{far: "x * ${{FACTOR}} + length('${{SQL}}')"}}
  - where: "side <> '${{FILTER}}'"
quality:
  max_rejected: 100%
  rows:
    - {{name: sane, expect: "side <> '${{RULE}}' and x < 18"}}
  tables:
    - {{table: top, expectation: expect_column_values_to_be_in_set, column: side, value_set: ["${{CHECK}}"], severity: warning}}
window: {{count: 50, time: "${{WINDOW}}"}}
scoring:
  high: {{expression: "x + ${{WEIGHT}}", direction: max}}
queries:
  top: {{type: topk, scoring: high, k: "${{K}}", where: "side <> '${{TEXT}}'", carry: [side]}}
sink: {{path: "{directory}/out"}}
"""
VALUES = {
    "PLACE": "place hunter2-path", "SINCE": "1987-06-05 04:03:02", "FACTOR": "31415.9265", "SQL": "hunter2-sql", "FILTER": "hunter2-filter",
    "RULE": "hunter2-rule", "CHECK": "hunter2-check", "WINDOW": "987654 seconds", "WEIGHT": "2.71828e5", "TEXT": "hunter2-text", "K": "4",
}  # fmt: skip
TELLING = ("hunter2", "1987-06-05", "31415.9265", "987654", "2.71828e5", "271828.0")


def told(of: bytes | str) -> list[str]:
    """What of the values stands in ``of``."""
    return [v for v in TELLING if (v.encode() if isinstance(of, bytes) else v) in of]


def test_no_value_of_the_environment_is_stored_or_printed(spark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd) -> None:
    for name, value in VALUES.items():
        monkeypatch.setenv(name, value)
    rows = [{"id": i, "ts": START.replace(minute=i), "x": float(i), "side": "ab"[i % 2]} for i in range(20)]
    write_deltalake(tmp_path / VALUES["PLACE"], pa.Table.from_pylist(rows))
    spec = tmp_path / "spec.yaml"
    spec.write_text(SPEC.format(directory=tmp_path))

    def shown(code: int, *command: str) -> str:
        capfd.readouterr()
        assert cli.main(list(command)) == code
        out, err = capfd.readouterr()
        assert told(out + err) == []
        return out + err

    assert "SKY-E500" in shown(0, "run", str(spec), "--finish")
    rejected = table(tmp_path, "rejected").to_pylist()
    assert {(r["reason"], r["origin"]) for r in rejected} == {("rule:sane", f"{tmp_path}/${{PLACE}}")} and len(rejected) == 2
    asked = [r["arguments"] for r in table(tmp_path, "checks").to_pylist() if r["expectation"].startswith("expect_")]
    assert asked == ['{"column":"side","value_set":["${CHECK}"]}']
    for file in (p for p in (tmp_path / "out").rglob("*") if p.is_file()):
        assert told(file.read_bytes()) == [], file
        if file.suffix == ".parquet" and "score" not in (data := pq.ParquetFile(file).read()).column_names:
            assert told(repr(data.to_pylist())) == [], file

    shown(0, "explain", str(spec))
    shown(0, "query", str(spec), "top", "--sql")
    shown(0, "verify", str(spec), "--replay-only")
    monkeypatch.setenv("WEIGHT", "2.71828e6")
    monkeypatch.setenv("PLACE", "place hunter2-other")
    changed = shown(2, "run", str(spec))
    assert "SKY-E150 source.path has changed" in changed and "SKY-E150 queries.top.scoring has changed" in changed
    monkeypatch.setenv("WEIGHT", VALUES["WEIGHT"])
    monkeypatch.setenv("PLACE", VALUES["PLACE"])
    shutil.rmtree(tmp_path / VALUES["PLACE"] / "_delta_log")
    assert "SKY-E300" in shown(3, "run", str(spec)) and "${PLACE}" in Path(spec).read_text()
    shutil.rmtree(tmp_path / VALUES["PLACE"])
    assert "SKY-E301 there is no Delta table" in shown(3, "run", str(spec))

    # What Spark itself says, as its log has it.
    spark._jvm.java.lang.System.err.println(f"cannot read {VALUES['PLACE']}\x1b")
    reader = next(t for t in threading.enumerate() if isinstance(t, spark_log._Pump) and not t.ended)
    reader.drain()
    log = log_file()
    assert log is not None and "cannot read ${PLACE}\\u001b\n" in log.read_text() and told(log.read_bytes()) == []
