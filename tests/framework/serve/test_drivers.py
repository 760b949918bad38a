"""Drivers and libraries of Python that speak to ``skyband serve`` as to PostgreSQL: parameters, cursors, copies, arrays, catalogs."""

from __future__ import annotations

import asyncio
import datetime
import io
import os
import shutil
import subprocess
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import adbc_driver_postgresql.dbapi as adbc
import asyncpg
import connectorx
import pandas as pd
import peewee
import polars as pl
import psycopg
import psycopg2
import pytest
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import create_async_engine

from tests.framework.serve.support import TOKEN, Served


def url(server: Served, driver: str = "") -> str:
    return f"postgresql{driver}://skyband:{TOKEN}@127.0.0.1:{server.port}/skyband"


def pooled(server: Served, ask: Callable[[Any], Awaitable[Any]], times: int = 2) -> Any:
    """Return what ``ask`` returns, asked several times over one pooled connection of asyncpg, which is reset in between."""

    async def asked() -> Any:
        async with asyncpg.create_pool(url(server), min_size=1, max_size=1) as pool:
            for _ in range(times):
                async with pool.acquire() as connection:
                    found = await ask(connection)
            return found

    return asyncio.run(asked())


IMPLIED = {
    "select * from two_now where loyalty_seconds > $1": ["float8"],
    "select * from two_now where rank = $1 and as_of > $2 limit $3": ["int4", "timestamptz", "int8"],
    "select * from two_now where grp = $1 or grp like $2 or rank in ($3, 4)": ["text", "text", "int4"],
    "select * from two_now where rank = any($1)": ["int4[]"],
    "select * from two_now where rank <> all($1) and as_of = any($2)": ["int4[]", "timestamptz[]"],
    "select * from two_now where rank between $1 and $2": ["int4", "int4"],
    "select $1 + 1": ["int4"],
    "select rank + $1 as more, $2 as other from two_now": ["int4", "text"],
    "select -$1::bigint, $2::text[], $3::oid, $4::decimal(10, 2), $5::uuid": ["int8", "text[]", "oid", "numeric", "uuid"],
    "select * from (select loyalty_seconds * $1 as x from two_now) where x > $2": ["float8", "float8"],
    "with a as (select max(rank) as m from two_now group by grp having count(*) > $1) select * from a where m < $2": ["int8", "int4"],
    "select coalesce(rank, $1), case when rank > $2 then grp else $3 end from two_now": ["int4", "int4", "text"],
    "select date_trunc($1, as_of) from two_now where array_contains([rank], $2)": ["text", "int4"],
    "select $1": ["text"],
    "select * from two_now a join two_now b on a.rank = b.rank and a.slope < $1": ["int4"],
    "select '§1§', rank = $1 from two_now": ["int4"],
}


def test_parameters_have_the_types_that_the_statement_implies(server: Served) -> None:
    async def types(connection: Any) -> dict[str, list[str]]:
        return {sql: [t.name for t in (await connection.prepare(sql)).get_parameters()] for sql in IMPLIED}

    assert pooled(server, types, 1) == IMPLIED


def test_a_statement_that_cannot_be_bound_says_so_when_it_is_prepared(server: Served) -> None:
    async def prepared(connection: Any) -> None:
        await connection.prepare("select nothing from two_now where rank > $1")

    with pytest.raises(asyncpg.UndefinedColumnError):
        pooled(server, prepared, 1)


def test_asyncpg_sends_values_of_the_implied_types(server: Served) -> None:
    rows = server.ask("select grp, rank from two_now order by grp, rank")

    async def ask(c: Any) -> Any:
        since = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
        sql = "select grp, rank from two_now where loyalty_seconds > $1 and as_of > $2 and rank = any($3) and grp = any($4) order by 1, 2"
        return [tuple(r) for r in await c.fetch(sql, -1.5, since, [1, 2, 3], ["p", "q", None])]

    assert pooled(server, ask) == rows and rows


def test_asyncpg_reads_arrays_cursors_and_copies(server: Served) -> None:
    async def ask(c: Any) -> Any:
        arrays = await c.fetchrow("select array[1, null], '{a,\"b c\"}'::text[], [timestamptz '2024-01-01 00:00:00+00'], []::double[]")
        async with c.transaction():
            cursor = await c.cursor("select x from range(10) t(x) where x > $1", 3)
            parts = [await cursor.fetch(2), await cursor.forward(1), await cursor.fetch(9)]
        copied = {}
        for form in ("csv", "text", "binary"):
            into = io.BytesIO()
            await c.copy_from_query("select x, null from range(3) t(x) where x >= $1", 1, output=into, format=form)
            copied[form] = into.getvalue()
        return tuple(arrays), [r["x"] for r in parts[0]], [r["x"] for r in parts[2]], copied

    arrays, first, rest, copied = pooled(server, ask)
    assert arrays == ([1, None], ["a", "b c"], [datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC)], [])
    assert (first, rest) == ([4, 5], [7, 8, 9])
    assert (copied["csv"], copied["text"]) == (b"1,\n2,\n", b"1\t\\N\n2\t\\N\n")
    assert copied["binary"].startswith(b"PGCOPY\n\xff\r\n\0") and copied["binary"].endswith(b"\0\0\0\2\xff\xff\xff\xff\xff\xff")


