"""What ``skyband serve`` refuses: writing, files, the network, settings, secrets, other statements, other clients."""

from __future__ import annotations

import contextlib
import socket
import struct
from pathlib import Path
from typing import Any

import psycopg
import pytest

from skyband.framework.base.errors import SkybandError
from skyband.jobs.cli import main
from skyband.jobs.reading.serve import _token
from tests.framework.serve.support import CANARY, TOKEN, Served, job_at

WRITES = (
    "insert into two_now select * from two_now", "delete from two", "update two_now set rank = 1", "drop table two_now", "truncate runs",
    "create table made (a int)", "create table copied as select * from two", "create view v as select 1", "create temp table t (a int)",
    "create schema another", "drop schema cuts cascade", "alter table two add column a int", "vacuum two", "checkpoint", "analyze",
    "merge into two using two_now on two.grp = two_now.grp when matched then delete", "create macro f() as 1",
    "create type e as enum ('a')", "with x as (insert into two values (1) returning *) select * from x",
    "with x as (delete from two returning *) select * from x", "copy two to '{directory}/made.csv'",
    "copy (select 1) to '{directory}/made.csv'", "copy two from '{directory}/canary.csv'", "export database '{directory}/made'",
    "import database '{directory}'", "attach '{directory}/made.db'", "detach skyband", "use memory", "install httpfs", "load httpfs",
    "force install httpfs from 'http://127.0.0.1:1'", "pragma database_list", "call pragma_version()", "prepare x as select 1",
    "execute x", "explain analyze insert into two values (1)", "explain copy two to '{directory}/made.csv'", "select 1; drop table two",
    "create secret s (type s3)", "comment on table two is 'x'",
)  # fmt: skip
"""What would change a table, the catalog, a file, a setting or the session."""
REACHES = (
    "select transform(id) using 'sh -c id' from two", "select * from table_changes_by_path('{directory}/out/two', 0)",
    "select * from '{directory}/canary.csv'", "from '{directory}/canary.csv'", "describe '{directory}/canary.csv'",
    "summarize '{directory}/canary.csv'", "select * from read_csv('{directory}/canary.csv')",
    "select * from read_text('{directory}/canary.csv')",
    "select * from read_blob('{directory}/*')", "select * from glob('{directory}/*')", "select * from sniff_csv('{directory}/canary.csv')",
    "select * from parquet_metadata('{directory}/out/two/*.parquet')", "select * from parquet_scan('{directory}/out/two/*.parquet')",
    "select * from delta_scan('{directory}/out/two')", "select * from query('select 1')", "select * from query_table('two')",
    "select * from query_table(['{directory}/canary.csv'])", "select * from histogram_values('{directory}/canary.csv', a)",
    "select * from json_execute_serialized_sql(json_serialize_sql('select 1'))", "select json_serialize_plan('select 1')",
    "select getenv('HOME')", "select a.getenv() from (select 'HOME' as a) a", "select system.main.getenv('HOME')",
    "select list_transform(['HOME'], lambda x: getenv(x))", "select getvariable('x')", "select * from duckdb_settings()",
    "select * from duckdb_secrets()", "select * from duckdb_logs()", "select * from which_secret('s3://x', 's3')",
    "select * from sqlite_master", "select * from duckdb_tables", 'select * from "rows of cuts.two"',
    'select * from temp.main."rows of cuts.two"', 'select * from "pg catalog".pg_class', "select * from system.information_schema.tables",
    "select * from memory.main.two", "select write_log('x')", "select nextval('x')", "select setseed(0.5)", "select sleep_ms(100000)",
    "select current_query()", "select * from pandas_scan(1)", "select * from arrow_scan(1, 2, 3)", "select * from test_all_types()",
    "select * from (select 1) t, read_csv('{directory}/canary.csv')", "select (select a from '{directory}/canary.csv')",
    "with x as (from '{directory}/canary.csv') select * from x", "select * from two where exists (from '{directory}/canary.csv')",
    "select 1 union all select b from read_csv('{directory}/canary.csv')", "select * from pg_read_file('/etc/passwd')",
    "select pg_read_file('/etc/passwd')", "select pg_ls_dir('/')", "select lo_import('/etc/passwd')", "do $$ begin end $$", "listen x",
    "notify x", "lock table two", "declare c cursor for select 1", "set role other", "set session authorization other",
    "set memory_limit = '100GB'", "set enable_external_access = true", "set global threads = 100", "set variable x = 1",
    "reset memory_limit", "show memory_limit", "select reflect('java.lang.System', 'exit', 3)",
)  # fmt: skip
"""What would read beside the tables, call anything of the system's, or change what a statement may do."""


