"""CSV that tasks read by Arrow: cell by cell and file by file what Spark reads, or left to Spark."""

from __future__ import annotations

import os
import re
from pathlib import Path
from string import Template

import pyarrow as pa
import pytest

from skyband.framework.sources.csv.arrow_reader import CsvArrowReader
from skyband.framework.sources.csv.cells import READABLE, read
from skyband.framework.sources.files import spark_reader
from skyband.framework.sources.files.arrow import UnsupportedFile
from skyband.framework.sources.protocol import CORRUPT, ORIGIN
from skyband.framework.streaming.job.layout import Layout
from skyband.framework.streaming.rows.arrow_intake import ArrowIntake
from skyband.framework.streaming.rows.intake import intake
from skyband.framework.streaming.run import query
from skyband.jobs.spec import load_plan
from tests.framework.sources.csv.test_cells import CELLS
from tests.spark.cuts import stream, write
from tests.spark.jobs import run, sorted_rows, table, write_spec
from tests.spark.test_arrow import bits
from tests.specs import spec_text

pytestmark = pytest.mark.spark

SPEC = Template(
    spec_text(
        "cells",
        "{id: bigint, ts: timestamp, $columns}",
        path='"$directory/in"',
        sink='{path: "$directory/out"}',
        window="{count: 4}",
        scoring={"high": "{expression: id, direction: max}"},
        queries={"best": "{type: topk, scoring: high, k: 2}"},
    )
)
MORE = ["\u00e9", "\U0001f600", "x" * 300, "a b", " ", "\t", "\x01", "#1", "//", "'q'", "nul\u2028l", "\x85", "null", "NULL", "\ufffd"]


def test_cells_are_read_as_the_engine_reads_them(spark, tmp_path):
    """A line for every spelling, in a column of every type."""
    names = [f"c_{t}" for t in READABLE]
    (tmp_path / "in").mkdir()
    (tmp_path / "spec.yaml").write_text(SPEC.substitute(directory=tmp_path, columns=", ".join(f"{n}: {n[2:]}" for n in names)))
    plan = load_plan(str(tmp_path / "spec.yaml"))
    header = ["id", "ts", *names]
    texts = [c for c in CELLS if "," not in c] + MORE
    for name in names:
        # One odd cell makes a whole row corrupt: a file per column.
        rows = [",".join([str(i), "2020-01-01 00:00:00", *(t if n == name else "" for n in names)]) for i, t in enumerate(texts)]
        (tmp_path / "in" / f"{name}.csv").write_text("\n".join([",".join(header), *rows, ""]), newline="")
    paths = [str(tmp_path / "in" / f"{n}.csv") for n in names]
    theirs = spark_reader.files(spark, plan.source, header, True, paths).toArrow().sort_by("id")
    for name in names:
        mine = theirs.filter(pa.compute.equal(theirs[ORIGIN], f"{name}.csv"))
        assert mine["id"].to_pylist() == list(range(len(texts)))
        known = 0
        for i, text in enumerate(texts):
            made = read(pa.array([text]), name[2:])
            if made is not None:
                known += 1
                row = bits(mine.slice(i, 1).select([name, CORRUPT]))
                assert row[CORRUPT].to_pylist() == [None], (name, text)
                assert row[name].combine_chunks().equals(bits(pa.table({name: made}))[name].combine_chunks()), (name, text)
        assert known >= 2, name