def test_sqlalchemy_over_asyncpg(server: Served) -> None:
    async def ask() -> Any:
        engine = create_async_engine(url(server, "+asyncpg"))
        async with engine.connect() as c:
            found = (await c.execute(sa.text("select grp from two_now where rank = :r order by 1"), {"r": 1})).scalars().all()
            streamed = [r[0] async for r in await c.stream(sa.text("select x from range(2500) t(x)"))]
            names = await c.run_sync(lambda sync: [c["name"] for c in sa.inspect(sync).get_columns("two_now")])
        await engine.dispose()
        return found, streamed, names

    found, streamed, names = asyncio.run(ask())
    assert found == ["p", "q"] and streamed == list(range(2500)) and names[:2] == ["grp", "rank"]


@pytest.mark.parametrize("driver", ["psycopg", "psycopg2"])
def test_pandas_reads_parts_by_a_cursor_of_the_server(server: Served, driver: str) -> None:
    engine = sa.create_engine(url(server, f"+{driver}"))
    with engine.connect().execution_options(stream_results=True) as c:
        parts = [len(p) for p in pd.read_sql(sa.text("select x from range(10) t(x) where x >= :a"), c, params={"a": 0}, chunksize=4)]
    assert parts == [4, 4, 2]
    assert sa.inspect(engine).get_foreign_keys("two_now") == [] and sa.inspect(engine).get_indexes("two_now") == []


def test_cursors_of_psycopg(server: Served) -> None:
    with server.connect(autocommit=False) as c:
        for binary in (False, True):
            with c.cursor("a Name", binary=binary) as cursor:
                cursor.execute("select x, [x] as l from range(10) t(x) where x > %s", (2,))
                first = cursor.fetchmany(2)
                cursor.scroll(1)
                assert [x for x, _ in first + cursor.fetchall()] == [3, 4, 6, 7, 8, 9]
                assert [d.name for d in cursor.description or ()] == ["x", "l"]
        c.execute("declare held binary cursor with hold for select x from range(3) t(x)")
        found = c.execute("select name, is_binary, is_holdable, statement like 'declare%' from pg_cursors").fetchall()
        assert found == [("held", True, True, True)]
        c.commit()
        assert c.execute("fetch 2 from held").fetchall() == [(0,), (1,)]
        c.execute("declare other cursor with hold for select 1")
        c.rollback()
        # What was declared in a transaction that did not commit is gone; what was held is not.
        assert c.execute("select name from pg_cursors").fetchall() == [("held",)]
        c.execute("close all")
        assert c.execute("select name from pg_cursors").fetchall() == []
    with psycopg2.connect(url(server)) as old, old.cursor("named") as cursor:
        cursor.itersize = 3
        cursor.execute("select x from range(7) t(x)")
        assert [x for (x,) in cursor] == list(range(7))


FETCHES = {
    "fetch c": [0], "fetch next from c": [0], "fetch 3 in c": [0, 1, 2], "fetch forward 2 from c": [0, 1], "fetch all c": list(range(5)),
    "fetch forward all in c": list(range(5)), "fetch absolute 3 from c": [2], "fetch relative 2 c": [1], "fetch first c": [0],
    "fetch absolute 9 c": [], 'FETCH +1 FROM "c"': [0], "fetch 99 c": list(range(5)),
}  # fmt: skip
REFUSED = {
    "fetch prior from c": "55000", "fetch backward 2 c": "55000", "fetch -1 c": "55000", "fetch - 1 c": "55000", "fetch 0 c": "55000",
    "fetch absolute -1 c": "55000", "fetch from d": "34000", "close d": "34000", "declare c cursor for select 1": "42P03",
    "declare e cursor for drop table two": "25006", "declare e cursor for select getenv('HOME')": "42883", "move last c": "55000",
}  # fmt: skip


