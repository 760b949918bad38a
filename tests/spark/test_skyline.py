"""Skylines through the whole job: cuts and restarts leave no trace, tables answer smaller windows, results are the definition's."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import numpy as np
import pandas as pd
import pytest

from skyband.framework.base.errors import SkybandError
from skyband.framework.tables.results.reader import Reader
from skyband.jobs.authoring.demo_data import write_landing
from skyband.jobs.spec import load_plan
from skyband.operators.base import Window
from tests.conftest import ROOT
from tests.framework.tables.sql.elsewhere import same_elsewhere
from tests.spark.cuts import same, stream, verified, whole_and_in_parts
from tests.spark.jobs import run, table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

QUERIES = """\
  sky: {type: skyline, dimensions: {x: min, y: max}, carry: [x, y]}
  sky20: {type: skyline, dimensions: {x: min, y: max}, window: {count: 20}}
  hourly: {type: skyline, dimensions: {x: min, y: max}, every: 1 hour}
  band: {type: skyline, dimensions: {x: max, id: min, side: equal}, band: 3, where: "y > 0"}
  once: {type: skyline, dimensions: {x: min, y: min}, distinct: true, window: {time: 2 hours}}
"""
NAMES = ("sky", "sky20", "hourly", "band", "once")


@pytest.mark.slow
@pytest.mark.parametrize("keyed", [False, True])
def test_files_restarts_and_partitions_leave_no_trace(spark: SparkSession, tmp_path: Path, keyed: bool) -> None:
    rows = stream(11, n=300)
    keys = ("grp",) if keyed else ()

    whole, parts = whole_and_in_parts(spark, tmp_path, rows, keyed, queries=QUERIES)
    for name in NAMES:
        expected = same(whole, parts, name, keys)
        assert "score" not in expected.column_names
    assert verified(whole / "spec.yaml") and verified(parts / "spec.yaml")
    own_results_and_smaller_windows(spark, parts)


def own_results_and_smaller_windows(spark: SparkSession, directory: Path) -> None:
    """The skyband tables give each query's present result, and the printed SQL gives what the command gives, for any window."""
    reader = Reader(load_plan(str(directory / "spec.yaml")))
    sql = duckdb.connect()
    for name in ("heads", "sky_skyband", "band_skyband", "once_skyband"):
        sql.register(name, table(directory, name))
    sql.execute("set timezone = 'UTC'")
    for name in NAMES:
        assert table(directory, f"{name}_now").num_rows
        if name != "hourly":  # whose own result is of the last full hour
            assert reader.snapshot(name).rows.to_pylist() == reader.as_of(name).rows.to_pylist(), name
        for window in (Window(1, None), Window(7, None), Window(None, 3_600_000_000), Window(30, 5_400_000_000)):
            answer = reader.snapshot(name, window=window)
            found = sql.sql(answer.sql).to_arrow_table().select(answer.rows.column_names)
            assert found.to_pylist() == answer.rows.to_pylist(), (name, window)
            if window.count is not None and name in ("sky", "band"):
                same_elsewhere(reader.plan, name, answer, spark)
            if window.count == 7 and name == "sky":
                assert answer.rows.num_rows and all(r["y"] is not None for r in answer.rows.to_pylist())
    with pytest.raises(SkybandError, match="only for its own band"):
        reader.snapshot("band", 2)
    with pytest.raises(SkybandError, match="must not be larger than 50 rows"):
        reader.snapshot("sky", window=Window(51, None))


def test_the_flights_skyline_is_the_definitions(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_landing(tmp_path / "landing", 7)
    monkeypatch.setenv("LANDING", str(tmp_path / "landing"))
    monkeypatch.setenv("WAREHOUSE", str(tmp_path / "tables"))
    spec = ROOT / "specs" / "skyline_flights.yaml"
    run(spark, spec)
    assert verified(spec)
    flights = pd.concat([pd.read_csv(p) for p in sorted((tmp_path / "landing").iterdir())], ignore_index=True)
    flights["departed"] = pd.to_datetime(flights["departed"])
    flights = flights[flights["departed"].notna()]
    last = flights["departed"].max()
    identity = ["date", "carrier", "flight", "origin"]
    for query, days in (("unlucky", 2.0), ("unlucky_today", 0.5)):
        alive = flights[(flights["departed"] > last - pd.Timedelta(days=days)) & flights["arr_delay"].notna()]
        expected = []
        for _, airport in alive.groupby("origin"):
            late, far = airport["arr_delay"].to_numpy(), airport["distance"].to_numpy()
            beaten = [bool(np.any((late >= a) & (far <= d) & ((late > a) | (far < d)))) for a, d in zip(late, far, strict=True)]
            expected += airport.loc[~np.array(beaten), identity].to_numpy().tolist()
        rows = Reader(load_plan(str(spec))).as_of(query).rows.to_pylist()
        assert sorted([r[c] for c in identity] for r in rows) == sorted(expected), query
        assert [r["seq"] for r in rows] == sorted((r["seq"] for r in rows), reverse=True)
