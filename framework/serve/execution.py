"""Run a connection's statements: check them, open an instance of DuckDB with what they read, and take their rows, within the limits."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import pyarrow as pa

from skyband.framework.base.extras import extra
from skyband.framework.serve.commands import Client
from skyband.framework.serve.database import Database, answer
from skyband.framework.serve.failures import refused
from skyband.framework.serve.inference import Open
from skyband.framework.serve.names import Names
from skyband.framework.serve.parameters import Node, literal
from skyband.framework.serve.portals import Portals
from skyband.framework.serve.protocol import copying, cursors, wire
from skyband.framework.serve.protocol.copying import Copy
from skyband.framework.serve.protocol.cursors import Declare
from skyband.framework.serve.tree import Parser
from skyband.framework.serve.watch import Watch

with extra("sql", "the server of a job's tables"):
    import duckdb

EXPLAIN: Final = re.compile(r"explain\b(?:\s+(analyze)\b)?(?:\s+verbose\b)?(?:\s*\([\w\s,]*\))?\s*", re.IGNORECASE)


class Execution:
    """What runs statements for ``client``, whose portals are ``portals``."""

    def __init__(self, database: Database, client: Client, portals: Portals, watch: Watch) -> None:
        self._database, self._client, self._portals, self._watch = database, client, portals, watch
        self.parser = Parser()

    def implied(self, sql: str, oids: tuple[int, ...]) -> tuple[int, ...]:
        """Return the types of the parameters of ``sql``: those in ``oids``, and in place of each 0 the one that the statement implies."""
        client, database = self._client, self._database
        values = [literal(None, oid, wire.TEXT) for oid in oids]
        with self._watch.statement(self._seconds()) as interruptible:
            for wrapped, careful in ((True, False), (False, False), (True, True), (False, True)):
                try:
                    marks = list[Open]()
                    names = Names(database.relations(), client.path)
                    checked = self.parser.check(sql, names, values, lambda tree: marks.append(Open(tree, oids, careful, wrapped)))  # noqa: B023
                    duck = database.opened(checked, client.path, client.settings, empty=True, planned=True)
                    try:
                        interruptible(duck.interrupt)
                        return tuple(marks[0].types(duck, checked.sql))
                    finally:
                        interruptible(lambda: None)
                        duck.close()
                except duckdb.Error:
                    continue
                except Exception as e:
                    raise refused(e, database.limits.memory_mb) from e
        # It cannot be bound: what is wrong with it is said when it runs.
        return tuple(oid or 25 for oid in oids)

    def _seconds(self) -> float:
        """Return how long a statement may take."""
        return min(self._database.limits.seconds, self._client.seconds or self._database.limits.seconds)

    def answered(self, sql: str, values: Sequence[Node], empty: bool) -> pa.Table:
        """Return the rows of ``sql``; ``empty``: only their columns. Raises Refused for what is not allowed or goes wrong."""
        limits, client = self._database.limits, self._client
        explained = EXPLAIN.match(sql)
        with self._watch.statement(self._seconds()) as interruptible:
            try:
                relations = self._database.relations()
                names = Names(relations, client.path)
                checked = self.parser.check(sql[explained.end() :] if explained else sql, names, values)
                duck = self._database.opened(checked, client.path, client.settings, empty, self._portals.cursors())
                try:
                    interruptible(duck.interrupt)
                    head = f"explain {explained[1] or ''} " if explained else ""
                    rows = answer(duck, head + checked.sql, limits)
                    self._portals.bound(rows, limits.memory_mb)
                    return _plan(rows) if explained else rows
                finally:
                    interruptible(lambda: None)
                    duck.close()
            except Exception as e:
                raise refused(e, limits.memory_mb) from e


def query_of(sql: str) -> str:
    """Return the query in a statement that explains, declares or copies one, else the statement itself."""
    if explained := EXPLAIN.match(sql):
        return sql[explained.end() :]
    about = cursors.parsed(sql) or copying.parsed(sql)
    return about.query if isinstance(about, (Declare, Copy)) else sql


def _plan(rows: pa.Table) -> pa.Table:
    """Return a plan as PostgreSQL's clients expect it: one column, a row for each line."""
    lines = [line for text in rows.column(rows.num_columns - 1).to_pylist() for line in str(text).splitlines()]
    return pa.table({"QUERY PLAN": pa.array(lines, pa.string())})