def test_directions_of_fetch(server: Served) -> None:
    with server.connect() as c:
        for sql, wanted in FETCHES.items():
            c.execute("begin; declare c no scroll cursor for select x from range(5) t(x)")
            assert [x for (x,) in c.execute(sql).fetchall()] == wanted, sql
            c.execute("commit")
        for sql, state in REFUSED.items():
            c.execute("begin; declare c cursor for select 1; fetch c")
            with pytest.raises(psycopg.Error) as e:
                c.execute(sql)
            assert e.value.sqlstate == state, (sql, e.value)
            c.execute("rollback")
        c.execute("begin; declare c cursor for select x from range(5) t(x)")
        moved = [c.execute(sql).statusmessage for sql in ("move 2 c", "fetch c", "move all in c", "fetch c", "close c")]
        assert moved == ["MOVE 2", "FETCH 1", "MOVE 2", "FETCH 0", "CLOSE CURSOR"]
        c.execute("commit")
        with pytest.raises(psycopg.errors.NoActiveSqlTransaction, match="within a transaction"):
            c.execute("declare c cursor for select 1")
        with pytest.raises(psycopg.errors.InvalidCursorName):
            c.execute("begin; declare c cursor for select 1; commit; fetch c")


AWKWARD = "select 1 as a, 'x,\"y\\' || chr(10) || chr(9) as b, null as c, '' as d, array['q', null] as e, '2024-01-01'::date as f"
COPIES = {
    "text": b'1\tx,"y\\\\\\n\\t\t\\N\t\t{q,NULL}\t2024-01-01\n',
    "csv, header": b'a,b,c,d,e,f\n1,"x,""y\\\n\t",,"","{q,NULL}",2024-01-01\n',
    "csv, delimiter ';', null 'N', force_quote (a, f)": b'"1";"x,""y\\\n\t";N;;{q,NULL};"2024-01-01"\n',
    "csv, quote '''', escape '\\', force_quote *": b"'1','x,\"y\\\\\n\t',,'','{q,NULL}','2024-01-01'\n",
    "text, delimiter '|', header on": b'a|b|c|d|e|f\n1|x,"y\\\\\\n\\t|\\N||{q,NULL}|2024-01-01\n',
}


def test_copies_have_the_formats_of_postgresql(server: Served) -> None:
    with server.connect() as c:
        for options, wanted in COPIES.items():
            with c.cursor().copy(f"copy ({AWKWARD}) to stdout (format {options})") as copied:
                assert b"".join(bytes(part) for part in copied) == wanted, options


def test_copies_of_relations_and_in_the_old_syntax(server: Served) -> None:
    rows = server.ask("select grp, rank from two_now")
    with server.connect() as c:
        for sql in (
            "copy two_now (grp, rank) to stdout",
            "copy cuts.\"two_now\"(grp,\"rank\") TO STDOUT with delimiter as e'\\t' null as '\\N'",
        ):
            with c.cursor().copy(sql) as copied:
                assert [(g, int(r)) for g, r in copied.rows()] == rows
        for sql in ("copy two_now (grp, rank) to stdout with binary", "copy binary two_now (grp, rank) to stdout"):
            with c.cursor().copy(sql) as copied:
                copied.set_types(["text", "int4"])
                assert list(copied.rows()) == rows
        with c.cursor().copy("copy (select 1 where false) to stdout (format binary)") as copied:
            assert list(copied.rows()) == []
        assert c.execute("select 1").fetchone() == (1,)


NO_COPIES = {
    "copy two to '{d}/made'": "25006", "copy (select 1) to '{d}/made' (format csv)": "25006", "copy two from stdin": "25006",
    "copy two from '{d}/canary.csv'": "25006", "copy (select 1) to program 'touch {d}/made'": "42601",
    "copy (select * from read_csv('{d}/canary.csv')) to stdout": "42883", "copy (select * from '{d}/canary.csv') to stdout": "42P01",
    "copy (drop table two) to stdout": "25006", "copy (select 1; select 2) to stdout": "42601", "copy nothing to stdout": "42P01",
    "copy (select 1) to stdout (format parquet)": "22023", "copy (select 1) to stdout (partition_by (a))": "0A000",
    "copy (select 1) to stdout (format binary, header)": "42601", "copy (select 1) to stdout (delimiter 'ab')": "22023",
    "copy (select 1) to stdout (format csv, encoding 'latin1')": "0A000", "copy (select 1) to stdout (format csv,": "42601",
    "copy \"two\" (\"a\") from stdin": "25006", "copy (select 1) to stdout csv null e'\\n'": "22023",
}  # fmt: skip


def test_copies_to_files_from_clients_and_of_what_is_none_are_refused(server: Served) -> None:
    before = sorted(server.directory.rglob("*"))
    with server.connect() as c:
        for sql, state in NO_COPIES.items():
            for extended in (False, True):
                with pytest.raises(psycopg.Error) as e:
                    c.execute(sql.replace("{d}", str(server.directory)), prepare=extended)
                assert e.value.sqlstate == state, (sql, e.value)
        assert c.execute("select 1").fetchone() == (1,)
    assert sorted(server.directory.rglob("*")) == before


