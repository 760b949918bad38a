"""Queries of SQL as specs: the answers are those of DuckDB, and what is no such form is refused by its clause."""

from __future__ import annotations

import random
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from skyband.framework.base.errors import SkybandError
from skyband.framework.guess.draft import draft, draft_without_data
from skyband.framework.guess.from_sql import draft_of
from skyband.framework.rehearsal.rehearsal import Rehearsal
from tests.specs import plan_of_text, validate_text

duckdb = pytest.importorskip("duckdb")

TOP = """select * from (select *, {rank}() over (partition by {by} order by {order}) as rn from {rel}) where rn {bound}"""
TUMBLE = "table(tumble(table bids, descriptor(ts), interval '10' minutes))"
FORMS: list[tuple[str, str]] = [
    (
        TOP.format(rank="row_number", by="item", order="price desc", rel="bids", bound="<= 3"),
        "type: topk, scoring: best, k: 3, window: {time: 1 day}",
    ),
    (
        TOP.format(rank="row_number", by="window_start, window_end, item", order="price", rel=TUMBLE, bound="< 3"),
        "k: 2, window: {tumbling: 10 minutes}",
    ),
    (
        TOP.format(rank="rank", by="item", order="price desc", rel="bids", bound="<= 3"),
        "order: [{expression: price, direction: max}], k: 3, window: {time: 1 day}, ties: include",
    ),
    (
        TOP.format(rank="dense_rank", by="item", order="price", rel="bids", bound="= 1"),
        "order: [{expression: price, direction: min}], k: 1, window: {time: 1 day}, ties: dense",
    ),
    (
        "select id, row_number() over (order by price desc, name) r from bids qualify r <= 5",
        "order: [{expression: price, direction: max}, {expression: name, direction: min}], k: 5",
    ),
    (
        "select id from bids qualify 5 >= row_number() over (order by price)",
        "type: topk, scoring: best, k: 5, window: {time: 1 day}, carry: [id]",
    ),
    ("select id, price from bids order by price desc fetch first 7 rows only", "k: 7, window: {time: 1 day}, carry: [id, price]"),
    ("select id from bids order by price * qty limit 2", "expression: value_1, direction: min"),
    ("create materialized view v as select item from bids order by price limit 2", "k: 2"),
    ("insert into out select item from bids order by price limit 2", "k: 2"),
    (
        "select item, sum(price) total from bids group by item order by total desc limit 3",
        "type: topk_groups, group: [item], score: sum(price), direction: max, k: 3",
    ),
    (
        "select item, count(*) from bids group by item, tumble(ts, interval '5' minute) order by count(*) desc limit 1",
        "score: count(), direction: max, k: 1, window: {tumbling: 5 minute}",
    ),
    ("select item, avg(price * qty) a from bids group by item order by a limit 3", "score: mean(value_1), direction: min"),
    (
        "select item, count(distinct name) c from hop(bids, ts, interval '5' minute, interval '1' hour) group by window_end, item "
        "having count(*) > 2 order by c desc limit 4",
        'score: distinct(name), direction: max, k: 4, window: {hop: {size: 1 hour, every: 5 minute}}, having: "count() > 2"',
    ),
    (
        "select item, max(price) m from bids group by item having max(price) > 12.5",
        "type: threshold_groups, group: [item], score: max(price), above: 12.5",
    ),
    (
        TOP.format(
            rank="row_number",
            by="window_start",
            order="total desc",
            bound="<= 3",
            rel=f"(select window_start, item, sum(price) as total from {TUMBLE} group by window_start, window_end, item)",
        ),
        "type: topk_groups, group: [item], score: sum(price), direction: max, k: 3, window: {tumbling: 10 minutes}",
    ),
]


@pytest.mark.parametrize(("sql", "said"), FORMS)
def test_each_form_is_a_valid_spec(tmp_path: Path, sql: str, said: str) -> None:
    text, notes = draft_without_data(sql, tmp_path / "job.yaml")
    assert said in text and notes
    job, errors = validate_text(text, {})
    assert job is not None and errors == [], [e.render() for e in errors]
    assert ("1 day" in text) == any("1 day" in n for n in notes)


REFUSED = [
    ("select a.id from orders a join shipments b on a.id = b.order_id order by a.x limit 3", "JOIN shipments", "pairs"),
    ("with t as (select 1) select x from t order by x limit 3", "WITH", "one piece"),
    ("select distinct x from t order by x limit 3", "DISTINCT", "id"),
    ("select x from t order by x limit 3 offset 2", "OFFSET", "first"),
    ("select x from t", "nothing is ranked", "ORDER BY"),
    ("select x from t order by x", "without LIMIT", "LIMIT"),
    ("select x from t limit 4", "without ORDER BY", "ORDER BY"),
    ("select x from t order by x limit 4 + y", "4 + y", "whole number"),
    ("select item from t group by item", "GROUP BY item", "HAVING"),
    ("select item, sum(x) from t group by item having sum(x) < 3", "SUM(x) < 3", "compare"),
    ("select item, stddev(x) s from t group by item order by s limit 3", "STDDEV", "rank by"),
    ("select upper(a) from t group by upper(a) order by count(*) limit 3", "UPPER(a)", "columns"),
    (TOP.format(rank="row_number", by="a", order="x", rel="t", bound="<= 3 and y > 2"), "y > 2", "before"),
    (TOP.format(rank="row_number", by="a", order="x", rel="t", bound="> 3"), "does not bound", "rn <= 10"),
    (TOP.format(rank="row_number", by="a", order="x", rel="t", bound="= 2"), "rn = 2", "first ranks"),
    (TOP.format(rank="ntile", by="a", order="x", rel="t", bound="<= 2"), "NTILE", "ROW_NUMBER"),
    (TOP.format(rank="rank", by="a, window_start", order="x", rel=TUMBLE, bound="<= 2"), "in a window", "ROW_NUMBER"),
    (TOP.format(rank="row_number", by="a", order="x", rel="tumble(t, ts, 5)", bound="<= 2"), "5", "INTERVAL"),
    ("delete from t", "DELETE", "SELECT"),
    ("select 1; select 2", "2 statements", "one SELECT"),
    ("selec x frm", "", "SELECT"),
    ("", "0 statements", "SELECT"),
    ('select "a b" from t order by "a b" limit 3', '"a b"', "letters"),
]


