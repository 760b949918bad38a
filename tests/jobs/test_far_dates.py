"""Tables of an earlier version hold dates and instants that Python has not: commands show them as text, or name them."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from skyband.framework.base.errors import SkybandError
from skyband.framework.verify.stored import Stored
from skyband.jobs.cli import main
from skyband.jobs.spec import load_plan
from tests.framework.whatif import ran
from tests.framework.whatif.test_whatif import stamp

SPEC = """\
job: far
source:
  format: csv
  path: in
  options: {header: true}
  schema: {id: bigint, ts: timestamp, born: date, seen: timestamp, x: double}
  id: [id]
  event_time: {column: ts, watermark: 0 minutes, max_ahead: none}
window: {time: 20 minutes}
scoring:
  x: {expression: x, direction: max}
queries:
  best: {type: topk, scoring: x, k: 2, carry: [born, seen]}
  ours: {type: topk_groups, group: id, score: max(x), k: 2}
sink: {path: out}
"""
DAY = 2_932_897
"""1 January 10000 in days since 1970."""


@pytest.fixture
def spec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "far.yaml").write_text(SPEC)
    rows = [{"id": i, "ts": stamp(i), "born": "2001-02-03", "seen": stamp(i), "x": i} for i in range(6)]
    ran.make(tmp_path / "far.yaml", [rows])
    for name in ("best", "best_changes", "best_now"):
        rows_of = DeltaTable(str(tmp_path / "out" / name)).to_pyarrow_table()
        for column, kind, far in (("born", pa.int32(), DAY), ("seen", pa.int64(), DAY * 86_400_000_000)):
            values = pa.array([far] * rows_of.num_rows, kind).cast(rows_of.schema.field(column).type)
            rows_of = rows_of.set_column(rows_of.column_names.index(column), column, values)
        write_deltalake(str(tmp_path / "out" / name), rows_of, mode="overwrite")
    return "far.yaml"


@pytest.mark.parametrize("form", ["table", "csv", "json"])
def test_query_shows_them_as_text(spec: str, form: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["query", spec, "best", "--at", "2020-01-01T00:00", "--format", form]) == 0
    out = capsys.readouterr().out
    assert "10000-01-01" in out
    if form == "json":
        (row,) = json.loads(out)["rows"]
        assert (row["born"], row["seen"]) == ("10000-01-01", "10000-01-01 00:00:00.000000Z")


def test_report_shows_them_as_text(spec: str, tmp_path: Path) -> None:
    assert main(["report", spec, "--out", str(tmp_path / "report.html")]) == 0


@pytest.mark.parametrize("words", [["whatif", "far.yaml", "--without", "3"], ["why", "far.yaml", "best", "3"]])
def test_others_name_the_column(spec: str, words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) in (2, 3)
    said = capsys.readouterr().err
    assert "SKY-E402 column born of table best" in said and "outside of the years 1 to 9999" in said and "SKY-E900" not in said


def test_verify_names_the_column(spec: str) -> None:
    stored = Stored(load_plan(spec))
    with pytest.raises(SkybandError, match="SKY-E402 column born of table best_changes"):
        stored.table("best_changes")
    assert stored.table("ours_changes").num_rows and stored.table("rejected").num_rows == 0


def test_sql_says_what_to_write(spec: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sql", spec, "select born from best"]) == 2
    assert "SKY-E404" in capsys.readouterr().err
    assert main(["sql", spec, "select cast(born as varchar) as born from best"]) == 0
    assert "10000-01-01" in capsys.readouterr().out
