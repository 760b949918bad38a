"""JSON lines that are read without Spark: line by line and file by file what Spark reads, or left to Spark."""

from __future__ import annotations

import json
import os
import random
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from skyband.framework.plan.model import Plan
from skyband.framework.sources.files import spark_reader
from skyband.framework.sources.files.arrow import UnsupportedFile
from skyband.framework.sources.json.arrow_reader import JsonArrowReader
from skyband.framework.sources.protocol import CORRUPT, ORIGIN
from skyband.framework.streaming.job.layout import Layout
from skyband.framework.streaming.rows.arrow_intake import ArrowIntake
from skyband.framework.streaming.rows.intake import intake
from skyband.framework.streaming.run import query
from skyband.framework.streaming.run import stream as stream_of_spark
from skyband.jobs.spec import load_plan
from tests.seeds import cases
from tests.spark.cuts import stream
from tests.spark.jobs import COLUMNS as COLUMNS_OF_CUTS
from tests.spark.jobs import run, sorted_rows, table, without_row_rule, write_spec
from tests.spark.test_arrow import bits
from tests.specs import spec_text

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

TYPES = {
    "id": "bigint", "ts": "timestamp", "s": "string", "b": "boolean", "d": "date", "k": "int", "x": "double", "f": "float",
    "m": "string", "n": "double",
}  # fmt: skip
MEMBERS = {"m": "u.m", "n": "u.w.n"}
COLUMNS = ", ".join(f"{n}: {{type: {t}, from: {MEMBERS[n]}}}" if n in MEMBERS else f"{n}: {t}" for n, t in TYPES.items())
SPEC = spec_text(
    "lines",
    f"{{{COLUMNS}}}",
    format="json",
    path='"DIRECTORY/in"',
    sink='{path: "DIRECTORY/out"}',
    window="{count: 4}",
    scoring={"high": "{expression: id, direction: max}"},
    queries={"best": "{type: topk, scoring: high, k: 2}"},
)

GOOD = {
    "bigint": ["0", "-0", "7", "-123456789012345678", "123456789012345678", "9223372036854775807", "-9223372036854775807"],
    "int": ["0", "-0", "999999999", "-999999999", "2147483647", "-2147483648"],
    "string": [
        '""', '"a"', '"1.10"', '"\\u00e9\\u0000\\n\\/\\"\\\\\\b\\f\\r\\t"', '"\\ud83d\\ude00\\uFFFF\\u07ff"',
        '"\u00e9\U0001f600\u2028\x7f"', '" "', '"NaN"', '"null"', '"2024-01-01"', '"}{"', '"\\\\ud800"', '"\ufeff"',
    ],
    "boolean": ["true", "false"],
    "date": ['"2024-02-29"', '"1900-01-01"', '"9999-12-31"'],
    "timestamp": [
        '"2024-02-29 23:59:59"', '"2024-02-29T23:59:59.5Z"', '"1900-01-01T00:00:00.000001"', '"9999-12-31 23:59:59.999999Z"',
        '"2024-02-29T23:59:59Z"', '"2024-02-29T23:59:59+00:00"', '"1900-01-01 00:00:00.5+18:00"', '"9999-12-31 23:59:59-05:30"',
    ],
    "double": [
        "0", "-0.0", "0.1", "-1.5e-30", "1E22", "5e-99", "123456789012345678901234567890", "9007199254740993", "9007199254740993.0",
        "-0e5", "0.1000000000000000055511151231257827021181583404541015625", "1.7976931348623157", "18446744073709551617",
        "2.2250738585072011e-30", "8.5", "999999999999999999", "9223372036854775809",
    ],
    "float": [
        "0", "-0.0", "0.1", "16777217", "16777217.0", "16777219", "1.00000017881393432617187499", "1.00000005960464477539062500001",
        "1e-46", "1e-45", "3.4028235e38", "7.006492321624086e-46", "123456789012345678901", "0.1000000014901161193847656",
        "9007199791611905", "33554435.000001",
    ],
}  # fmt: skip
"""Values that both read."""
ODD = [
    "null", "1.0", "1e2", "1E400", "-1e999", "01", "-", "-01", "+1", ".5", "1.", "1e", "1e+5", "0x1f", "NaN", "Infinity", "-Infinity",
    "True", "nul", "nulll", "2147483648", "9223372036854775808", "1234567890123456789",
    "-9223372036854775809", "1" * 1001, "{}", "[]", '{"a": 1}', '["a"]',
    "''", "'a'", '"true"', '"1"', '"1.5"', '"2024-02-30"', '"2024-2-1"', '"10:00"', '"2024"', '"2024-02-29T23:59:59+0000"',
    '"2024-02-29 23:59"', '"1899-12-31"', '"1582-10-05"', '"2024-02-29 23:59:59.1234567"', '"2024-02-29T00:00:60"', "1709251199",
    "1.5e9", '"\\ud800"', '"\\udc00\\ud800"', '"\\ud83dx"', '"\\x"', "\"\\'\"", '"\t"', '"\\u12g4"', '"a', "a", "",
    "[" * 300 + "]" * 300, '"\x01"', '{"u": 1}', "1 2", "1,2", "/**/1", "-0", "0.0000000000000000000000000000000000001e1", "1e39",
    "1e-400",
]  # fmt: skip
"""Values that Spark reads otherwise, or does not read at all: one of them, of any type."""


