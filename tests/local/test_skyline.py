"""Skylines through the whole job: cuts and restarts leave no trace, tables answer smaller windows, results are the definition's."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

from skyband.framework.base.errors import SkybandError
from skyband.framework.tables.results.reader import Reader
from skyband.jobs.spec import load_plan
from skyband.operators.base import Window
from tests.framework.tables.sql.elsewhere import same_elsewhere
from tests.spark.cuts import same, stream, verified, whole_and_in_parts
from tests.spark.jobs import table

pytestmark = pytest.mark.long

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
def test_files_restarts_and_partitions_leave_no_trace(tmp_path: Path, keyed: bool) -> None:
    rows = stream(11, n=300)
    keys = ("grp",) if keyed else ()

    whole, parts = whole_and_in_parts(None, tmp_path, rows, keyed, queries=QUERIES)
    for name in NAMES:
        expected = same(whole, parts, name, keys)
        assert "score" not in expected.column_names
    assert verified(whole / "spec.yaml") and verified(parts / "spec.yaml")
    own_results_and_smaller_windows(parts)


def own_results_and_smaller_windows(directory: Path) -> None:
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
                same_elsewhere(reader.plan, name, answer)
            if window.count == 7 and name == "sky":
                assert answer.rows.num_rows and all(r["y"] is not None for r in answer.rows.to_pylist())
    with pytest.raises(SkybandError, match="only for its own band"):
        reader.snapshot("band", 2)
    with pytest.raises(SkybandError, match="must not be larger than 50 rows"):
        reader.snapshot("sky", window=Window(51, None))
