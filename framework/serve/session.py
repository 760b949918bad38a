"""An authenticated connection in a process of its own: reads messages and sends answers."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Final
from zoneinfo import ZoneInfo

import pyarrow as pa

from skyband.framework.base.counts import counted
from skyband.framework.base.extras import extra
from skyband.framework.serve import formats, parameters
from skyband.framework.serve.catalog import DATABASE, PG, REGPROC, Cursor, Relation, known
from skyband.framework.serve.commands import REPORTED, Client, Done, Shown
from skyband.framework.serve.database import Database, answer, refused
from skyband.framework.serve.inference import Open
from skyband.framework.serve.macros import ALLOWED, CALLS, TABLE_CALLS
from skyband.framework.serve.parameters import Node, literal
from skyband.framework.serve.protocol import copying, cursors, wire
from skyband.framework.serve.protocol.copying import Copy
from skyband.framework.serve.protocol.cursors import Close, Declare, Fetch
from skyband.framework.serve.protocol.syntax import split
from skyband.framework.serve.protocol.values import by_name, columns_of, encoded
from skyband.framework.serve.protocol.wire import Body, Refused, WireError
from skyband.framework.serve.tree import Parser
from skyband.framework.serve.watch import GRACE, Watch, alarm

# Prepared statements, and portals: statements with their values, and the rows of their answers. Cursors are portals with names.


@dataclass(frozen=True, slots=True)
class Prepared:
    """A statement that was parsed: its text, "" for an empty one, and the OIDs of its parameters."""

    sql: str
    oids: tuple[int, ...]


@dataclass(slots=True)
class Portal:
    """A prepared statement with its values. ``rows``: its answer once it ran, of which ``sent`` rows are at the client.

    ``copy``: how the rows are copied to the client; ``declared``: the statement that declared it as a cursor; ``held``: it outlives its
    transaction, once that is committed: until then it is ``new``.
    """

    prepared: Prepared
    values: list[Node]
    formats: tuple[int, ...]
    rows: pa.Table | None = None
    done: Done | None = None
    sent: int = 0
    tag: str = field(default="SELECT")
    copy: Copy | None = None
    declared: str | None = None
    held: bool = False
    new: bool = False


class Portals(dict[str, Portal]):
    """The portals of a connection by their names."""

    def cursors(self) -> list[Cursor]:
        """Return those that were declared as cursors."""
        return [Cursor(name, p.declared, p.formats != (), p.held) for name, p in self.items() if p.declared is not None]

    def end_transaction(self, committed: bool) -> None:
        """Close the cursors and portals that end with a transaction."""
        for name in [name for name, p in self.items() if not p.held or (p.new and not committed)]:
            del self[name]
        for portal in self.values():
            portal.new = False

    def cursor(self, name: str) -> Portal:
        """Return the cursor ``name``. Raises Refused 34000 if there is none."""
        found = self.get(name)
        if found is None:
            raise Refused("34000", f"there is no cursor {name!r}")
        return found

    def bound(self, rows: pa.Table, memory_mb: int) -> None:
        """Bound the memory of all rows that are held, and of ``rows``. Raises Refused 53200 if they are beyond it."""
        held = rows.nbytes + sum(p.rows.nbytes for p in self.values() if p.rows is not None)
        if held > memory_mb * 1_000_000:
            said = f"the answers that this connection holds need more than {memory_mb} MB"
            raise Refused("53200", said, "close cursors, or start with --memory MB")


def fetch_from(cursor: Portal, fetch: Fetch, into: Portal, empty: bool) -> None:
    """Take rows from ``cursor``, which ran, as the answer of ``into``; ``empty``: only their columns.

    Raises Refused 55000 for rows behind it.
    """
    if cursor.rows is None or cursor.copy is not None:
        raise Refused("55000", f"the cursor {fetch.name!r} has no rows")
    skip = fetch.skip if fetch.row is None else fetch.row - 1 - cursor.sent
    if skip < 0:
        raise Refused("55000", f"the cursor {fetch.name!r} goes forward only, and stands at row {cursor.sent}", "declare it again")
    start = min(cursor.sent + skip, cursor.rows.num_rows)
    left = cursor.rows.num_rows - start
    taken = 0 if empty else left if fetch.count is None else min(fetch.count, left)
    if not empty:
        cursor.sent = start + taken
    if fetch.move:
        into.done = Done(f"MOVE {taken}")
        return
    into.rows, into.tag = cursor.rows.slice(start, taken), "FETCH"
    into.formats = cursor.formats or into.formats


# Resolve the names in a statement: relations of jobs, PostgreSQL's catalogs, and calls and casts that only PostgreSQL has.

_SCALARS: Final = CALLS | {"generate_subscripts"}
"""Functions that PostgreSQL takes as tables, too."""
_WORDS: Final = frozenset({"current_user", "session_user", "current_role", "current_catalog", "current_schema"})
"""Calls that are written without parentheses."""
_RENAMED: Final = {
    "json_build_object": "json_object", "jsonb_build_object": "json_object", "json_build_array": "json_array",
    "jsonb_build_array": "json_array", "btrim": "trim", "clock_timestamp": "now", "statement_timestamp": "now", "jsonb_typeof": "json_type",
    "json_typeof": "json_type", "every": "bool_and", "date_bin": "time_bucket", "json_agg": "json_group_array",
    "jsonb_agg": "json_group_array", "array_positions": "list_position",
}  # fmt: skip
"""Functions of PostgreSQL's that DuckDB has under another name."""
_OIDS: Final = frozenset({"oid", "xid", "regrole"})
_TEXTS: Final = frozenset(
    {"name", "regproc", "regprocedure", "regoper", "regoperator", "cstring", "sql_identifier", "character_data", "yes_or_no", "aclitem"}
)
_SYSTEM_OIDS: Final = {"pg_class": 1259, "pg_type": 1247, "pg_attribute": 1249, "pg_proc": 1255, "pg_namespace": 2615, "pg_database": 1262}


