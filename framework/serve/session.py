"""An authenticated connection in a process of its own: reads messages and sends answers."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Final
from zoneinfo import ZoneInfo

import pyarrow as pa

from skyband.framework.base.counts import counted
from skyband.framework.base.extras import extra
from skyband.framework.serve.commands import REPORTED, Client, Done, Shown
from skyband.framework.serve.database import Database, answer
from skyband.framework.serve.failures import refused
from skyband.framework.serve.inference import Open
from skyband.framework.serve.names import Names
from skyband.framework.serve.parameters import Node, literal
from skyband.framework.serve.portals import Portal, Portals, Prepared, fetch_from
from skyband.framework.serve.protocol import copying, cursors, wire
from skyband.framework.serve.protocol.copying import Copy
from skyband.framework.serve.protocol.cursors import Close, Declare, Fetch
from skyband.framework.serve.protocol.syntax import split
from skyband.framework.serve.protocol.values import columns_of, encoded
from skyband.framework.serve.protocol.wire import Body, Refused, WireError
from skyband.framework.serve.tree import Parser
from skyband.framework.serve.watch import GRACE, Watch, alarm

# Run a connection's statements: check them, open an instance of DuckDB with what they read, and take their rows, within the limits.

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


_CHUNK: Final = 2000
"""Rows that are encoded and sent at once."""
_MOST: Final = 32767
"""Columns and parameters at most: the protocol counts them in 2 bytes."""
_PREPARED: Final = 1000
"""Prepared statements and portals of one connection at most."""
_IGNORED: Final = frozenset(b"dcfH")
"""Messages that need no answer: parts of a COPY from the client, which never begins, and Flush, since every answer is sent at once."""
_KNOWN_TYPES: Final = 200
"""Statements at most whose parameters' types a connection remembers."""


