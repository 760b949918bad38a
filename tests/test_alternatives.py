"""What the benchmark ``alternatives`` holds against Skyband answers the same questions, and cannot say what is said that it cannot."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from bench.against.duck import Duck
from bench.against.ours import Exact
from bench.against.payments import QUERIES, Answer, Batches, answer, batches, rows, spec, unranked, write
from bench.against.polars_loop import Polars
from bench.against.spark_sql import SparkSql
from skyband.framework.plan.compile import compile_job
from skyband.framework.rehearsal.rehearsal import Rehearsal
from skyband.framework.spec.load import validate_text

WINDOW, COUNT = 240, 640
WAYS = {"DuckDB": Duck, "Polars": Polars}
Item = tuple[int, ...]


def rehearsed(query: str, drops: list[pa.Table]) -> Rehearsal:
    job, errors = validate_text(spec(query, Path("/nowhere/in"), Path("/nowhere/out")), {})
    assert job is not None, errors
    made = Rehearsal(compile_job(job))
    for table in drops:
        made.drop([r | {"paid_at": int(t)} for r, t in zip(table.to_pylist(), table["paid_at"].cast(pa.int64()).to_pylist(), strict=True)])
    return made


def in_order(job: Rehearsal) -> Any:
    """The changes by key, step and place, without the batch that wrote them."""
    return (
        job.tables()["answer_changes"].sort_by([(c, "ascending") for c in ("market", "step", "pos")]).drop_columns(["batch_id"]).to_pylist()
    )


@cache
def exact(query: str) -> Exact:
    job = rehearsed(query, [rows(COUNT, WINDOW)])
    job.finish()
    tables = job.tables()
    return Exact(query, tables["answer"], tables["answer_changes"])


@dataclass
class Loop:
    """A way of doing without, over files."""

    way: str
    query: str
    directory: Path

    def __post_init__(self) -> None:
        self.out = self.directory / f"{self.way}-{self.query}"
        self.one = WAYS[self.way](self.query, self.out)

    def take(self, cut: Batches) -> list[Answer]:
        """The answer after every batch."""
        for path in cut.files:
            self.one.batch(path)
        return [answer(self.query, DeltaTable(self.out, version=v).to_pyarrow_table()) for v in range(len(cut.files))]


def seen(query: str, said: list[Answer]) -> list[tuple[str, Item]]:
    """The changes that answers one after the other show."""
    items = [unranked(query, s) for s in said]
    return [c for a, b in itertools.pairwise(items) for c in [*(("-", i) for i in a - b), *(("+", i) for i in b - a)]]


@pytest.mark.parametrize("size", [40, 7])
@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("way", WAYS)
def test_at_the_end_of_every_batch_it_says_what_skyband_says_and_no_change_between(way: str, query: str, size: int, tmp_path: Path) -> None:
    cut = batches(rows(COUNT, WINDOW), WINDOW, size, 12, tmp_path / "in")
    said = Loop(way, query, tmp_path).take(cut)
    assert said == [exact(query).answer(at) for at in cut.ends]
    there = exact(query).changes(cut.ends[0], cut.ends[-1])
    assert 0 < len(seen(query, said)) <= there


@pytest.mark.parametrize("query", QUERIES)
def test_what_comes_and_goes_within_a_batch_is_missed_and_only_that(query: str, tmp_path: Path) -> None:
    """The exact changes of each batch, those that undo each other taken out, are those that are seen."""
    cut = batches(rows(COUNT, WINDOW), WINDOW, 80, 5, tmp_path / "in")
    said = Loop("DuckDB", query, tmp_path).take(cut)
    job = rehearsed(query, [rows(COUNT, WINDOW)])
    job.finish()
    ids = ("market", *(("older_id", "newer_id") if query == "topk_pairs" else ("id",)))
    net: dict[tuple[int, Item], int] = {}
    there = 0
    for change in job.tables()["answer_changes"].to_pylist():
        at = int(change["changed_at"].timestamp()) * 1_000_000 + change["changed_at"].microsecond
        if cut.ends[0] < at <= cut.ends[-1]:
            there += 1
            where = sum(end < at for end in cut.ends), tuple(change[c] for c in ids)
            net[where] = net.get(where, 0) + (1 if change["change"] == "+" else -1)
    left = sorted(("+" if n > 0 else "-", item) for (_, item), n in net.items() if n)
    assert sorted(seen(query, said)) == left
    assert there > len(left), "nothing came and went within a batch: these rows show nothing"


@pytest.mark.parametrize("way", WAYS)
def test_the_changes_it_shows_depend_on_how_rows_are_cut_and_skybands_do_not(way: str, tmp_path: Path) -> None:
    shown = []
    for size in (20, 80):
        cut = batches(rows(COUNT, WINDOW), WINDOW, size, 320 // size, tmp_path / f"in-{size}")
        shown.append(sorted(seen("topk", Loop(way, "topk", tmp_path / str(size)).take(cut))))
    assert shown[0] != shown[1]
    whole = rows(COUNT, WINDOW)
    reported: list[Any] = []
    for size in (COUNT, 50):
        job = rehearsed("topk", [whole.slice(i, size) for i in range(0, COUNT, size)])
        job.finish()
        reported.append(in_order(job))
    assert reported[0] == reported[1]


@pytest.mark.parametrize("way", WAYS)
def test_a_late_row_counts_from_then_on_without_a_word_and_skyband_rejects_it(way: str, tmp_path: Path) -> None:
    """The largest payment of all comes a batch late: the answer that it belonged into stays as it is, and nothing tells."""
    table = rows(COUNT, WINDOW)
    late = table.slice(300, 1).set_column(3, "amount", pa.array([1e9]))
    others = pa.concat_tables([table.slice(0, 300), table.slice(301)])
    first, second = others.slice(0, 350), pa.concat_tables([late, others.slice(350, 50)])
    directory = tmp_path / "in"
    directory.mkdir()
    cut = Batches(directory, 0, [write(t, directory / f"{i}.parquet", i) for i, t in enumerate((first, second))], [])
    said = [unranked("topk", s) for s in Loop(way, "topk", tmp_path).take(cut)]
    market = late["market"][0].as_py()
    assert [(market, 300) in s for s in said] == [False, True]
    tables = rehearsed("topk", [first, second]).tables()
    assert [r["reason"] for r in tables["rejected"].to_pylist()] == ["late"]


@pytest.mark.parametrize("way", WAYS)
def test_started_again_it_has_lost_the_window_and_skyband_has_not(way: str, tmp_path: Path) -> None:
    cut = batches(rows(COUNT, WINDOW), WINDOW, 40, 10, tmp_path / "in")
    whole = Loop(way, "topk", tmp_path / "whole").take(cut)
    half = Batches(cut.directory, cut.size, cut.files[-3:], cut.ends[-3:])
    assert Loop(way, "topk", tmp_path / "half").take(half)[-1] != whole[-1]
    reported = []
    for again in (False, True):
        job = rehearsed("topk", [rows(COUNT, WINDOW).slice(0, 400)])
        if again:
            job.restart()
        for i in range(400, COUNT, 40):
            part = rows(COUNT, WINDOW).slice(i, 40)
            job.drop([r | {"paid_at": t} for r, t in zip(part.to_pylist(), part["paid_at"].cast(pa.int64()).to_pylist(), strict=True)])
        reported.append(in_order(job))
    assert reported[0] == reported[1]


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize("query", QUERIES)
def test_the_job_on_spark_sql_says_what_skyband_says_and_a_repeated_batch_changes_nothing(
    query: str, spark: SparkSession, tmp_path: Path
) -> None:
    cut = batches(rows(COUNT, WINDOW), WINDOW, 80, 3, tmp_path / "in")
    out = tmp_path / "said"
    job = SparkSql(spark, query, out)
    job.run(cut.directory, lambda: None)
    table = DeltaTable(out)
    assert [answer(query, DeltaTable(out, version=v).to_pyarrow_table()) for v in range(4)] == [exact(query).answer(at) for at in cut.ends]
    job.batch(spark.read.parquet(str(cut.files[-1])), 3)
    assert DeltaTable(out).version() == table.version()
    assert answer(query, DeltaTable(out).to_pyarrow_table()) == exact(query).answer(cut.ends[-1])