def test_polars_connectorx_and_adbc(server: Served) -> None:
    sql = "select grp, rank, loyalty_seconds, as_of from two_now order by grp, rank"
    wanted = server.ask(sql)
    for engine in ("connectorx", "adbc"):
        assert pl.read_database_uri(sql, url(server), engine=engine).select("grp", "rank").rows() == [r[:2] for r in wanted]  # type: ignore[arg-type]
    for protocol in ("binary", "csv", "cursor"):
        assert len(connectorx.read_sql(url(server), sql, protocol=protocol)) == len(wanted)
    found = connectorx.read_sql(url(server), "select x from range(20) t(x)", partition_on="x", partition_num=2)
    assert sorted(found["x"]) == list(range(20))
    with adbc.connect(url(server)) as c, c.cursor() as cursor:
        cursor.execute("select grp, [rank] as l from two_now where rank >= $1 order by grp, rank", (1,))
        table = cursor.fetch_arrow_table()
        assert table.to_pylist() == [{"grp": g, "l": [r]} for g, r, *_ in wanted]
        listed = str(c.adbc_get_objects(depth="all").read_all().to_pylist())
        assert "two_now" in listed and "loyalty_seconds" in listed


def test_peewee_introspects_and_asks(server: Served) -> None:
    database = peewee.PostgresqlDatabase("skyband", user="skyband", password=TOKEN, host="127.0.0.1", port=server.port)
    with database.connection_context():
        assert {"two", "two_now"} <= set(database.get_tables("cuts")) and "two_summary" in {v.name for v in database.get_views("cuts")}
        assert [c.name for c in database.get_columns("two_now", "cuts")][:2] == ["grp", "rank"]
        assert (database.get_indexes("two_now", "cuts"), database.get_primary_keys("two_now", "cuts")) == ([], [])
        assert database.get_foreign_keys("two_now", "cuts") == []


DJANGO = """
import io, sys
import django
from django.conf import settings
settings.configure(USE_TZ=True, TIME_ZONE="Europe/Berlin", DATABASES={"default": {
    "ENGINE": "django.db.backends.postgresql", "NAME": "skyband", "USER": "skyband", "PASSWORD": sys.argv[2], "HOST": "127.0.0.1",
    "PORT": sys.argv[1]}})
django.setup()
from django.core.management import call_command
from django.db import connection, models
from django.db.models.functions import TruncDay

class Now(models.Model):
    grp = models.TextField(primary_key=True)
    rank = models.IntegerField()
    as_of = models.DateTimeField()
    class Meta:
        app_label, managed, db_table = "app", False, "two_now"

out = io.StringIO()
call_command("inspectdb", "two_now", stdout=out)
assert "rank = models.IntegerField(" in out.getvalue() and "unable to inspect" not in out.getvalue().lower(), out.getvalue()
ranks = sorted(Now.objects.filter(rank__in=[1, 2], grp__startswith="p").values_list("rank", flat=True))
assert sorted(o.rank for o in Now.objects.filter(grp="p").iterator(chunk_size=1)) == ranks, ranks
days = {str(d) for (d,) in Now.objects.annotate(d=TruncDay("as_of")).values_list("d")}
assert all("00:00:00+01:00" in d for d in days) and days, days
assert Now.objects.aggregate(n=models.Count("rank"))["n"] == Now.objects.count() > 0
with connection.cursor() as c:
    assert connection.introspection.get_constraints(c, "two_now") == {} and connection.introspection.get_relations(c, "two_now") == {}
"""


def test_django_inspects_filters_and_iterates(server: Served) -> None:
    done = subprocess.run(
        [sys.executable, "-c", DJANGO, str(server.port), TOKEN], capture_output=True, text=True, timeout=300, check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.skipif(shutil.which("psql") is None, reason="psql is not installed")
def test_psql_fetches_by_cursors_and_copies(server: Served) -> None:
    def psql(*asked: str, stdin: str = "") -> str:
        command = ["psql", "-X", "-A", "-t", url(server), *(w for a in asked for w in ("-c", a))]
        done = subprocess.run(
            command, input=stdin, env={**os.environ, "PGPASSWORD": TOKEN}, capture_output=True, text=True, timeout=300, check=False
        )
        assert done.returncode == 0 and not done.stderr, done.stderr
        return done.stdout

    assert psql(stdin="\\set FETCH_COUNT 3\nselect x from range(8) t(x);\n").split() == [str(i) for i in range(8)]
    assert psql("\\copy (select x, 'a b' from range(2) t(x)) to stdout csv header") == "x,?column?\n0,a b\n1,a b\n"
    assert "two_now" in psql("\\d", "\\df", "\\dT", "\\dx", "\\dp")
