"""Five years of daily prices of 505 stocks through a bucket: cheap, much traded, quiet; against moocore and paretoset."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
import pytest

from skyband.framework.plan.compile import compile_job
from skyband.framework.spec.load import validate_text
from skyband.framework.streaming.bucket.bucket import Bucket
from skyband.framework.streaming.rows.blocks import bytes_table, table_bytes
from skyband.framework.streaming.rows.config import HostConfig
from tests.specs import spec_text

SPEC = spec_text(
    "stocks",
    "{date: date, high: double, low: double, volume: bigint, Name: string}",
    id="[date, Name]",
    transform=['derive: {ts: "cast(date as timestamp)", spread: "high - low"}'],
    window="{time: 30 days}",
    queries={"calm": "{type: skyline, dimensions: {low: min, volume: max, spread: min}, carry: [low, volume, spread]}"},
)
DAY = 86_400_000_000


def rows_of(path: Path) -> pa.Table:
    """All rows by date (505 ties each) with the columns a bucket takes; null prices stay."""
    rows = pacsv.read_csv(path).sort_by([("date", "ascending"), ("Name", "ascending")])
    ids = pa.array(np.arange(rows.num_rows))
    rows = rows.append_column("ts", rows["date"].cast(pa.timestamp("us")).cast(pa.timestamp("us", "UTC")))
    rows = rows.append_column("spread", pc.subtract(rows["high"], rows["low"]))
    return rows.append_column("__h1", ids).append_column("__h2", ids).append_column("__origin", pa.nulls(rows.num_rows, pa.string()))


@pytest.mark.real
def test_thirty_days_of_cheap_much_traded_quiet_stocks(shared_data: Callable[[str], Path]) -> None:
    moocore, paretoset = pytest.importorskip("moocore"), pytest.importorskip("paretoset").paretoset
    rows = rows_of(shared_data("data/sp500_5yr.csv.gz"))
    job, errors = validate_text(SPEC, {})
    assert job is not None and not errors, [e.render() for e in errors]
    config = HostConfig.of(compile_job(job), (), "test")
    schema = config.row_schema()
    rows = rows.select(schema.names).cast(schema)
    time = rows["ts"].cast(pa.int64()).to_numpy()
    points = np.stack([rows["low"].to_numpy(), -rows["volume"].to_numpy().astype(float), rows["spread"].to_numpy()], 1)
    usable = ~np.isnan(points).any(axis=1)
    bucket = Bucket(config, 0)
    now: dict[int, tuple[Any, ...]] = {}
    steps = compared = 0
    dates, first = np.unique(time, return_index=True)
    cuts = [*first[::7].tolist(), len(rows)]
    for lo, hi in itertools.pairwise(cuts):
        last = int(time[hi - 1])
        blocks = bucket.run([table_bytes(rows.slice(lo, hi - lo))], 0)
        blocks += bucket.run([], last // 1000 + 1)
        for change in [c for kind, data in blocks if kind == "changes:calm" for c in bytes_table(data).to_pylist()]:
            steps += change["pos"] == 0
            assert change["step"] == steps
            if change["change"] == "+":
                now[change["seq"]] = (change["Name"], change["volume"])
            else:
                assert now.pop(change["seq"]) == (change["Name"], change["volume"])
        alive = np.nonzero((time <= last) & (time > last - 30 * DAY) & usable)[0]
        window = points[alive]
        expected = set(alive[moocore.is_nondominated(window, keep_weakly=True)].tolist())
        assert set(now) == expected, last
        if compared % 10 == 0:
            assert expected == set(alive[paretoset(window, distinct=False)].tolist())
        compared += 1
    assert compared > 150 and steps > 2_000 and len(dates) == 1259