class Names:
    """The names of ``relations``, those without a schema looked for in the schemas of ``path``."""

    def __init__(self, relations: Sequence[Relation], path: Sequence[str]) -> None:
        self._relations: Mapping[tuple[str, str], Relation] = {(r.schema.lower(), r.name.lower()): r for r in relations}
        self._path = tuple(path)

    def resolve(self, schema: str, name: str) -> tuple[str, str] | None:
        """Return the schema and the name of a relation, None if there is none. Catalogs count last: a job's table wins over them."""
        for where in (schema,) if schema else self._path:
            found = self._relations.get((where.lower(), name.lower()))
            if found is not None:
                return found.schema, found.name
        return known(schema, name)

    def known(self) -> Iterator[str]:
        """Return the names of all relations."""
        return (r.name for r in self._relations.values())

    def offers(self, node: Node) -> bool:
        """Return whether ``node`` calls a macro of the catalogs."""
        return node["schema"] == PG and str(node["function_name"]) in CALLS

    def relation(self, node: Node) -> Node | None:
        """Return what stands for a table function that only PostgreSQL has: a scalar one, or ``unnest`` of several arrays."""
        called = node["function"]
        if called.get("class") != "FUNCTION":
            return None
        name, arguments = str(called["function_name"]).lower(), called["arguments"]
        several = name == "unnest" and len(arguments) > 1
        if str(called["schema"]).lower() not in ("", "pg_catalog") or not (several or name in _SCALARS):
            return None
        plain = {**called, "schema": "", "catalog": "", "qualified_name": {"path": [name]}}
        columns = [{**plain, "arguments": [a]} for a in arguments] if several else [plain]
        alias = str(node["alias"]) or name
        named = [{**c, "alias": name if several else alias} for c in columns]
        if node.get("with_ordinality") == "WITH_ORDINALITY":
            if not several:
                raise Refused("0A000", f"{name}() with ordinality is not taken", "unnest(list) with ordinality")
            longest = parameters.function("greatest", [parameters.function("len", [a["expression"]]) for a in arguments])
            counted = parameters.function("generate_series", [parameters.constant("INTEGER", "1"), longest])
            named.append({**parameters.function("unnest", [counted]), "alias": "ordinality"})
        return parameters.subquery(named, alias, list(node["column_name_alias"]))

    def column(self, node: Node) -> Node | None:
        """Return what stands for a column of a query that makes a row of each value of a series; None for any other."""
        if node.get("class") != "FUNCTION" or str(node["function_name"]).lower() != "generate_series":
            return None
        if str(node["schema"]).lower() not in ("", "pg_catalog"):
            return None
        return {**parameters.function("unnest", [{**node, "alias": ""}]), "alias": node["alias"] or "generate_series"}

    def translate(self, node: Node) -> Node | None:
        """Return what stands for a call, a cast or a name that only PostgreSQL has; None for any other node."""
        kind = node.get("class")
        if kind == "FUNCTION":
            return _call(node)
        if kind == "CAST":
            return _cast(node)
        if kind == "COMPARISON":
            return _comparison(node)
        if kind == "SUBQUERY":
            return _any_of(node)
        if kind == "COLUMN_REF":
            parts = [str(p) for p in node["column_names"]]
            if len(parts) > 3 and parts[0].lower() == DATABASE and (parts[1].lower(), parts[2].lower()) in self._relations:
                return {**node, "column_names": parts[1:]}
            return _column(node)
        if kind == "TYPE":
            name, schema = str(node["type_name"]).lower(), str(node["schema"]).lower()
            known_as = "UINTEGER" if name in _OIDS else "VARCHAR" if name in _TEXTS else "JSON" if name == "jsonb" else node["type_name"]
            if schema in ("", "pg_catalog") and (schema or known_as != node["type_name"]):
                return {**node, "schema": "", "type_name": known_as, "qualified_name": {"path": [known_as]}}
        if kind == "COLLATE" and str(node["collation"]).lower().rpartition(".")[2] in ("default", "c", "posix", "en_us"):
            child: Node = node["child"]
            return {**child, "alias": node["alias"]}
        return None