def plan_of(tmp_path: Path) -> Plan:
    (tmp_path / "in").mkdir()
    (tmp_path / "spec.yaml").write_text(SPEC.replace("DIRECTORY", str(tmp_path)))
    return load_plan(str(tmp_path / "spec.yaml"))


def line(**values: str) -> str:
    """An object with the spelled values of columns, members of objects among them."""
    inner = [f'"{n}": {values[n]}' for n in ("m",) if n in values] + ([f'"w": {{"n": {values["n"]}}}'] if "n" in values else [])
    outer = [f'"{n}": {v}' for n, v in values.items() if n not in MEMBERS] + ([f'"u": {{{", ".join(inner)}}}'] if inner else [])
    return "{" + ", ".join(outer) + "}"


def compared(spark: SparkSession, tmp_path: Path, plan: Plan, files: dict[str, bytes]) -> set[str]:
    """Write the files, compare those that are read without Spark with what Spark reads, and return their names."""
    for name, data in files.items():
        (tmp_path / "in" / f"{name}.json").write_bytes(data)
    paths = [tmp_path / "in" / f"{name}.json" for name in files]
    theirs = intake(spark_reader.files(spark, plan.source, None, True, [str(p) for p in paths]), plan.intake).toArrow()
    mine = JsonArrowReader(str(tmp_path / "in"), False, plan.source, plan.source.fields)
    read = set()
    for path in paths:
        try:
            made = [ArrowIntake(plan.intake).judged(t, path.name) for t in mine.tables(path.as_uri())]
        except UnsupportedFile as e:
            assert e.lasting
            continue
        read.add(path.stem)
        expected = theirs.filter(pc.equal(theirs[ORIGIN], path.name))
        data = path.read_bytes()
        assert sum(t.num_rows for t in made) == expected.num_rows, data
        if made:
            assert expected[CORRUPT].null_count == expected.num_rows, data
            whole = bits(pa.concat_tables(made).select(expected.column_names).cast(expected.schema))
            for column in expected.column_names:
                assert whole[column].equals(bits(expected)[column]), (data, column, whole[column], bits(expected)[column])
    return read


def test_values_are_read_as_spark_reads_them(spark: SparkSession, tmp_path: Path) -> None:
    """A file for every spelling, in a column of every type."""
    plan, files, good = plan_of(tmp_path), dict[str, bytes](), set()
    for column, type_ in TYPES.items():
        others = [v for of in GOOD.values() for v in of[:3]] + (ODD[::4] if column in MEMBERS else ODD)
        tokens = list(dict.fromkeys([*GOOD[type_], *others]))
        for i, token in enumerate(tokens):
            name = f"{column}_{i}"
            values = {"id": "1", "ts": '"2020-01-01 00:00:00"'} | {column: token}
            files[name] = line(**values).encode() + b"\n"
            good |= {name} if i < len(GOOD[type_]) else set()
    read = compared(spark, tmp_path, plan, files)
    # A null is a value of every type.
    nulls = {name for name, data in files.items() if re.search(rb": null[,}]", data)}
    assert not (good | nulls) - read, [files[n] for n in (good | nulls) - read]
    assert len(read) < len(files) / 2


OTHERS = [
    "1",
    '"x"',
    "null",
    '[1, {"s": 1}]',
    '{"s": 1.1, "id": 2}',
    '{"s": 1.5}',
    '{"u": {"m": 1.10}}',
    '{"m": "1.10", "x": "NaN"}',
    "[[], {}]",
]
"""Values of names that are no columns: those of columns within them are not theirs."""
NAMES = ['"\\u0069d"', '"ID"', '"id"', '"u.m"', '"u.w.n"', '"a\\"s"', '"u"', '""', '"s "']
"""Names that are, or may be taken for, those of columns."""


