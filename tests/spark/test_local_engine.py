"""The local engine beside Spark: the same tables, files that only Spark reads, and jobs that both run by turns."""

from __future__ import annotations

import json
import math
import os
import random
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.orc
import pyarrow.parquet as pq
import pytest

from skyband.framework.base.errors import SkybandError
from skyband.framework.sources.values import arrow_column
from skyband.framework.streaming.job.edits import addable
from skyband.framework.streaming.job.layout import Layout
from skyband.framework.streaming.local.engine import LocalEngine
from skyband.framework.streaming.rebuild.add_queries import add
from skyband.framework.streaming.run.runner import Runner
from skyband.framework.tables.schemas import batch_tables
from skyband.framework.tables.writing.factory import writer_for
from skyband.jobs.spec import load_plan
from tests.spark import lists
from tests.spark.cuts import stream
from tests.spark.equality import assert_equal_tables, differences
from tests.spark.jobs import COLUMNS, run, run_apart, sorted_rows, stamp, table, write_file, write_spec
from tests.specs import spec_text

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from skyband.framework.streaming.run.batch import Batch

pytestmark = pytest.mark.spark

MIXED = """\
  best: {type: topk, scoring: high, k: 3, carry: [x]}
  far5: {type: topk_pairs, scoring: far, k: 5, carry: [x]}
  sky: {type: skyline, dimensions: {x: min, y: max}, window: {time: 2 hours}}
  busy: {type: threshold_groups, group: side, score: sum(y), above: 20, below: 12, every: 30 minutes}
"""
CHAIN = "  peak: {type: topk, from: best, scoring: high, k: 1}\n"
HIGH = "  high: {expression: x, direction: max}\n"
MINUTE = 60_000_000
START = 1_577_836_800_000_000
"""2020-01-01 in microseconds."""
ORC = pa.schema({"id": pa.int64(), "ts": pa.string(), "grp": pa.string(), "x": pa.float64(), "y": pa.float64(), "side": pa.string()})
KINDS: dict[str, dict[str, Any]] = {
    "pairs": {},
    "keys": {"partition": True, "buckets": 4, "queries": MIXED + CHAIN, "scoring": HIGH, "max_files": 2},
    "deletions": {"deletes": "deletes: side = 'd'", "watermark": "20 minutes", "max_files": 1},
}


def local(spec: Path, finish: bool = True, spark: SparkSession | None = None) -> list[Batch]:
    """Run the job by the local engine in this process. ``spark``: what starts where it needs Spark; None: it must not."""
    plan, batches = load_plan(str(spec)), list[Any]()

    def start() -> SparkSession:
        assert spark is not None, "Spark is not needed here"
        return spark

    Runner(LocalEngine(start), plan, writer_for(plan.sink), batches.append).run(once=True, finish=finish)
    return batches


def written(directory: Path, **about: Any) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    return write_spec(directory, **about)


def rows_of(seed: int, deletions: bool = False) -> list[list[object]]:
    found = stream(seed, 240)
    for i, row in enumerate(found):
        if deletions and i % 7 == 6:
            row[COLUMNS.index("id")], row[COLUMNS.index("side")] = found[i - 5][0], "d"
    return found


def figures(batch: Batch) -> tuple[object, ...]:
    return batch.number, dict(batch.changes), batch.rejected(), batch.pending, batch.newest, batch.frontier


def by_batch(directory: Path, name: str) -> list[str]:
    return sorted(map(repr, table(directory, name).to_pylist()))