def _comparison(node: Node) -> Node | None:
    """Return a comparison of a column that holds names of functions with an OID, as one of OIDs; None for any other."""
    for own, other in (("left", "right"), ("right", "left")):
        compared = node[other]
        number = compared.get("class") == "CONSTANT" and compared["literal"]["kind"] == "INTEGER"
        oid = compared.get("class") == "COLUMN_REF" and str(compared["column_names"][-1]).lower() == "oid"
        if _is_function(node[own]) and (number or oid):
            return {**node, own: _macro("regproc_oid", [node[own]])}
    return None


def _any_of(node: Node) -> Node | None:
    """Return a comparison with any element of an array that is written as a text; None for any other query in an expression.

    The elements have the type of what they are compared with, as in PostgreSQL.
    """
    query = (node["subquery"] or {}).get("node") or {}
    columns, table = query.get("select_list") or [], query.get("from_table") or {}
    if node["subquery_type"] != "ANY" or len(columns) != 1 or table.get("type") != "EMPTY" or columns[0].get("function_name") != "unnest":
        return None
    text = next((_literal(a["expression"]) for a in columns[0]["arguments"]), None)
    if text is None or not text.startswith("{"):
        return None
    elements, compared, how = parameters.array_elements(text), node["child"], str(node["comparison_type"])
    if not elements:
        return {**parameters.cast(parameters.constant("STRING", "false"), "BOOLEAN"), "alias": node["alias"]}
    if how == "COMPARE_EQUAL":
        return {**parameters.node("OPERATOR", "COMPARE_IN"), "children": [compared, *elements], "alias": node["alias"]}
    each = [{**parameters.node("COMPARISON", how), "left": compared, "right": element} for element in elements]
    made = each[0] if len(each) == 1 else {**parameters.node("CONJUNCTION", "CONJUNCTION_OR"), "children": each}
    return {**made, "alias": node["alias"]}


def _is_function(node: Node) -> bool:
    return node.get("class") == "COLUMN_REF" and str(node["column_names"][-1]).lower() in REGPROC


