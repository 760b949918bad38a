"""The served jobs. Each statement runs in its own DuckDB instance, which contains only the relations that it reads.

An instance lives as long as its statement. So a statement sees the tables as of its start, leaves nothing behind, has its own bound on
memory, and one that breaks its instance breaks nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from sqlglot import exp, parse_one

from skyband.framework.base.counts import counted
from skyband.framework.base.errors import SkybandError, printable, redacted
from skyband.framework.base.extras import extra
from skyband.framework.base.system_failures import one_line
from skyband.framework.plan.model import Plan
from skyband.framework.serve import inference
from skyband.framework.serve.catalog import FIRST_OID, PG, SYSTEM, About, Cursor, Relation
from skyband.framework.serve.catalog import table as catalog_table
from skyband.framework.serve.macros import definitions, needed
from skyband.framework.serve.protocol.wire import Refused
from skyband.framework.serve.tree import Checked
from skyband.framework.sources.duckdb_sql import LOCKED
from skyband.framework.storage import delta_read
from skyband.framework.storage.location import location
from skyband.framework.storage.sinks import half_swapped, reject_links_below, require_readable
from skyband.framework.tables.schemas import TableSpec, tables
from skyband.framework.tables.sql import source_read
from skyband.framework.tables.sql.dialects import plain
from skyband.framework.tables.sql.source_rows import joined, source_schema, why_not
from skyband.framework.tables.sql.statements import described
from skyband.framework.tables.sql.view import View, quoted
from skyband.framework.tables.sql.views import views

# Translate errors of DuckDB and Arrow to PostgreSQL's: an SQLSTATE, and a sentence of ours before the library's text.

with extra("sql", "the server of a job's tables"):
    import duckdb

_STATES: Final[tuple[tuple[str, str, str], ...]] = (
    ("InterruptException", "57014", "the statement was interrupted"),
    ("OutOfMemoryException", "53200", "the statement needs more memory than it may have"),
    ("ParserException", "42601", "the statement is not understood"),
    ("SyntaxException", "42601", "the statement is not understood"),
    ("BinderException", "42703", "the statement does not fit the tables"),
    ("CatalogException", "42704", "the statement names something that does not exist"),
    ("ConversionException", "22P02", "a value cannot be converted"),
    ("OutOfRangeException", "22003", "a value is out of range"),
    ("TypeMismatchException", "42804", "the types do not fit"),
    ("InvalidTypeException", "42704", "there is no such type"),
    ("InvalidInputException", "22023", "a value cannot be used there"),
    ("PermissionException", "42501", "the statement asks for what it may not have"),
    ("NotImplementedException", "0A000", "the statement asks for what DuckDB does not have"),
    ("IOException", "58030", "the files of a table cannot be read; ask again: a rebuild may have replaced them"),
)


def refused(e: BaseException, memory_mb: int) -> Refused:
    """Return the error that a client sees for ``e``."""
    if isinstance(e, Refused):
        return e
    if isinstance(e, SkybandError):
        return Refused(
            "58030" if e.code == "SKY-E301" else "42P01", f"{e.code} {printable(redacted(e.message))}", redacted(e.hint) if e.hint else None
        )
    text = printable(one_line(e))[:500]
    kind = type(e).__name__
    if (
        isinstance(e, (MemoryError, pa.ArrowMemoryError))
        or "bad_alloc" in text
        or "Out of Memory Error" in text
        or kind == "OutOfMemoryException"
    ):
        return Refused(
            "53200", f"the statement needs more than the {memory_mb} MB that it may have", "ask for less, or start with --memory MB"
        )
    for name, state, said in _STATES:
        if kind == name:
            return Refused(state, f"{said}: {text}")
    if isinstance(e, duckdb.Error):
        return Refused("XX000", f"DuckDB could not answer: {text}")
    return Refused("XX000", f"the answer could not be made: {text}")


with extra("sql", "the server of a job's tables"):
    import duckdb

_HOME: Final = "skyband tables"
"""DuckDB's database with the schemas of the jobs: no job's schema is called so, which would make names ambiguous."""
_BATCH: Final = 8192
"""Rows that are taken from DuckDB at once."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What one statement may use, and how many clients may be connected at once."""

    seconds: float = 60.0
    memory_mb: int = 1024
    rows: int = 1_000_000
    connections: int = 20


@dataclass(frozen=True)
class Job:
    """A job that is served: its schema, and all tables and views that it can have."""

    plan: Plan
    schema: str
    tables: Mapping[str, TableSpec]
    views: Mapping[str, View]

    @property
    def root(self) -> str:
        """The directory of the tables."""
        return self.plan.sink.removeprefix("file://")

    @cached_property
    def columns(self) -> Mapping[str, pa.Schema]:
        """View -> its columns, with comments."""
        found = described(self.plan)
        said = {f.name: f for t in self.tables.values() for f in t.schema}
        return {v.name: pa.schema([_commented(f, v, said) for f in found[v.name]]) for v in self.views.values()}

    @property
    def has_run(self) -> bool:
        """Return whether the job has tables."""
        return (Path(self.root) / "runs" / "_delta_log").is_dir()

    def present(self) -> set[str]:
        """Return the names of the tables that are there now, and of the views over them. A job that has not run yet has none."""
        if not self.has_run:
            return set()
        there = {name for name in self.tables if (Path(self.root) / name / "_delta_log").is_dir()}
        return there | {v.name for v in self.views.values() if set(v.reads) <= there}


