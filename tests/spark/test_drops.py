"""A drop is a unit, for Spark too: its order and bounds do not matter, and its files are read by Arrow where that gives the same."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet
import pytest

from skyband.framework.base.errors import SkybandError
from skyband.framework.sources.files.backlog import FileBacklog
from skyband.framework.streaming.job.layout import JobFile, Layout
from skyband.framework.streaming.run.by_arrow import spans
from skyband.framework.streaming.run.spark_backlog import SparkBacklogCaps
from skyband.jobs.spec import load_plan
from tests.spark.cuts import stream
from tests.spark.equality import assert_equal_tables
from tests.spark.jobs import run, write_file, write_spec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from skyband.framework.streaming.run.batch import Batch

pytestmark = pytest.mark.spark


def by_time(rows: list[list[Any]], files: int) -> list[list[list[Any]]]:
    """The rows in files as of months: each has a span of event time of its own."""
    rows = sorted(rows, key=lambda r: r[1])
    size = -(-len(rows) // files)
    return [rows[i * size : (i + 1) * size] for i in range(files)]


def cut_short(spark: SparkSession, spec: Path, batch: int) -> None:
    """A run that fails when ``batch`` is in the tables and Spark does not know yet: it will be repeated."""
    from skyband.framework.streaming.run.runner import Runner
    from skyband.framework.streaming.run.spark_engine import SparkEngine
    from skyband.framework.tables.writing.factory import writer_for
    from skyband.jobs.spec import load_plan

    def report(done: Batch) -> None:
        if done.number == batch:
            raise RuntimeError("cut short")

    plan = load_plan(str(spec))
    with pytest.raises(SkybandError, match="cut short"):
        Runner(SparkEngine(spark), plan, writer_for(plan.sink, spark), report).run(once=True)


def test_the_rest_of_a_drop_and_what_came_since_are_one_drop(spark: SparkSession, tmp_path: Path) -> None:
    """Cut short twice, with a file that cannot be read, and an event time that the job derives."""
    rows = stream(9, 240)
    parts = by_time(rows, 8)
    directories = []
    for name, files in (("one", 100), ("drop", 2)):
        directory = tmp_path / name
        directory.mkdir()
        spec = write_spec(directory, watermark="10 minutes", max_files=files)
        text = spec.read_text().replace("format: csv", "format: csv\n  on_bad_file: reject")
        text = text.replace("ts: timestamp", "said: {type: string, from: ts}")
        spec.write_text(text.replace("quality:", 'transform:\n  - derive: {ts: "cast(said as timestamp)"}\nquality:'))
        (directory / "in").mkdir()
        (directory / "in" / "bad.csv.gz").write_bytes(b"\x1f\x8b no more")
        directories.append(directory)
    one, drop = directories
    write_file(one, "all.csv", rows, at=0)
    run(spark, one / "spec.yaml")
    for part, at in ((5, 0), (2, 0), (4, 1), (1, 2), (0, 3)):
        write_file(drop, f"{part}.csv", parts[part], at)
    cut_short(spark, spec, 0)
    # Before, among and after those unread, by the time of modification and by their rows.
    for part, at in ((3, 1), (6, 2), (7, 0)):
        write_file(drop, f"{part}.csv", parts[part], at)
    cut_short(spark, spec, 2)
    batches = run(spark, spec)
    assert batches[0].number == 2 and not any(b.get("late") for b in batches)
    assert_equal_tables(drop, one, same_cuts=False, same_files=False)


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_spans_read_by_arrow_are_those_that_the_engine_finds(spark: SparkSession, tmp_path: Path, form: str) -> None:
    """Rows that are rejected are in no span; what Arrow may not read is left to Spark."""
    (tmp_path / "in").mkdir()
    rows = {
        "a": [("1", "2024-01-01 00:00:09", "1"), ("2", "2024-01-01 00:00:03.5", "2")],
        "null": [(None, "2030-01-01 00:00:00", "1"), ("3", None, "2"), ("4", "2024-01-02 00:00:00", None)],
        "far": [("5", "1969-12-31 23:59:59", "1"), ("6", "9999-12-31 00:00:00", "2"), ("7", "2024-01-03 00:00:00", "2")],
        "none": [(None, "2024-01-01 00:00:00", "1")],
        "odd": [("8", "2024-01-04 00:00:00", "1"), ("9", "2025-01-01 00:00:00", "+1"), ("10", "2024-01-05 00:00:00", "0x1")],
    }  # fmt: skip
    for name, some in rows.items():
        path = tmp_path / "in" / f"{name} é.{form}"
        if form == "csv":
            path.write_text("id,ts,x\n" + "".join(",".join(cell or "" for cell in row) + "\n" for row in some))
        elif name != "odd":
            columns = zip(*some, strict=True)
            ids, stamps, numbers = (pa.array(column, pa.string()) for column in columns)
            stamps = stamps.cast(pa.timestamp("us")).cast(pa.timestamp("us", "UTC"))
            pyarrow.parquet.write_table(pa.table({"id": ids.cast(pa.int64()), "ts": stamps, "x": numbers.cast(pa.float64())}), path)
    spec = tmp_path / "spec.yaml"
    spec.write_text(f"""\