class Session:
    """A connection: what it has prepared, its settings, and the statements that it runs one after the other."""

    def __init__(self, sock: socket.socket, database: Database, control: socket.socket, startup: Mapping[str, str]) -> None:
        self._sock, self._database = sock, database
        self._client = Client(database.schemas, startup.get("application_name", ""))
        self._client.begin(startup)
        self._watch = Watch(control, lambda reason: self._send(wire.failure(reason, "FATAL")))
        self._prepared: dict[str, Prepared] = {}
        self._portals = Portals()
        self._execution = Execution(database, self._client, self._portals, self._watch)
        self._types: dict[tuple[str, tuple[int, ...]], tuple[int, ...]] = {}
        self._skipping = False

    def _send(self, data: bytes) -> None:
        # A client may be slow to read: only the time of the server's own work is bounded.
        alarm(0)
        try:
            self._sock.sendall(data)
        except OSError as e:
            raise EOFError from e
        self._bound_time()

    def _bound_time(self) -> None:
        """Bound the work until the next answer, beyond what the watch of a statement allows."""
        alarm(self._database.limits.seconds + 2 * GRACE)

    def greet(self, process: int, secret: int) -> None:
        """Tell the client the settings, how to cancel a statement, and that it may ask."""
        head = b"".join(wire.parameter_status(n, self._client.settings[n.lower()]) for n in REPORTED)
        self._send(head + wire.key_data(process, secret) + wire.ready(b"I"))

    def serve(self) -> None:
        """Answer messages until the client ends the connection. Raises WireError for what is no message."""
        while True:
            alarm(0)
            kind, content = wire.read_message(self._sock)
            self._bound_time()
            if kind == b"X":
                return
            if kind == b"S":
                self._skipping = False
                self._ready()
            elif kind == b"Q":
                self._skipping = False
                self._simple(Body(content))
            elif not self._skipping and kind[0] not in _IGNORED:
                self._extended(kind, Body(content))

    def _ready(self) -> None:
        if self._client.status == b"I":
            self._portals.end_transaction(True)
        self._send(wire.ready(self._client.status))

    def _failed(self, e: BaseException) -> None:
        if self._client.status == b"T":
            self._client.status = b"E"
        self._send(wire.failure(refused(e, self._database.limits.memory_mb)))

    def _simple(self, body: Body) -> None:
        try:
            statements = split(body.text())
            if not statements:
                self._send(wire.message(b"I"))
            for sql in statements:
                portal = Portal(Prepared(sql, ()), [], ())
                self._run(portal)
                if portal.rows is not None and portal.copy is None:
                    self._send(self._described(portal.rows.schema, portal.formats))
                self._finish(portal, 0)
        except (EOFError, WireError):
            raise
        except Exception as e:
            self._failed(e)
        self._ready()

    def _extended(self, kind: bytes, body: Body) -> None:
        steps = {b"P": self._parse, b"B": self._bind, b"D": self._describe, b"E": self._execute, b"C": self._close}
        try:
            step = steps.get(kind)
            if step is None:
                if kind == b"F":
                    raise Refused("0A000", "functions cannot be called without SQL here")
                raise WireError(f"there is no message of the kind {kind!r}")
            step(body)
        except (EOFError, WireError):
            raise
        except Exception as e:
            self._skipping = True
            self._failed(e)

    def _parse(self, body: Body) -> None:
        name, text = body.text(), body.text()
        given = [body.int32() & 0xFFFFFFFF for _ in range(body.int16())]
        statements = split(text)
        if len(statements) > 1:
            raise Refused("42601", "a prepared statement is one statement")
        sql = statements[0] if statements else ""
        if len(self._prepared) >= _PREPARED and name not in self._prepared:
            raise Refused("54000", f"a connection has at most {_PREPARED} prepared statements", "deallocate all")
        count = self._parameters(sql) if "$" in sql else 0
        count = max(count, len(given))
        if count > _MOST:
            raise Refused("54000", f"a statement has at most {_MOST} parameters")
        self._prepared[name] = Prepared(sql, tuple([*given, *[0] * (count - len(given))]))
        self._send(wire.message(b"1"))

    def _parameters(self, sql: str) -> int:
        return self._execution.parser.parameters(query_of(sql))

    def _typed(self, name: str) -> Prepared:
        """Return a prepared statement with a type for each parameter: where the client left it open, the one that the statement implies."""
        prepared = self._prepared[name]
        if 0 not in prepared.oids:
            return prepared
        key = (prepared.sql, prepared.oids)
        if key not in self._types:
            if len(self._types) >= _KNOWN_TYPES:
                self._types.clear()
            self._types[key] = self._execution.implied(query_of(prepared.sql), prepared.oids)
        self._prepared[name] = prepared = Prepared(prepared.sql, self._types[key])
        return prepared

    def _bind(self, body: Body) -> None:
        name, of = body.text(), body.text()
        prepared = self._prepared.get(of)
        if prepared is None:
            raise Refused("26000", f"there is no prepared statement {of!r}")
        formats = [body.int16() for _ in range(body.int16())]
        count = body.int16()
        if count != len(prepared.oids):
            raise Refused("08P01", f"the statement has {counted(len(prepared.oids), 'parameter')}, and {counted(count, 'value')} came")
        taken = list[bytes | None]()
        for _ in range(count):
            size = body.int32()
            taken.append(None if size == -1 else body.take(size))
        prepared = self._typed(of)
        values = [literal(raw, prepared.oids[i], _format(formats, i)) for i, raw in enumerate(taken)]
        wanted = tuple(body.int16() for _ in range(body.int16()))
        if {*formats, *wanted} - {wire.TEXT, wire.BINARY}:
            raise Refused("08P01", "a format is text (0) or binary (1)")
        if len(self._portals) >= _PREPARED and name not in self._portals:
            raise Refused("54000", f"a connection has at most {_PREPARED} portals")
        self._portals[name] = Portal(prepared, values, wanted)
        self._send(wire.message(b"2"))

    def _portal(self, name: str) -> Portal:
        portal = self._portals.get(name)
        if portal is None:
            raise Refused("34000", f"there is no portal {name!r}")
        return portal

    def _describe(self, body: Body) -> None:
        kind, name = body.take(1), body.text()
        if kind == b"P":
            portal = self._portal(name)
            if _only_done(portal.prepared.sql):
                self._send(wire.message(b"n"))
                return
            self._run(portal)
            shown = portal.rows if portal.copy is None else None
            self._send(wire.message(b"n") if shown is None else self._described(shown.schema, portal.formats))
            return
        if name not in self._prepared:
            raise Refused("26000", f"there is no prepared statement {name!r}")
        prepared = self._typed(name)
        head = wire.parameter_description(prepared.oids)
        schema = None
        if prepared.sql and not _only_done(prepared.sql):
            portal = Portal(prepared, [literal(None, oid, 0) for oid in prepared.oids], ())
            self._run(portal, empty=True)
            schema = None if portal.rows is None or portal.copy is not None else portal.rows.schema
        self._send(head + (wire.message(b"n") if schema is None else self._described(schema, ())))

    def _described(self, schema: pa.Schema, formats: Sequence[int]) -> bytes:
        columns = columns_of(schema)
        if len(columns) > _MOST:
            raise Refused("54011", f"an answer has at most {_MOST} columns")
        return wire.row_description(columns, [_format(formats, i) for i in range(len(columns))])

    def _execute(self, body: Body) -> None:
        portal, count = self._portal(body.text()), body.int32()
        if not portal.prepared.sql:
            self._send(wire.message(b"I"))
            return
        self._run(portal)
        self._finish(portal, count)

    def _close(self, body: Body) -> None:
        kind, name = body.take(1), body.text()
        (self._prepared if kind == b"S" else self._portals).pop(name, None)
        self._send(wire.message(b"3"))

    def _run(self, portal: Portal, empty: bool = False) -> None:
        """Carry out the statement of ``portal``, if that was not done before. ``empty``: only to find out its columns."""
        if portal.rows is not None or portal.done is not None:
            return
        sql = portal.prepared.sql
        found = self._client.command(sql)
        if isinstance(found, Done):
            portal.done = found
            if found.tag == "DISCARD ALL":
                self._portals.clear()
            elif found.ends:
                self._portals.end_transaction(found.tag == "COMMIT")
        elif isinstance(found, Shown):
            portal.rows, portal.tag = pa.table({found.name: [found.value]}), "SHOW"
        elif found is None and (about := cursors.parsed(sql)) is not None:
            self._about_cursor(portal, about, empty)
        elif found is None and (copy := copying.parsed(sql)) is not None:
            portal.rows = self._execution.answered(copy.query, portal.values, empty)
            portal.copy, portal.tag = copy, "COPY"
        else:
            portal.rows = self._execution.answered(found or sql, portal.values, empty)
            portal.tag = "EXPLAIN" if EXPLAIN.match(sql) else "SELECT"

    def _about_cursor(self, portal: Portal, about: Declare | Fetch | Close, empty: bool) -> None:
        if isinstance(about, Declare):
            if self._client.status != b"T" and not about.hold:
                raise Refused("25P01", "a cursor without hold is declared within a transaction", "begin")
            if about.name in self._portals:
                raise Refused("42P03", f"there is a cursor {about.name!r} already")
            made = Portal(Prepared(about.query, ()), [], (wire.BINARY,) if about.binary else (), declared=portal.prepared.sql)
            made.held, made.new = about.hold, True
            made.rows = self._execution.answered(about.query, portal.values, False)
            self._portals[about.name], portal.done = made, Done("DECLARE CURSOR")
        elif isinstance(about, Close):
            if about.name is None:
                self._portals.clear()
            else:
                self._portals.cursor(about.name)
                del self._portals[about.name]
            portal.done = Done("CLOSE CURSOR" if about.name else "CLOSE CURSOR ALL")
        else:
            cursor = self._portals.cursor(about.name)
            self._run(cursor)
            fetch_from(cursor, about, portal, empty)

    def _finish(self, portal: Portal, count: int) -> None:
        """Send the rows of ``portal``, at most ``count`` of them if that is not 0, and how it ended."""
        if portal.done is not None:
            self._send(b"".join(_command_messages(portal.done)))
            if portal.done.forget:
                self._prepared.clear()
                self._types.clear()
            return
        assert portal.rows is not None
        if portal.copy is not None:
            self._copied(portal.rows, portal.copy)
            return
        left = portal.rows.num_rows - portal.sent
        taken = min(left, count) if count > 0 else left
        for start in range(portal.sent, portal.sent + taken, _CHUNK):
            part = portal.rows.slice(start, min(_CHUNK, portal.sent + taken - start))
            self._send(b"".join(_rows(part, portal.formats, self._client.zone)))
        portal.sent += taken
        if portal.sent < portal.rows.num_rows:
            self._send(wire.message(b"s"))
            return
        self._send(wire.complete(f"{portal.tag} {taken}" if portal.tag in ("SELECT", "FETCH") else portal.tag))

    def _copied(self, rows: pa.Table, copy: Copy) -> None:
        """Send all ``rows`` as ``copy`` has them."""
        zone, starts = self._client.zone, range(0, rows.num_rows, _CHUNK)
        parts = ([encoded(c, copy.format, zone) for c in rows.slice(start, _CHUNK).columns] for start in starts)
        self._send(wire.copy_begins(copy.format, len(columns_of(rows.schema))))
        messages = map(wire.copy_data, copy.rows(rows.schema.names, parts))
        while some := b"".join(islice(messages, _CHUNK)):
            self._send(some)
        self._send(wire.copy_ends() + wire.complete(f"COPY {rows.num_rows}"))


def _only_done(sql: str) -> bool:
    """Return whether ``sql`` begins as a command that answers no rows, so that describing it need not carry it out."""
    words = ("set", "begin", "start", "commit", "end", "rollback", "abort", "savepoint", "release", "discard", "deallocate", "close",
             "unlisten", "reset", "declare", "move", "copy")  # fmt: skip
    return not sql or sql.split(None, 1)[0].lower() in words


def _command_messages(done: Done) -> Iterator[bytes]:
    if done.notice:
        yield wire.notice(done.notice)
    for name, value in done.changed.items():
        yield wire.parameter_status(name, value)
    yield wire.complete(done.tag)


def _rows(rows: pa.Table, formats: Sequence[int], zone: ZoneInfo | None) -> Iterator[bytes]:
    columns = [encoded(column, _format(formats, i), zone) for i, column in enumerate(rows.columns)]
    yield from wire.data_rows(columns, rows.num_rows)


def _format(formats: Sequence[int], i: int) -> int:
    """Return the format of column ``i``: none given is text, one given is for all."""
    if not formats:
        return wire.TEXT
    if len(formats) == 1:
        return formats[0]
    if i >= len(formats):
        raise Refused("08P01", "there are fewer formats than columns")
    return formats[i]
