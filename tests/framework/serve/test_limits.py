"""The limits of ``skyband serve``: time, memory, rows, connections; and that no client can hold up another."""

from __future__ import annotations

import errno
import os
import resource
import signal
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from skyband.framework.serve.database import Database, Limits, job
from skyband.framework.serve.server import Server
from tests.framework.serve.support import TOKEN, Served, free_port, job_at, served

FOREVER = "select count(*) from range(1000000000000) t(x) where hash(x) = 1"


@pytest.fixture(scope="module")
def strict(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    options = ("--seconds", "2", "--memory", "200", "--rows", "1000", "--connections", "4")
    with served(tmp_path_factory.mktemp("strict"), *options) as running:
        yield running


@pytest.mark.parametrize(
    ("sql", "state"),
    [
        (FOREVER, "57014"),
        ("with recursive r(n) as (select 1 union all select n + 1 from r) select count(*) from r", "57014"),
        ("select * from range(1001)", "54000"),
        ("select list(x) from range(200000000) t(x)", "53200"),
        ("select length(repeat('x', 2000000000))", "53200"),
        ("select repeat('x', 4000000000)", "53200"),
        ("select array_agg(repeat('y', 10000000)) from range(100)", "53200"),
        ("select " + "(" * 5000 + "1" + ")" * 5000, "42601"),
        ("select " + " + ".join(["1"] * 20000), "42601"),
        ("set a" + " " * 300_000 + "x", "42501"),
        ("select {'on': date '5877641-06-01'}", "22008"),
        ("select {'at': timestamptz 'infinity'}", "22008"),
        ("select md5_number('x')", "0A000"),
        ("select [timetz '10:00:00+02']", "0A000"),
    ],
    ids=str,
)
def test_a_statement_beyond_a_limit_ends_in_an_error_and_the_connection_goes_on(strict: Served, sql: str, state: str) -> None:
    with strict.connect() as c:
        with pytest.raises(psycopg.Error) as e:
            c.execute(sql)
        assert e.value.sqlstate == state, e.value
        assert c.execute("select count(*) from range(1000)").fetchone() == (1000,)


def test_values_of_parameters_are_read_in_linear_time(strict: Served) -> None:
    with strict.connect() as c:
        result = c.pgconn.exec_params(b"select $1", [b"1" * 300_000 + b"x"], [1700])
        assert result.error_field(psycopg.pq.DiagnosticField.SQLSTATE) == b"22P02", result.error_message
        assert c.execute("select 1").fetchone() == (1,)


def test_more_parameters_than_the_protocol_counts_are_refused(strict: Served) -> None:
    with strict.connect() as c:
        result = c.pgconn.prepare(b"p", b"select " + b",".join(b"$%d" % i for i in range(1, 32769)))
        assert result.error_field(psycopg.pq.DiagnosticField.SQLSTATE) == b"54000", result.error_message
        assert c.execute("select 1").fetchone() == (1,)


def test_the_kernel_ends_a_process_whose_work_holds_pythons_lock() -> None:
    work = "import re; from skyband.framework.serve.watch import alarm; alarm(0.5); re.fullmatch('(a*)*b', 'a' * 60)"
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    assert subprocess.run([sys.executable, "-c", work], env=env, check=False).returncode == -signal.SIGALRM


def test_clients_that_only_connect_keep_nobody_out(server: Served) -> None:
    silent = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(120)]
    try:
        assert server.ask("select 1") == [(1,)]
    finally:
        for s in silent:
            s.close()


def test_clients_that_only_connect_leave_room_when_there_are_no_more_descriptors(tmp_path: Path) -> None:
    with served(tmp_path) as s:
        resource.prlimit(s.process.pid, resource.RLIMIT_NOFILE, (64, 64))
        silent = [socket.create_connection(("127.0.0.1", s.port), timeout=60) for _ in range(90)]
        try:
            assert b"too many clients are connecting" in silent[0].recv(1000)
            assert s.ask("select 1") == [(1,)]
        finally:
            for client in silent:
                client.close()


def test_the_answers_that_cursors_hold_at_once_are_bounded(strict: Served) -> None:
    with strict.connect(autocommit=False) as c:
        c.execute("declare a cursor for select repeat('x', 120000) || x from range(999) t(x)")
        with pytest.raises(psycopg.errors.OutOfMemory, match="the answers that this connection holds"):
            c.execute("declare b cursor for select repeat('y', 120000) || x from range(999) t(x)")
        c.rollback()
        assert c.execute("select 1").fetchone() == (1,)