def _commented(column: pa.Field, view: View, said: Mapping[str, pa.Field]) -> pa.Field:
    comment = view.columns.get(column.name)
    if comment is not None:
        return column.with_metadata({"comment": comment})
    return column.with_metadata(said[column.name].metadata) if column.name in said else column


def job(plan: Plan) -> Job:
    """Return what of ``plan`` is served, tables that are not there yet included. SkybandError SKY-E201 if its name cannot be a schema."""
    schema = plan.job.replace("-", "_")
    if schema.lower() in ("pg_catalog", "information_schema", "main", "temp", "system"):
        raise SkybandError("SKY-E201", f"the job {plan.job!r} cannot be served: its schema would have a name of the database's own")
    unjoined = why_not(plan) or source_read.why_not(plan.source)
    return Job(plan, schema, {t.name: t for t in tables(plan)}, {v.name: v for v in views(plan) if not (v.source_keys and unjoined)})


class Database:
    """The jobs that are served, in the order in which names without a schema are looked for."""

    def __init__(self, jobs: Sequence[Job], limits: Limits) -> None:
        self.jobs, self.limits = {j.schema: j for j in jobs}, limits
        self._relations = list(_relations(jobs))

    @property
    def schemas(self) -> list[str]:
        """The schemas of the jobs."""
        return list(self.jobs)

    def relations(self) -> list[Relation]:
        """Return the relations that are there now."""
        there = {schema: job.present() for schema, job in self.jobs.items()}
        return [r for r in self._relations if r.name in there[r.schema]]

    def opened(
        self,
        checked: Checked,
        path: Sequence[str],
        settings: Mapping[str, str],
        empty: bool = False,
        cursors: Sequence[Cursor] = (),
        planned: bool = False,
    ) -> duckdb.DuckDBPyConnection:
        """Return an instance with what ``checked`` reads, locked; ``empty``: with no rows, to find out the columns of an answer.

        ``settings``, ``cursors``: those of the connection, for the catalogs. The time zone of the settings is that of the instance.
        ``planned``: for plans that show the types of parameters, in place of answers.
        """
        memory = f"{self.limits.memory_mb}MB"
        duck = duckdb.connect(config={**LOCKED, "memory_limit": memory, "threads": 2})
        try:
            duck.execute("set timezone = ?", [settings.get("timezone", "UTC")])
            duck.execute(f"attach ':memory:' as {quoted(_HOME)}")
            duck.execute(f"use {quoted(_HOME)}")
            duck.execute("detach memory")
            self._jobs_relations(duck, [r for r in sorted(checked.reads) if r[0] not in SYSTEM], empty)
            system = {r for r in checked.reads if r[0] in SYSTEM}
            if system or checked.calls:
                self._catalogs(duck, system, path, About(self.schemas, self.relations(), settings, cursors))
            known = [s for s in path if any(r[0] == s for r in checked.reads)]
            if known:
                duck.execute(f"set search_path = '{','.join(f'{quoted(_HOME)}.{quoted(s)}' for s in known)}'")
            if planned:
                inference.prepare(duck)
            duck.execute("set lock_configuration = true")
        except BaseException:
            duck.close()
            raise
        return duck

    def _catalogs(self, duck: duckdb.DuckDBPyConnection, reads: set[tuple[str, str]], path: Sequence[str], about: About) -> None:
        for schema in sorted({PG, *(s for s, _ in reads)}):
            duck.execute(f"create schema {quoted(schema)}")
        for schema, name in sorted(reads | {(PG, name) for name in needed()}):
            rows = catalog_table(schema, name, about)
            # A table, not a view: it is small, and every kind of subquery over it works.
            duck.register("catalog rows", rows)
            duck.execute(f'create table {quoted(schema)}.{quoted(name)} as select * from "catalog rows"')
            duck.unregister("catalog rows")
        for statement in definitions(list(path)):
            duck.execute(statement)

    def _jobs_relations(self, duck: duckdb.DuckDBPyConnection, reads: Iterable[tuple[str, str]], empty: bool) -> None:
        made: set[tuple[str, str]] = set()
        for schema, name in reads:
            job, todo = self.jobs[schema], [name]
            if half_swapped(location(job.plan.sink)):
                require_readable(job.plan.sink)
            if name in job.views and name not in job.tables:
                todo = [*job.views[name].reads, name]
            if schema not in {s for s, _ in made}:
                duck.execute(f"create schema {quoted(schema)}")
            for relation in todo:
                if (schema, relation) not in made:
                    made.add((schema, relation))
                    (_make_table if relation in job.tables else _make_view)(duck, job, relation, empty)


