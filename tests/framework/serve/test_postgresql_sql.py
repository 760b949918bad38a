"""What clients of PostgreSQL write in SQL: functions, casts, arrays, catalogs, and the names of columns."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import psycopg
import pytest

from tests.framework.serve.support import Served

D = datetime.datetime
ANSWERS: dict[str, Any] = {
    # The results are those that PostgreSQL's documentation and PostgreSQL 16 give.
    "date_trunc('day', timestamptz '2024-06-30 22:30:00+00' at time zone 'Europe/Berlin')": D(2024, 7, 1),
    "date_trunc('day', timestamptz '2024-06-30 22:30:00+00', 'Europe/Berlin') = timestamptz '2024-06-30 22:00:00+00'": True,
    "date_bin('15 minutes', timestamp '2020-02-11 15:44:17', timestamp '2001-01-01')": D(2020, 2, 11, 15, 30),
    "to_char(timestamp '2024-03-05 14:07:09.123456', 'YYYY-MM-DD HH24:MI:SS.US')": "2024-03-05 14:07:09.123456",
    "to_char(timestamp '2024-03-05 14:07:09.123456', 'YY/MM/DD HH12:MI:SS.MS AM')": "24/03/05 02:07:09.123 PM",
    "to_char(timestamp '2024-03-05', 'FMDD Mon YYYY|Day|FMDay|MONTH|dy|Q|IYYY-IW|ID|DDD')":
        "5 Mar 2024|Tuesday  |Tuesday|MARCH    |tue|1|2024-10|2|065",
    "to_char(date '2024-03-05', 'YYYY\"T\"MM\"%d\"')": "2024T03%d",
    "to_char(null::timestamp, 'YYYY Month')": None,
    "to_char(1234.5, 'FM999,999,990.00')": "1,234.50", "to_char(0.5, '9.99')": "  .50", "to_char(-7, '999')": "  -7",
    "to_char(5, 'FM999.99')": "5.", "to_char(12345678, '999')": " ###", "to_char(0.1, '0.9')": " 0.1", "to_char(7, '000')": " 007",
    "to_char(50, 'FM990%')": "50%", "to_char(-1234567.891, '9G999G999D99')": "-1,234,567.89", "to_char(485, '$999')": "$ 485",
    "to_char(null::int, '999')": None,
    "to_number('12,454.8-', '99G999D9')": Decimal("-12454.8"), "to_number('$1,234.50', 'L9,999.99')": Decimal("1234.50"),
    "to_date('05 Dec 2000', 'DD Mon YYYY')": datetime.date(2000, 12, 5), "to_date('20240229', 'YYYYMMDD')": datetime.date(2024, 2, 29),
    "to_timestamp('2024-02-29 13:14:15.5', 'YYYY-MM-DD HH24:MI:SS.US') = timestamptz '2024-02-29 13:14:15.5+00'": True,
    "to_timestamp(0) = timestamptz '1970-01-01 00:00:00+00'": True,
    "width_bucket(5.35, 0.024, 10.06, 5)": 3, "width_bucket(0, 10, 0, 5)": 6, "width_bucket(11.0, 10, 0, 5)": 0,
    "width_bucket(10.06, 0.024, 10.06, 5)": 6, "width_bucket(5, array[1, 3, 6])": 2, "width_bucket(0, array[1, 3, 6])": 0,
    "regexp_match('foobarbequebaz', '(bar)(beque)')": ["bar", "beque"], "regexp_match('abc', 'b.')": ["bc"],
    "regexp_match('abc', 'x')": None, "(regexp_match('a1', '([a-z])([0-9])'))[2]": "1", "regexp_match('ABC', '(?:a)(b)', 'i')": ["B"],
    "regexp_match('a(b', '\\((.)')": ["b"], "regexp_match('a(b', '[(](.)')": ["b"],
    "div(9, 4)": 2, "div(-9, 4)": -2, "div(9.5, 2)": 4, "div(9007199254740993, 1)": 9007199254740993,
    "initcap('hELLO wOrld-foo ÄÖ')": "Hello World-Foo Äö", "initcap('')": "",
    "quote_literal('it''s')": "'it''s'", "quote_literal('a\\b')": "E'a\\\\b'", "quote_nullable(null)": "NULL",
    "'{1,2}'::int[]": [1, 2], "'{a, NULL, \"x y\", \"\"}'::text[]": ["a", None, "x y", ""], "'{}'::int[]": [],
    "2 = any('{1,2}'::int[])": True, "2 = any('{1,2}')": True, "3 = any('{1,2}')": False, "2 = any('{1,null}')": None,
    "3 > any('{1,5}')": True, "3 > all('{1,5}')": False, "3 <> all('{1,2}')": True, "3 > any('{1}')": True, "1.5 = any('{}')": False,
    "date '2020-01-02' = any('{2020-01-01,2020-01-02}')": True,
    "3 <> all('{1,2}'::int[])": True,
    "'b' = any('{a,b}')": True, "array_upper('{5,6}'::int[], 1)": 2, "array_upper('{}'::int[], 1)": None,
    "array[1, null, 3]": [1, None, 3], "array[['a'], ['b']]": [["a"], ["b"]], "every(true)": True, "'{\"a\": 1}'::jsonb->>'a'": "1",
    "'pg_class'::regclass::oid": 1259, "7::oid": 7,
    "('\"pg_catalog\".\"' || 'timestamptz' || '\"')::regtype::text": "timestamp with time zone",
    "23::regtype::text": "integer",
    "('_' || 'int4')::regtype": 1007, "pg_advisory_unlock_all()": None,
}  # fmt: skip


def test_expressions_have_postgresqls_values(server: Served) -> None:
    with server.connect() as c:
        for binary in (False, True):
            cursor = c.cursor(binary=binary)
            assert {sql: (cursor.execute(f"select {sql}").fetchone() or ("no row",))[0] for sql in ANSWERS} == ANSWERS


QUERIES: dict[str, Any] = {
    "select * from unnest(array[1, 2], array['a']) t(a, b)": [(1, "a"), (2, None)],
    "select * from unnest(array[5], array['a', 'b']) with ordinality t(a, b, o)": [(5, "a", 1), (None, "b", 2)],
    "select l.x, u.a, u.b from (select [1, 2] as p, ['a', 'b'] as q, 7 as x) l, unnest(l.p, l.q) u(a, b)": [(7, 1, "a"), (7, 2, "b")],
    "select * from current_schema()": [("cuts",)], "select c from current_database() as c": [("skyband",)],
    "select s from generate_subscripts(array[4, 5, 6], 1) as s": [(1,), (2,), (3,)],
    "select generate_subscripts(array[4, 5], 1)": [(1,), (2,)],
    "select generate_series(1, 3)": [(1,), (2,), (3,)], "select i from (select pg_catalog.generate_series(2, 3) as i) t": [(2,), (3,)],
    "select c[i] from (select c, generate_series(array_lower(c, 1), array_upper(c, 1)) as i from (select array[7, 8] as c) a) b":
        [(7,), (8,)],
    "select array(select generate_series(1, 2))": [([1, 2],)],
    "select * from unnest('{a,b}'::text[]) with ordinality": [("a", 1), ("b", 2)],
    "select * from pg_statio_all_tables": [], "select * from pg_stat_all_tables": [], "select * from pg_cursors": [],
    "select distinct typinput from pg_type where typreceive <> 0 and typelem <> 0 and typinput = 'pg_catalog.array_in'::regproc":
        [("array_in",)],
    "select typname, proname from pg_type t left join pg_proc p on t.typreceive = p.oid where typname in ('int8', '_date') order by 1":
        [("_date", "array_recv"), ("int8", "int8recv")],
    "select count(*) from pg_type where typreceive = 0 or typmodin <> 0 or typreceive::oid = 0": [(0,)],
    "select e.typname from pg_type a join pg_type e on a.typelem = e.oid where a.typname = '_int4' and a.oid = e.typarray": [("int4",)],
    "select count(*) from information_schema.columns where data_type = 'ARRAY' and udt_name not like '\\_%' escape '\\'": [(0,)],
    "select set_config('bytea_output', 'hex', false) from pg_show_all_settings() where name = 'bytea_output'": [("hex",)],
    "select current_setting('TimeZone'), set_config('search_path', '', false) is not null": [("UTC", True)],
}  # fmt: skip


def test_relations_have_postgresqls_rows(server: Served) -> None:
    with server.connect() as c:
        assert {sql: c.execute(sql).fetchall() for sql in QUERIES} == QUERIES


NAMES = {
    "select count(*), max(rank), sum(rank) over () from two_now group by rank": ["count", "max", "sum"],
    "select rank::text, '1'::int, cast(null as varchar), rank::int::text from two_now": ["rank", "int4", "varchar", "rank"],
    "select 1, 'a', rank + 1, -rank, rank is null, rank between 1 and 2 from two_now": ["?column?"] * 6,
    "select case when true then 1 end, case when true then 1 else rank end, coalesce(rank, 1) from two_now": ["case", "rank", "coalesce"],
    "select array[1], array[1, 2][1], exists(select 1), array(select 1), (select max(rank) from two_now)":
        ["array", "array", "exists", "array", "max"],
    "select extract(year from as_of), date_part('year', as_of), date_trunc('day', as_of), current_user from two_now":
        ["extract", "date_part", "date_trunc", "current_user"],
    "select 1 union all select 2": ["?column?"], "select count(*) union all select 2": ["count"],
    "select x.count from (select count(*) from two_now) x": ["count"],
    "with a as (select max(rank) from two_now) select max from a": ["max"],
    "select grp, rank as place, two_now.side from two_now": ["grp", "place", "side"], "select * from two_now": None,
    "select max(columns(['rank', 'slope'])) from two_now": ["rank", "slope"], "select unnest({'a': 1, 'b': 2})": ["a", "b"],
    "select 2 = any('{1,2}'::int[]), 1 in (select 1), 1 = (select 1)": ["?column?"] * 3,
}  # fmt: skip


def test_columns_have_postgresqls_names(server: Served) -> None:
    with server.connect() as c:
        described = [d[0] for d in c.execute("describe two_now").fetchall()]
        for prepare in (False, True):
            found = {sql: [d.name for d in c.execute(sql, prepare=prepare).description or ()] for sql in NAMES}
            assert found == {sql: names or described for sql, names in NAMES.items()}


REFUSED = [
    ("select to_char(now(), grp) from two_now", "0A000"), ("select to_char(now(), 'SSSSS')", "0A000"),
    ("select regexp_match('a', grp) from two_now", "0A000"), ("select to_date('1', 'IYYY')", "0A000"),
    ("select to_char(1, '9,9')", "0A000"), ("select '{1,x}'::int[]", "22P02"), ("select '{{1}}'::int[]", "22P02"),
    ("select * from generate_subscripts(array[1], 1) with ordinality", "0A000"), ("select * from getenv('HOME')", "42883"),
    ("select * from unnest(array[1], (select a from read_csv('x')))", "42883"), ("select to_number('1', 'PR9')", "0A000"),
    ("select * from pg_show_all_settings(getenv('HOME'))", "42883"),
]  # fmt: skip


def test_what_is_not_taken_is_refused_by_name(server: Served) -> None:
    with server.connect() as c:
        for sql, state in REFUSED:
            with pytest.raises(psycopg.Error) as e:
                c.execute(sql)
            assert e.value.sqlstate == state, (sql, e.value)
