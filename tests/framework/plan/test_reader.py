"""Who reads a source: what a plan shows that only Spark reads as it should be read."""

from __future__ import annotations

from dataclasses import replace

import pytest

from skyband.framework.plan.explain import explain
from skyband.framework.plan.fingerprint import fingerprint
from skyband.framework.plan.reader import why_spark_reads
from skyband.framework.streaming.job.arrow_files import by_arrow
from skyband.framework.streaming.job.layout import JobFile
from skyband.framework.streaming.run.by_arrow import after, by_spark
from tests.specs import plan_of_text, spec_text

SPEC = spec_text(
    "small",
    "{id: bigint, ts: timestamp, x: double}",
    format="parquet",
    window="{count: 4}",
    scoring={"high": "{expression: x, direction: max}"},
    queries={"best": "{type: topk, scoring: high, k: 2}"},
)


def test_a_plain_source_is_read_by_arrow() -> None:
    made = plan_of_text(SPEC)
    assert why_spark_reads(made.source, made.intake) is None
    assert "         read by Arrow\n" in explain(made)
    csv = plan_of_text(SPEC.replace("format: parquet", "format: csv\n  options: {sep: ';'}"))
    assert why_spark_reads(csv.source, csv.intake) is None
    below = plan_of_text(SPEC.replace("path: in", "path: in\n  options: {recursiveFileLookup: true}"))
    assert why_spark_reads(below.source, made.intake) is None


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("format: parquet", "format: json\n  options: {multiLine: true}", "option multiLine"),
        (
            "format: parquet\n  path: in\n  schema: {",
            'format: json\n  path: in\n  schema: {m: "decimal(9,2)", ',
            "column m is decimal(9,2)",
        ),
        ("format: parquet", "format: orc\n  options: {mergeSchema: true}", "option mergeSchema"),
        ("format: parquet", 'format: csv\n  options: {header: "false"}', "option header"),
        ("format: parquet", 'format: csv\n  options: {sep: "\\t"}', "option sep"),
        ("format: parquet", "format: csv\n  options: {nullValue: none}", "option nullValue"),
        ("format: parquet\n  path: in\n  schema: {", 'format: csv\n  path: in\n  schema: {m: "decimal(9,2)", ', "column m is decimal(9,2)"),
        ("path: in", 'path: "in/*"', "the path is a pattern, or of another file system"),
        ("path: in", "path: in\n  options: {datetimeRebaseMode: LEGACY}", "option datetimeRebaseMode"),
        ("window:", 'transform:\n  - {derive: {z: "x + 1"}}\nwindow:', "a derived column"),
        ("window:", 'transform:\n  - {where: "x > 1"}\nwindow:', "a filter"),
        ("window:", 'quality:\n  rows: [{name: low, expect: "x < 9"}]\nwindow:', "quality.rows"),
        ("id: bigint", 'id: "decimal(9,0)"', "an id or key of type decimal(9,0)"),
    ],
)
def test_what_the_engine_has_to_read(old: str, new: str, why: str) -> None:
    made = plan_of_text(SPEC.replace(old, new, 1))
    assert why_spark_reads(made.source, made.intake) == why
    assert f"         read by Spark, not by Arrow: {why}\n" in explain(made)


def test_a_source_without_files_has_no_reader_to_choose() -> None:
    made = plan_of_text(SPEC.replace("format: parquet", "format: delta"))
    assert why_spark_reads(made.source, made.intake) == "the format is delta"
    assert "Arrow" not in explain(made)


def test_the_readers_of_json_one_after_the_other() -> None:
    """Arrow, Spark's own reader, which takes more files, and the exact one, which takes all of them and is slower."""
    made = plan_of_text(SPEC.replace("format: parquet", "format: json"))
    job = JobFile(job="small", generation="g", fingerprint=fingerprint(made), partitions=1, header=None)
    seen = []
    why: str | None = ""
    while why is not None:
        job = replace(job, engine_reads=why)
        seen.append((by_arrow(made, job), by_spark(made, job), why))
        why = after(made, job, f"reason {len(seen)}")
    assert seen == [(True, False, ""), (False, True, "by Spark's own reader: reason 1"), (False, False, "reason 2")]
    # A job of an earlier version that has left Spark's own reader stays with the exact one.
    assert not by_spark(made, replace(job, engine_reads="a file has bytes that are no UTF-8"))
    members = plan_of_text(SPEC.replace("format: parquet", "format: json").replace("x: double", "x: double, m: {type: string, from: u.m}"))
    assert by_arrow(members, replace(job, engine_reads=""))
    orc = plan_of_text(SPEC.replace("format: parquet", "format: orc"))
    fresh = replace(job, engine_reads="")
    assert by_arrow(orc, fresh) and after(orc, fresh, "a file") == "a file"
    assert after(orc, replace(job, engine_reads="a file"), "another") is None
    lists = plan_of_text(SPEC.replace("format: parquet", "format: json").replace("x: double", "x: double, l: array<string>"))
    assert not by_arrow(lists, fresh) and by_spark(lists, fresh) and after(lists, fresh, "a line") == "a line"


def test_lists_are_read_from_parquet_alone() -> None:
    text = SPEC.replace("x: double", "x: double, l: array<string>, v: array<float>")
    made = plan_of_text(text)
    assert why_spark_reads(made.source, made.intake) is None
    for form in ("json", "orc"):
        made = plan_of_text(text.replace("format: parquet", f"format: {form}"))
        assert why_spark_reads(made.source, made.intake) == "column l is array<string>"