job: spans
source:
  format: {form}
  path: {tmp_path}/in
  schema: {{id: bigint, ts: timestamp, x: double}}
  id: [id]
  event_time: {{column: ts, watermark: 1 second}}
window: {{count: 10}}
scoring: {{high: {{expression: x, direction: max}}}}
queries: {{best: {{type: topk, scoring: high, k: 2}}}}
sink: {{path: {tmp_path}/out}}
""")
    plan = load_plan(str(spec))
    layout, job = Layout(plan.sink), JobFile("spans", "g", {}, 2, ["id", "ts", "x"])
    drops = SparkBacklogCaps(spark, plan, layout, job, lambda text: None, {})
    (part,) = drops.backlogs
    assert isinstance(part.backlog, FileBacklog)
    urls = sorted(part.backlog.listed(spark))
    assert len(urls) == (5 if form == "csv" else 4)
    found = spans(spark, plan, job, urls, exact=True, latest=None)
    engines = drops._by_engine(part, urls)
    assert sorted(set(urls) - set(found)) == [u for u in urls if "odd" in u]
    assert found == {u: engines[u] for u in found} and len(set(found.values())) == 4
    assert drops._read(part, urls) == engines
    for url, (first, last) in spans(spark, plan, job, urls, exact=False, latest=None).items():
        assert first <= engines[url][0] and last >= engines[url][1]


@pytest.mark.parametrize("ordered", [True, False])
def test_only_a_drop_out_of_order_is_looked_at_closely_by_spark(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ordered: bool
) -> None:
    """Times alone say that files are in order. Where they do not, rows that are turned away count no longer."""
    asked: list[bool] = []

    def noted(self: Any, urls: Any, exact: bool) -> Any:
        asked.append(exact)
        return by_arrow(self, urls, exact)

    by_arrow = SparkBacklogCaps._by_arrow
    monkeypatch.setattr(SparkBacklogCaps, "_by_arrow", noted)
    monkeypatch.setattr(SparkBacklogCaps, "_by_engine", lambda self, part, urls: pytest.fail("read by Spark") if urls else {})
    spec = write_spec(tmp_path, watermark="0 seconds", max_files=1)
    text = spec.read_text()
    spec.write_text(text.replace(text[text.index("quality:") : text.index("window:")], ""))
    (tmp_path / "in").mkdir()
    for i in range(4):
        rows = [f"{10 * i + j},2024-01-0{i + 1} 00:00:0{j},g,1.5,2.5,a" for j in range(3)]
        # Without an id, and later than all others.
        rows += [] if ordered else [",2024-02-01 00:00:00,g,1.5,2.5,a"]
        path = tmp_path / "in" / f"{i}.csv"
        path.write_text("\n".join(["id,ts,grp,x,y,side", *rows, ""]))
        os.utime(path, (1_600_000_000 + i, 1_600_000_000 + i))
    batches = run(spark, spec, finish=True)
    assert asked == ([False] if ordered else [False, True])
    assert sum(b.get("accepted") for b in batches) == 12 and not any(b.get("late") for b in batches)
