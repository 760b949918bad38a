"""Clients in other languages: node-pg, postgres.js, Sequelize and TypeORM on Node.js, pgx in Go, psqlODBC by unixODBC.

Where a language, a driver or its packages cannot be had, the test says so and is skipped.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.framework.serve.support import TOKEN, Served

pytestmark = pytest.mark.slow

PACKAGES = ("pg@8.23.1", "pg-cursor@2.22.1", "postgres@3.4.9", "sequelize@6.37.8", "typeorm@1.1.1", "reflect-metadata@0.2.2")
CLIENTS = Path(__file__).parent / "clients.js"
GO_CLIENTS = Path(__file__).parent / "go_clients"


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which("node") is None or shutil.which("npm") is None:
        pytest.skip("there is no Node.js with npm")
    directory = tmp_path_factory.mktemp("node")
    (directory / "package.json").write_text("{}")
    command = ["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", *PACKAGES]
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=500, check=False)
    if done.returncode:
        pytest.skip(f"the packages of Node.js cannot be fetched: {done.stderr[-200:]}")
    shutil.copy(CLIENTS, directory)
    return directory


def test_clients_on_node(packages: Path, server: Served) -> None:
    url = f"postgresql://skyband:{TOKEN}@127.0.0.1:{server.port}/skyband"
    done = subprocess.run(["node", CLIENTS.name, url], cwd=packages, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.split() == ["nodePg", "ok", "postgresJs", "ok", "sequelize", "ok", "typeorm", "ok"]


@pytest.fixture(scope="module")
def go_clients(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which("go") is None:
        pytest.skip("there is no Go")
    directory = tmp_path_factory.mktemp("go")
    for path in GO_CLIENTS.iterdir():
        shutil.copy(path, directory)
    fetched = subprocess.run(["go", "mod", "download"], cwd=directory, capture_output=True, text=True, timeout=500, check=False)
    if fetched.returncode:
        pytest.skip(f"the modules of Go cannot be fetched: {fetched.stderr[-200:]}")
    subprocess.run(["go", "build", "-o", "clients", "."], cwd=directory, timeout=500, check=True)
    return directory / "clients"


def test_clients_in_go(go_clients: Path, server: Served) -> None:
    url = f"postgresql://skyband:{TOKEN}@127.0.0.1:{server.port}/skyband?sslmode=disable"
    done = subprocess.run([str(go_clients), url], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.split() == ["pgx", "ok", "simple", "ok", "pool", "ok", "sql", "ok"]


class Odbc:
    """A connection by unixODBC and psqlODBC."""

    def __init__(self, server: Served, **options: str) -> None:
        self._lib = ctypes.CDLL(ctypes.util.find_library("odbc"))
        self._environment, self._connection = ctypes.c_void_p(), ctypes.c_void_p()
        self._lib.SQLAllocHandle(1, None, ctypes.byref(self._environment))
        self._lib.SQLSetEnvAttr(self._environment, 200, ctypes.c_void_p(3), 0)
        self._lib.SQLAllocHandle(2, self._environment, ctypes.byref(self._connection))
        wanted = {
            "Driver": "{PostgreSQL Unicode}", "Server": "127.0.0.1", "Port": str(server.port), "Database": "skyband", "Uid": "skyband",
            "Pwd": TOKEN, "SSLmode": "disable", **options,
        }  # fmt: skip
        text = ";".join(f"{k}={v}" for k, v in wanted.items()).encode()
        self._check(self._lib.SQLDriverConnect(self._connection, None, text, len(text), None, 0, None, 0), 2, self._connection)

    def _check(self, code: int, kind: int, handle: Any) -> None:
        if code in (0, 1):
            return
        state, said = ctypes.create_string_buffer(6), ctypes.create_string_buffer(1000)
        self._lib.SQLGetDiagRec(kind, handle, 1, state, None, said, 1000, None)
        raise RuntimeError(f"{state.value.decode()} {said.value.decode()}")

    def rows(self, function: str, *arguments: Any) -> list[tuple[str | None, ...]]:
        """Return the rows of a call of ODBC's, as text."""
        statement = ctypes.c_void_p()
        self._lib.SQLAllocHandle(3, self._connection, ctypes.byref(statement))
        try:
            self._check(getattr(self._lib, function)(statement, *arguments), 3, statement)
            return list(self._fetched(statement))
        finally:
            self._lib.SQLFreeHandle(3, statement)

    def _fetched(self, statement: Any) -> Iterator[tuple[str | None, ...]]:
        count = ctypes.c_short()
        self._lib.SQLNumResultCols(statement, ctypes.byref(count))
        while (code := self._lib.SQLFetch(statement)) != 100:
            self._check(code, 3, statement)
            row = list[str | None]()
            for i in range(1, count.value + 1):
                value, size = ctypes.create_string_buffer(500), ctypes.c_long()
                self._check(self._lib.SQLGetData(statement, i, 1, value, 500, ctypes.byref(size)), 3, statement)
                row.append(None if size.value == -1 else value.value.decode())
            yield tuple(row)

    def ask(self, sql: str) -> list[tuple[str | None, ...]]:
        """Return the rows of a statement."""
        return self.rows("SQLExecDirect", sql.encode(), len(sql.encode()))


@pytest.fixture(scope="module")
def odbc(server: Served) -> Odbc:
    if ctypes.util.find_library("odbc") is None or not Path("/etc/odbcinst.ini").exists():
        pytest.skip("there is no unixODBC")
    if "[PostgreSQL Unicode]" not in Path("/etc/odbcinst.ini").read_text(encoding="utf-8"):
        pytest.skip("psqlODBC is not installed")
    return Odbc(server)


def test_odbc_asks_also_by_cursors(odbc: Odbc, server: Served) -> None:
    wanted = [(g, str(r)) for g, r in server.ask("select grp, rank from two_now order by all")]
    assert odbc.ask("select grp, rank from two_now order by all") == wanted
    fetching = Odbc(server, UseDeclareFetch="1", Fetch="100")
    assert fetching.ask("select x from range(250) t(x)") == [(str(i),) for i in range(250)]
    with pytest.raises(RuntimeError, match="answers queries only"):
        fetching.ask("drop table two")


def test_catalog_functions_of_odbc(odbc: Odbc) -> None:
    name = (b"two_now", 7)
    assert {r[2] for r in odbc.rows("SQLTables", None, 0, b"cuts", 4, None, 0, None, 0)} >= {"two_now", "two_summary"}
    assert [r[3] for r in odbc.rows("SQLColumns", None, 0, b"cuts", 4, *name, None, 0)][:2] == ["grp", "rank"]
    assert odbc.rows("SQLPrimaryKeys", None, 0, b"cuts", 4, *name) == []
    assert odbc.rows("SQLForeignKeys", None, 0, b"cuts", 4, *name, None, 0, None, 0, None, 0) == []
    assert odbc.rows("SQLForeignKeys", None, 0, None, 0, None, 0, None, 0, b"cuts", 4, *name) == []
    # One row tells the number of rows of the table; there is none about an index.
    assert [r[5] for r in odbc.rows("SQLStatistics", None, 0, b"cuts", 4, *name, 1, 0)] in ([], [None])
    odbc.rows("SQLSpecialColumns", 1, None, 0, b"cuts", 4, *name, 0, 1)
    odbc.rows("SQLTablePrivileges", None, 0, b"cuts", 4, *name)
    assert odbc.rows("SQLProcedures", None, 0, None, 0, b"x", 1) == []
    assert odbc.rows("SQLGetTypeInfo", 0)
