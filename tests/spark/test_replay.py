"""Rejected rows are exported as they came, mended, put back and counted; what the watermark no longer takes is said and left out."""

from __future__ import annotations

import csv
import json
import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from skyband.framework.base.errors import SkybandError
from skyband.framework.plan.compile import compile_job
from skyband.framework.plan.model import Plan
from skyband.framework.quality.rejected_rows import export, groups
from skyband.framework.spec.load import validate_file
from skyband.framework.streaming.job import replays
from skyband.framework.streaming.job.layout import JobFile, Layout
from skyband.framework.streaming.job.replay_records import Replay, records, said
from skyband.framework.streaming.job.replays import replay
from skyband.framework.tables.writing.driver_writer import DriverWriter
from skyband.framework.tables.writing.sink import Sink
from tests.spark.jobs import COLUMNS, run, stamp, table, write_file, write_spec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

ODD = 'a "quoted", with\\a backslash'


class Job:
    def __init__(self, spec: Path) -> None:
        job, problems = validate_file(str(spec), os.environ)
        assert job is not None, problems
        self.plan: Plan = compile_job(job)
        self.layout = Layout(self.plan.sink)
        head = self.layout.load()
        assert head is not None
        self.head: JobFile = head
        self.writer = DriverWriter(self.layout.root)

    def replay(self, spark: SparkSession, path: Path, even_late: bool = False) -> Replay:
        last = Sink(self.plan, self.writer, self.head.generation).last_run()
        assert last is not None
        return replay(lambda: spark, self.plan, self.layout, self.head, path, last, even_late)

    def export(self, reason: str, target: Path) -> list[list[str]]:
        export(self.plan, self.head.header, self.writer, reason, target)
        with target.open(newline="") as f:
            return list(csv.reader(f, doublequote=False, escapechar="\\"))


def test_rows_are_exported_fixed_and_replayed(spark: SparkSession, tmp_path: Path) -> None:
    spec = write_spec(tmp_path, watermark="10 minutes")
    good = [[i, stamp(i), "p", i % 5, 1, "ab"[i % 2]] for i in range(60)]
    bad = [[500, stamp(55), "p", 5_000_000, 1, "a"], [501, stamp(56), "p", "many", 1, "a"], [502, stamp(5), "p", 6_000_000, 1.25, ""]]
    write_file(tmp_path, "1.csv", [*good, *bad], at=1)
    run(spark, spec, finish=False)
    job = Job(spec)
    assert [(g.reason, g.rows) for g in groups(job.writer)] == [("rule:sane_x", 2), ("parse", 1)]

    rule = job.export("rule", tmp_path / "rule.csv")
    assert rule[0] == list(COLUMNS) and sorted(r[0] for r in rule[1:]) == ["500", "502"]
    assert {r[0]: r[4] for r in rule[1:]} == {"500": "1", "502": "1.25"}
    # As they came they would be rejected again: nothing is put back, and nothing is recorded.
    found = job.replay(spark, tmp_path / "rule.csv")
    assert (found.rows, found.placed, found.left_out) == (2, 0, {"rule:sane_x": 2})
    assert records(job.layout) == [] and [p.name for p in (tmp_path / "in").iterdir()] == ["1.csv"]

    mended = [[*r[:3], "3", *r[4:]] for r in rule[1:]] + [["501", stamp(56), "p", "4", "1", "b"]]
    target = tmp_path / "mended.csv"
    with target.open("w", newline="") as f:
        csv.writer(f).writerows([rule[0], *mended])
        f.write("\n")
    # Both readers say the same of every row.
    found_by = [replays._by_arrow(job.plan, job.head, p) for p in (tmp_path / "rule.csv", target)]
    for path, by_arrow in zip((tmp_path / "rule.csv", target), found_by, strict=True):
        assert by_arrow is not None
        by_spark = replays._by_spark(lambda: spark, job.plan, job.layout, job.head, path)
        assert by_arrow.to_pylist() == by_spark.to_pylist()
    found = job.replay(spark, target)
    assert (found.rows, found.placed, found.left_out, found.filtered) == (3, 2, {"late": 1}, 0)
    # The watermark stands 10 minutes before the newest row, at minute 59.
    assert found.late_by == (44 * 60_000_000, 44 * 60_000_000)
    assert any("1 row that came too late, by 0:44:00" in line and "00:49:00" in line for line in said(found))
    placed = (tmp_path / "in" / found.name).read_text().splitlines()
    assert placed[0] == ",".join(COLUMNS) and sorted(line.split(",")[0] for line in placed[1:]) == ["500", "501"]
    with pytest.raises(SkybandError, match="was put back before"):
        job.replay(spark, target)
    assert records(job.layout) == [found]

    run(spark, spec)
    accepted = sum(r["accepted"] for r in table(tmp_path, "runs").to_pylist())
    assert accepted == 62
    assert not [r for r in table(tmp_path, "rejected").to_pylist() if r["origin"] == found.name]

    # By now all of them are late. They may come nevertheless: they are rejected, by the name of their file.
    again = tmp_path / "again.csv"
    with again.open("w", newline="") as f:
        csv.writer(f).writerows([COLUMNS, [700, stamp(57), "p", 1, 1, "a"], [701, stamp(58), "p", 1, 1, "a"]])
    assert job.replay(spark, again).left_out == {"late": 2}
    late = job.replay(spark, again, even_late=True)
    assert (late.placed, late.left_out) == (2, {})
    run(spark, spec)
    assert [r["reason"] for r in table(tmp_path, "rejected").to_pylist() if r["origin"] == late.name] == ["late"] * 2


