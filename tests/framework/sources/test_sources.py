"""Source formats: those built in, and one of another package, from the spec to rows without an edit elsewhere."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, cast

import pytest

from skyband.framework.base.errors import SkybandError
from skyband.framework.plan.model import Field, SourceNode
from skyband.framework.sources.files.format import files_taken
from skyband.framework.sources.protocol import CORRUPT, ORIGIN
from skyband.framework.sources.registry import SOURCES, source_format
from skyband.framework.spec.load import validate_text
from skyband.framework.spec.schema.json_schema import job_schema
from tests.framework.sources.lines import LINES
from tests.specs import plan_of_text, spec_text

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SPEC = Template(
    spec_text(
        "small",
        "{id: bigint, ts: timestamp, x: {type: double, from: value}}",
        path=None,
        format="lines",
        options='{directory: "$directory"}',
        window="{count: 4}",
        scoring={"high": "{expression: x, direction: max}"},
        queries={"best": "{type: topk, scoring: high, k: 2}"},
    )
)


@pytest.fixture
def lines() -> Iterator[None]:
    with SOURCES.added("lines", LINES):
        yield


def mistakes(text: str) -> list[tuple[str, str, int, int]]:
    """(code, message, line, column) of every mistake."""
    _, errors = validate_text(text, {})
    return [(e.code, e.message, e.where.line, e.where.col) for e in errors if e.where is not None]


def test_checking_a_source_starts_no_spark() -> None:
    code = (
        "import sys\n"
        "from skyband.framework.sources.registry import SOURCES\n"
        "from skyband.framework.spec.load import validate_text\n"
        f"job, errors = validate_text({SPEC.substitute(directory='in').replace('format: lines', 'format: csv')!r}, {{}})\n"
        "print([e.code for e in errors], *SOURCES.all(), *sorted({'pyspark', 'delta', 'py4j'} & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=Path(__file__).parents[3])
    assert done.stdout.split() == ["['SKY-E111',", "'SKY-E119']", "csv", "json", "parquet", "orc", "delta", "kafka", "rate"], done.stderr


@pytest.mark.parametrize("name", ["csv", "json", "parquet", "orc", "delta"])
def test_built_in_formats_need_a_path(name: str) -> None:
    text = SPEC.substitute(directory="in").replace("format: lines", f"format: {name}").replace('  options: {directory: "in"}\n', "")
    assert mistakes(text) == [("SKY-E111", f"source needs the field 'path' for format {name}", 2, 1)]
    source = plan_of_text(text.replace("  schema:", "  path: in\n  schema:")).source
    assert (source.format, source.path) == (name, str(Path("in").absolute()))
    assert dict(source.options) == ({"header": "true", "escape": '"'} if name == "csv" else {})


def test_a_csv_files_header_is_as_the_spec_says() -> None:
    csv = source_format("csv")
    assert dict(csv.options({})) == {"header": "true", "escape": '"'}
    assert dict(csv.options({"Header": "false", "quote": "'"})) == {"Header": "false", "quote": "'", "escape": "'"}
    assert dict(csv.options({"quote": "", "Escape": "#"})) == {"quote": "", "Escape": "#", "header": "true"}


def test_a_csv_source_has_the_columns_of_its_files_header(tmp_path: Path) -> None:
    csv, no_spark = source_format("csv"), cast("SparkSession", None)

    def node(header: str = "true", *names: str) -> SourceNode:
        fields = tuple(Field(n, "string", "text", n) for n in names)
        return SourceNode("csv", str(tmp_path), (("header", header), ("sep", ";")), fields)

    (tmp_path / "_hidden.csv").write_text("no;no\n")
    (tmp_path / "a.csv").write_text("")
    with pytest.raises(SkybandError, match=f"no files to read in {tmp_path}") as none_yet:
        csv.columns(no_spark, node())
    (tmp_path / "b.csv").write_bytes('\ufeffid;a name;"x;y"\n1;2;3\n'.encode())
    assert csv.columns(no_spark, node("true", "a name", "id")) == ["id", "a name", "x;y"]
    assert csv.columns(no_spark, node("false", "other")) is None
    with pytest.raises(SkybandError, match="column 'a nam' is not in the header") as misspelled:
        csv.columns(no_spark, node("true", "a nam"))
    assert (none_yet.value.code, misspelled.value.code, misspelled.value.hint) == ("SKY-E301", "SKY-E301", "did you mean 'a name'?")


def test_a_file_with_another_header_is_told_from_other_failures() -> None:
    said = "CSV header does not conform to the schema.\n Header: id, y\nCSV file: file:///in/b.csv\n"
    told = source_format("csv").failure(said, ["id", "x"])
    assert told is not None and told.code == "SKY-E301"
    assert told.message == "the header is not that of the other files (CSV file: file:///in/b.csv)"
    assert told.hint == "put its columns in this order under the same file name, then run again: id, x"
    assert source_format("csv").failure("out of memory", ["id", "x"]) is None
    assert source_format("json").failure(said, None) is None


def test_an_unknown_format_is_told_what_there_is(lines: None) -> None:
    _, errors = validate_text(SPEC.substitute(directory="in").replace("format: lines", "format: avro"), {})
    assert [(e.code, e.message, e.hint) for e in errors] == [
        ("SKY-E113", "'format' cannot be 'avro'", "allowed: csv, json, parquet, orc, delta, kafka, rate or lines")
    ]
    assert "lines" in job_schema()["$defs"]["Source"]["properties"]["format"]["anyOf"][0]["enum"]


def test_a_formats_own_mistakes_stand_at_their_places(lines: None) -> None:
    assert mistakes(SPEC.substitute(directory="in")) == []
    assert mistakes(SPEC.substitute(directory="in").replace("directory:", "separator: two, path:")) == [
        ("SKY-E111", "lines need the option 'directory'", 4, 3),
        ("SKY-E114", "a separator is one character", 4, 24),
    ]
    assert mistakes(
        SPEC.substitute(directory="in").replace("  schema:", "  path: in\n  schema:").replace("double, from", "float, from")
    ) == [
        ("SKY-E117", "format lines has no path", 5, 3),
        ("SKY-E126", "lines have no floats, such as value", 6, 42),
    ]


def test_files_taken_are_those_of_the_engines_log(tmp_path: Path) -> None:
    assert files_taken(tmp_path) == []
    log = tmp_path / "sources" / "0"
    log.mkdir(parents=True)
    (log / "0").write_text('v1\n{"path":"file:///in/a.csv"}\n{"path":"file:///in/b.csv"}\n')
    (log / "1.compact").write_text('v1\n{"path":"file:///in/a.csv"}\n{"path":"file:///in/c.csv"}\n')
    (log / ".1.crc").write_text('{"path":"file:///in/no.csv"}')
    assert files_taken(tmp_path) == ["file:///in/a.csv", "file:///in/b.csv", "file:///in/c.csv"]


@pytest.mark.spark
def test_a_format_of_ones_own_is_read_and_read_again(spark: SparkSession, tmp_path: Path, lines: None) -> None:
    from skyband.framework.streaming.rows.intake import REASON, intake

    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.txt").write_text("1|2020-01-01T00:00:00Z|2.5\n2|2020-01-01T00:01:00Z|\n")
    (tmp_path / "in" / "b.txt").write_text("3|torn\n")
    plan = plan_of_text(SPEC.substitute(directory=tmp_path / "in"))
    source = source_format(plan.source.format)
    columns = source.columns(spark, plan.source)
    frame = intake(source.stream(spark, plan.source, columns), plan.intake)
    writer = frame.writeStream.format("memory").queryName("own_lines").option("checkpointLocation", str(tmp_path / "checkpoint"))
    assert writer.trigger(availableNow=True).start().awaitTermination(120)
    (tmp_path / "in" / "late.txt").write_text("4|2020-01-01T00:02:00Z|1\n")
    shown = ["id", "x", ORIGIN, CORRUPT, REASON]
    expected = [(1, 2.5, "a.txt", None, None), (2, None, "a.txt", None, None), (3, None, "b.txt", "3|torn", "parse")]
    assert sorted(tuple(r) for r in spark.table("own_lines").select(*shown).collect()) == expected
    again = intake(source.again(spark, plan.source, columns, tmp_path / "checkpoint"), plan.intake)
    assert sorted(tuple(r) for r in again.select(*shown).collect()) == expected
