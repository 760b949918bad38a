"""Statements at random against ``skyband serve``: ``python -m tests.framework.serve.fuzz [CASES] [SEED]`` (``make fuzz``).

Statements come from a grammar: every kind of statement of DuckDB's, Spark's and PostgreSQL's, every function and table function that
DuckDB has, files by name, settings, several statements at once, comments, odd bytes. Whatever is sent: no file is made, changed or read,
no process is started, every refusal is an error with an SQLSTATE, and the server answers the next query.
"""

from __future__ import annotations

import os
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import duckdb
import psycopg
from psycopg.pq import ExecStatus

from skyband.framework.serve.macros import ALLOWED, CALLS
from tests.framework.serve.support import CANARY, TOKEN, Served, served
from tests.framework.serve.test_attacks import REACHES, WRITES

_OK = {ExecStatus.TUPLES_OK, ExecStatus.COMMAND_OK, ExecStatus.EMPTY_QUERY}
_SPARK = (
    "select transform(grp) using 'touch {directory}/made' as (a) from two", "add jar '{directory}/made.jar'", "cache table two",
    "refresh table two", "insert overwrite directory '{directory}/made' select 1", "select * from text.`{directory}/canary.csv`",
    "msck repair table two", "load data inpath '{directory}/canary.csv' into table two", "create function f as 'java.lang.Math'",
    "optimize two", "describe history two", "restore two to version as of 0", "select * from two version as of 0",
    "execute immediate 'drop table two'", "use cuts", "explain extended {q}",
    "select java_method('java.lang.Runtime', 'exec', 'touch {directory}/made')",
    "from two select transform(*) using 'cat {directory}/canary.csv'", "list jars", "set -v", "reset", "show create table two",
    "truncate table two", "convert to delta parquet.`{directory}`",
)  # fmt: skip
_OTHERS = (
    "copy two to program 'touch {directory}/made'", "copy two from program 'cat {directory}/canary.csv'", "do 'begin end'",
    "begin; {q}; commit", "create extension dblink", "select pg_read_file('{directory}/canary.csv')",
    "select lo_import('{directory}/canary.csv')", "{q}; {q}", "{q};;;", "select * from pg_ls_dir('{directory}')", "set {word} = {atom}",
    "set session {word} to '{directory}'", "reset {word}", "show {word}", "pragma {word}", "pragma {word} = '{directory}'",
    "call {word}({atom})", "explain {q}", "explain analyze {q}", "describe {q}", "summarize {q}", "prepare p as {q}",
    "attach '{directory}/canary.db' as x (type sqlite)", "from {relation}", "table {relation}", "values ({atom}, {atom})", "({q})",
    "discard {word}", "copy ({q}) to '{directory}/made.parquet' (format parquet)", "create or replace view two_now as {q}",
    "savepoint {word}", "deallocate {word}", "with recursive x as ({q} union all {q}) select * from x",
    "with x as materialized ({q}) delete from two using x returning *", "declare c cursor for {q}", "fetch all from c", "listen {word}",
    "set role {word}", "analyze {relation}", "vacuum {relation}", "install '{directory}/made.duckdb_extension'",
    "load '{directory}/canary.csv'", "comment on table two is {atom}", "import database '{directory}'",
    "begin; declare c cursor for {q}; fetch 3 from c; move 2 c; fetch all c; close c",
    "begin; declare c binary cursor for {q}; fetch all c",
    "declare {word} cursor with hold for {q}", "fetch {word} from {word}", "fetch absolute {atom} from c", "move all in c", "close all",
    "declare c cursor for copy ({q}) to '{directory}/made'", "begin; declare c cursor for {q}; copy c to '{directory}/made'",
    "copy ({q}) to stdout", "copy ({q}) to stdout (format {format})", "copy ({q}) to stdout with {format} header",
    "copy {relation} to stdout",
    "copy two_now (grp, {word}) to stdout (format csv, {word} {atom})", "copy ({q}) to stdout; {q}",
    "copy binary two_now to stdout",
    "copy ({q}) to '{directory}/made' (format {format})", "copy two from stdin (format {format})", "copy (copy two to stdout) to stdout",
    "copy two_now to stdout (format csv, delimiter {atom}, null {atom}, force_quote *)", "copy ({q}) to stdout (file_size_bytes 1)",
    "copy '{directory}/canary.csv' to stdout", "explain copy ({q}) to stdout", "begin; declare c cursor for {q}; explain fetch all c",
    "set timezone = {atom}", "set time zone '{directory}'", "select set_config('{word}', '{directory}', false)",
)  # fmt: skip
_KEPT = "SKYBAND_CANARY"
"""A variable of the server's environment with the canary."""