def files_of(directory: Path) -> dict[str, int]:
    return {str(p): p.stat().st_mtime_ns for p in directory.rglob("*")}


@pytest.mark.parametrize("extended", [False, True], ids=["simple", "extended"])
def test_everything_but_queries_of_the_tables_is_refused(server: Served, extended: bool) -> None:
    before = files_of(server.directory)
    with server.connect() as c:
        cursor: Any = c.cursor() if extended else psycopg.ClientCursor(c)
        for text in (*WRITES, *REACHES):
            sql = text.format(directory=server.directory)
            with pytest.raises(psycopg.Error) as e:
                cursor.execute(sql, prepare=True if extended else None)
                pytest.fail(f"{sql}: {cursor.fetchall()}")
            assert e.value.sqlstate and len(e.value.sqlstate) == 5 and e.value.sqlstate != "XX000", (sql, e.value)
            assert CANARY not in str(e.value), sql
        assert c.execute("select 1").fetchone() == (1,)
    assert files_of(server.directory) == before


def test_refusals_say_which_and_what_to_do(server: Served) -> None:
    for sql, state, said in (
        ("insert into two values (1)", "25006", "this server answers queries only"),
        ("select * from read_csv('x')", "42883", 'the table function "read_csv" is not offered here'),
        ("select getenv('x')", "42883", 'the function "getenv" is not offered here'),
        ("select * from two_nov", "42P01", "there is no relation \"two_nov\"\nHINT:  did you mean 'two_now'?"),
        ("select nothing from two", "42703", "the statement does not fit the tables"),
        ("selec 1", "42601", "the statement is not understood"),
        ("set memory_limit = '1GB'", "42704", "does not take the setting 'memory_limit'"),
        ("set client_encoding to latin1", "22023", "no other client_encoding than UTF8"),
        ("select 'a'::int", "22P02", "a value cannot be converted"),
        ("from two pivot (count(*) for side)", "42601", "the statement is not understood"),
        ("pivot two on side using count(*)", "0A000", "a pivot has to name its values"),
    ):
        with pytest.raises(psycopg.Error) as e:
            server.ask(sql)
        assert (e.value.sqlstate, said in str(e.value)) == (state, True), (sql, e.value.sqlstate, str(e.value))


def test_a_failed_transaction_answers_nothing_before_it_ends(server: Served) -> None:
    with server.connect(autocommit=False) as c:
        with pytest.raises(psycopg.errors.UndefinedTable):
            c.execute("select * from nothing")
        with pytest.raises(psycopg.errors.InFailedSqlTransaction):
            c.execute("select 1")
        c.rollback()
        assert c.execute("select 1").fetchone() == (1,)


@pytest.mark.parametrize(
    "given", [{"password": "another token of that length"}, {"password": ""}, {"password": TOKEN[:-1]}, {"user": "postgres"}]
)
def test_without_the_token_nobody_is_let_in(server: Served, given: dict[str, str]) -> None:
    with pytest.raises(psycopg.OperationalError, match=r"the user or the token is wrong|no password supplied|empty password"):
        server.connect(**given)


