"""Tumbling windows and sessions of groups through the whole job: cuts and restarts leave no trace; DuckDB finds the same."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from tests.spark.cuts import stream, verified, whole_and_in_parts
from tests.spark.jobs import COLUMNS, changes, sorted_rows, table
from tests.spark.kinds import MORE, with_more

pytestmark = pytest.mark.long

QUERIES = """\
  hours: {type: topk_groups, group: who, score: sum(x), k: 3, window: KOLKATA}
  looked: {type: topk_groups, group: who, score: sum(x), k: 3, every: 45 minutes, window: KOLKATA}
  often: {type: threshold_groups, group: who, score: count(), above: 2, window: {tumbling: 1 hour}}
  visits: {type: threshold_groups, group: who, score: count(), above: 1, window: {session: 13 minutes}}
  longest: {type: topk_groups, group: [side, who], score: max(x) - min(x), k: 2, window: {session: 20 minutes}}
""".replace("KOLKATA", "{tumbling: 2 hours, zone: Asia/Kolkata, offset: 10 minutes}")
FINALS = ("hours", "looked", "often")


@pytest.mark.parametrize("keyed", [pytest.param(False, marks=pytest.mark.slow), True])
def test_files_restarts_and_partitions_leave_no_trace(tmp_path: Path, keyed: bool) -> None:
    rows = [[i, *r[1:]] for i, r in enumerate(stream(29, n=240))]
    more = {"queries": QUERIES, "more": MORE, "window": "{time: 5 hours}"}
    whole, parts = whole_and_in_parts(None, tmp_path, with_more(rows), keyed, **more)
    keys = ("grp",) if keyed else ()
    for name in ("hours", "looked", "often", "visits", "longest"):
        expected = changes(whole, name, keys)
        assert expected.num_rows > 10, name
        assert changes(parts, name, keys).equals(expected), name
        for of in (name, f"{name}_now"):
            assert sorted_rows(table(parts, of)) == sorted_rows(table(whole, of)), of
        for of in (f"{name}_trajectory", *([f"{name}_final"] if name in FINALS else [])):
            assert sorted_rows(table(parts, of), ["batch_id"]) == sorted_rows(table(whole, of), ["batch_id"]), of
            assert table(parts, of).num_rows > 10
    assert not (parts / "out" / "visits_final").exists()
    assert verified(whole / "spec.yaml") and verified(parts / "spec.yaml")
    assert_duckdb_finds_the_same(parts, rows, keyed)


def assert_duckdb_finds_the_same(directory: Path, rows: list[list[object]], keyed: bool) -> None:
    """Final results by grouping rows by window, and stays above a bound by the rows of every session."""
    sql, names = duckdb.connect(), dict(zip(COLUMNS, zip(*rows, strict=True), strict=True))
    sql.execute("set timezone = 'UTC'")
    text = pa.table({n: pa.array([None if v == "" else str(v) for v in c], pa.string()) for n, c in names.items()})
    sql.register("text", text)
    key = "grp" if keyed else "'' as grp"
    sql.execute(
        f"create table r as select id::bigint id, replace(ts, 'Z', '')::timestamp ts, {key}, x::double x, side || y::double::varchar who, "
        "side from text where not coalesce(y::double = 3 and x::double < 1, false)"
    )
    of = "grp" if keyed else "'' as grp"
    final = f"select {of}, window_start::timestamp, window_end::timestamp, rank, who, score from"
    for name in FINALS:
        sql.register(f"{name}_final", table(directory, f"{name}_final"))
    bucket = "time_bucket(interval '2 hours', ts + interval '330 minutes', timestamp '2000-01-03 00:10:00') - interval '330 minutes'"
    hours = sql.execute(
        f"with s as (select {bucket} b, grp, who, sum(x) s from r group by all having sum(x) is not null), "
        "n as (select *, row_number() over (partition by b, grp order by s desc, who) n from s) "
        "select grp, b, b + interval '2 hours' e, n, who, s from n where n <= 3 and e <= (select max(ts) from r) order by all"
    ).fetchall()
    assert len(hours) > 10
    for name in ("hours", "looked"):
        assert sql.execute(f"{final} {name}_final order by all").fetchall() == hours
    often = sql.execute(
        "with s as (select time_bucket(interval '1 hour', ts) b, grp, who, count(*) s from r group by all having count(*) > 2) "
        "select grp, b, b + interval '1 hour' e, row_number() over (partition by b, grp order by s desc, who), who, s::double from s "
        "where e <= (select max(ts) from r) order by all"
    ).fetchall()
    assert sql.execute(f"{final} often_final order by all").fetchall() == often
    sql.register("visits", table(directory, "visits"))
    stays = sql.execute(
        "with g as (select *, coalesce(ts - lag(ts) over w >= interval '13 minutes', true)::int b from r window w as (partition by grp, "
        "who order by ts, side, id)), s as (select *, sum(b) over (partition by grp, who order by ts, side, id) s from g), "
        "n as (select *, row_number() over (partition by grp, who, s order by ts, side, id) n from s), "
        "v as (select grp, who, max(case when n = 2 then ts end) since, max(ts) + interval '13 minutes' until from n group by grp, who, s) "
        "select grp, who, since, case when until <= (select max(ts) from r) then until end from v where since is not null order by all"
    ).fetchall()
    assert len(stays) > 10
    shown = f"select {of}, who, valid_from::timestamp, valid_to::timestamp from visits order by all"
    assert sql.execute(shown).fetchall() == stays
