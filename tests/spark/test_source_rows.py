"""``<query>_rows`` in Spark's catalog, by definition and against DuckDB, for every format."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from skyband.framework.plan.model import Plan, SourceNode
from skyband.framework.tables.sql.statements import Statements
from tests.framework.tables.plans import DAY
from tests.framework.tables.results.test_reader import job
from tests.framework.tables.sql.test_readers import HOSTILE, hostile
from tests.framework.tables.sql.test_source_rows import WRITERS, at, expected, laid, random_source, source_of, taken
from tests.spark.in_catalog import register

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.fixture
def catalog(spark: SparkSession) -> Iterator[SparkSession]:
    """A session whose databases of jobs go again."""
    yield spark
    spark.catalog.setCurrentDatabase("default")
    spark.sql("drop database if exists tests cascade")


def in_spark(spark: SparkSession, plan: Plan, name: str) -> list[str]:
    return sorted(repr(sorted(r.items())) for r in spark.sql(f"select * from tests.`{name}_rows`").toArrow().to_pylist())


@pytest.mark.parametrize("form", list(WRITERS))
def test_pairs_have_both_rows_beside_them(catalog: SparkSession, tmp_path: Path, form: str) -> None:
    rng = random.Random(form)
    keys, roles = rng.choice([(), ("grp",)]), rng.choice([("older", "newer"), ("a", "b")])
    (tmp_path / "out").mkdir()
    plan, _ = job(tmp_path / "out", keys, roles)
    rows = random_source(rng, keys)
    plan = laid(plan, tmp_path / "in", form, source_of(rows))
    register(catalog, plan)
    for name in ("near", "near3"):
        assert in_spark(catalog, plan, name) == expected(plan, name, [f"{r}_" for r in roles], rows)


@pytest.mark.parametrize("form", list(WRITERS))
def test_hostile_ids_find_their_rows(catalog: SparkSession, tmp_path: Path, form: str) -> None:
    (tmp_path / "out").mkdir()
    plan = hostile(tmp_path / "out")
    rows = [{"id": n, "ts": at(DAY + i), "grp": n, "day": None, "price": None, "x": i / 3} for i, n in enumerate(HOSTILE, 1)]
    plan = laid(plan, tmp_path / "in", form, source_of(rows, text_id=True), plan.intake.fields)
    register(catalog, plan)
    lost = {n for n in HOSTILE if set(n) & {"\n", "\r"} or not n} if form == "csv" else set()  # an empty cell is null to Spark
    wanted = [s for s in expected(plan, "near", [""], rows) if not any(repr(n) in s for n in lost)]
    assert [s for s in in_spark(catalog, plan, "near") if not any(repr(n) in s for n in lost)] == wanted


ODD = (
    'plain', '"quoted"', '"with, comma"', '"doubled ""quotes"" inside"', '"escaped \\" inside"', 'C:\\new', '"C:\\new"', 
    '"\\\\"', '""', '', ' ',
    ' spaces ', '" quoted spaces "', 'it"s', '"it"s', '"open', 'NULL', '"NA"', 'NA', 'é', '"a\\,b"', "'single'", '"a""', '\\"', '"end\\"',
)  # fmt: skip
"""Cells as they stand in a file."""


@pytest.mark.parametrize("options", [{}, {"escape": '"'}, {"nullValue": "NA"}, {"quote": "'"}], ids=str)
def test_what_duckdb_says_of_csv_the_engine_says_too(catalog: SparkSession, tmp_path: Path, options: dict[str, str]) -> None:
    """DuckDB may find fewer rows, never another."""
    (tmp_path / "out").mkdir()
    (tmp_path / "in").mkdir()
    plan, _ = job(tmp_path / "out", ())
    files = []
    for n, cell in enumerate(ODD):
        files.append(tmp_path / "in" / f"{n:02}.csv")
        others = [f"{i},{at(DAY + i // 10).isoformat()},plain {i}" for i in range(0, 120, 10) if i // 10 != n % 12]
        odd = f"{n % 12 * 10},{at(DAY + n % 12).isoformat()},{cell}"
        files[-1].write_text("\n".join([*others[:4], odd, *others[4:]]) + "\n", encoding="utf-8")
    fields = tuple(f for f in plan.source.fields if f.name in ("id", "ts", "grp"))
    for n in range(len(ODD)):
        taken(plan, files[n : n + 1])
        read = replace(plan, source=SourceNode("csv", str(files[n]), tuple(options.items()), fields))
        duck = {
            (r["older_id"], r["older_grp"]) for r in Statements(read).ask("select * from near_rows where older_source_rows = 1").to_pylist()
        }
        register(catalog, read)
        spark = catalog.sql("select older_id, older_grp from tests.near_rows where older_source_rows = 1").collect()
        engine = {(r["older_id"], r["older_grp"]) for r in spark}
        catalog.sql("drop database tests cascade")
        assert duck <= engine, ODD[n]
        assert duck and (n or duck == engine), ODD[n]
