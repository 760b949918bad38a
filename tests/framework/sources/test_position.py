"""The position of a row: the same number by every reader, whatever pieces a file is read in, by counting rows one by one."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.orc
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skyband.framework.base.errors import SkybandError
from skyband.framework.plan.fingerprint import fingerprint
from skyband.framework.plan.model import Plan, SourceNode
from skyband.framework.preview.judged import judged
from skyband.framework.sources.csv import arrow_reader as csv_arrow
from skyband.framework.sources.files.spark_reader import NumberRows
from skyband.framework.sources.json import arrow_reader as json_arrow
from skyband.framework.sources.orc import arrow_reader as orc_arrow
from skyband.framework.sources.parquet import arrow_reader as parquet_arrow
from skyband.framework.sources.position import FileNames, position_values
from skyband.framework.sources.preview import first_rows
from skyband.framework.streaming.job.arrow_files import readable
from skyband.framework.streaming.job.layout import JobFile
from tests.specs import plan_of_text, spec_text

TIMES = [f"2024-01-01 00:00:{i:02}" for i in range(9)]


def plan_of(directory: Path | str, form: str = "csv", options: str | None = None) -> Plan:
    return plan_of_text(
        spec_text(
            "trades", "{ts: timestamp, x: double}", format=form, path=f'"{directory}"', options=options, id="position",
            window="{count: 10}", scoring="{x: {expression: x, direction: max}}", queries="{best: {type: topk, scoring: x, k: 3}}",
            quality="{max_rejected: 100%}",
        )
    )  # fmt: skip


def positions(plan: Plan) -> list[tuple[str | None, str, int, float | None]]:
    """(reason, file, number, x) of every row as ``preview`` reads them."""
    rows = judged(plan, results=False).rows
    columns = (rows[n].to_pylist() for n in ("__reason", "file", "file_row", "x"))
    return list(zip(*columns, strict=True))


def csv_text(cells: list[str], header: str = "ts,x\n", blank: str = "") -> str:
    return header + "".join(f"{TIMES[i]},{cell}\n{blank}" for i, cell in enumerate(cells))


@pytest.mark.parametrize(
    ("path", "place", "name"),
    [
        ("/data/in", "file:///data/in/a.csv", "a.csv"),
        ("/data/in/", "/data/in/day=1/a.csv", "day=1/a.csv"),
        ("file:///data/in", "file:/data/in/a%20b%25.csv", "a b%.csv"),
        ("/data/*/x.csv", "file:///data/b/x.csv", "b/x.csv"),
        ("/data/in{1,2}/*.csv", "/data/in2/a.csv", "in2/a.csv"),
        ("s3a://bucket/in", "s3a://bucket/in/d/a%2Bb.csv", "d/a+b.csv"),
        ("s3a://bucket/*/in", "s3a://bucket/d/in/a.csv", "d/in/a.csv"),
        ("/data/in", "file:///elsewhere/in/a.csv", "/elsewhere/in/a.csv"),
    ],
)
def test_names_of_files(path: str, place: str, name: str) -> None:
    assert FileNames.of(SourceNode("csv", path, (), ())).name(place) == name


def test_the_name_of_a_source_that_is_one_file(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("")
    assert FileNames.of(SourceNode("csv", str(tmp_path / "a.csv"), (), ())).name(f"{tmp_path}/a.csv") == "a.csv"


BAD = ["1", "2", "x", "", "5"]
ROWS = [(None, 1, 1.0), (None, 2, 2.0), ("parse", 3, None), (None, 4, None), (None, 5, 5.0)]
"""(reason, number, x) of the rows with the cells ``BAD``."""


@pytest.mark.parametrize("blank", ["", "\n", " \r\n"])
@pytest.mark.parametrize(("options", "header"), [("{}", "ts,x\n"), ("{header: false}", ""), ("{skip_lines: 2}", "title\n\nts,x\n")])
@pytest.mark.parametrize("packed", [False, True])
def test_rows_of_csv_files_count_from_1(tmp_path: Path, options: str, header: str, blank: str, packed: bool) -> None:
    data = csv_text(BAD, header, blank).encode()
    for name in ("a", "b"):
        file = tmp_path / f"{name}.csv{'.gz' if packed else ''}"
        file.write_bytes(gzip.compress(data) if packed else data)
    found = positions(plan_of(tmp_path, options=options))
    assert found == [(r, file.name, n, x) for file in sorted(tmp_path.iterdir()) for r, n, x in ROWS]


@pytest.mark.parametrize("whole", [False, True])
def test_rows_of_json_files_count_from_1(tmp_path: Path, whole: bool) -> None:
    row = [json.dumps({"ts": TIMES[0], "x": i}) for i in range(9)]
    # A list is as many rows as it has elements; a line that is no object is one.
    lines = [row[0], "", f"[{row[1]}, {row[2]}]", "[]", "no json", row[3]]
    (tmp_path / "a.json").write_text("\n".join(lines))
    found = positions(plan_of(tmp_path, "json", "{multiLine: true}" if whole else None))
    assert [f for f in found if f[0] is None] == [(None, "a.json", n, x) for n, x in ((1, 0.0), (2, 1.0), (3, 2.0), (found[-1][2], 3.0))]
    assert [f[2] for f in found] == list(range(1, len(found) + 1))


@pytest.mark.parametrize("form", ["parquet", "orc"])
def test_rows_of_typed_files_count_from_1(tmp_path: Path, form: str) -> None:
    stamps = pa.array([1_704_067_200_000_000 + i for i in range(5)], pa.timestamp("us", "UTC"))
    table = pa.table({"ts": stamps, "x": [0.0, 1.0, 2.0, 3.0, 4.0]})
    (pq if form == "parquet" else pa.orc).write_table(table, str(tmp_path / f"a.{form}"))
    assert positions(plan_of(tmp_path, form)) == [(None, f"a.{form}", i + 1, float(i)) for i in range(5)]


@pytest.mark.parametrize("form", ["csv", "json", "parquet", "orc"])
def test_files_read_by_arrow_in_pieces(tmp_path: Path, form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = plan_of(tmp_path, form)
    job = JobFile(job="trades", generation="g", fingerprint=fingerprint(plan), partitions=1, header=["ts", "x"])
    cells = [str(i) for i in range(9)]
    if form == "csv":
        (tmp_path / "a.csv").write_text(csv_text(cells, blank="\n"))
    elif form == "json":
        (tmp_path / "a.json").write_text("\n\n".join(json.dumps({"ts": TIMES[0], "x": i}) for i in range(9)))
    else:
        stamps = pa.array([1_704_067_200_000_000 + i for i in range(9)], pa.timestamp("us", "UTC"))
        table = pa.table({"ts": stamps, "x": [float(i) for i in range(9)]})
        if form == "orc":
            pa.orc.write_table(table, str(tmp_path / "a.orc"))
        else:
            pq.write_table(table, tmp_path / "a.parquet", row_group_size=2)
    for size in (1, 40, 1 << 20):
        monkeypatch.setattr(csv_arrow, "_PIECE", max(size, 30))
        for module, name in ((parquet_arrow, "ROWS"), (orc_arrow, "ROWS"), (json_arrow, "_ROWS"), (json_arrow, "_PIECE")):
            monkeypatch.setattr(module, name, size)
        reader = readable(plan, job)
        parts = list(reader.tables((tmp_path / f"a.{form}").as_uri()))
        found = pa.concat_tables(parts)
        assert found["file_row"].to_pylist() == list(range(1, 10)) and found["x"].to_pylist() == [float(c) for c in cells]
        assert set(found["file"].to_pylist()) == {f"a.{form}"}
        assert len(parts) > 1 or size > 1
    # Spans of event time need no position.
    (only,) = readable(plan, job, ("ts",)).tables((tmp_path / f"a.{form}").as_uri())
    assert only.column_names == ["ts"]


FILES = st.lists(st.integers(0, 7), max_size=5)
"""The number of rows of each file of a task."""


@given(FILES, st.lists(st.integers(0, 4), max_size=12), st.booleans())
def test_spark_batches_cut_anywhere(sizes: list[int], cuts: list[int], reversed_: bool) -> None:
    plan = plan_of("/in")
    urls = [f"file:///in/{'b' if reversed_ else ''}{n}.csv" for n, size in enumerate(sizes) for _ in range(size)]
    table = pa.table({"x": pa.array(range(len(urls)), pa.int64()), "__url": pa.array(urls, pa.string())})

    def batches() -> Iterator[pa.RecordBatch]:
        at = 0
        for cut in [*cuts, len(urls)]:
            yield pa.RecordBatch.from_arrays(
                [c.combine_chunks() for c in table.slice(at, cut).columns], schema=table.schema
            )  # empty ones among them
            at = min(at + cut, len(urls))

    number = NumberRows(FileNames.of(plan.source), plan.source.position, "__url")
    found = [row for batch in number(batches()) for row in batch.to_pylist()]
    expected = [(f"{'b' if reversed_ else ''}{n}.csv", row + 1) for n, size in enumerate(sizes) for row in range(size)]
    assert [(r["file"], r["file_row"]) for r in found] == expected
    assert [r["x"] for r in found] == list(range(len(urls)))


def test_rows_left_out_of_a_preview_count(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(csv_text(["1", "2", '3"', "4"]))
    found = first_rows(plan_of(tmp_path).source, 100)
    assert found.doubtful == 1 and [(r["file_row"], r["x"]) for r in found.rows] == [(1, 1.0), (2, 2.0), (4, 4.0)]
    few = first_rows(plan_of(tmp_path).source, 2)
    assert [r["file_row"] for r in few.rows] == [1, 2]


def test_the_position_of_a_kafka_record() -> None:
    text = spec_text(
        "trades", "{ts: timestamp, x: double}", format="kafka", path=None, options="{servers: a:1, topic: t}", id="position",
        window="{count: 10}", scoring="{x: {expression: x, direction: max}}", queries="{best: {type: topk, scoring: x, k: 3}}",
    )  # fmt: skip
    plan = plan_of_text(text)
    assert plan.intake.id == ("topic_partition", "topic_offset") and plan.intake.unique == "assumed"
    assert position_values(plan.source.position, "test", 1) == {"topic_partition": 0, "topic_offset": 0}
    with pytest.raises(SkybandError):
        first_rows(plan.source, 1)
