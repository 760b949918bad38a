"""Clients of ``skyband serve``: psycopg, SQLAlchemy, and what psql and BI tools ask of the catalogs."""

from __future__ import annotations

import datetime
import decimal
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import uuid
from pathlib import Path

import psycopg
import pyarrow as pa
import pytest
import sqlalchemy as sa
from deltalake import DeltaTable, write_deltalake

from skyband.framework.serve.database import Database, Limits, answer, job
from skyband.framework.serve.protocol.values import columns_of
from skyband.framework.serve.session import Names
from skyband.framework.serve.tree import Parser
from skyband.framework.tables.schemas import tables
from skyband.framework.tables.sql.statements import Statements
from skyband.framework.tables.sql.views import views
from skyband.jobs.cli import main
from tests.framework.serve.support import TOKEN, Served, free_port, job_at, served, serving
from tests.framework.tables.plans import DAY
from tests.framework.tables.sql.test_readers import hostile
from tests.framework.tables.sql.test_source_rows import at, laid, source_of


@pytest.fixture(scope="module")
def engine(server: Served) -> sa.Engine:
    return sa.create_engine(f"postgresql+psycopg://skyband:{TOKEN}@127.0.0.1:{server.port}/skyband")


def test_it_says_how_to_connect_and_ends_at_a_signal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with served(tmp_path) as s:
        assert s.said == [
            f"schema cuts: {len(tables(s.plan))} tables, {len(views(s.plan))} views",
            f"postgresql://skyband@127.0.0.1:{s.port}/skyband",
            f"jdbc:postgresql://127.0.0.1:{s.port}/skyband?user=skyband",
            "password: that of SKYBAND_SERVE_TOKEN",
            "Ctrl-C ends it",
        ]
        # Only this machine is listened to, and no second server takes the port.
        with socket.socket() as other, pytest.raises(OSError):
            other.connect(("127.0.0.2", s.port))
        assert main(["serve", str(tmp_path / "cuts.yaml"), "--port", str(s.port)]) == 2
        assert f"SKY-E201 port {s.port} cannot be had" in capsys.readouterr().err
        connection = s.connect()
        s.process.send_signal(signal.SIGTERM)
        assert s.process.wait(30) == 0
        with pytest.raises(psycopg.OperationalError):
            connection.execute("select 1")


def test_tables_and_views_are_those_of_skyband_sql(server: Served) -> None:
    statements = Statements(server.plan)
    for name in [*(t.name for t in tables(server.plan)), *(v.name for v in views(server.plan))]:
        wanted = statements.ask(f'select * from "{name}" order by all')
        with server.connect() as c:
            found = c.execute(f'select * from cuts."{name}" order by all')
            assert [d.name for d in found.description or ()] == wanted.column_names
            rows = [tuple(r.values()) for r in wanted.to_pylist()]
            assert found.fetchall() == rows


def test_what_is_committed_later_is_seen_by_the_next_statement(tmp_path: Path) -> None:
    with served(tmp_path) as s, s.connect() as c:
        (before,) = c.execute("select count(*) from two_changes").fetchone() or (0,)
        directory = str(tmp_path / "out" / "two_changes")
        write_deltalake(directory, DeltaTable(directory).to_pyarrow_table().slice(0, 3), mode="append")
        assert c.execute("select count(*) from two_changes").fetchone() == (before + 3,)
        # A table that is not there yet is no relation, and one as soon as it is there.
        shutil.move(tmp_path / "out" / "two_trajectory", tmp_path / "aside")
        assert ("two_trajectory",) not in c.execute("select relname from pg_class").fetchall()
        shutil.move(tmp_path / "aside", tmp_path / "out" / "two_trajectory")
        assert ("two_trajectory",) in c.execute("select relname from pg_class").fetchall()


