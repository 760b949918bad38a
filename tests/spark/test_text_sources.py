"""CSV and JSON text that comparable tools misread: every row is its values, or in ``rejected`` with what stood there, and is counted."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from string import Template
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from skyband.framework.plan.model import Field, SourceNode
from skyband.framework.sources.csv.arrow_reader import CsvArrowReader
from skyband.framework.sources.files import spark_reader
from skyband.framework.sources.files.arrow import UnsupportedFile
from skyband.framework.sources.json.arrow_reader import JsonArrowReader
from skyband.framework.sources.protocol import CORRUPT, ArrowReader
from skyband.framework.sources.registry import source_format
from skyband.framework.streaming.job.layout import JobFile, Layout
from skyband.framework.streaming.run.runner import Runner
from skyband.framework.streaming.run.spark_engine import SparkEngine
from skyband.framework.tables.writing.factory import writer_for
from skyband.framework.verify.reconciliation import compare_count
from skyband.framework.verify.stored import Stored
from skyband.jobs.spec import load_plan
from tests.spark.jobs import table
from tests.specs import spec_text

pytestmark = pytest.mark.spark

LATIN = "id,kunde,x\r\n1,M\u00fcller,5\r\n2,M\u00f6ller,7\r\n3,M\u00e4ller,9\r\n4,Meier,1\r\n".encode("windows-1252")


def source(directory: Path, kind: str, fields: Mapping[str, str], options: Mapping[str, str]) -> SourceNode:
    named = tuple(Field(n, t, "text", n) for n, t in fields.items())
    return SourceNode(kind, str(directory), tuple(source_format(kind).options(options).items()), named)


def read(spark: SparkSession, directory: Path, kind: str, data: bytes, fields: Mapping[str, str], **options: str) -> list[tuple[Any, ...]]:
    """The rows as Spark reads them: values, then the text of one that does not parse. Values of such are not looked at."""
    path = directory / f"a.{kind}"
    path.write_bytes(data)
    node = source(directory, kind, fields, options)
    found = spark_reader.files(spark, node, list(fields) if kind == "csv" else None, True, [str(path)]).toArrow()
    rejected = found[CORRUPT].to_pylist()
    rows = [text if text is not None else (*found.slice(i, 1).to_pylist()[0].values(),)[:-1] for i, text in enumerate(rejected)]
    _by_arrow_too(directory, path, node, rows)
    return rows


def _by_arrow_too(directory: Path, path: Path, node: SourceNode, rows: Sequence[Any]) -> None:
    """Arrow gives the same rows, or leaves the file to Spark."""
    options = dict(node.options)
    header = tuple(f.name for f in node.fields)
    if {"encoding", "decimal", "thousands", "multiLine"} & set(options) or any(
        f.type.startswith(("decimal", "array")) for f in node.fields
    ):
        return
    reader: ArrowReader
    if node.format == "json":
        if options:
            return
        reader = JsonArrowReader(str(directory), False, node, node.fields)
    else:
        doubled, skip = options["escape"] == '"', int(options.get("skip_lines", 0))
        reader = CsvArrowReader(str(directory), False, node.fields, header, options.get("sep", ","), doubled, skip)
    try:
        found = [tuple(r.values()) for t in reader.tables(path.as_uri()) for r in t.to_pylist()]
    except UnsupportedFile:
        return
    assert [(*r, None) for r in found] == rows


def test_doubled_quotes(spark: SparkSession, tmp_path: Path) -> None:
    text = b'id,x\n"12"" pipe",1\n"say ""hi"" now",3\n"he said ""hi"", left",4\n"""quoted""",5\n"a""b",6\na\\b,7\n"a\\""b",8\n"",9\n'
    names = ['12" pipe', 'say "hi" now', 'he said "hi", left', '"quoted"', 'a"b', "a\\b", 'a\\"b', None]
    assert read(spark, tmp_path, "csv", text, {"id": "string", "x": "double"}) == [
        (name, x, None) for name, x in zip(names, (1.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0), strict=True)
    ]
    slashed = read(spark, tmp_path, "csv", b'id,x\n"12\\" pipe",1\na,2\n', {"id": "string", "x": "double"}, escape="\\")
    assert slashed == [('12" pipe', 1.0, None), ("a", 2.0, None)]


def test_bytes_that_are_no_text_make_no_two_customers_one(spark: SparkSession, tmp_path: Path) -> None:
    fields = {"id": "bigint", "kunde": "string", "x": "double"}
    assert read(spark, tmp_path, "csv", LATIN, fields) == ["1,M\\xFCller,5", "2,M\\xF6ller,7", "3,M\\xE4ller,9", (4, "Meier", 1.0, None)]
    for encoding in ("windows-1252", "ISO-8859-1", "latin1", "cp1252"):
        found = read(spark, tmp_path, "csv", LATIN, fields, encoding=encoding)
        assert [r[1] for r in found] == ["M\u00fcller", "M\u00f6ller", "M\u00e4ller", "Meier"], encoding
    # What is no character of the encoding; a character that stands for none is one like others.
    assert read(spark, tmp_path, "csv", b"id,kunde,x\n1,\x81\x80,5\n", fields, encoding="windows-1252") == ["1,\\x81\\x80,5"]
    assert read(spark, tmp_path, "csv", "id,kunde,x\n1,\ufffd,5\n".encode(), fields) == [(1, "\ufffd", 5.0, None)]
    wide = LATIN.decode("windows-1252").encode("utf-16")
    found = read(spark, tmp_path, "csv", wide, fields, encoding="UTF-16", multiLine="true")
    assert [r[1] for r in found] == ["M\u00fcller", "M\u00f6ller", "M\u00e4ller", "Meier"]


def test_a_header_in_another_encoding(spark: SparkSession, tmp_path: Path) -> None:
    fields = {"id": "bigint", "st\u00fcck": "bigint"}
    text = "id,st\u00fcck\n1,5\n"
    assert read(spark, tmp_path, "csv", text.encode(), fields) == [(1, 5, None)]
    assert read(spark, tmp_path, "csv", text.encode("windows-1252"), fields, encoding="windows-1252") == [(1, 5, None)]


NUMBERS = {
    "1": 1.0, "1e308": 1e308, "-0": -0.0, " 1 ": 1.0, "+5": 5.0, "1.": 1.0, "1e-400": 0.0, "Infinity": float("inf"), "-Inf": float("-inf"),
    "1e309": None, "-1e309": None, "1" * 400: None, "inf": None, "nan": None, "0x1p3": None, "1d": None, "1F": None, "1_0": None,
    "\u0663": None, "1,5": None,
}  # fmt: skip


def test_numbers_that_are_too_large_or_only_look_like_numbers(spark: SparkSession, tmp_path: Path) -> None:
    cells = (f'"{n}"' if "," in n else n for n in NUMBERS)
    text = "id,x\n" + "".join(f"{i},{n}\n" for i, n in enumerate(cells))
    found = read(spark, tmp_path, "csv", text.encode(), {"id": "bigint", "x": "double"})
    for i, (n, value) in enumerate(NUMBERS.items()):
        assert found[i] == (i, value, None) if value is not None else n in found[i], n
    small = read(spark, tmp_path, "csv", b"id,x\n1,1e39\n2,3.4e38\n", {"id": "bigint", "x": "float"})
    assert small[0] == "1,1e39"
    assert small[1][2] is None
    text = 'id,d\n1,"1,50"\n2,1.256\n3,1e9\n'
    found = read(spark, tmp_path, "csv", text.encode(), {"id": "bigint", "d": "decimal(5,2)"})
    assert [found[0], str(found[1][1]), found[2]] == ['1,"1,50"', "1.26", "3,1e9"]


INSTANTS = {
    "2024-02-03 10:00:00": True, "2024-02-03T10:03:00.1234567Z": True, "2024-02-03": True, "2024-02-03 10:14:00 +01:00": True, "2024": True,
    "2024-2-3 9:05:00": True, "10:00": False, "T10:00": False, "24:00": False, "2024-02-03 24:00:00": False,
    "2016-12-31 23:59:60": False, "2024-02-30 00:00:00": False, "1706954400": False, "0000-00-00 00:00:00": False, "12:00-08:00": False,
}  # fmt: skip


def test_instants_without_a_day_or_that_do_not_exist(spark: SparkSession, tmp_path: Path) -> None:
    text = "id,t\n" + "".join(f"{i},{n}\n" for i, n in enumerate(INSTANTS))
    found = read(spark, tmp_path, "csv", text.encode(), {"id": "bigint", "t": "timestamp"})
    assert {n: not isinstance(r, str) for n, r in zip(INSTANTS, found, strict=True)} == INSTANTS
    assert found[1][1].microsecond == 123456
    days = read(spark, tmp_path, "csv", b"id,d\n1,2024-02-03 99\n2,2024-02-03 10:00\n3,2024-02-03T\n", {"id": "bigint", "d": "date"})
    assert [isinstance(r, str) for r in days] == [True, False, True]


def test_decimal_commas_and_thousands(spark: SparkSession, tmp_path: Path) -> None:
    text = "\ufeffid;b;m\r\n1;1.234,50;3\r\n2;99,95;1.000\r\n3;12.000,00;2\r\n4;1.23;7\r\n5;1,234.5;1\r\n6;-0,5;1\r\n7;1.2345,6;1\r\n"
    fields = {"id": "bigint", "b": "double", "m": "bigint"}
    found = read(spark, tmp_path, "csv", text.encode(), fields, sep=";", decimal=",", thousands=".")
    assert found == [
        (1, 1234.5, 3, None), (2, 99.95, 1000, None), (3, 12000.0, 2, None), "4;1.23;7", "5;1,234.5;1", (6, -0.5, 1, None), "7;1.2345,6;1",
    ]  # fmt: skip
    found = read(spark, tmp_path, "csv", text.encode(), fields, sep=";", decimal=",")
    assert [r if isinstance(r, str) else r[1] for r in found[:2]] == ["1;1.234,50;3", "2;99,95;1.000"]


def test_title_lines_before_the_header(spark: SparkSession, tmp_path: Path) -> None:
    fields = {"id": "bigint", "ts": "timestamp", "x": "double"}
    text = b'Sales "report\nGenerated by, export\n\nid,ts,x\n1,2024-01-01 00:00:00,5\n\n2,2024-01-01 00:01:00,6\nTotal,,11\n3,M\xfc,3\n'
    found = read(spark, tmp_path, "csv", text, fields, skip_lines="2")
    assert [r if isinstance(r, str) else r[0] for r in found] == [1, 2, "Total,,11", "3,M\\xFC,3"]
    assert len(read(spark, tmp_path, "csv", text[: text.index(b"Total")], fields, skip_lines="2")) == 2
    with pytest.raises(Exception, match="CSV header does not conform"):
        read(spark, tmp_path, "csv", b"t\nid,y,x\n1,2,3\n", fields, skip_lines="1")


OBJECTS = {"id": "bigint", "t": "timestamp", "x": "double", "s": "string"}
LINES: dict[str, list[int] | None] = {
    '{"id":1,"t":"2024-01-01T00:00:00Z","x":1.5,"s":"}{"}': [1], '{"id":2}{"id":3}': None, '{"id":4},{"id":5}': None, '{"id":6} xyz': None,
    '{"id":7}]': None, "": [], "   ": [], '[{"id":8},{"id":9}]': [8, 9], "[]": [],
    '[{"id":8}] [{"id":9}]': None, '[{"id":8}],[{"id":9}]': None,
    '{"id":11},"__skyband_end":1}garbage': None, '[{"id":10}],"__skyband_end":1}': None, "null": None, "5": None, '"a"': None,
    '{"id":12,"id":13}': [13], '{"id":24': None, "\0\0": None, '{"id":28}//c': None, "[1,2]": None, '{"id":32,"t":null}\r': [32],
    '{"id":14,"x":1e309}': None, '{"id":15,"x":"Infinity"}': [15], '{"id":16,"t":"10:00"}': None, '{"id":17,"t":1706954400}': [17],
    '{"id":18,"t":1706954400000000}': None, '{"id":19,"t":"1706954400"}': None, '{"id":20,"s":"\\ud800"}': None,
    '{"id":21,"s":"\\ud83d\\ude00"}': [21], '{"id":22,"s":"c:\\\\ud800"}': [22], '{"id":99999999999999999999}': None, '{"id":1.5}': None,
    '{"id":23,"other":{"a":[{"id":1},{"id":2}]}}': [23],
}  # fmt: skip


def test_what_follows_the_first_value_of_a_line(spark: SparkSession, tmp_path: Path) -> None:
    found = read(spark, tmp_path, "json", "\n".join(LINES).encode(), OBJECTS)
    expected = [r for line, ids in LINES.items() for r in ([line.rstrip("\r")] if ids is None else ids)]
    assert [r if isinstance(r, str) else r[0] for r in found] == expected
    torn = read(spark, tmp_path, "json", b'{"id":1,"s":"M\xfc"}\n{"id":2,"s":"M\xc3\xbc"}', OBJECTS)
    assert torn == ['{"id":1,"s":"M\\xFC"}', (2, None, None, "M\u00fc", None)]
    latin = read(spark, tmp_path, "json", b'{"id":1,"s":"M\xfc \x80"}', OBJECTS, encoding="windows-1252")
    assert latin == [(1, None, None, "M\u00fc \u20ac", None)]
    ends = read(spark, tmp_path, "json", '\ufeff{"id":1}\r{"id":2}\r\n\r\n{"id":3}'.encode(), OBJECTS)
    assert [r[0] for r in ends] == [1, 2, 3]


WHOLE: dict[str, list[int | str]] = {
    '{"id":1,\n"s":"a}"}\n{"id":2}\n{"id":3}': [1, 2, 3],
    '[{"id":1},{"id":2}]': [1, 2], '[{"id":1},{"id":2}] {"id":3} xyz': [1, 2, 3, "xyz"],
    '{"id":1': ['{"id":1'], "": [], "[]": [], '  [ {"id":1,"s":"\\"}"} , 5 ]': [1, "5"], '{"id":1}{"id":2},[{"id":3}]]': [1, 2, 3, "]"],
    '[{"id":1}': [1, "["], '{"id":1}"open': [1, '"open'],
}  # fmt: skip


def test_what_follows_the_first_value_of_a_file(spark: SparkSession, tmp_path: Path) -> None:
    for text, expected in WHOLE.items():
        found = read(spark, tmp_path, "json", text.encode(), OBJECTS, multiLine="true")
        assert [r if isinstance(r, str) else r[0] for r in found] == expected, text
    wide = '\ufeff{"id":1,"s":"M\u00fc"}\n{"id":2}'.encode("utf-16le")
    found = read(spark, tmp_path, "json", wide, OBJECTS, multiLine="true", encoding="UTF-16LE")
    assert [(r[0], r[3]) for r in found] == [(1, "M\u00fc"), (2, None)]


def test_rows_of_a_file_larger_than_a_batch_of_arrow_are_all_there(spark: SparkSession, tmp_path: Path) -> None:
    many = 25_000
    text = "t\nid,x\n" + "".join(f"{i},{i}\n" for i in range(many))
    rows = read(spark, tmp_path, "csv", text.encode(), {"id": "bigint", "x": "double"}, skip_lines="1", comment="#")
    assert pa.array([r[0] for r in rows]).equals(pa.array(range(many)))


JOB = Template(
    spec_text(
        "begun",
        "{id: string, ts: timestamp, x: double}",
        path='"$directory/in"',
        sink='{path: "$directory/out"}',
        window="{count: 100}",
        scoring="{x: {expression: x, direction: max}}",
        queries={"top": "{type: topk, scoring: x, k: 20}"},
    )
)


def test_a_job_that_began_with_the_backslash_goes_on_with_it(spark: SparkSession, tmp_path: Path) -> None:
    def run(name: str, quoted: str, minute: int) -> None:
        (tmp_path / "in" / name).write_text(f'id,ts,x\n"{quoted}",2024-01-01 00:0{minute}:00,{minute}\n')
        plan = load_plan(str(tmp_path / "spec.yaml"))
        Runner(SparkEngine(spark), plan, writer_for(plan.sink, spark), lambda _: None).run(once=True, finish=True)

    def names() -> list[str]:
        return sorted(table(tmp_path, "top_now")["id"].to_pylist())

    (tmp_path / "in").mkdir()
    spec = JOB.substitute(directory=tmp_path)
    (tmp_path / "spec.yaml").write_text(spec.replace("  schema:", '  options: {escape: "\\\\"}\n  schema:'))
    run("1.csv", '1\\" pipe', 1)
    # As a former version left it: the spec says nothing, and neither does the job file.
    job = tmp_path / "out" / "_skyband" / "job.json"
    told = json.loads(job.read_text())
    assert told.pop("escape") == "\\"
    job.write_text(json.dumps(told))
    (tmp_path / "spec.yaml").write_text(spec)
    assert "escape" not in dict(load_plan(str(tmp_path / "spec.yaml")).source.options)
    run("2.csv", '2\\" pipe', 2)
    assert names() == ['1" pipe', '2" pipe']
    assert json.loads(job.read_text())["escape"] == "\\"
    # A job that begins now doubles quotes.
    (tmp_path / "spec.yaml").write_text(spec.replace("/out", "/new"))
    (tmp_path / "in" / "1.csv").unlink()
    (tmp_path / "in" / "2.csv").unlink()
    run("3.csv", '3"" pipe', 3)
    assert json.loads((tmp_path / "new" / "_skyband" / "job.json").read_text())["escape"] == '"'
    assert load_plan(str(tmp_path / "spec.yaml")).source.options == (("header", "true"), ("escape", '"'))


def test_a_line_with_two_objects_hands_the_job_to_the_exact_reader(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    spec = (
        JOB.substitute(directory=tmp_path)
        .replace("format: csv", "format: json")
        .replace("window:", "quality: {max_rejected: 100%}\nwindow:")
    )
    (tmp_path / "spec.yaml").write_text(spec)

    def run(name: str, text: str) -> JobFile:
        (tmp_path / "in" / name).write_text(text)
        plan = load_plan(str(tmp_path / "spec.yaml"))
        Runner(SparkEngine(spark), plan, writer_for(plan.sink, spark), lambda _: None).run(once=True, finish=True)
        return Layout(plan.sink).known()

    good = '{"id":"a","ts":"2024-01-01T00:01:00Z","x":1.0}'
    assert run("1.json", good).engine_reads == ""
    two = '{"id":"b","ts":"2024-01-01T00:02:00Z","x":2.0}{"id":"c","ts":"2024-01-01T00:03:00Z","x":3.0}'
    three = '{"id":"d","ts":"2024-01-01T00:04:00Z","x":1e309}'
    last = '{"id":"e","ts":"2024-01-01T00:05:00Z","x":5.0}'
    job = run("2.json", "\n".join([two, three, last]))
    assert job.engine_reads == "a file has lines that are not one plain object"
    assert sorted(table(tmp_path, "rejected")["text"].to_pylist()) == sorted([two, three])
    assert sum(table(tmp_path, "runs")["rows_in"].to_pylist()) == 4
    assert sorted(table(tmp_path, "top_now")["id"].to_pylist()) == ["a", "e"]
    plan = load_plan(str(tmp_path / "spec.yaml"))
    assert compare_count(Stored(plan), Layout(plan.sink), job) == (4, [])
    # The file holds more than the run has counted: what a reader that stops early would leave.
    path = tmp_path / "in" / "1.json"
    at = path.stat().st_mtime_ns
    path.write_text(f"{good}\n{good}\n")
    os.utime(path, ns=(at, at))
    rows, off = compare_count(Stored(plan), Layout(plan.sink), job)
    assert rows == 5
    assert [d.what for d in off] == ["its rows_in add up to 4 rows, but the files that were read hold 5"]


def test_a_line_that_closes_what_is_put_around_it_loses_nothing(spark: SparkSession, tmp_path: Path) -> None:
    odd = [
        '{"id":"a"},"x":2',
        '{"id":"a"},{"id":"b"}',
        '{"id":"a"}],"y":[1',
        '[{"id":"a"}],"x":1',
        '[{"id":"a"}],[{"id":"b"}]',
        '{"id":"a"},"\\u005f_skyband_value":{"id":"c"}',
        '{"id":"a"},"\\u005f_skyband_end":1} {"id":"z"}',
    ]
    text = "\n".join([*odd, '{"id":"__skyband"}', '[{"id":"a"},{"id":"b"}]', ""])
    assert read(spark, tmp_path, "json", text.encode(), {"id": "string"}) == [*odd, ("__skyband", None), ("a", None), ("b", None)]


def test_a_file_that_ends_among_its_title_lines_is_no_empty_file(spark: SparkSession, tmp_path: Path) -> None:
    fields = {"id": "string", "x": "double"}
    for text in (b"id,x\na,1\n", b"t\nid,x\na,1\n\n"):
        with pytest.raises(Exception, match="CSV header does not conform"):
            read(spark, tmp_path, "csv", text, fields, skip_lines="5")
    assert read(spark, tmp_path, "csv", b"", fields, skip_lines="5") == []
    assert read(spark, tmp_path, "csv", b"\n\n", fields, skip_lines="5") == []
    assert read(spark, tmp_path, "csv", b"t\nid,x\n", fields, skip_lines="1") == []


def test_numbers_in_columns_of_text_stay_as_they_are_spelled(spark: SparkSession, tmp_path: Path) -> None:
    """Both readers give them alike: else ids 1.10 and 1.1 would be one as soon as a line of the job is no plain object."""
    exact = ["1.10", "1.1", "1e400", "-0.0", "0.12345678901234567890", "12345678901234567890123", "1E5", "100.00"]
    lines = [f'{{"id":{n},"x":2.50}}' for n in exact]
    text = "\n".join([*lines, '{"id":"1.10"}', '{"id":"1e400"}', '{"id":"\\\\E["}', '{"id":"a"} b', ""])
    found = read(spark, tmp_path, "json", text.encode(), {"id": "string"})
    assert found == [*((n, None) for n in exact), ("1.10", None), ("1e400", None), ("\\E[", None), '{"id":"a"} b']
    node = replace(source(tmp_path, "json", {"id": "string"}, {}), plain=True)
    (tmp_path / "a.json").write_text("\n".join(lines))
    plain = spark_reader.files(spark, node, None, True, [str(tmp_path / "a.json")]).toArrow()
    assert plain["id"].to_pylist() == exact
    two = '[{"id":1.10},{"id":1.1}]'
    assert read(spark, tmp_path, "json", two.encode(), {"id": "string"}) == [two, two]
