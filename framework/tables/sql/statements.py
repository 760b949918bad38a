"""Run any query over a job's tables and views with DuckDB in this process, without Spark and without access to anything else.

DuckDB gets the tables as Arrow datasets, so it reads only the columns a statement needs, and only files and rows that its filters select.
Statements are not trusted: they cannot access files, network, extensions, Python variables or settings, and only queries are accepted.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable
from typing import Final

import pyarrow as pa

from skyband.framework.base.errors import SkybandError, did_you_mean
from skyband.framework.base.extras import extra
from skyband.framework.base.system_failures import one_line
from skyband.framework.plan.model import Plan
from skyband.framework.sources.duckdb_sql import LOCKED
from skyband.framework.storage import delta_read
from skyband.framework.storage.sinks import require_readable
from skyband.framework.tables.delta.expected_columns import need_columns
from skyband.framework.tables.schemas import tables
from skyband.framework.tables.sql import source_read
from skyband.framework.tables.sql.dialects import plain
from skyband.framework.tables.sql.source_rows import SOURCE, joined, source_schema, why_not
from skyband.framework.tables.sql.view import View, quoted
from skyband.framework.tables.sql.views import views

with extra("sql", "SQL over a job's tables"):
    import duckdb

_CATALOG: Final = re.compile(r"\b(show|information_schema|sqlite_master|duckdb_\w+|pg_\w+)\b", re.IGNORECASE)
"""Matches statements that list tables without naming them."""


class Statements:
    """Runs statements over the tables in the sink of ``plan`` and their views. Each is opened when a statement first names it.

    Raises SkybandError as ``require_readable``.
    """

    def __init__(self, plan: Plan) -> None:
        require_readable(plan.sink)
        self._plan, self._root = plan, plan.sink.removeprefix("file://")
        self._schemas = {t.name: t.schema for t in tables(plan)}
        self._tables = {name.lower(): name for name in self._schemas}
        self._unjoined = why_not(plan) or source_read.why_not(plan.source)
        self._views = {v.name.lower(): v for v in views(plan) if not (v.source_keys and self._unjoined)}
        self._open: set[str] = set()
        self._duck = duckdb.connect(config=LOCKED)
        self._duck.execute("set timezone = 'UTC'")
        self._duck.execute("set lock_configuration = true")

    def ask(self, statement: str, limit: int | None = None) -> pa.Table:
        """Return the rows of one query, at most ``limit``. Takes the time of DuckDB, and memory for the answer.

        SkybandError SKY-E404 if DuckDB rejects the statement, SKY-E201 for anything but one query, SKY-E400 for a table that does not exist
        yet.
        """
        try:
            found = self._duck.extract_statements(statement)
        except duckdb.Error as e:
            raise self._rejected(e) from e
        if len(found) != 1 or found[0].type not in (duckdb.StatementType.SELECT, duckdb.StatementType.EXPLAIN):
            said = "one query at a time" if len(found) > 1 else "only queries (select ..., describe ..., explain ...) are accepted"
            raise SkybandError(
                "SKY-E201", said, hint="only runs write the tables; other tools can read them, too (docs/how-to/query-results.md)"
            )
        try:
            self._open_named(statement)
            relation = self._duck.sql(statement)
            rows: pa.Table = relation.to_arrow_table() if limit is None else _first(relation.to_arrow_reader(), limit)
        except duckdb.Error as e:
            raise self._rejected(e) from e
        return rows.rename_columns(_different(rows.column_names))

    def _open_named(self, statement: str) -> None:
        """Open the tables and views that occur as words in the statement, since names consist of letters, digits and underscores."""
        words = {w.lower() for w in re.findall(r"\w+", statement)}
        needed = [v for name, v in self._views.items() if name in words]
        self._open_tables([*(n for n in self._tables if n in words), *(t.lower() for v in needed for t in v.reads)])
        if _CATALOG.search(statement):
            self._open_tables(n for n, table in self._tables.items() if delta_read.exists(self._root, table))
            # Joined views are not listed: to open one reads the whole source.
            needed += [v for v in self._views.values() if set(v.reads) <= self._open and not v.source_keys]
        for view in needed:
            # Skip a view that is not named and whose tables are of an earlier spec.
            with contextlib.suppress(*([] if view.name.lower() in words else [duckdb.BinderException])):
                self._make(view)

    def _open_tables(self, names: Iterable[str]) -> None:
        for name in (self._tables[n] for n in names):
            if name not in self._open:
                opened = delta_read.open_table(self._root, name)
                need_columns(opened, name, self._schemas[name])
                self._duck.register(name, delta_read.dataset(opened))
                self._open.add(name)

    def _make(self, view: View) -> None:
        if view.name not in self._open:
            sql = view.sql
            if view.source_keys:
                # Table names are single words, so no statement names this one by chance, and it has only rows that the view has.
                own = f"source of {view.name}"
                self._duck.register(own, source_read.rows(self._plan, self._duck.sql(view.source_keys).to_arrow_table()))
                sql = joined(sql, quoted(own))
            self._duck.execute(f'create temporary view "{view.name}" as {plain(sql, "duckdb")}')
            self._open.add(view.name)

    def _rejected(self, e: duckdb.Error) -> SkybandError:
        message = one_line(e)
        missing = re.search(r"Table with name (\S+) does not exist", message)
        named = {*self._tables.values(), *(v.name for v in self._views.values())}
        hint = (did_you_mean(missing[1], named) or "skyband views SPEC --dictionary lists the tables and views") if missing else None
        if missing and self._unjoined and missing[1].lower() in {f"{q.name}_rows".lower() for q in self._plan.every_query if q.item.rows}:
            hint = self._unjoined
        hint = hint or "skyband views SPEC --dictionary says what columns the tables and views have; the language is DuckDB's SQL"
        return SkybandError("SKY-E404", f"the statement cannot be answered: {message}", hint=hint)


def _different(names: Iterable[str]) -> list[str]:
    """Return ``names`` made unique by a number, since JSON has no two values of one name."""
    made: list[str] = []
    for name in names:
        free, n = name, 2
        while free in made:
            free, n = f"{name}_{n}", n + 1
        made.append(free)
    return made


def _first(reader: pa.RecordBatchReader, limit: int) -> pa.Table:
    taken, left = [], limit
    for batch in reader:
        taken.append(batch.slice(0, left))
        left -= taken[-1].num_rows
        if left <= 0:
            break
    return pa.Table.from_batches(taken, reader.schema)


def described(plan: Plan) -> dict[str, pa.Schema]:
    """Return the columns of every view, without reading a table."""
    duck = duckdb.connect(config=LOCKED)
    duck.execute("set timezone = 'UTC'")
    for table in tables(plan):
        duck.register(table.name, table.schema.empty_table())
    duck.register(SOURCE, source_schema(plan).empty_table())
    return {v.name: duck.sql(plain(v.sql, "duckdb")).to_arrow_table().schema for v in views(plan)}
