"""Final results of days in local time on real data, over a change of clocks, against DuckDB."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import duckdb
import numpy as np
import pytest

from skyband.operators.base import Arrivals, Calendar, Named, Ragged, Window
from skyband.operators.expressions.aggregates import parse_aggregates
from skyband.operators.groups import Groups, GroupsQuery

DAY = 86_400_000_000
ZONE = "America/New_York"
LENGTHS = {"1 day": DAY, "7 days": 7 * DAY, "1 hour": DAY // 24}


@pytest.mark.real
@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize(
    ("score", "in_sql"), [("max(x)", "max(x)"), ("count(x)", "count(x)"), ("quantile(x, 0.5)", "quantile_disc(x, 0.5)")]
)
def test_final_results_are_those_of_duckdb(length: str, score: str, in_sql: str, shared_data: Callable[[str], Path]) -> None:
    connection = duckdb.connect()
    connection.execute("set timezone = 'UTC'")
    connection.execute(
        "create table r as select dep_utc::timestamp ts, epoch_us(dep_utc::timestamp) t, carrier g, dep_delay::double x from "
        f"read_csv('{shared_data('data/departures_stream.csv.gz')}', all_varchar = true, nullstr = ['', 'NA']) "
        "where carrier is not null and dep_utc::timestamp between '2013-03-03' and '2013-03-20' order by t"
    )
    rows = connection.execute("select t, g, x from r order by t, g, x").fetchnumpy()
    local = f"time_bucket(interval '{length}', timezone('{ZONE}', ts::timestamptz), timestamp '2000-01-03')"
    want = connection.execute(
        f"with s as (select {local} b, g, ({in_sql})::double s from r group by b, g having s is not null), "
        f"w as (select epoch_us(timezone('{ZONE}', b)) b, epoch_us(timezone('{ZONE}', b + interval '{length}')) e, g, s from s) "
        "select b, e, row_number() over (partition by b order by s desc, g) n, g, s from w where e <= (select max(t) from r) "
        "qualify n <= 5 order by b, n"
    ).fetchall()
    assert len(want) > (5 if length == "7 days" else 40)
    found = final_results(rows["t"], np.asarray(rows["g"], str), np.ma.filled(rows["x"], np.nan), score, LENGTHS[length])
    assert found == want
    lengths = {e - b for b, e, *_ in found}
    assert length != "1 day" or lengths == {DAY, DAY - DAY // 24}


def final_results(time: np.ndarray, group: np.ndarray, x: np.ndarray, score: str, length: int) -> list[tuple[int, int, int, str, float]]:
    """Return (start, end, rank, group, score) of the members of all windows, over blocks of rows."""
    operator = Groups(
        group=("g",), score=parse_aggregates(score, {"x": "float"}, "score"), queries=(GroupsQuery(k=5),),
        window=Window(micros=8 * DAY, tumbling=Calendar(length, ZONE)),
    )  # fmt: skip
    names, number = np.unique(group, return_inverse=True)
    logic, known, found, first = operator.build(None), np.zeros(len(names), bool), [], 0
    while first < len(time):
        end = int(np.searchsorted(time, time[min(first + 1000, len(time) - 1)], side="right"))
        new = np.unique(number[first:end])
        new = new[~known[new]]
        named = {"$g": Named(new, Ragged(np.arange(len(new) + 1), new))}
        columns = {"$g": number[first:end].astype(np.int64), "x": x[first:end]}
        block = Arrivals(np.zeros(end - first, np.int64), np.arange(first, end), time[first:end].astype(np.int64), columns, {}, named)
        finals = logic.advance(block, int(time[end]) if end < len(time) else int(time[-1]) + 1).finals
        assert finals is not None
        columns_of = (finals.start, finals.end, finals.rank, names[finals.items[:, 0]], finals.values["score"])
        found += [(int(b), int(e), int(n), str(g), float(s)) for b, e, n, g, s in zip(*columns_of, strict=True)]
        known[:] = False
        known[logic.objects()] = True
        first = end
    return found