@pytest.mark.parametrize(("sql", "clause", "hint"), REFUSED)
def test_what_is_no_such_form_is_refused_by_its_clause(sql: str, clause: str, hint: str) -> None:
    with pytest.raises(SkybandError) as e:
        draft_of(sql)
    assert e.value.code == "SKY-E201" and clause in e.value.message and hint in (e.value.hint or ""), (e.value.message, e.value.hint)


@given(st.one_of(st.text(max_size=60), st.tuples(st.sampled_from([sql for sql, _ in FORMS]), st.integers(0, 200), st.text(max_size=4))))
@settings(deadline=None)
def test_any_text_is_a_spec_or_refused(given_: Any) -> None:
    sql = given_ if isinstance(given_, str) else given_[0][: given_[1]] + given_[2] + given_[0][given_[1] + 1 :]
    try:
        made = draft_of(sql)
    except SkybandError as e:
        assert e.code == "SKY-E201" and e.hint
    else:
        assert yaml.safe_load(made.queries)["queries"]


# ---------------------------------------------------------------- the answers of DuckDB


def rows() -> list[dict[str, Any]]:
    rng, at = random.Random(5), datetime(2026, 3, 1)
    made = []
    for i in range(150):
        at += timedelta(seconds=rng.choice([0, 5, 40, 90]))
        row = {
            "id": i,
            "ts": at,
            "item": rng.choice("abc"),
            "name": rng.choice("uvw"),
            "price": rng.randint(1, 12),
            "qty": rng.randint(1, 3),
        }
        made.append(row)
    return made


def csv_of(path: Path, given_: list[dict[str, Any]]) -> Path:
    path.mkdir()
    lines = [
        ",".join(given_[0]),
        *(",".join(v.isoformat() + "Z" if isinstance(v, datetime) else str(v) for v in r.values()) for r in given_),
    ]
    (path / "bids.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def answer(tmp_path: Path, sql: str, table: str) -> list[dict[str, Any]]:
    """Return the rows of a table of the job that is drafted from the data, after all of them."""
    text, _ = draft(csv_of(tmp_path / "bids", rows()), tmp_path / "job.yaml", sql)
    plan = plan_of_text(text)
    job = Rehearsal(plan)
    job.drop(
        [{k: int((v - datetime(1970, 1, 1)).total_seconds() * 1e6) if isinstance(v, datetime) else v for k, v in r.items()} for r in rows()]
    )
    job.finish("end" if "final" in table else "newest")
    return job.tables()[table].to_pylist()


def by_duckdb(sql: str) -> list[tuple[Any, ...]]:
    import pyarrow as pa

    bids = pa.Table.from_pylist(rows())
    with duckdb.connect() as connection:
        connection.register("bids", bids)
        found: list[tuple[Any, ...]] = connection.sql(sql).fetchall()
        return sorted(found)


def test_ranks_of_rows_are_those_of_duckdb(tmp_path: Path) -> None:
    for rank in ("rank", "dense_rank"):
        sql = TOP.format(rank=rank, by="item", order="price desc", rel="bids", bound="<= 3").replace(
            "select *, ", "select id, item, price, "
        )
        found = answer(tmp_path / rank if (tmp_path / rank).mkdir() is None else tmp_path, sql, "top_now")
        assert sorted((r["item"], r["id"]) for r in found) == by_duckdb(f"select item, id from ({sql})")


def test_window_top_n_is_that_of_duckdb(tmp_path: Path) -> None:
    sql = TOP.format(rank="row_number", by="window_start, window_end, item", order="price * 1000 + id desc", rel=TUMBLE, bound="<= 2")
    found = answer(tmp_path, sql, "top_final")
    bucket = "time_bucket(interval '10 minutes', ts)"
    rank = f"row_number() over (partition by {bucket}, item order by price * 1000 + id desc)"
    expected = by_duckdb(f"select {bucket} w, item, id from bids qualify {rank} <= 2")
    assert sorted((r["window_start"].replace(tzinfo=None), r["item"], r["id"]) for r in found) == expected and len(expected) > 30


def test_groups_are_those_of_duckdb(tmp_path: Path) -> None:
    sql = "select item, name, sum(price * qty) total from bids where price > 2 group by item, name order by total desc limit 4"
    found = answer(tmp_path, sql, "top_now")
    expected = by_duckdb(f"select item, name, total from ({sql})")
    assert sorted((r["item"], r["name"], r["score"]) for r in found) == [(i, n, float(t)) for i, n, t in expected]


def test_a_text_is_ranked_as_a_sort_key_and_a_column_that_is_not_there_is_named(tmp_path: Path) -> None:
    data = csv_of(tmp_path / "bids", rows())
    text, _ = draft(data, tmp_path / "job.yaml", "select id from bids order by name limit 3")
    assert "order: [{expression: name, direction: min}]" in text and validate_text(text, {})[1] == []
    with pytest.raises(SkybandError) as e:
        draft(data, tmp_path / "job.yaml", "select id from bids order by prize limit 3")
    assert "no column 'prize'" in e.value.message and e.value.hint == "did you mean 'price'?"
