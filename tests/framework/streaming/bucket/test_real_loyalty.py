"""Fifty years of rain at 266 stations through a bucket: the rainiest of the last 30 days, against SQL over the updates themselves."""

from __future__ import annotations

import gzip
import itertools
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pytest

from skyband.framework.plan.compile import compile_job
from skyband.framework.spec.load import validate_text
from skyband.framework.streaming.bucket.bucket import Bucket
from skyband.framework.streaming.rows.blocks import bytes_table, table_bytes
from skyband.framework.streaming.rows.config import HostConfig
from tests.specs import spec_text

SPEC = spec_text(
    "rain",
    "{station: bigint, ts: timestamp, state: int}",
    id="[station, ts]",
    more="unique: assumed",
    window="{time: 30 days}",
    queries={
        "rainiest": "{type: topk_loyalty, object: station, updates: state, k: 10}",
        "wet": "{type: threshold_loyalty, object: station, updates: state, at_least: 24 days, trace: all}",
    },
)
DAY = 86_400_000_000
T = 30 * DAY
BY_SQL = f"""
with spans as (
  select station, state, ts as since, coalesce(lead(ts) over (partition by station order by ts), {2**62}) as until from updates
), worth as (
  select station, sum(greatest(least(until, $at) - greatest(since, $at - {T}), 0))::bigint as loyalty,
    sum((since <= $at and $at < until)::int - (since <= $at - {T} and $at - {T} < until)::int)::bigint as slope
  from spans where state = 1 and since <= $at and until > $at - {T} group by station
)
select station, loyalty, slope from worth where loyalty > 0 or slope > 0 order by loyalty desc, slope desc, station
"""


@pytest.mark.slow
@pytest.mark.real
def test_the_rainiest_stations_of_thirty_days_are_those_of_sql(shared_data: Callable[[str], Path]) -> None:
    with gzip.open(shared_data("data/rain_updates_1970_2021.tsv.gz")) as f:
        raw = pacsv.read_csv(f, parse_options=pacsv.ParseOptions(delimiter="\t"))
    time = raw["day"].to_numpy() * DAY
    job, errors = validate_text(SPEC, {})
    assert job is not None and not errors, [e.render() for e in errors]
    config = HostConfig.of(compile_job(job), (), "test")
    columns = {"station": raw["station"], "ts": pa.array(time).cast(pa.timestamp("us", "UTC")), "state": raw["state"]}
    rows = pa.table(columns | {"__origin": pa.nulls(len(time), pa.string())}).select(config.row_schema().names).cast(config.row_schema())
    tables = through_a_bucket(config, rows, np.searchsorted(time, np.arange(time[0], time[-1] + DAY, 365 * DAY)).tolist())

    sql = duckdb.connect()
    sql.register("updates", pa.table({"station": raw["station"], "ts": time, "state": raw["state"]}))
    rng = random.Random(1)
    days = sorted({int(d) for d in rng.sample(range(1, len(np.unique(time))), 60)} | {5, 29, 30, 31})
    for day in days:
        at = int(time[0]) + day * DAY
        expected = sql.execute(BY_SQL, {"at": at}).fetchall()
        assert members(tables["changes:rainiest"], at) == {s for s, _, _ in expected[:10]}, day
        least = 24 * DAY
        wet = {s for s, loyalty, slope in expected if loyalty > least or (loyalty == least and slope >= 0)}
        assert members(tables["changes:wet"], at) == wet, day
        assert worth(tables["trajectory:wet"], at) == {s: (loyalty, slope) for s, loyalty, slope in expected}, day
    assert set(tables["changes:rainiest"]["cause"].to_pylist()) == {"arrival", "promoted", "displaced", "crossing"}


def through_a_bucket(config: HostConfig, rows: pa.Table, cuts: list[int]) -> dict[str, pa.Table]:
    """Return the output of the bucket by kind; a year of rows at a time, its state written and read back every tenth."""
    bucket, state, out = Bucket(config, 0), {}, {}
    for n, (a, b) in enumerate(itertools.pairwise([*cuts, rows.num_rows, rows.num_rows])):
        newest = rows["ts"].cast(pa.int64())[b - 1].as_py() // 1000
        for kind, data in bucket.run([table_bytes(rows.slice(a, b - a))] if b > a else [], newest + 1 if a == b else 0):
            if kind.startswith(("changes:", "trajectory:")):
                out.setdefault(kind, []).append(bytes_table(data))
        values, dropped = bucket.save()
        state |= values
        for name in dropped:
            del state[name]
        bucket = Bucket.restore(config, 0, state.get) if n % 10 == 9 else bucket
    return {kind: pa.concat_tables(parts) for kind, parts in out.items()}


def members(changes: pa.Table, at: int) -> set[int]:
    """Return the members of the result as of ``at``: their last change by then is a +."""
    by_then = changes.slice(0, int(np.searchsorted(changes["changed_at"].cast(pa.int64()).to_numpy(), at, side="right")))
    last: dict[int, str] = dict(zip(by_then["station"].to_pylist(), by_then["change"].to_pylist(), strict=True))
    return {station for station, change in last.items() if change == "+"}


def worth(points: pa.Table, at: int) -> dict[int, tuple[Any, Any]]:
    """Return (loyalty in microseconds, slope) of every station as of ``at`` by its last point, without those of neither."""
    time = points["valid_from"].cast(pa.int64()).to_numpy()
    assert (np.diff(time) >= 0).all()
    end = int(np.searchsorted(time, at, side="right"))
    columns = points["station"], points["loyalty_seconds"], points["slope"]
    known = zip(time[:end].tolist(), *(c.slice(0, end).to_pylist() for c in columns), strict=True)
    last = {station: (round(loyalty * 1e6) + slope * (at - since), slope) for since, station, loyalty, slope in known}
    return {s: w for s, w in last.items() if w[0] > 0 or w[1] > 0}