def test_files_are_read_as_the_engine_reads_them(spark, tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "spec.yaml").write_text(SPEC.substitute(directory=tmp_path, columns="s: string, x: double"))
    plan = load_plan(str(tmp_path / "spec.yaml"))
    header, day = ["id", "other", "ts", "s", "x"], "2020-01-01 00:00:00"
    head = ",".join(header) + "\n"
    both = {
        "plain": f"{head}1,?,{day},a,0.5\n2,?,,b,\n,,,,\n",
        "no_end": f"{head}1,?,{day},a,0.5",
        "gaps": f"{head}\n1,?,{day},a,0.5\n\n\n2,?,{day}Z, b ,-1\n\n",
        "alone": head,
        "windows": f"{head}1,?,{day},a,1\n\n2,?,,,\n".replace("\n", "\r\n"),
        "windows_and_not": f"{head}1,?,{day},a,1\r\n2,?,,,\n\r\n",
        "windows_alone": head.replace("\n", "\r\n"),
        "head_again_as_text": f"{head}1,id,{day},id,1\n",
        "other_marks": f"{head}1,'#,{day},#x;|\t,1e5\n",
        "quoted": f'{head}1,"?",{day},"a,b",1\n2,?,"{day}","c","0.5"\n',
        "quoted_header": f'"id","other","ts",s,"x"\n"1",?,{day}," a ",1\n',
        "last": f"{head}1,,{day},{'l' * 100_000},1\n",
        "doubled": f'{head}1,?,{day},"a""b",1\n2,"""",{day},"""a"", b""",1\n3,?,{day},"12"" pipe",1\n',
        "backslashes": f'{head}1,?,{day},a\\b,1\n2,?,{day},"a\\""b\\",1\n',
        "mark": f"\ufeff{head}1,?,{day},a,1\n",
        "zoned": f"{head}1,?,{day}+01:00,a,1\n2,?,{day},a,1\n9223372036854775807,?,{day}Z,a,1\n-9223372036854775808,?,{day}-05:30,a,1\n",
        "outside": f"{head}1,?,1960-01-01 00:00:00,a,1\n2,?,9999-12-30 00:00:00.000001,,\n",
    }
    odd = {
        "empty": f'{head}1,?,{day},"",1\n', "empty_in_other": f'{head}1,"",{day},a,1\n',
        "inside": f'{head}1,?,{day},a"b",1\n', "before": f'{head}1,?,{day}, "ab",1\n', "after": f'{head}1,?,{day},"ab" ,1\n',
        "open": f'{head}1,?,{day},"ab,1\n2,?,{day},cd",1\n', "returns": f"{head}1,?,{day},a,1\r2,?,{day},b,1\n",
        "one_of_two": f'{head}1,?,{day},"a""b"c,1\n', "short": f"{head}1,?,{day},a\n", "long": f"{head}1,?,{day},a,1,2\n",
        "blank": f"{head}1,?,{day},a,1\n  \n", "zero": f"{head}1,?,{day},a\0,1\n",
        "number": f"{head}1.5,?,{day},a,1\n", "zone": f"{head}1,?,{day}+0100,a,1\n", "header": f"id,other,ts,s\n1,?,{day},a\n",
        "odd_header": f'id,"ot""her",ts,s,x\n1,?,{day},a,1\n', "mark_inside": f"{head}\ufeff1,?,{day},a,1\n",
    }  # fmt: skip
    for name, text in {**both, **odd}.items():
        (tmp_path / "in" / f"{name}.csv").write_text(text, newline="")
    (tmp_path / "in" / "bytes.csv").write_bytes(f"{head}1,?,{day},".encode() + b"\xff,1\n")
    mine = CsvArrowReader(str(tmp_path / "in"), False, plan.source.fields, tuple(header), ",", True)
    paths = [tmp_path / "in" / f"{n}.csv" for n in both]
    theirs = intake(spark_reader.files(spark, plan.source, header, True, [str(p) for p in paths]), plan.intake).toArrow()
    for path in paths:
        expected = theirs.filter(pa.compute.equal(theirs[ORIGIN], path.name))
        made = [ArrowIntake(plan.intake).judged(t, path.name) for t in mine.tables(path.as_uri())]
        assert sum(t.num_rows for t in made) == expected.num_rows, path.name
        if made:
            assert bits(pa.concat_tables(made).select(expected.column_names).cast(expected.schema)).equals(bits(expected)), path.name
    for name in [*odd, "bytes"]:
        with pytest.raises(UnsupportedFile) as found:
            list(mine.tables((tmp_path / "in" / f"{name}.csv").as_uri()))
        assert found.value.lasting == (name != "header"), name
    escaping = CsvArrowReader(str(tmp_path / "in"), False, plan.source.fields, tuple(header), ",")
    for name in ("doubled", "backslashes"):
        with pytest.raises(UnsupportedFile):
            list(escaping.tables((tmp_path / "in" / f"{name}.csv").as_uri()))


def plain(directory: Path) -> Path:
    """The small job of the cut tests without its row rule, which only Spark checks."""
    path = write_spec(directory, partition=True, max_files=2, buckets=3)
    text = path.read_text()
    path.write_text(text.replace('  rows:\n    - {name: sane_x, expect: "x < 1000000"}\n', ""))
    return path


@pytest.mark.slow
def test_a_job_begun_by_arrow_and_ended_by_the_engine(spark, tmp_path, monkeypatch):
    made = {}
    for name in ("both", "engine"):
        directory = tmp_path / name
        directory.mkdir()
        path = plain(directory)
        if name == "engine":
            monkeypatch.setattr(query, "by_arrow", lambda plan, job: False)
        for i, part in enumerate((slice(0, 3), slice(3, 6))):
            write(directory, stream(3), 6, part)
            if i:
                quoted(directory / "in" / "005.csv")
            run(spark, path, finish=bool(i))
            assert ("quotes" in Layout(str(directory / "out")).known().engine_reads) == (name == "both" and i == 1)
        made[name] = {
            t: sorted_rows(table(directory, t), without=["batch_id"]) for t in ("far5_changes", "near4_changes", "rejected", "heads")
        }
    assert len(made["both"]["far5_changes"]) > 100
    assert made["both"] == made["engine"]


def quoted(file: Path) -> None:
    """Puts the first cell of the first row in quotes of which one is inside: a text, no number."""
    header, row, *rows = file.read_text().splitlines()
    stat = file.stat()
    file.write_text("\n".join([header, re.sub("^([^,]*)", r'"\1""', row), *rows, ""]))
    os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns))