def _make_table(duck: duckdb.DuckDBPyConnection, job: Job, name: str, empty: bool) -> None:
    # The sink was looked through when the server started; a link may have come since.
    reject_links_below(location(job.plan.sink) / name)
    rows = delta_read.dataset(delta_read.open_table(job.root, name))
    _register(duck, job, name, rows.schema.empty_table() if empty else rows)


def _register(duck: duckdb.DuckDBPyConnection, job: Job, name: str, rows: Any) -> None:
    """Make ``rows`` the relation ``name``: what is registered has no schema, so a view in the job's schema stands before it."""
    own = f"rows of {job.schema}.{name}"
    duck.register(own, rows)
    duck.execute(f"create view {quoted(job.schema)}.{quoted(name)} as select * from temp.main.{quoted(own)}")


def _make_view(duck: duckdb.DuckDBPyConnection, job: Job, name: str, empty: bool) -> None:
    view = job.views[name]
    sql = view.sql
    if view.source_keys:
        own = f"source of {job.schema}.{name}"
        if empty:
            found = source_schema(job.plan).empty_table()
        else:
            found = source_read.rows(job.plan, duck.sql(_within(view.source_keys, job.schema, view.reads)).to_arrow_table())
        duck.register(own, found)
        sql = joined(sql, quoted(own))
    duck.execute(f"create view {quoted(job.schema)}.{quoted(name)} as {_within(plain(sql, 'duckdb'), job.schema, view.reads)}")


def _within(sql: str, schema: str, names: Sequence[str]) -> str:
    """Return ``sql`` with ``names`` taken from the schema ``schema``."""
    tree: Any = parse_one(sql, read="duckdb")
    defined = {cte.alias for cte in tree.find_all(exp.CTE)}
    for table in list(tree.find_all(exp.Table)):
        if table.name in names and table.name not in defined:
            table.set("db", exp.to_identifier(schema, quoted=True))
            if not table.alias:
                table.set("alias", exp.TableAlias(this=exp.to_identifier(table.name, quoted=True)))
    return str(tree.sql(dialect="duckdb", identify=True))


def _relations(jobs: Sequence[Job]) -> Iterable[Relation]:
    oid = FIRST_OID
    for job in jobs:
        for spec in job.tables.values():
            yield Relation(job.schema, spec.name, spec.schema, spec.comment, False, oid)
            oid += 1
        for view in job.views.values():
            yield Relation(job.schema, view.name, job.columns[view.name], view.comment, True, oid, plain(view.sql, "duckdb"))
            oid += 1


_NOT_IN_ARROW: Final = {
    "uhugeint": "UHUGEINT", "bignum": "BIGNUM", "bit": "BIT", "time with time zone": "TIME WITH TIME ZONE", "variant": "VARIANT",
}  # fmt: skip
"""Types whose values DuckDB hands over as other values, or as the bytes that it keeps inside."""


def _kinds(kind: Any) -> Iterable[str]:
    """Yield the names of ``kind`` and of the types inside of it."""
    yield kind.id
    if kind.id in ("list", "array", "struct", "map", "union"):
        for _, child in kind.children:
            if not isinstance(child, int):
                yield from _kinds(child)


def answer(duck: duckdb.DuckDBPyConnection, sql: str, limits: Limits, started: Callable[[], None] = lambda: None) -> pa.Table:
    """Return the rows of ``sql``. Raises Refused if they are too many, take too much memory, or DuckDB cannot make them."""
    taken, rows, size = list[pa.RecordBatch](), 0, 0
    try:
        started()
        relation = duck.sql(sql)
        for name, kind in zip(relation.columns, relation.types, strict=True):
            found = next((k for k in _kinds(kind) if k in _NOT_IN_ARROW), None)
            if found is not None:
                said = f"the column {name!r} has values of the type {_NOT_IN_ARROW[found]}, which are not sent"
                raise Refused("0A000", said, "cast(... as varchar)")
        reader = relation.to_arrow_reader(_BATCH)
        for batch in reader:
            taken.append(batch)
            rows, size = rows + batch.num_rows, size + batch.nbytes
            if rows > limits.rows:
                raise Refused(
                    "54000", f"the answer has more than {counted(limits.rows, 'row')}", "add a limit, or start the server with --rows N"
                )
            if size > limits.memory_mb * 1_000_000:
                raise Refused("53200", f"the answer needs more than {limits.memory_mb} MB", "ask for less, or start with --memory MB")
        return pa.Table.from_batches(taken, reader.schema)
    except (duckdb.Error, pa.ArrowException, MemoryError, RuntimeError, OSError, ValueError) as e:
        raise refused(e, limits.memory_mb) from e