def test_a_machine_without_room_for_a_process_refuses_the_client_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_room() -> int:
        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    plan, _ = job_at(tmp_path)
    running = Server(Database([job(plan)], Limits()), TOKEN, free_port(), print)
    stopped = threading.Event()
    thread = threading.Thread(target=running.run, args=(stopped.is_set,))
    monkeypatch.setattr(os, "fork", no_room)
    thread.start()
    try:
        for _ in range(2):
            with pytest.raises(psycopg.OperationalError, match="no room for another connection"):
                psycopg.connect(host="127.0.0.1", port=running.port, user="skyband", password=TOKEN, dbname="skyband")
    finally:
        stopped.set()
        thread.join()


def test_a_statement_that_heeds_no_interrupt_ends_its_connection_alone(strict: Served) -> None:
    with strict.connect() as other:
        with pytest.raises(psycopg.OperationalError, match="took longer than 2 s"), strict.connect() as c:
            c.execute("select levenshtein(repeat('a', 400000), repeat('b', 400000))")
        assert other.execute("select 1").fetchone() == (1,)


def test_a_client_may_ask_for_a_shorter_time(server: Served) -> None:
    with server.connect() as c:
        c.execute("set statement_timeout = '300ms'")
        with pytest.raises(psycopg.errors.QueryCanceled, match=r"longer than 0\.3 s"):
            c.execute(FOREVER)
        c.execute("set statement_timeout = 0")
        assert c.execute("select 1").fetchone() == (1,)


def test_a_statement_is_cancelled_by_its_client_only(server: Served) -> None:
    with server.connect() as c:
        info = c.pgconn
        # Somebody who does not know the secret cancels nothing.
        with socket.create_connection(("127.0.0.1", server.port)) as s:
            s.sendall(struct.pack("!iiii", 16, 80877102, info.backend_pid, 1))
            assert s.recv(1) == b""
        running = threading.Event()

        def cancel() -> None:
            running.wait()
            while not done.is_set():
                c.cancel_safe(timeout=60)
                done.wait(0.2)

        done = threading.Event()
        thread = threading.Thread(target=cancel)
        thread.start()
        try:
            running.set()
            with pytest.raises(psycopg.errors.QueryCanceled, match="cancelled by the client"):
                c.execute(FOREVER)
        finally:
            done.set()
            thread.join()
        # A late cancellation may still meet this statement.
        while True:
            try:
                assert c.execute("select 1").fetchone() == (1,)
                break
            except psycopg.errors.QueryCanceled:
                continue


def test_more_clients_than_allowed_are_refused_and_let_in_when_others_leave(strict: Served) -> None:
    held = [strict.connect() for _ in range(4)]
    with pytest.raises(psycopg.OperationalError, match="4 clients are connected"):
        strict.connect()
    for c in held:
        c.close()
    while True:
        try:
            assert strict.ask("select 1") == [(1,)]
            break
        except psycopg.OperationalError as e:
            assert "clients are connected" in str(e)


def test_idle_and_slow_clients_hold_up_nobody(server: Served) -> None:
    # One that connects and says nothing, one that begins a message, one that reads nothing of a large answer.
    silent = socket.create_connection(("127.0.0.1", server.port))
    half = socket.create_connection(("127.0.0.1", server.port))
    half.sendall(b"\0\0")
    slow = server.connect()
    slow.pgconn.send_query(b"select repeat('x', 10000) from range(20000)")
    slow.pgconn.flush()
    idle = server.connect()
    try:
        assert server.ask("select 1") == [(1,)]
        assert idle.execute("select 2").fetchone() == (2,)
    finally:
        for c in (silent, half, slow, idle):
            c.close()


def test_a_message_that_is_too_long_ends_its_connection_alone(server: Served) -> None:
    with server.connect() as c:
        assert c.pgconn.backend_pid != server.process.pid
        with socket.socket(fileno=socket.dup(c.pgconn.socket)) as raw:
            raw.sendall(b"Q\x7f\xff\xff\xff")
        with pytest.raises(psycopg.OperationalError, match="at most"):
            c.execute("select 1")
    assert server.ask("select 1") == [(1,)]


def test_connections_end_with_a_server_that_is_killed(tmp_path: Path) -> None:
    with served(tmp_path) as s:
        c = s.connect()
        s.process.kill()
        s.process.wait()
        with socket.socket(fileno=socket.dup(c.pgconn.socket)) as raw:
            raw.settimeout(120)
            # The process of the connection ends with the server: the client sees the end, and the port is free.
            assert raw.recv(1) == b""
        with socket.socket() as again:
            again.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            again.bind(("127.0.0.1", s.port))