def _call(node: Node) -> Node | None:
    name, schema = str(node["function_name"]).lower(), str(node["schema"]).lower()
    if schema == "pg_catalog" and name in ("~", "~*", "!~", "!~*"):
        arguments = [a["expression"] for a in node["arguments"]]
        if name.endswith("*"):
            arguments.append(parameters.constant("STRING", "i"))
        found = parameters.function("regexp_matches", arguments)
        made = {**parameters.node("OPERATOR", "OPERATOR_NOT"), "children": [found]} if name.startswith("!") else found
        return {**made, "alias": node["alias"]}
    if schema in ("", "pg_catalog", "information_schema", "main") and name in CALLS | TABLE_CALLS:
        return {**node, "function_name": name, "schema": PG, "catalog": "", "qualified_name": {"path": [PG, name]}}
    if schema in ("", "pg_catalog") and name in _LIKE_POSTGRES and (meant := _like_postgres(name, node)) is not None:
        return {**meant, "alias": node["alias"]}
    name = _RENAMED.get(name, name) if schema in ("", "pg_catalog") else name
    if name != str(node["function_name"]).lower() or (schema == "pg_catalog" and name in ALLOWED):
        return {**node, "function_name": name, "schema": "", "catalog": "", "qualified_name": {"path": [name]}}
    return None


_LIKE_POSTGRES: Final = frozenset(
    {"format", "to_timestamp", "to_date", "to_char", "to_number", "date_trunc", "regexp_match", "unnest", "generate_subscripts"}
)
_SPECIFIER: Final = re.compile(r"%([sIL%])")


def _like_postgres(name: str, node: Node) -> Node | None:
    """Return what stands for a call of a function that DuckDB has, too, and means otherwise; None if DuckDB's own is meant.

    Such calls come from BI tools: ``format('%s', x)``, and texts as instants with a pattern.
    """
    arguments = [a["expression"] for a in node["arguments"]]
    if name == "format":
        pattern = _text(arguments[0]) if arguments else None
        if pattern is None or "{" in pattern or not _SPECIFIER.search(pattern):
            return None
        parts, values = list[Node](), iter(arguments[1:])
        for i, part in enumerate(_SPECIFIER.split(pattern)):
            if i % 2 == 0 or part == "%":
                parts.append(parameters.constant("STRING", part))
                continue
            value = next(values, None)
            if value is None or part == "L":
                raise Refused("22023", "format() has fewer values than its pattern, or %L, which is not taken here")
            text = parameters.cast(value, "VARCHAR")
            parts.append(_macro("quote_ident", [text]) if part == "I" else text)
        return parameters.function("concat", parts)
    if name == "date_trunc":
        return _truncated(*arguments) if len(arguments) == 3 else None
    if name == "regexp_match":
        return _matched(arguments)
    if name in ("unnest", "generate_subscripts"):
        # A text that is an array in PostgreSQL's form.
        literal = _text(arguments[0]) if arguments else None
        if literal is None or not literal.startswith("{"):
            return None
        replaced = [parameters.array(literal), *arguments[1:]]
        return {**node, "arguments": [{"name": "", "expression": argument} for argument in replaced]}
    if len(arguments) != 2:
        return None
    pattern = _text(arguments[1])
    if pattern is None:
        raise Refused("0A000", f"{name}() takes a pattern that is a text in the statement only", "strftime(instant, pattern)")
    if name == "to_char":
        made = formats.char(arguments[0], pattern)
        return _with_macros(made)
    if name == "to_number":
        return formats.number(arguments[0], pattern)
    return formats.instant(arguments[0], pattern, "DATE" if name == "to_date" else "TIMESTAMPTZ")


def _with_macros(node: Node) -> Node:
    """Return ``node`` with calls of ``number_char`` in it as calls of the macro of that name."""
    if node.get("function_name") == "number_char":
        return _macro("number_char", [a["expression"] for a in node["arguments"]])
    if node.get("class") == "FUNCTION":
        return {**node, "arguments": [{**a, "expression": _with_macros(a["expression"])} for a in node["arguments"]]}
    return node


def _truncated(unit: Node, instant: Node, zone: Node) -> Node:
    local = parameters.function("timezone", [zone, instant])
    return parameters.function("timezone", [zone, parameters.function("date_trunc", [unit, local])])


def _matched(arguments: list[Node]) -> Node:
    """Return the call of ``regexp_match``: the groups of the first match as an array, or the match if there are none, null without one."""
    pattern = _text(arguments[1]) if len(arguments) in (2, 3) else None
    flags = _text(arguments[2]) if len(arguments) == 3 else ""
    if pattern is None or flags is None:
        raise Refused("0A000", "regexp_match() takes a pattern that is a text in the statement only", "regexp_extract(text, pattern)")
    plain = re.sub(r"\\.|\[\^?\]?[^\]]*\]", "", pattern, flags=re.DOTALL)
    groups = len(re.findall(r"\((?!\?)|\(\?P?<(?![=!])", plain))
    options = [parameters.constant("STRING", flags)] if flags else []
    numbers = [parameters.constant("INTEGER", str(i)) for i in (range(1, groups + 1) if groups else (0,))]
    found = parameters.function("list_value", [parameters.function("regexp_extract", [*arguments[:2], n, *options]) for n in numbers])
    return parameters.case(parameters.function("regexp_matches", [*arguments[:2], *options]), found)