def test_a_database_that_there_is_not_is_named(server: Served) -> None:
    with pytest.raises(psycopg.OperationalError, match="there is no database 'other'"):
        server.connect(dbname="other")


def message(kind: bytes, content: bytes) -> bytes:
    return kind + struct.pack("!i", len(content) + 4) + content


STARTUP = struct.pack("!i", 196608) + b"user\0skyband\0database\0skyband\0\0"
NO_MESSAGES = (
    b"GET / HTTP/1.1\r\n\r\n", b"\0" * 40, b"\xff" * 40, struct.pack("!i", 4), struct.pack("!ii", 8, 0), struct.pack("!ii", 8, 131072),
    struct.pack("!i", 2**31 - 1) + b"x" * 100, message(b"", STARTUP) + message(b"Q", b"select 1\0"),
    message(b"", STARTUP) + message(b"p", b"NONE\0\0\0\0\0"), message(b"", STARTUP) + message(b"p", b"SCRAM-SHA-256\0\0\0\0\5n,,r="),
    message(b"", STARTUP) + message(b"p", b"SCRAM-SHA-256\0\x7f\xff\xff\xffn,,n=,r=abc"),
    message(b"", STARTUP) + message(b"p", b"\xff\xfe"),
    message(b"", STARTUP) + message(b"p", b"SCRAM-SHA-256\0\0\0\0\x0bn,,n=,r=abc") + message(b"p", b"c=biws,r=abc,p="),
    message(b"", STARTUP) + message(b"p", b"SCRAM-SHA-256\0\0\0\0\x0bn,,n=,r=abc") + message(b"p", b"\xff"),
    message(b"", struct.pack("!iii", 80877102, 1, 1)), message(b"", struct.pack("!i", 80877102)),
)  # fmt: skip
"""What a client may send that has no token, or speaks another protocol."""


@pytest.mark.parametrize("sent", NO_MESSAGES, ids=range(len(NO_MESSAGES)))
def test_bytes_that_are_no_login_end_their_connection_alone(server: Served, sent: bytes) -> None:
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as s:
        s.sendall(sent)
        answer = b""
        with contextlib.suppress(ConnectionResetError):
            while part := s.recv(4096):
                answer += part
    assert b"Z\0\0\0\5I" not in answer
    assert server.ask("select 1") == [(1,)]


def test_a_spec_cannot_have_the_token(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, spec = job_at(tmp_path)
    spec.write_text(spec.read_text().replace("path: in", 'path: "${SKYBAND_SERVE_TOKEN}"'))
    assert main(["validate", str(spec)]) == 2
    assert "SKY-E119" in capsys.readouterr().err


@pytest.mark.parametrize("token", ["", "short", "with a blank in it", "with-ä-letter-outside"])
def test_a_token_that_is_none_is_refused(token: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SKYBAND_SERVE_TOKEN", token)
    with pytest.raises(SkybandError, match="SKYBAND_SERVE_TOKEN is no token"):
        _token()


def test_what_is_no_port_no_limit_or_no_job_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from tests.framework.streaming.bucket.test_bucket_loyalty import SPEC

    spec = tmp_path / "cuts.yaml"
    spec.write_text(SPEC)
    for options, said in (
        (["--port", "0"], "SKY-E201 --port takes a whole number from 1 to 65,535, not 0"),
        (["--seconds", "0"], "SKY-E201 --seconds takes a number above 0"),
        (["--rows", "-1"], "SKY-E201 --rows takes a whole number from 1 "),
        (["--memory", "nan"], "SKY-E201 --memory takes a whole number from 1 "),
        ([], "SKY-E400 there is no table 'runs'"),
    ):
        assert main(["serve", str(spec), *options]) == 2
        assert said in capsys.readouterr().err
    spec.write_text(SPEC.replace("job: cuts", "job: pg-catalog"))
    assert main(["serve", str(spec)]) == 2
    assert "its schema would have a name of the database's own" in capsys.readouterr().err
