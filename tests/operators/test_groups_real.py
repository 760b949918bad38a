"""Groups on real data, against DuckDB, which recomputes the windows at sampled instants."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest

from skyband.operators.base import Arrivals, Kind, Named, Ragged, Window
from skyband.operators.expressions.aggregates import parse_aggregates
from skyband.operators.groups import Groups, GroupsQuery

DAY = 86_400_000_000
SAMPLES = 40
ROWS = 40_000

# file, instant, group, value, type of the value, aggregate, the same in DuckDB (exact for whole numbers), window in microseconds
FLIGHTS = "departures_stream.csv.gz"
CASES = {
    "bytes by host": (
        "conn.csv.gz", "make_timestamp((ts::double * 1e6)::bigint)", '"id.orig_h"', "try_cast(orig_bytes as bigint)", "int", "sum(x)",
        "sum(x)", DAY // 24,
    ),
    "volume by symbol": ("sp500_5yr.csv.gz", "date::timestamp", "Name", "volume::bigint", "int", "sum(x)", "sum(x)", 5 * DAY),
    "median delay by carrier": (
        FLIGHTS, "dep_utc::timestamp", "carrier", "dep_delay::double", "float", "quantile(x, 0.5)", "quantile_disc(x, 0.5)", DAY,
    ),
    "worst delay by route": (
        FLIGHTS, "dep_utc::timestamp", "origin || dest", "dep_delay::double", "float", "max(x) - min(x)", "max(x) - min(x)", DAY,
    ),
    "routes by aircraft": (
        FLIGHTS, "dep_utc::timestamp", "tailnum", "distance::double", "float", "distinct(x)", "count(distinct x)", DAY,
    ),
}  # fmt: skip


@pytest.mark.real
@pytest.mark.parametrize("name", CASES)
def test_sampled_results_are_those_of_duckdb(name: str, shared_data: Callable[[str], Path]) -> None:
    file, instant, group, value, kind, score, in_sql, life = CASES[name]
    connection = duckdb.connect()
    connection.execute(
        f"create table r as select epoch_us({instant}) t, {group} g, {value} x from read_csv('{shared_data(f'data/{file}')}', "
        f"all_varchar = true, nullstr = ['', 'NA']) where {group} is not null order by t limit {ROWS}"
    )
    rows = connection.execute("select t, g, x from r order by t, g, x").fetchnumpy()
    shown, points = played(rows, kind, score, life)
    rng = np.random.default_rng(1)
    ties = 0
    for at in np.sort(rng.choice(np.unique(rows["t"]), SAMPLES)).tolist():
        at += int(rng.integers(0, 2)) * life // 2
        want = connection.execute(
            f"select g, ({in_sql})::double s from r where t <= {at} and t + {life} > {at} group by g having s is not null "
            f"order by s desc, g limit 10"
        ).fetchall()
        inside = dict.fromkeys(g for when, _, g in shown if when <= at)
        members = [g for g in inside if state(shown, g, at)]
        got = sorted(((g, value_at(points[g], at)) for g in members), key=lambda p: (-p[1], p[0]))
        assert got == want
        ties += len({s for _, s in want}) < len(want)
    assert shown


def state(shown: list[tuple[int, int, str]], group: str, at: int) -> bool:
    """Whether a group is in the result at an instant."""
    last = [sign for when, sign, g in shown if g == group and when <= at]
    return bool(last) and last[-1] > 0


def value_at(points: list[tuple[int, float]], at: int) -> float:
    return [v for when, v in points if when <= at][-1]


def played(rows: Any, kind: Kind, score: str, life: int) -> tuple[list[tuple[int, int, str]], dict[str, list[tuple[int, float]]]]:
    """(instant, sign, group) of every change; (instant, score) of every point, by group."""
    operator = Groups(
        group=("g",), score=parse_aggregates(score, {"x": kind}, "score"), window=Window(micros=life), queries=(GroupsQuery(k=10),)
    )
    names, number = np.unique(np.asarray(rows["g"], str), return_inverse=True)
    x = np.ma.filled(rows["x"], np.iinfo(np.int64).min if kind == "int" else np.nan)
    time = np.asarray(rows["t"], np.int64)
    logic, known = operator.build(None), np.zeros(len(names), bool)
    shown: list[tuple[int, int, str]] = []
    points: dict[str, list[tuple[int, float]]] = {}
    first = 0
    while first < len(time):
        end = int(np.searchsorted(time, time[min(first + 5000, len(time) - 1)], side="right"))
        new = np.unique(number[first:end])
        new = new[~known[new]]
        known[new] = True
        named = {"$g": Named(new, Ragged(np.arange(len(new) + 1), new))}
        columns = {"$g": number[first:end].astype(np.int64), "x": x[first:end]}
        block = Arrivals(np.zeros(end - first, np.int64), np.arange(first, end), time[first:end], columns, {}, named)
        until = int(time[end]) if end < len(time) else int(time[-1]) + life
        made = logic.advance(block, until)
        shown += [(int(t), int(s), str(names[i])) for t, s, i in zip(made.at, made.sign, made.items[:, 0], strict=True)]
        assert made.traces is not None
        for t, i, v in zip(made.traces.at, made.traces.items[:, 0], made.traces.values["score"], strict=True):
            points.setdefault(str(names[i]), []).append((int(t), float(v)))
        known[:] = False
        known[logic.objects()] = True
        first = end
    return shown, points
