"""Who reads a source: what a plan shows that only Spark reads as it should be read."""

from __future__ import annotations

import pytest

from skyband.framework.plan.explain import explain
from skyband.framework.plan.reader import why_spark_reads
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
        ("format: parquet", "format: json", "the format is json"),
        ("format: parquet", 'format: csv\n  options: {header: "false"}', "option header"),
        ("format: parquet", 'format: csv\n  options: {sep: "\\t"}', "option sep"),
        ("format: parquet", "format: csv\n  options: {nullValue: none}", "option nullValue"),
        ("format: parquet\n  path: in\n  schema: {", 'format: csv\n  path: in\n  schema: {m: "decimal(9,2)", ', "column m is decimal(9,2)"),
        ("path: in", 'path: "in/*"', "the path is a pattern, or of another file system"),
        ("path: in", "path: in\n  options: {datetimeRebaseMode: LEGACY}", "option datetimeRebaseMode"),
        ("window:", 'transform:\n  - {derive: {z: "x + 1"}}\nwindow:', "a derived column"),
        ("window:", 'transform:\n  - {where: "x > 1"}\nwindow:', "a filter"),
        ("window:", 'quality:\n  rows: [{name: low, expect: "x < 9"}]\nwindow:', "quality.rows"),
        ("x: double", "x: double, l: array<string>", "column l is array<string>"),
        ("id: bigint", 'id: "decimal(9,0)"', "an id or key of type decimal(9,0)"),
    ],
)
def test_what_the_engine_has_to_read(old: str, new: str, why: str) -> None:
    made = plan_of_text(SPEC.replace(old, new, 1))
    assert why_spark_reads(made.source, made.intake) == why
    if made.source.format != "json":
        assert f"         read by Spark, not by Arrow: {why}\n" in explain(made)