def a_line(rng: random.Random) -> str:
    """An object with columns in any order, most of them with values of their type, and others."""

    def value(column: str) -> str:
        return rng.choice(GOOD[TYPES[column]] if rng.random() < 0.98 else ODD)

    def gap() -> str:
        return rng.choice(["", "", " ", "\t"]) if rng.random() < 0.99 else rng.choice(["\r", "\n", "\f", "\0", "\u00a0"])

    def joined(parts: list[str]) -> str:
        rng.shuffle(parts)
        return "{" + gap() + ("," + gap()).join(parts) + gap() + "}"

    def pair(name: str, text: str) -> str:
        return f"{name}{gap()}:{gap()}{text}"

    parts = [pair(f'"{c}"', value(c)) for c in TYPES if c not in MEMBERS and rng.random() < 0.6]
    if rng.random() < 0.6:
        inner = [pair('"m"', value("m"))] if rng.random() < 0.7 else []
        inner += [pair('"w"', joined([pair('"n"', value("n"))]))] if rng.random() < 0.7 else []
        inner += [pair('"s"', rng.choice(OTHERS))] if rng.random() < 0.2 else []
        parts.append(pair('"u"', joined(inner)))
    parts += [pair(f'"o{i}"', rng.choice(OTHERS)) for i in range(rng.choice([0, 0, 1, 2]))]
    parts += [pair(rng.choice(NAMES), rng.choice([*OTHERS, *GOOD["string"]]))] if rng.random() < 0.05 else []
    return joined(parts)


def a_file(rng: random.Random) -> bytes:
    ends = ["\n", "\n", "\r\n", "\n\n", " \t\n", "\r\n\r\n"]
    text = "".join(
        a_line(rng) + (rng.choice(ends) if rng.random() < 0.97 else rng.choice(["\r", "", " ", ","]))
        for _ in range(rng.choice([1, 1, 2, 3]))
    )
    if rng.random() < 0.15:
        at = rng.randrange(len(text))
        text = text[:at] + rng.choice(["", *"{}[]\",:\\ \n0-1eE.nt/'"]) + text[at + rng.choice([0, 1]) :]
    data = (rng.choice(["\ufeff", "\n", " "]) if rng.random() < 0.05 else "").encode() + text.encode()
    return data if rng.random() < 0.98 else data.replace(b"a", b"\xff")


def test_files_of_any_lines_are_read_as_spark_reads_them(spark: SparkSession, tmp_path: Path) -> None:
    rng, plan = random.Random(11), plan_of(tmp_path)
    files = {f"f{i}": a_file(rng) for i in range(cases(400))}
    read = compared(spark, tmp_path, plan, files)
    assert len(files) * 0.3 < len(read) < len(files) * 0.9, len(read)


@pytest.mark.slow
def test_a_job_goes_from_reader_to_reader(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By Arrow, by Spark's own reader after instants of another spelling, and by the exact one after two objects in a line."""
    rows = [dict(zip(COLUMNS_OF_CUTS, row, strict=True)) for row in stream(3)[:180]]
    lines = [json.dumps({n: None if v == "" else v for n, v in row.items()}) for row in rows]
    parts = [lines[:60], [s.replace("Z", "+0000") for s in lines[60:120]], [*lines[120:], f"{lines[0]}{lines[1]}"]]
    made = {}
    for name in ("readers", "exact"):
        directory = tmp_path / name
        directory.mkdir()
        spec = write_spec(directory, partition=True, max_files=1, buckets=2)
        without_row_rule(spec)
        spec.write_text(spec.read_text().replace("format: csv", "format: json").replace("  options: {header: true}\n", ""))
        if name == "exact":
            monkeypatch.setattr(query, "by_arrow", lambda plan, job: False)
            monkeypatch.setattr(query, "by_spark", lambda plan, job: False)
            monkeypatch.setattr(stream_of_spark, "look", lambda plan, job, urls: None)
        (directory / "in").mkdir()
        reads = []
        for i, part in enumerate(parts):
            path = directory / "in" / f"{i}.json"
            path.write_text("\n".join(part))
            os.utime(path, (1_600_000_000 + i, 1_600_000_000 + i))
            run(spark, spec, finish=i == 2)
            reads.append(Layout(str(directory / "out")).known().engine_reads)  # type: ignore[union-attr]
        if name == "readers":
            assert reads[0] == "" and reads[1].startswith("by Spark's own reader: column ts has") and "one plain object" in reads[2]
        made[name] = {
            t: sorted_rows(table(directory, t), without=["batch_id"]) for t in ("far5_changes", "near4_changes", "rejected", "heads")
        }
    assert len(made["readers"]["far5_changes"]) > 100
    assert made["readers"] == made["exact"]