def test_rows_joined_to_their_source(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    plan = hostile(tmp_path / "out")
    rows = [{"id": "plain", "ts": at(DAY), "grp": "g", "day": None, "price": None, "x": 0.5}]
    plan = laid(plan, tmp_path / "in", "parquet", source_of(rows, text_id=True), plan.intake.fields)
    database = Database([job(plan)], Limits())
    names = Names(database.relations(), database.schemas)
    checked = Parser().check("select * from near_rows order by all", names)
    for empty in (False, True):
        found = answer(database.opened(checked, database.schemas, {}, empty), checked.sql, database.limits)
        wanted = Statements(plan).ask("select * from near_rows order by all")
        assert found.schema.names == wanted.schema.names
        assert found.to_pylist() == ([] if empty else wanted.to_pylist())


def test_two_jobs_are_two_schemas(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    plan, one = job_at(tmp_path / "a")
    _, two = job_at(tmp_path / "b")
    assert main(["serve", str(one), str(two)]) == 2
    assert "SKY-E201 two jobs would be the schema 'cuts'" in capsys.readouterr().err
    two.write_text(two.read_text().replace("job: cuts", "job: other-cuts"))
    with serving(tmp_path, plan, [one, two]) as s:
        assert s.ask("select current_schemas(false), current_schema()") == [(["cuts", "other_cuts"], "cuts")]
        assert s.ask("select (select count(*) from two) = (select count(*) from other_cuts.two)") == [(True,)]
        with s.connect() as c:
            c.execute("set search_path to other_cuts")
            assert c.execute("show search_path").fetchone() == ("other_cuts",)
            assert c.execute("select count(*) from skyband.other_cuts.two join two using (grp)").fetchone()


def test_a_job_that_has_not_run_is_served_as_soon_as_it_has(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    plan, one = job_at(tmp_path / "a")
    _, two = job_at(tmp_path / "b")
    two.write_text(two.read_text().replace("job: cuts", "job: later"))
    (tmp_path / "b" / "out").rename(tmp_path / "aside")
    with serving(tmp_path, plan, [one, two]) as s, s.connect() as c:
        assert any(re.fullmatch(r"schema later: .* views, as soon as the job has run", line) for line in s.said)
        assert c.execute("select count(*) > 0 from two").fetchone() == (True,)
        with pytest.raises(psycopg.errors.UndefinedTable):
            c.execute("select * from later.two")
        assert c.execute("select count(*) from information_schema.tables where table_schema = 'later'").fetchone() == (0,)
        (tmp_path / "aside").rename(tmp_path / "b" / "out")
        # The same connection, and new ones.
        for ask in (c.execute, s.connect().execute):
            assert ask("select (select count(*) from later.two) = (select count(*) from cuts.two)").fetchone() == (True,)
            assert ask("select count(*) > 0 from later.two_summary").fetchone() == (True,)


def test_sqlalchemy_reflects_tables_and_views(engine: sa.Engine, server: Served) -> None:
    seen = sa.inspect(engine)
    assert "cuts" in seen.get_schema_names() and seen.default_schema_name == "cuts"
    assert set(seen.get_table_names()) == {t.name for t in tables(server.plan)}
    assert set(seen.get_view_names(schema="cuts")) == {v.name for v in views(server.plan)}
    columns = {c["name"]: (str(c["type"]), c["comment"]) for c in seen.get_columns("two_now", schema="cuts")}
    assert columns["rank"] == ("INTEGER", "place in the result, from 1") and columns["grp"][0] == "TEXT"
    assert columns["as_of"][0] == "TIMESTAMP" and columns["loyalty_seconds"][0] == "DOUBLE PRECISION"
    assert seen.get_table_comment("two_now") == {"text": "Current result of two."}
    assert seen.has_table("two_now") and not seen.has_table("nothing")
    assert "ended" in seen.get_view_definition("two_summary")
    empty = (seen.get_foreign_keys, seen.get_indexes, seen.get_unique_constraints, seen.get_check_constraints)
    assert [f("two_now") for f in empty] == [[], [], [], []] and seen.get_pk_constraint("two_now")["constrained_columns"] == []
    table = sa.Table("two_now", sa.MetaData(), autoload_with=engine)
    with engine.connect() as c:
        picked = sa.select(table.c.grp, table.c.side).where(table.c.grp == "p", table.c.rank.in_([1, 2])).order_by(table.c.rank)
        assert [tuple(r) for r in c.execute(picked)] == server.ask("select grp, side from two_now where grp = 'p' order by rank")


CATALOG = {
    "tables as Metabase lists them": (
        "select n.nspname as schema, c.relname as name, case c.relkind when 'r' then 'TABLE' when 'v' then 'VIEW' end as type,"
        " d.description, stat.n_live_tup from pg_catalog.pg_class c join pg_catalog.pg_namespace n on c.relnamespace = n.oid"
        " left join pg_catalog.pg_description d on c.oid = d.objoid and d.objsubid = 0 and d.classoid = 'pg_class'::regclass"
        " left join pg_stat_user_tables stat on n.nspname = stat.schemaname and c.relname = stat.relname"
        " where n.nspname !~ '^pg_' and n.nspname <> 'information_schema' and c.relkind in ('r', 'p', 'v', 'f', 'm') order by 3, 1, 2"
    ),
    "columns as Metabase lists them": (
        "select c.column_name, case when c.udt_schema in ('public', 'pg_catalog') then format('%s', c.udt_name)"
        """ else format('"%s"."%s"', c.udt_schema, c.udt_name) end as "database-type", c.ordinal_position - 1,"""
        " pk.column_name is not null,"
        " col_description(cast(cast(format('%I.%I', cast(c.table_schema as text), cast(c.table_name as text)) as regclass) as oid),"
        " c.ordinal_position) from information_schema.columns c left join (select tc.table_schema, tc.table_name, kc.column_name"
        " from information_schema.table_constraints tc join information_schema.key_column_usage kc on"
        " tc.constraint_name = kc.constraint_name where tc.constraint_type = 'PRIMARY KEY') pk on c.table_name = pk.table_name"
        " where c.table_schema !~ '^information_schema|catalog_history|pg_' and c.table_name = 'two_now' order by 3"
    ),
    "privileges as Metabase asks for them": (
        "with p as (select t.objectname, pg_catalog.has_any_column_privilege(current_user, '\"' || replace(t.schemaname, '\"', '\"\"') ||"
        " '\".\"' || t.objectname || '\"', 'select') as reads, "
        " pg_catalog.has_table_privilege(current_user, t.objectname, 'delete') as deletes"
        " from (select schemaname, tablename as objectname from pg_catalog.pg_tables union select schemaname, viewname from"
        " pg_catalog.pg_views union select schemaname, matviewname from pg_catalog.pg_matviews) t where t.schemaname !~ '^pg_')"
        " select distinct reads, deletes from p"
    ),
    "keys as Metabase asks for them": (
        "select a.attname from pg_constraint c join pg_class t on c.conrelid = t.oid join pg_attribute a on c.conrelid = a.attrelid"
        " where c.contype = 'f'::char and a.attnum = any(c.conkey)"
    ),
    "a time range as Superset writes it": (
        "select date_trunc('day', as_of) as t, count(*) as n from cuts.two_now where as_of >= to_timestamp('1969-12-31 00:00:00.000000',"
        " 'YYYY-MM-DD HH24:MI:SS.US') and as_of < to_date('2100-01-01', 'YYYY-MM-DD') group by date_trunc('day', as_of)"
    ),
    "databases as Superset lists them": "select datname from pg_database where datistemplate = false;",
    "relations as psql lists them": (
        "select n.nspname, c.relname, pg_catalog.pg_get_userbyid(c.relowner) from pg_catalog.pg_class c"
        " left join pg_catalog.pg_namespace n on n.oid = c.relnamespace where c.relname operator(pg_catalog.~) '^(two_now)$'"
        " collate pg_catalog.default and pg_catalog.pg_table_is_visible(c.oid)"
    ),
    "columns as psql lists them": (
        "select a.attname, pg_catalog.format_type(a.atttypid, a.atttypmod), (select pg_catalog.pg_get_expr(d.adbin, d.adrelid, true)"
        " from pg_catalog.pg_attrdef d where d.adrelid = a.attrelid and d.adnum = a.attnum and a.atthasdef) from pg_catalog.pg_attribute a"
        " where a.attrelid = 'cuts.two_now'::regclass and a.attnum > 0 and not a.attisdropped order by a.attnum"
    ),
    "types as Npgsql loads them": (
        "select version(); select ns.nspname, t.oid, t.typname from pg_type t join pg_namespace ns on ns.oid = t.typnamespace"
        " where t.typtype in ('b', 'r', 'm', 'e', 'd')"
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", CATALOG)
def test_questions_of_tools_about_the_catalogs(server: Served, what: str) -> None:
    found = server.ask(CATALOG[what])
    wanted = {
        "tables as Metabase lists them": lambda: len(found) == len(tables(server.plan)) + len(views(server.plan)) and found[0][0] == "cuts",
        "columns as Metabase lists them": lambda: found[0][:4] == ("grp", "text", 0, False) and "key of the stream" in found[0][4],
        "privileges as Metabase asks for them": lambda: found == [(True, False)],
        "keys as Metabase asks for them": lambda: found == [],
        "a time range as Superset writes it": lambda: sum(n for _, n in found) == server.ask("select count(*) from two_now")[0][0],
        "databases as Superset lists them": lambda: found == [("skyband",)],
        "relations as psql lists them": lambda: found == [("cuts", "two_now", "skyband")],
        "columns as psql lists them": lambda: [r[0] for r in found] == server_columns(server) and found[0][1] == "text",
        "types as Npgsql loads them": lambda: len(found) == 1 and "PostgreSQL" in found[0][0],
    }
    assert wanted[what](), found


def server_columns(server: Served) -> list[str]:
    (table,) = [t for t in tables(server.plan) if t.name == "two_now"]
    return list(table.schema.names)


@pytest.mark.skipif(shutil.which("psql") is None, reason="psql is not installed")
def test_psql_describes_tables(server: Served) -> None:
    url = f"postgresql://skyband@127.0.0.1:{server.port}/skyband"
    asked = [r"\dt", r"\dv", r"\d two_now", r"\d+ two_summary", r"\dn", r"\l", r"\du", "select grp from two_now order by all limit 1"]
    done = subprocess.run(
        ["psql", "-X", url, *(word for a in asked for word in ("-c", a))],
        env={**os.environ, "PGPASSWORD": TOKEN}, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0 and not done.stderr, done.stderr
    assert re.search(r'Table "cuts\.two_now"', done.stdout) and re.search(r"rank +\| integer", done.stdout)


def test_settings_of_clients_are_taken(server: Served) -> None:
    with server.connect(application_name="a tool", client_encoding="utf8") as c:
        assert c.execute("show application_name").fetchone() == ("a tool",)
        for harmless in (
            "set extra_float_digits = 3", "set session datestyle to 'ISO, MDY'", "set time zone 'Europe/Vienna'", "set names 'utf8'",
            "set session characteristics as transaction read only", "begin read only", "savepoint a", "release savepoint a", "commit",
            "start transaction isolation level repeatable read, read only", "rollback", "discard all", "deallocate all", "reset all",
        ):  # fmt: skip
            c.execute(harmless)
        # All of it is reset.
        assert c.execute("show timezone").fetchone() == ("UTC",)
        for zone in (
            "set timezone to 'Europe/Vienna'",
            "set time zone 'europe/vienna'",
            "select set_config('TimeZone', 'Europe/Vienna', false)",
        ):
            c.execute(zone)
            assert c.info.parameter_status("TimeZone") == "Europe/Vienna" or zone.startswith("select")
            assert c.execute("show timezone").fetchone() == ("Europe/Vienna",)
            c.execute("reset timezone")
        for zone, shown in (
            ("interval '+00:00' hour to minute", "UTC"),
            ("INTERVAL '-03:00' HOUR TO MINUTE", "Etc/GMT+3"),
            ("2", "Etc/GMT-2"),
        ):
            c.execute(f"set time zone {zone}")
            assert c.execute("show timezone").fetchone() == (shown,)
        assert c.execute("select timestamptz '2024-01-01 00:00:00+00'::text").fetchone() == ("2024-01-01 02:00:00+02",)
        with pytest.raises(psycopg.errors.InvalidParameterValue, match="there is no time zone 'Mars/X'"):
            c.execute("set timezone = 'Mars/X'")
    with server.connect(options="-c statement_timeout=1500 -c search_path=nothing -c work_mem=1GB -c unknown.x=1") as c:
        assert c.execute("show statement_timeout").fetchone() == ("1500",) and c.execute("show search_path").fetchone() == ("",)
    with pytest.raises(psycopg.OperationalError, match="no other client_encoding than UTF8"):
        server.connect(client_encoding="latin1")
    with server.connect() as c:
        assert c.execute("select '2024-01-01 00:00:00+00'::timestamptz::text").fetchone() == ("2024-01-01 00:00:00+00",)


def test_instants_are_shown_and_cut_in_the_zone_of_the_client(server: Served) -> None:
    sql = "select timestamptz '2024-06-30 22:30:00+00', date_trunc('day', timestamptz '2024-06-30 22:30:00+00')::text"
    with server.connect(options="-c TimeZone=Europe/Berlin") as c:
        for binary in (False, True):
            row = c.cursor(binary=binary).execute(sql).fetchone() or ()
            assert row[:2] == (datetime.datetime(2024, 6, 30, 22, 30, tzinfo=datetime.UTC), "2024-07-01 00:00:00+02")
        texts = ("1900-01-01 00:00:00+00", "2024-01-01 00:00:00+00", "9999-12-31 23:30:00+00", "0001-01-01 00:00:00+00", "infinity")
        raw = c.pgconn.exec_(("select " + ", ".join(f"timestamptz '{t}'" for t in texts)).encode())
        assert [(raw.get_value(0, i) or b"").decode() for i in range(len(texts))] == [
            "1900-01-01 01:00:00+01", "2024-01-01 01:00:00+01", "10000-01-01 00:30:00+01", "0001-01-01 00:53:28+00:53:28", "infinity",
        ]  # fmt: skip
        c.execute("reset all")
        # What a client sets as it connects is what it resets to.
        assert c.execute("show timezone").fetchone() == ("Europe/Berlin",)
        # The rows of a table are the same instants.
        assert c.execute("select * from two_now order by all").fetchall() == server.ask("select * from two_now order by all")


def test_prepared_statements_take_values_of_all_kinds(server: Served) -> None:
    values = [
        1, 2**40, -(2**60), 1.5, float("inf"), True, "it's\\ $1", decimal.Decimal("-12.50"), datetime.date(2024, 2, 29), None, b"\x00\xff",
        datetime.datetime(2024, 2, 29, 1, 2, 3, 4, datetime.UTC), datetime.time(1, 2, 3), uuid.UUID(int=7),
        datetime.timedelta(days=1, seconds=3),
    ]  # fmt: skip
    casts = ["int", "bigint", "bigint", "double", "double", "boolean", "varchar", "decimal(10,2)", "date", "int", "blob", "timestamptz",
             "time", "uuid", "interval"]  # fmt: skip
    for binary in (False, True):
        mark = "%b" if binary else "%s"
        with server.connect() as c:
            for value, cast in zip(values, casts, strict=True):
                cursor = c.cursor(binary=binary)
                cursor.execute(f"select {mark}::{cast}", (value,), prepare=True)
                (found,) = cursor.fetchone() or (None,)
                assert (str(found) if cast == "uuid" else found) == (str(value) if cast == "uuid" else value), (cast, binary)
    assert server.ask("select 2 = any(%s), %s::varchar in ('x')", [1, 2], "x") == [(True, True)]
    # A value is a value, whatever it holds.
    assert server.ask("select %s::varchar", "'; drop table two; --") == [("'; drop table two; --",)]
    assert server.ask("select count(*) from two_now where as_of > %s and rank >= %s", "1970-01-01 00:00:00+00", 1) != [(0,)]


def test_portals_hand_out_rows_in_parts(server: Served) -> None:
    with server.connect(autocommit=False) as c, c.cursor() as cursor:
        got = [row[0] for row in cursor.stream("select * from range(5000)", size=1)]
    assert got == list(range(5000))


def test_types_are_postgresqls(server: Served) -> None:
    kinds = pa.schema(
        [
            ("a", pa.int8()), ("b", pa.uint8()), ("c", pa.int16()), ("d", pa.uint16()), ("e", pa.int32()), ("f", pa.uint32()),
            ("g", pa.int64()), ("h", pa.uint64()), ("i", pa.float32()), ("j", pa.float64()), ("k", pa.decimal128(10, 2)), ("l", pa.bool_()),
            ("m", pa.string()), ("n", pa.large_string()), ("o", pa.binary()), ("p", pa.date32()), ("q", pa.time64("us")),
            ("r", pa.timestamp("us")), ("s", pa.timestamp("ns", "UTC")), ("t", pa.list_(pa.int32())), ("u", pa.struct([("x", pa.int8())])),
            ("v", pa.null()), ("w", pa.dictionary(pa.int8(), pa.string())), ("x", pa.month_day_nano_interval()),
        ]
    )  # fmt: skip
    assert [oid for _, oid, _ in columns_of(kinds)] == [
        21, 21, 21, 23, 23, 26, 20, 1700, 700, 701, 1700, 16, 25, 25, 17, 1082, 1083, 1114, 1184, 1007, 114, 25, 25, 1186,
    ]  # fmt: skip


def test_the_generated_token_is_printed_once(tmp_path: Path) -> None:
    plan, spec = job_at(tmp_path)
    env = {k: v for k, v in os.environ.items() if k != "SKYBAND_SERVE_TOKEN"} | {"PYTHONPATH": os.pathsep.join(sys.path)}
    port = free_port()
    command = [sys.executable, "-m", "skyband.jobs.cli", "serve", str(spec), "--port", str(port)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env, cwd=tmp_path)
    try:
        assert process.stdout is not None
        (line,) = [line for line in iter(process.stdout.readline, "Ctrl-C ends it\n") if line.startswith("password: ")]
        token = line.split()[1]
        assert len(token) >= 40
        assert Served(tmp_path, plan, process, port).connect(password=token).execute("select 1").fetchone() == (1,)
    finally:
        process.kill()
        process.wait()


SCOPES = {
    "select (with pg_settings as (select 1 as n) select n from pg_settings), count(*) from pg_settings where name = 'memory_limit'": 0,
    "with a as (select * from pg_settings), pg_settings as (select 1) select count(*) from a where name = 'memory_limit'": 0,
    "with pg_settings as (select * from pg_settings) select count(*) from pg_settings where name = 'memory_limit'": 0,
    "with recursive r as (select 1 as n union all select n + 1 from r where n < 5) select max(n) from r": 5,
    "with a as materialized (select 1 as n), b as (select n + 1 as n from a) select n from b": 2,
    "with two as (select 7 as n) select n from two": 7,
}  # fmt: skip


@pytest.mark.parametrize("sql", SCOPES)
def test_a_name_means_a_definition_only_where_it_is_in_scope(server: Served, sql: str) -> None:
    """Elsewhere it is a relation of ours: DuckDB has catalogs of its own under such names, which nobody may read."""
    assert server.ask(sql)[0][-1] == SCOPES[sql]