class Grammar:
    """Makes statements. ``functions``, ``tables``: the names of all functions that DuckDB has, and of its table functions."""

    def __init__(self, rng: random.Random, directory: Path) -> None:
        self._rng, self._directory = rng, str(directory)
        found = duckdb.connect().execute("select distinct function_name, function_type from duckdb_functions()").fetchall()
        self.functions = sorted({n for n, kind in found if "table" not in kind and n[0].isalpha()} | CALLS | {"getenv", "read_text"})
        self.tables = sorted({n for n, kind in found if "table" in kind or kind == "pragma"} | {"delta_scan", "iceberg_scan", "dblink"})
        self._offered = sorted(n for n in ALLOWED | CALLS if n[0].isalpha())
        self.words = [
            *self.functions[:: len(self.functions) // 40],
            "memory_limit",
            "enable_external_access",
            "search_path",
            "x",
            "all",
            "temp",
        ]

    def _pick(self, options: Sequence[Any]) -> Any:
        return self._rng.choice(options)

    def atom(self, depth: int = 2) -> str:
        """Return an expression."""
        kind = self._rng.randrange(12 if depth else 6)
        if kind < 6:
            files = [f"{self._directory}/{n}" for n in ("canary.csv", "*", "made", "out/two")]
            plain = [
                "1",
                "-0.5",
                "null",
                "'x'",
                "grp",
                "rank",
                "as_of",
                "true",
                "1e400",
                "[1, 2]",
                "{'a': 1}",
                "current_user",
                "'" + _KEPT + "'",
            ]
            return str(self._pick([*plain, *(f"'{f}'" for f in files)]))
        if kind < 9:
            # Mostly functions that are offered, so that many statements come to run.
            name = self._pick(self._offered if self._rng.random() < 0.8 else self.functions)
            return f"{name}({', '.join(self.atom(depth - 1) for _ in range(self._rng.randrange(4)))})"
        if kind == 9:
            return (
                f"({self.atom(depth - 1)} {self._pick(['+', '||', '~', 'like', 'in', '=', '->', 'and', '::', '.'])} {self.atom(depth - 1)})"
            )
        if kind == 10:
            return f"(select {self.atom(depth - 1)} from {self.relation(depth - 1)})"
        kinds = ["int", "varchar", "regclass", "json", "blob", "two", "struct(a int)", "enum(1)"]
        return f"cast({self.atom(depth - 1)} as {self._pick(kinds)})"

    def relation(self, depth: int = 2) -> str:
        """Return what may stand after ``from``."""
        kind = self._rng.randrange(8)
        if kind < 2:
            return str(
                self._pick(["two", "two_now", "two_summary", "cuts.two", "skyband.cuts.runs", "pg_class", "information_schema.columns"])
            )
        if kind < 4 or not depth:
            arguments = ", ".join(self.atom(0) for _ in range(self._rng.randrange(3)))
            return f"{self._pick(self.tables)}({arguments})"
        if kind == 5:
            return str(
                self._pick(
                    [f"'{self._directory}/canary.csv'", f'"{self._directory}/canary.parquet"', "sqlite_master", "temp.main.x", "main.two"]
                )
            )
        if kind < 7:
            return f"({self.query(depth - 1)}) t"
        return f"{self.relation(depth - 1)}, {self.relation(depth - 1)}"

    def query(self, depth: int = 2) -> str:
        """Return a select."""
        rest = self._pick(
            [
                "",
                f" where {self.atom(1)}",
                f" group by {self.atom(0)}",
                " order by all",
                " limit 3",
                f" limit {self.atom(1)}",
                " qualify true",
            ]
        )
        return f"select {self.atom(depth)} from {self.relation(depth)}{rest}"

    def statement(self) -> bytes:
        """Return a statement, as it goes over the wire."""
        kind = self._rng.randrange(12)
        if kind > 9:
            named = ["grp", "rank", "side", "as_of", "1", "'x'", "loyalty_seconds"]
            columns = ", ".join(self._rng.choices(named, k=self._rng.randrange(1, 3)))
            return f"select {self._pick(self._offered)}({columns}) from two_now".encode()
        text = self.query(self._pick([0, 1, 2])) if kind < 5 else str(self._pick([*WRITES, *REACHES, *_SPARK, *_OTHERS]))
        if kind >= 5:
            for mark, make in (
                ("format", lambda: self._pick(["csv", "text", "binary", "parquet", "json"])),
                ("q", self.query),
                ("atom", self.atom),
                ("relation", self.relation),
                ("word", lambda: self._pick(self.words)),
            ):
                while f"{{{mark}}}" in text:
                    text = text.replace(f"{{{mark}}}", str(make()), 1)
            text = text.replace("{directory}", self._directory)
        return self._disguised(text)

    def _disguised(self, text: str) -> bytes:
        kind = self._rng.randrange(18)
        if kind == 0:
            text = text.replace(" ", "/* -- ' */", 1 + self._rng.randrange(4))
        elif kind == 1:
            text = "".join(c.upper() if self._rng.random() < 0.5 else c for c in text)
        elif kind == 2:
            text = f"select 1; {text}; select 2"
        elif kind == 3:
            text = text.replace(" ", str(self._pick(["\u00a0", "\t\n", "\u2003", "\ufeff "])), 2)
        elif kind == 4:
            text = f"-- comment\n{text} -- end"
        elif kind == 5:
            at = self._rng.randrange(len(text) + 1)
            text = text[:at] + str(self._pick(["'", '"', "$$", ";", "\\", "/*", ")", "\x01", "\U0001f600"])) + text[at:]
        elif kind == 6:
            return text.encode()[: self._rng.randrange(1, len(text) + 1)] + bytes([self._rng.randrange(128, 256)])
        elif kind == 7:
            text = text * self._rng.randrange(1, 4)
        return text.encode()


def listing(directory: Path) -> dict[str, tuple[int, int]]:
    """Return each file below ``directory`` with its size and when it was changed."""
    return {str(p): (p.stat().st_size, p.stat().st_mtime_ns) for p in directory.rglob("*")}


def started(server: Served) -> set[int]:
    """Return the processes below those of the server's connections: there is never one."""
    below: dict[int, set[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except (OSError, IndexError):
                continue
            below.setdefault(parent, set()).add(int(entry.name))
    return {grandchild for child in below.get(server.process.pid, ()) for grandchild in below.get(child, ())}


def fuzz(server: Served, cases: int, seed: int) -> Counter[str]:
    """Send ``cases`` statements; return how often each outcome came. Raises AssertionError with the statement that broke a promise."""
    grammar, found = Grammar(random.Random(seed), server.directory), Counter[str]()
    before, connection = listing(server.directory), server.connect()
    for n in range(cases):
        sent = grammar.statement()
        if b"\0" in sent:
            continue
        try:
            if connection.closed:
                connection = server.connect()
            raw = connection.pgconn
            result = raw.exec_params(sent, None) if n % 2 else raw.exec_(sent)
            values = list[bytes]()
            while result.status == ExecStatus.COPY_OUT:
                while (part := raw.get_copy_data(0))[0] > 0:
                    values.append(bytes(part[1]))
                while (more := raw.get_result()) is not None:
                    result = more
                    if more.status == ExecStatus.COPY_OUT:
                        break
            values += [result.get_value(r, c) or b"" for r in range(min(result.ntuples, 50)) for c in range(result.nfields)]
            said = b" ".join([*values, result.error_message])
            outcome = "answered" if result.status in _OK else (result.error_field(psycopg.pq.DiagnosticField.SQLSTATE) or b"").decode()
            raw.exec_(b"rollback")
        except psycopg.OperationalError as e:
            said, outcome = str(e).encode(), e.sqlstate or "57014"
            connection.close()
        context = (seed, n, sent, outcome, said[:300])
        # A path that the statement itself holds is no secret; what the file and the environment hold is.
        assert CANARY.encode() not in said and TOKEN.encode() not in said, context
        assert outcome == "answered" or len(outcome) == 5, context
        assert server.process.poll() is None, context
        found[outcome] += 1
        if n % 25 == 24 or n == cases - 1:
            assert listing(server.directory) == before and not started(server), context
            assert server.ask("select 1") == [(1,)], context
    return found


def planted(directory: Path) -> None:
    """Put files beside the tables that nobody may read."""
    (directory / "canary.csv").write_text(f"a,b\n1,{CANARY}\n")
    (directory / "canary.json").write_text(f'{{"a": "{CANARY}"}}\n')
    duckdb.connect().execute(f"copy (select '{CANARY}' as a) to '{directory / 'canary.parquet'}' (format parquet)")


def main() -> None:
    """Run the cases of the command line."""
    given = [int(a) for a in sys.argv[1:3]]
    cases, seed = (*given, *(3000, random.randrange(10**9))[len(given) :])
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        planted(directory)
        options = ("--seconds", "2", "--memory", "300", "--rows", "10000")
        with served(directory, *options, env={_KEPT: CANARY, "HOME": os.environ.get("HOME", "/")}) as server:
            found = fuzz(server, cases, seed)
    print(f"serve: {sum(found.values())} statements (seed {seed}): {dict(found.most_common())}")
    assert found["answered"], "no statement was answered: the grammar asks for nothing that is offered"


if __name__ == "__main__":
    main()