def test_texts_go_out_as_the_source_reads_them(spark: SparkSession, tmp_path: Path) -> None:
    spec = write_spec(tmp_path, watermark="10 minutes")
    write_file(tmp_path, "1.csv", [[1, stamp(1), "p", 1, 1, "a"]], at=1)
    odd = f'2,{stamp(2)},"{ODD.replace(chr(34), chr(34) * 2)}",5000000,1,a\n'
    with (tmp_path / "in" / "1.csv").open("a") as f:
        f.write(odd)
    run(spark, spec, finish=False)
    job = Job(spec)
    text = json.loads(table(tmp_path, "rejected")["text"][0].as_py())
    assert text["grp"] == ODD
    export(job.plan, job.head.header, job.writer, "rule:sane_x", tmp_path / "out.csv")
    again: Any = spark.read.options(header="true", escape='"').csv(str(tmp_path / "out.csv")).collect()
    assert [r["grp"] for r in again] == [ODD]


def test_rows_come_back_only_where_a_file_can_bring_them(tmp_path: Path, spark: SparkSession) -> None:
    spec = write_spec(tmp_path, watermark="10 minutes")
    write_file(tmp_path, "1.csv", [[1, stamp(1), "p", 1, 1, "a"], [2, stamp(2), "p", "x", 1, "a"]], at=1)
    run(spark, spec, finish=False)
    job = Job(spec)
    plan = job.plan
    job.plan = replace(plan, source=replace(plan.source, format="delta", options=()))
    with pytest.raises(SkybandError, match="a delta source is no directory of files"):
        job.replay(spark, tmp_path / "x.csv")
    job.plan = replace(plan, source=replace(plan.source, options=(*plan.source.options, ("pathGlobFilter", "part*.csv"))))
    (tmp_path / "x.csv").write_text("id,ts\n")
    with pytest.raises(SkybandError, match=r"reads files named part\*\.csv"):
        job.replay(spark, tmp_path / "x.csv")
    job.plan = plan
    (tmp_path / "x.csv").write_text("id,time\n1,2\n")
    with pytest.raises(SkybandError, match="header"):
        job.replay(spark, tmp_path / "x.csv")
    with pytest.raises(SkybandError, match=r"nowhere\.csv cannot be read"):
        job.replay(spark, tmp_path / "nowhere.csv")
    assert [p.name for p in (tmp_path / "in").iterdir()] == ["1.csv"]