# The other kinds are slow where a test of two engines by turns has one of them.
@pytest.mark.parametrize("kind", [pytest.param(k, marks=() if k == "keys" else pytest.mark.slow) for k in sorted(KINDS)])
def test_both_write_the_same_rows_in_the_same_batches(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    rows = rows_of(len(kind), deletions=kind == "deletions")
    specs = {name: written(tmp_path / name, **KINDS[kind]) for name in ("spark", "local")}
    for until in (2, 5, 6):
        for spec in specs.values():
            for i in range(0 if until == 2 else {5: 2, 6: 5}[until], until):
                write_file(spec.parent, f"{i}.csv", rows[40 * i : 40 * (i + 1)], at=10 * i)
        ours = local(specs["local"], finish=until == 6)
        assert [figures(b) for b in ours] == [figures(b) for b in run(spark, specs["spark"], finish=until == 6)]
    assert_equal_tables(tmp_path / "local", tmp_path / "spark")
    plan = load_plan(str(specs["local"]))
    for name in [f"{q.name}_changes" for q in plan.every_query] + ["rejected", "heads"]:
        assert by_batch(tmp_path / "local", name) == by_batch(tmp_path / "spark", name)


def test_files_that_only_spark_reads_give_the_rows_that_spark_gives(spark: SparkSession, tmp_path: Path) -> None:
    specs = {name: written(tmp_path / name, queries=MIXED, scoring=HIGH) for name in ("spark", "local")}
    good = rows_of(3)[:60]
    for spec in specs.values():
        write_file(spec.parent, "0.csv", good[:30], at=0)
        odd = [
            *good[30:40],
            ["x1", stamp(700), "a", "1", "2", "b"],
            [9001, "no time", "a", 1, 2, "b"],
            [9002, stamp(701), "a", "1,5", 2, "b"],
        ]
        write_file(spec.parent, "1.csv", odd, at=10)
        write_file(spec.parent, "2.csv", good[40:], at=20)
    run(spark, specs["spark"])
    local(specs["local"], spark=spark)
    assert_equal_tables(tmp_path / "local", tmp_path / "spark")
    assert by_batch(tmp_path / "local", "rejected") == by_batch(tmp_path / "spark", "rejected")
    assert table(tmp_path / "local", "rejected").num_rows >= 3


def test_added_queries_get_the_rows_that_only_spark_reads(spark: SparkSession, tmp_path: Path) -> None:
    fresh, job = (written(tmp_path / name, queries=MIXED, scoring=HIGH, partition=True, buckets=3) for name in ("fresh", "job"))
    whole = job.read_text()
    job.write_text(whole.replace(MIXED, MIXED.splitlines(keepends=True)[0]))
    rows = rows_of(3)
    for number in range(4):
        for spec in (fresh, job):
            odd = [["x1", stamp(700), "a", "1", "2", "b"], [9001, "no time", "a", 1, 2, "b"], [9002, stamp(60 * number), "b", "3", 2, '"']]
            write_file(spec.parent, f"{number}.csv", rows[60 * number : 60 * (number + 1)] + odd * (number == 1), at=10 * number)
        if number < 3:
            run(spark, fresh, finish=False)
            local(job, finish=False, spark=spark)
    job.write_text(whole)
    plan, warned = load_plan(str(job)), list[str]()
    layout = Layout(plan.sink)
    found = addable(plan, layout, layout.known())
    assert found is not None and add(lambda: spark, plan, layout, layout.known(), found, local=True, warn=warned.append) > 0
    assert len(warned) == 1 and warned[0].startswith("1.csv can only be read by Spark, which starts for it")
    run(spark, fresh)
    local(job, spark=spark)
    _, unequal = differences(tmp_path / "job", tmp_path / "fresh", same_cuts=False)
    assert unequal == ["runs"]


@pytest.mark.parametrize("form", ["json", pytest.param("orc", marks=pytest.mark.slow)])
def test_both_write_the_same_rows_from_other_files(spark: SparkSession, tmp_path: Path, form: str) -> None:
    """Files in two batches by number, of which one of JSON has a line that only Spark reads."""
    rows = rows_of(13)[:150]
    types = {"id": int, "x": int, "y": int}
    made = [{n: None if v == "" else types.get(n, str)(v) for n, v in zip(COLUMNS, row, strict=True)} for row in rows]
    specs = {name: written(tmp_path / name, **KINDS["keys"]) for name in ("spark", "local")}
    for spec in specs.values():
        spec.write_text(spec.read_text().replace("format: csv", f"format: {form}").replace("  options: {header: true}\n", ""))
        (spec.parent / "in").mkdir()
        for i in range(3):
            path = spec.parent / "in" / f"{i}.{form}"
            part = made[50 * i : 50 * (i + 1)]
            if form == "json":
                path.write_text("".join(json.dumps(row) + "\n" for row in part) + ('{"id": 1, "ts": "no time"}\n' if i == 1 else ""))
            else:
                stamps = pa.array([datetime.fromisoformat(str(row["ts"])) for row in part], pa.timestamp("us", "UTC"))
                content = pa.Table.from_pylist(part, schema=ORC).set_column(1, "ts", stamps)
                pa.orc.write_table(content, str(path))
            os.utime(path, (1_600_000_000 + 10 * i, 1_600_000_000 + 10 * i))
    ours = local(specs["local"], spark=spark if form == "json" else None)
    assert [figures(b) for b in ours] == [figures(b) for b in run(spark, specs["spark"])]
    assert len(ours) >= 2
    assert_equal_tables(tmp_path / "local", tmp_path / "spark")
    assert by_batch(tmp_path / "local", "rejected") == by_batch(tmp_path / "spark", "rejected")
    reasons = {r["reason"] for r in table(tmp_path / "local", "rejected").to_pylist()}
    assert "duplicate_id" in reasons and ("parse" in reasons) == (form == "json")


@pytest.mark.parametrize("kind", [pytest.param("keys", marks=pytest.mark.slow), "deletions"])
def test_both_run_one_job_by_turns(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    rows = rows_of(11, deletions=kind == "deletions")
    specs = {name: written(tmp_path / name, **KINDS[kind]) for name in ("spark", "both")}
    for part in range(3):
        for spec in specs.values():
            for i in (2 * part, 2 * part + 1):
                write_file(spec.parent, f"{i}.csv", rows[40 * i : 40 * (i + 1)], at=10 * i)
        run(spark, specs["spark"], finish=part == 2)
        if part == 1:
            local(specs["both"], finish=False)
        else:
            run(spark, specs["both"], finish=part == 2)
    assert_equal_tables(tmp_path / "both", tmp_path / "spark")


DERIVED = (
    '{derive: {num: "int(s)", neg: "-x", low: "lower(s)", twice: "x * 2"}}',
    '{derive: {cents: {sql: "dec * 3", type: "decimal(12,2)"}, share: {sql: "dec / num", type: "decimal(20,6)"}}}',
    "{where: \"s is null or s <> 'dropped'\"}",
    '{derive: {place: "concat(grp, \'-\', upper(grp))", until: "at + interval 400 days"}}',
    "{derive: {month: \"trunc(day, 'month')\", f: {sql: x, type: float}}}",
    '{where: "num is null or num < 950"}',
)
RULES = (
    '{name: number, expect: "not isnan(x)"}',
    '{name: small, expect: "twice < 150 or num is null"}',
    '{name: nonzero, expect: "x <> 0"}',
    '{name: cheap, expect: "cents < 100", severity: warn}',
    "{name: named, expect: \"low rlike '^[a-z]' or low is null\", severity: warn}",
    '{name: old, expect: "id < 100000", severity: fail}',
)
VALUES: dict[str, list[Any]] = {
    "grp": ["a", "b", "c"] * 4 + [None],
    "x": [None, 0.0, -0.0, math.nan, math.nan, math.nan, math.inf, -math.inf, 1e300, 5e-324, *(n / 8 for n in range(40, 640, 7))],
    "s": [None, "", "dropped", "7", " 12 ", "no number", "1.5", "949", "950", "99999999999", "-3", "Ab"],
    "dec": [None, "0.00", "-0.01", "33.33", "33.34", "9999999.99"],
    "day": [None, 0, *range(15_700, 15_720), 2_932_896, 2_932_897, -20_000],
    "at": [None, 0, 1, *[1_577_836_800_000_000] * 12, 253_380_000_000_000_000, 253_402_300_799_999_999, 253_402_300_800_000_000],
}


def write_checked(directory: Path) -> Path:
    """A job with filters, derived columns and rules of all severities over odd values."""
    directory.mkdir()
    (directory / "in").mkdir()
    path = directory / "spec.yaml"
    carried = "[num, neg, low, twice, cents, share, until, month, f, dec, day, at]"
    path.write_text(
        spec_text(
            "checked", '{id: bigint, ts: timestamp, grp: string, x: double, s: string, dec: "decimal(9,2)", day: date, at: timestamp}',
            format="parquet", path=f"{directory}/in", event_time="{column: ts, watermark: 30 minutes, tie_break: [twice]}",
            partition_by="[place]", sink=f"{{path: {directory}/out}}", transform=DERIVED,
            quality={"max_rejected": "100%", "rows": RULES}, window="{count: 40, time: 5 hours}",
            scoring={"high": "{expression: twice, direction: max}", "near": '{expression: "abs(a.twice - b.twice)", direction: min}'},
            queries={"best": f"{{type: topk, scoring: high, k: 4, carry: {carried}}}", "pairs": "{type: topk_pairs, scoring: near, k: 3}"},
            run="{trigger: once, max_files: 2, buckets: 3}",
        )
    )  # fmt: skip
    return path


def write_rows(directory: Path, name: str, seed: int, minutes: int, at: int, **changed: Any) -> None:
    """A Parquet file of 60 random rows, within two hours from minute ``minutes`` on; ``changed``: columns of the last row."""
    chosen = random.Random(seed)
    rows = [{"id": 1000 * seed + n, "ts": START + (minutes + chosen.randrange(120)) * MINUTE} for n in range(60)]
    for row in rows:
        row |= {column: chosen.choice(values) for column, values in VALUES.items()}
        if chosen.random() < 0.05:
            row[chosen.choice(["id", "ts"])] = None  # type: ignore[assignment]
    rows[-1] |= changed
    types = {
        "id": "bigint",
        "ts": "timestamp",
        "grp": "string",
        "x": "double",
        "s": "string",
        "dec": "decimal(9,2)",
        "day": "date",
        "at": "timestamp",
    }
    columns = {c: [r[c] for r in rows] for c in types}
    columns["dec"] = [None if v is None else Decimal(v) for v in columns["dec"]]  # type: ignore[arg-type]
    hidden = directory / "in" / f"_{name}"
    pq.write_table(pa.table({c: arrow_column(columns[c], type_) for c, type_ in types.items()}), hidden)
    os.utime(hidden, (1_600_000_000 + at, 1_600_000_000 + at))
    hidden.replace(directory / "in" / f"{name}.parquet")


@pytest.mark.parametrize("turns", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_filters_derived_columns_and_rules_give_the_same_tables(spark: SparkSession, tmp_path: Path, turns: bool) -> None:
    """Run by each engine, and by turns."""
    specs = {name: write_checked(tmp_path / name) for name in ("spark", "local", *(["turns"] if turns else []))}
    minute = 0
    for part in range(3):
        for spec in specs.values():
            # Files out of the order of their event times are a backlog with caps.
            for i, order in enumerate((2, 0, 1, 3)):
                letters = {"s": "ÄB"} if (part, i) == (1, 2) else {}
                write_rows(spec.parent, f"{part}-{i}", 4 * part + i + 1, minute + 60 * order, at=10 * part + i, **letters)
        minute += 200
        ours = local(specs["local"], finish=part == 2, spark=spark)
        assert [figures(b) for b in ours] == [figures(b) for b in run(spark, specs["spark"], finish=part == 2)]
        if turns and part == 1:
            local(specs["turns"], finish=False, spark=spark)
        elif turns:
            run(spark, specs["turns"], finish=part == 2)
    names = ["best_changes", "pairs_changes", "rejected", "heads"]
    for other in specs.keys() - {"spark"}:
        assert_equal_tables(tmp_path / other, tmp_path / "spark")
        for name in names:
            assert by_batch(tmp_path / other, name) == by_batch(tmp_path / "spark", name)
    mine, theirs = (sorted(table(tmp_path / of, "runs").to_pylist(), key=lambda r: r["batch_id"]) for of in ("local", "spark"))
    counts = ("rows_in", "filtered", "accepted", "rejected_rule", "rejected_other", "rejected_null", "warned", "frontier")
    assert [[r[c] for c in counts] for r in mine] == [[r[c] for c in counts] for r in theirs]
    assert sum(r["filtered"] for r in mine) > 50 and '"cheap":' in str([r["warned"] for r in mine])
    reasons = set(table(tmp_path / "spark", "rejected")["reason"].to_pylist())
    assert {"rule:number", "rule:small", "rule:nonzero", "null_id", "null_time", "null_key"} <= reasons
    assert {"year_range:day", "year_range:at", "year_range:until"} & reasons
    # A row that breaks a rule of severity fail stops either engine before anything of its batch is written.
    for spec, engine in ((specs["local"], "local"), (specs["spark"], "spark")):
        written_before = {t.name: by_batch(spec.parent, t.name) for t in batch_tables(load_plan(str(spec)))}
        write_rows(spec.parent, "stops", 99, minute, at=90, id=100_000, s=None, x=1.0)
        with pytest.raises(SkybandError) as e:
            local(spec, spark=spark) if engine == "local" else run(spark, spec)
        assert e.value.code == "SKY-E502" and "old" in e.value.message
        assert {name: by_batch(spec.parent, name) for name in written_before} == written_before


@pytest.mark.parametrize("form", ["parquet", pytest.param("csv", marks=pytest.mark.slow)])
def test_lists_that_are_read_or_derived_give_the_same_tables(spark: SparkSession, tmp_path: Path, form: str) -> None:
    specs = {name: lists.write_spec(tmp_path / name, form) for name in ("spark", "local")}
    for part in range(3):
        for spec in specs.values():
            lists.write_file(spec, part, form)
        ours = local(specs["local"], finish=part == 2)
        assert [figures(b) for b in ours] == [figures(b) for b in run(spark, specs["spark"], finish=part == 2)]
    assert_equal_tables(tmp_path / "local", tmp_path / "spark")
    for name in ("twins_changes", "tagged_changes", "pairs_changes", "rejected"):
        assert by_batch(tmp_path / "local", name) == by_batch(tmp_path / "spark", name)
    assert all(table(tmp_path / "local", name).num_rows > 10 for name in ("twins_changes", "tagged_changes", "pairs_changes"))
    if form == "parquet":
        assert "bad_vector:emb" in table(tmp_path / "local", "rejected")["reason"].to_pylist()


@pytest.mark.slow
@pytest.mark.chaos
@pytest.mark.parametrize("first", ["spark", "local"])
@pytest.mark.parametrize("point", ["state.after", "sink.between", "sink.after"])
def test_what_one_was_killed_in_the_other_completes(spark: SparkSession, tmp_path: Path, point: str, first: str) -> None:
    rows = rows_of(5)
    specs = {name: written(tmp_path / name, **KINDS["keys"]) for name in ("spark", "both")}
    for part in range(2):
        for spec in specs.values():
            for i in (2 * part, 2 * part + 1):
                write_file(spec.parent, f"{i}.csv", rows[40 * i : 40 * (i + 1)], at=10 * i)
        run(spark, specs["spark"], finish=part == 1)
        if part == 0:
            run(spark, specs["both"], finish=False)
    killed = run_apart(specs["both"], "--finish", "--engine", first, failpoint=point)
    done = run_apart(specs["both"], "--finish", "--engine", "local" if first == "spark" else "spark")
    assert (killed.returncode, done.returncode) == (-9, 0), killed.stderr + done.stderr
    assert_equal_tables(tmp_path / "both", tmp_path / "spark")


def test_more_buckets_divide_the_state_without_spark(tmp_path: Path) -> None:
    rows = rows_of(17)
    about = {**KINDS["keys"], "queries": MIXED}
    few, many = (written(tmp_path / name, **about) for name in ("few", "many"))
    for part in range(2):
        for spec in (few, many):
            for i in range(3 * part, 3 * part + 3):
                write_file(spec.parent, f"{i}.csv", rows[40 * i : 40 * (i + 1)], at=10 * i)
        if part:
            many.write_text(many.read_text().replace("buckets: 4", "buckets: 8"))
        for spec in (few, many):
            local(spec, finish=bool(part))
    assert any(int(p.name) >= 4 for p in (tmp_path / "many" / "out" / "_skyband" / "state").iterdir())
    # Tables partitioned by bucket have the same rows in other buckets.
    _, unequal = differences(tmp_path / "many", tmp_path / "few")
    assert sorted(unequal) == ["best_skyband", "far5_skyband", "heads", "sky_skyband"]
    for name in unequal:
        mine, theirs = (sorted_rows(table(tmp_path / of, name), ["batch_id", "bucket"]) for of in ("many", "few"))
        assert mine == theirs and mine
