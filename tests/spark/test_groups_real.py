"""Groups through Spark on real data, against DuckDB, which computes the same windows again at sampled instants, in whole numbers."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np
import pytest

from skyband.framework.tables.results.reader import Reader
from skyband.jobs.spec import load_plan
from tests.spark.cuts import verified
from tests.spark.jobs import run, table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.real, pytest.mark.slow]

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
INSTANTS = 25

SPEC = """\
job: real-groups
source:
  format: parquet
  path: "{directory}/in"
  schema: {{id: bigint, t: timestamp, g: string, x: {type}, y: string}}
  id: [id]
  event_time: {{column: t}}
window: {{time: {days} days}}
queries:
  found: {{type: topk_groups, group: g, score: "{score}", k: 10}}
  many: {{type: threshold_groups, group: g, score: "{score}", above: {above}}}
  busy: {{type: topk_groups, group: g, score: count(), having: "{score} >= {above}", k: 1000}}
sink: {{path: "{directory}/out"}}
"""


@dataclass(frozen=True)
class Case:
    """A file of the shared data as rows (t, g, x, y), and a score; ``exact`` makes it from (rows, values of x, their sum, sum of squares,
    different values of y)."""

    file: str
    rows: str
    type: str
    days: int
    score: str
    above: float
    exact: Callable[[int, int, Any, Any, int], Any]


FLOWS = (
    "select make_timestamp((ts::double * 1e6)::bigint) t, \"id.orig_h\" g, try_cast(orig_bytes as bigint) x, \"id.resp_h\" y "
    "from read_csv('{file}', all_varchar = true, nullstr = ['', 'NA']) limit 40000"
)  # fmt: skip
DELAYS = (
    "select dep_utc::timestamp t, carrier g, dep_delay::double x, tailnum y "
    "from read_csv('{file}', all_varchar = true, nullstr = ['', 'NA']) limit 40000"
)
BASKETS = (
    "select column0::timestamp t, unnest(string_split(column2, ' ')) g, 1::bigint x, column1 y from (select * from "
    "read_csv('{file}', delim = '\t', header = false, all_varchar = true) limit 1500)"
)
PRICES = (
    "select date::timestamp t, Name g, (close::decimal(9,2) * volume::bigint)::decimal(18,2) x, Name y "
    "from read_csv('{file}', all_varchar = true, nullstr = ['', 'NA']) order by t, g limit 40000"
)


def variance(n: int, total: Any, squares: Any) -> float:
    return math.nan if n < 2 else float(Fraction(n * int(squares) - int(total) ** 2, n * (n - 1)))


CASES = {
    "bytes by host": Case("conn.csv.gz", FLOWS, "bigint", 7, "sum(x)", 100_000, lambda rows, n, s, q, d: int(s) if n else None),
    "targets by host": Case("conn.csv.gz", FLOWS, "bigint", 2, "distinct(y)", 10, lambda rows, n, s, q, d: d),
    "goods sold": Case("baskets.tsv.gz", BASKETS, "bigint", 1, "count()", 15, lambda rows, n, s, q, d: rows),
    "mean delay by carrier": Case(
        "departures_stream.csv.gz", DELAYS, "double", 1, "mean(x)", 20, lambda rows, n, s, q, d: Fraction(int(s), n) if n else None
    ),
    "spread of delays by carrier": Case(
        "departures_stream.csv.gz", DELAYS, "double", 1, "stddev(x)", 30, lambda rows, n, s, q, d: math.sqrt(variance(n, s, q))
    ),
    "turnover by symbol": Case("sp500_5yr.csv.gz", PRICES, "decimal(18,2)", 5, "sum(x)", 1e9, lambda rows, n, s, q, d: s),
}


@pytest.mark.parametrize("name", CASES)
def test_sampled_results_are_those_of_duckdb(
    spark: SparkSession, tmp_path: Path, shared_data: Callable[[str], Path], name: str
) -> None:  # fmt: skip
    case = CASES[name]
    sql = duckdb.connect()
    sql.execute(f"create table r as select row_number() over () id, * from ({case.rows.format(file=shared_data('data/' + case.file))})")
    sql.execute("delete from r where g is null or t is null")
    (tmp_path / "in").mkdir()
    sql.execute(f"copy (select * replace (t at time zone 'UTC' as t) from r order by t, id) to '{tmp_path}/in/1.parquet' (format parquet)")
    spec = tmp_path / "spec.yaml"
    words = {"type": f'"{case.type}"', "days": case.days, "score": case.score, "above": f"{case.above:g}"}
    spec.write_text(SPEC.format(directory=tmp_path, **words))
    run(spark, spec)
    rows: Any = sql.execute("select count(*) from r").fetchone()
    assert sum(r["accepted"] for r in table(tmp_path, "runs").to_pylist()) == rows[0] > 20_000
    reader = Reader(load_plan(str(spec)))
    seen = 0
    for at in instants(sql, case):
        want = expected(sql, case, at)
        for query, mine in (("found", want[:10]), ("many", [w for w in want if w[1] > Fraction(repr(case.above))])):
            got = reader.as_of(query, EPOCH + timedelta(microseconds=at)).rows
            shown = sorted(((g, float(s)) for g, s in mine), key=lambda p: (-p[1], p[0]))
            assert list(zip(got["g"].to_pylist(), got["score"].to_pylist(), strict=True)) == shown
            seen += len(shown)
        busy = reader.as_of("busy", EPOCH + timedelta(microseconds=at)).rows
        assert set(busy["g"].to_pylist()) == {g for g, s in want if s >= Fraction(repr(case.above))}
    assert seen > INSTANTS
    assert case.type != "decimal(18,2)" or verified(spec)


def instants(sql: duckdb.DuckDBPyConnection, case: Case) -> list[int]:
    """Instants of rows, and instants half a window later, when some of the rows have left; all but the last are complete."""
    rng = np.random.default_rng(1)
    times = np.array([t for (t,) in sql.execute("select distinct epoch_us(t) from r order by 1").fetchall()], np.int64)
    at = rng.choice(times, INSTANTS) + rng.integers(0, 2, INSTANTS) * case.days * 43_200_000_000
    return [int(t) for t in np.sort(np.minimum(at, times[-1]))]


def expected(sql: duckdb.DuckDBPyConnection, case: Case, at: int) -> list[tuple[str, Fraction]]:
    """The groups of the window that ends at an instant, by their exact score, then by name."""
    whole = "x" if case.type.startswith("decimal") else "x::bigint::hugeint"
    squares = "0" if case.type.startswith("decimal") else f"coalesce(sum({whole} * {whole}), 0)"
    found = sql.execute(
        f"select g, count(*), count(x), coalesce(sum({whole}), 0), {squares}, count(distinct y) from r "
        f"where epoch_us(t) <= {at} and epoch_us(t) > {at - case.days * 86_400_000_000} group by g"
    ).fetchall()
    scores = [(g, case.exact(rows, n, s, q, d)) for g, rows, n, s, q, d in found]
    usable = [(g, exact(s)) for g, s in scores if s is not None and s == s]
    return sorted(usable, key=lambda p: (-p[1], p[0]))


def exact(score: Any) -> Fraction:
    return Fraction(score) if isinstance(score, Decimal | int | float) else score
