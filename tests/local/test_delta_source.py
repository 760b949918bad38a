"""A Delta table as the source of the local engine: the rows of its files, commit after commit, and what ends or refuses a run."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from skyband.framework.base.errors import SkybandError
from skyband.framework.sources.delta.added_files import Position
from skyband.framework.sources.logs import last_batch, offset_line
from skyband.framework.spec.load import validate_text
from skyband.jobs import cli
from tests.local.jobs import run, run_apart
from tests.spark import lists
from tests.spark.equality import differences
from tests.spark.jobs import START, table
from tests.specs import spec_text

pytestmark = pytest.mark.long

SCHEMA = pa.schema({"id": pa.int64(), "ts": pa.timestamp("us", "UTC"), "grp": pa.string(), "x": pa.float32(), "n": pa.int32()})
"""Columns of a table, some of narrower types than those of the spec."""
WIDE = SCHEMA.set(3, pa.field("x", pa.float64())).set(4, pa.field("n", pa.int64()))


def rows(first: int, end: int, schema: pa.Schema = SCHEMA) -> pa.Table:
    made = [{"id": i, "ts": START + timedelta(minutes=i), "grp": "ab"[i % 2], "x": i * 31 % 17 / 4, "n": i % 5} for i in range(first, end)]
    return pa.Table.from_pylist(made, schema)


def spec_of(directory: Path, source: Path, form: str = "delta", options: str = "{}", max_files: int = 2) -> Path:
    directory.mkdir(exist_ok=True)
    path = directory / "spec.yaml"
    path.write_text(
        spec_text(
            "followed", "{id: bigint, ts: timestamp, grp: string, x: double, n: bigint}", format=form, path=str(source), options=options,
            event_time="{column: ts, watermark: 5 minutes}", sink=f"{{path: {directory}/out}}", window="{count: 20}",
            scoring={"high": "{expression: x, direction: max}"}, queries={"best": "{type: topk, scoring: high, k: 3, carry: [n, grp]}"},
            run=f"{{engine: local, max_files: {max_files}}}",
        )
    )  # fmt: skip
    return path


def positions(directory: Path) -> list[tuple[int, int, bool]]:
    checkpoint = directory / "out" / "_skyband" / "checkpoint"
    found = [Position.of(offset_line(checkpoint, n)) for n in range(last_batch(checkpoint / "offsets") + 1)]
    return [(p.version, p.index, p.initial) for p in found if p is not None]


def append(path: Path, first: int, end: int, **how: Any) -> None:
    write_deltalake(str(path), rows(first, end), mode="append", **how)


def test_batches_end_where_those_of_spark_do_and_tables_are_those_of_the_same_files(tmp_path: Path) -> None:
    followed, files = tmp_path / "t", tmp_path / "files"
    spec, other = spec_of(tmp_path / "delta", followed), spec_of(tmp_path / "parquet", files, "parquet", max_files=100)
    files.mkdir()
    for i in range(3):
        append(followed, 10 * i, 10 * i + 10)
    pq.write_table(rows(0, 30).cast(WIDE), files / "0")
    for job in (spec, other):
        run(job, finish=False)
    # Of the table as it was, two files and the third; the offset behind a whole commit is the beginning of the next one.
    assert positions(tmp_path / "delta") == [(2, 1, True), (3, -1, False)]
    append(followed, 30, 50)
    DeltaTable(str(followed)).optimize.compact()
    append(followed, 50, 60)
    pq.write_table(rows(30, 60).cast(WIDE), files / "1")
    for job in (spec, other):
        run(job)
    # The commit that only compacts brings no file, and a batch goes over it.
    assert positions(tmp_path / "delta")[:3] == [(2, 1, True), (3, -1, False), (6, -1, False)]
    names, unequal = differences(tmp_path / "delta", tmp_path / "parquet", same_cuts=False)
    assert unequal == [] and names["best_changes"] > 10
    runs = table(tmp_path / "delta", "runs").to_pylist()
    assert sum(r["accepted"] for r in runs) == 60


def test_partitions_and_added_columns_are_read(tmp_path: Path) -> None:
    path = tmp_path / "t"
    spec = spec_of(tmp_path / "job", path)
    without = pa.schema([f for f in SCHEMA if f.name != "n"])
    write_deltalake(str(path), rows(0, 10, without), partition_by=["grp"])
    write_deltalake(str(path), rows(10, 20), mode="append", schema_mode="merge", partition_by=["grp"])
    run(spec)
    changes = table(tmp_path / "job", "best_changes").to_pylist()
    assert {r["id"] for r in changes if r["n"] is None} <= set(range(10)) and any(r["n"] is not None for r in changes)
    assert {(r["id"] % 2, r["grp"]) for r in changes} == {(0, "a"), (1, "b")}


def test_lists_are_read_as_from_files(tmp_path: Path) -> None:
    specs = [lists.write_spec(tmp_path / form, form) for form in ("delta", "parquet")]
    (tmp_path / "delta" / "in").rmdir()
    for part in range(2):
        write_deltalake(str(tmp_path / "delta" / "in"), pa.Table.from_pylist(lists.rows(part + 1), lists.SCHEMA), mode="append")
        lists.write_file(specs[1], part, "parquet")
        for spec in specs:
            run(spec, finish=part == 1)
    names, unequal = differences(tmp_path / "delta", tmp_path / "parquet", same_cuts=False)
    # Rejected rows have the table as their origin, or the file.
    assert unequal == ["rejected"] and names["twins_changes"] > 10 and names["tagged_changes"] > 10


@pytest.mark.parametrize("at", ["local.taken", "local.planned", "state.after", "sink.between", "local.done"])
def test_a_killed_run_is_completed_with_the_same_batches(tmp_path: Path, at: str) -> None:
    path = tmp_path / "t"
    for i in range(3):
        append(path, 10 * i, 10 * i + 10)
    specs = [spec_of(tmp_path / name, path) for name in ("killed", "whole")]
    assert run_apart(specs[0], "--finish", failpoint=at).returncode == -9
    run(specs[0])
    run(specs[1])
    assert positions(tmp_path / "killed") == positions(tmp_path / "whole")
    assert differences(tmp_path / "killed", tmp_path / "whole")[1] == []


def anew(path: Path) -> None:
    shutil.rmtree(path)
    append(path, 10, 20)


def cleaned(path: Path) -> None:
    append(path, 10, 20)
    append(path, 20, 30)
    DeltaTable(str(path)).create_checkpoint()
    (path / "_delta_log" / f"{1:020}.json").unlink()


def mapped(path: Path) -> None:
    """What a table says that begins to name its columns otherwise."""
    log = path / "_delta_log" / f"{0:020}.json"
    metadata = next(a for line in log.read_text().splitlines() if "metaData" in (a := json.loads(line)))
    metadata["metaData"]["configuration"] = {"delta.columnMapping.mode": "name"}
    (path / "_delta_log" / f"{1:020}.json").write_text(json.dumps(metadata) + "\n")


@pytest.mark.parametrize(
    ("then", "code", "said"),
    [
        (lambda path: DeltaTable(str(path)).delete("id = 3"), "SKY-E207", "commit 1 of the table {} changed or removed rows (DELETE)"),
        (lambda path: DeltaTable(str(path)).delete(), "SKY-E207", "commit 1 of the table {} removed rows (DELETE), and the job reads only"),
        (anew, "SKY-E207", "the table {} was recreated"),
        (cleaned, "SKY-E207", "commits of the table {} that the job has not read are no longer in its log"),
        (mapped, "SKY-E137", "only Spark reads the table {}: it uses columnMapping"),
    ],
    ids=["update", "delete", "anew", "cleaned", "mapped"],
)
def test_a_table_that_was_rewritten_ends_the_run(
    tmp_path: Path, then: Callable[[Path], object], code: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "t"
    append(path, 0, 10)
    spec = spec_of(tmp_path / "job", path)
    run(spec, finish=False)
    then(path)
    assert cli.main(["run", str(spec), "--once"]) == 2
    err = capsys.readouterr().err
    assert f"{code} " in err and said.format(path) in err
    assert cli.main(["query", str(spec), "best"]) == 0


def test_deletions_may_be_passed_over_and_the_beginning_chosen(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "t"
    for i in range(3):
        append(path, 10 * i, 10 * i + 10, partition_by=["grp"])
    DeltaTable(str(path)).delete("grp = 'a'")
    append(path, 30, 40, partition_by=["grp"])
    spec = spec_of(tmp_path / "job", path, options='{startingVersion: "1", ignoreDeletes: "true"}')
    run(spec)
    assert sum(r["accepted"] for r in table(tmp_path / "job", "runs").to_pylist()) == 30
    spec = spec_of(tmp_path / "late", path, options='{startingVersion: "9"}')
    assert cli.main(["run", str(spec)]) == 3
    assert f"SKY-E301 source.options say to begin at a commit that the table {path} does not have" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("column", "why"),
    [
        (pa.field("n", pa.string()), "column n is string, where the spec says bigint"),
        (pa.field("ts", pa.timestamp("us")), "it uses timestampNtz|column ts is timestamp_ntz, where the spec says timestamp"),
        (pa.field("other", pa.int64()), "it has no column n, or that is a member of an object"),
    ],
)
def test_a_table_that_only_spark_reads_is_named(tmp_path: Path, column: pa.Field, why: str) -> None:
    fields = [column if f.name in (column.name, "n" if column.name == "other" else "") else f for f in SCHEMA]
    write_deltalake(str(tmp_path / "t"), pa.schema(fields).empty_table())
    with pytest.raises(SkybandError) as e:
        run(spec_of(tmp_path / "job", tmp_path / "t"))
    assert e.value.code == "SKY-E137" and any(w in e.value.message for w in why.split("|")) and "--engine spark" in str(e.value.hint)


@pytest.mark.parametrize(
    ("options", "why"),
    [('{startingTimestamp: "2020-01-01"}', "option startingTimestamp"), ('{startingVersion: "latest"}', "option startingVersion")],
)
def test_options_of_spark_alone_are_refused_with_the_spec(tmp_path: Path, options: str, why: str) -> None:
    text = spec_of(tmp_path, tmp_path / "t", options=options).read_text()
    _, errors = validate_text(text, dict(os.environ))
    assert [(x.code, x.message) for x in errors] == [
        ("SKY-E137", f"the local engine cannot run this job: only Spark reads its source: {why}")
    ]
    assert validate_text(text.replace("engine: local, ", ""), dict(os.environ))[1] == []


def test_a_table_without_a_log_is_missing_and_one_with_a_damaged_log_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "t"
    append(path, 0, 10)
    spec = spec_of(tmp_path / "job", path)
    run(spec, finish=False)
    (path / "_delta_log" / f"{1:020}.json").write_text('{"add": {"path": "../x.parquet", "size": 1, "dataChange": true}}\n')
    with pytest.raises(SkybandError) as e:
        run(spec)
    assert e.value.code == "SKY-E208"
    shutil.rmtree(path / "_delta_log")
    with pytest.raises(SkybandError) as e:
        run(spec)
    assert e.value.code == "SKY-E301"


@pytest.mark.parametrize(
    "action",
    ['{"add": {"size": 1}}', '{"add": []}', '{"add": {"path": 7, "size": 1}}', '{"add": {"path": "x.parquet", "size": "much"}}',
     '{"protocol": {"minReaderVersion": "new"}}', '{"metaData": 3}', '{"remove": true}', "[]", "{"],
)  # fmt: skip
def test_actions_that_are_not_those_of_delta_are_refused(tmp_path: Path, action: str) -> None:
    path = tmp_path / "t"
    append(path, 0, 10)
    spec = spec_of(tmp_path / "job", path)
    run(spec, finish=False)
    (path / "_delta_log" / f"{1:020}.json").write_text(f"{action}\n")
    with pytest.raises(SkybandError) as e:
        run(spec)
    assert e.value.code in ("SKY-E137", "SKY-E208") and "Error" not in e.value.message


def test_a_file_of_another_kind_ends_the_run_and_is_named(tmp_path: Path) -> None:
    path = tmp_path / "t"
    append(path, 0, 10)
    spec = spec_of(tmp_path / "job", path)
    (file,) = path.glob("*.parquet")
    file.write_bytes(b"no Parquet")
    with pytest.raises(SkybandError) as e:
        run(spec)
    assert e.value.code == "SKY-E137" and file.name in e.value.message