def _column(node: Node) -> Node | None:
    parts = [str(p) for p in node["column_names"]]
    if len(parts) == 1 and parts[0].lower() in _WORDS:
        name = parts[0].lower()
        call = parameters.function(name, [])
        return {**call, "schema": PG, "qualified_name": {"path": [PG, name]}, "alias": node["alias"] or name}
    if len(parts) > 2 and parts[0].lower() in ("pg_catalog", "information_schema"):
        return {**node, "column_names": parts[1:]}
    return None


def _cast(node: Node) -> Node | None:
    kind, child, alias = node["type_expr"], node["child"], node["alias"]
    if not isinstance(kind, dict) or kind.get("class") != "TYPE":
        return None
    name = str(kind["type_name"]).lower()
    inner = child["type_expr"]["type_name"].lower() if child.get("class") == "CAST" and "type_expr" in child else ""
    literal = _text(child)
    if inner in ("regclass", "regtype", "regnamespace") and name in ("text", "varchar", "name"):
        of = child["child"]
        if inner == "regtype":
            oid = _reg("regtype", of, _text(of))
            return {**_macro("format_type", [oid, parameters.constant("NULL_LITERAL", "")]), "alias": alias}
        return {**_macro(f"{inner}_name", [of]), "alias": alias}
    if name in ("regclass", "regnamespace", "regtype"):
        return {**_reg(name, child, literal), "alias": alias}
    if name == "oid" and _is_function(child):
        return {**_macro("regproc_oid", [child]), "alias": alias}
    if name in ("regproc", "regprocedure") and literal is not None:
        child = parameters.constant("STRING", literal.removeprefix("pg_catalog.").partition("(")[0])
    if name in _OIDS or name in _TEXTS:
        return {**parameters.cast(child, "UINTEGER" if name in _OIDS else "VARCHAR"), "alias": alias}
    if literal is not None and literal.startswith("{") and kind["children"] and name in ("list", "array"):
        return {**node, "child": parameters.array(literal)}
    if name == "jsonb":
        return {**parameters.cast(child, "JSON"), "alias": alias}
    return None


def _text(node: Node) -> str | None:
    """Return the text that ``node`` is a literal of, also one that is cast to text; None for any other node."""
    if node.get("class") == "CAST" and isinstance(node["type_expr"], dict) and node["type_expr"].get("type_name") in ("VARCHAR", "TEXT"):
        node = node["child"]
    return _literal(node)


def _literal(node: Node) -> str | None:
    """Return the text that ``node`` is a literal of; None for any other node."""
    return str(node["literal"]["text"]) if node.get("class") == "CONSTANT" and node["literal"]["kind"] == "STRING" else None


def _reg(name: str, child: Node, literal: str | None) -> Node:
    """Return the OID that a name of a relation, schema or type stands for; an OID stays itself."""
    if literal is None:
        # A column holds OIDs; what is put together is a name.
        return child if child.get("class") == "COLUMN_REF" else _macro(f"{name}_oid", [parameters.cast(child, "VARCHAR")])
    if literal.isdigit():
        return parameters.constant("INTEGER", literal)
    if name == "regtype":
        oid = by_name(literal)
        if oid is None:
            raise Refused("42704", f"there is no type {literal!r}")
        return parameters.constant("INTEGER", str(oid))
    plain = literal.replace('"', "").removeprefix("pg_catalog.")
    if name == "regclass" and plain in _SYSTEM_OIDS:
        return parameters.constant("INTEGER", str(_SYSTEM_OIDS[plain]))
    return _macro(f"{name}_oid", [child])


def _macro(name: str, arguments: list[Node]) -> Node:
    return {**parameters.function(name, arguments), "schema": PG, "qualified_name": {"path": [PG, name]}}


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
