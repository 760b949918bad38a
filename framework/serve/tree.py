"""Check a statement by its syntax tree: only reads, only known tables, only allowed functions.

DuckDB parses the statement into a tree (``json_serialize_sql``). Every node of it has to be of a known kind: an unknown kind, relation or
function is refused. What PostgreSQL's clients ask of the system catalogs is translated on the way; parameters become literals. DuckDB then
writes the statement that is run from the tree that was checked.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from skyband.framework.base.errors import did_you_mean
from skyband.framework.base.extras import extra
from skyband.framework.base.system_failures import one_line
from skyband.framework.serve.catalog import SYSTEM
from skyband.framework.serve.macros import ALLOWED, TABLE, TABLE_CALLS
from skyband.framework.serve.parameters import Node
from skyband.framework.serve.protocol.wire import Refused
from skyband.framework.sources.duckdb_sql import LOCKED

# Name the columns of a query that it does not name itself, as PostgreSQL does: ``count`` for ``count(*)``, ``a`` for ``a::text``.

_FUNCTIONS: Final = {"count_star": "count", "list_value": "array", "struct_pack": "row"}
"""Functions that DuckDB's parser makes of what has another name."""
_TYPES: Final = {
    "boolean": "bool", "bigint": "int8", "smallint": "int2", "integer": "int4", "int": "int4", "float": "float4", "real": "float4",
    "double": "float8", "decimal": "numeric", "timestamp with time zone": "timestamptz", "blob": "bytea",
}  # fmt: skip
_UNNAMED: Final = "?column?"
_EXPRESSIONS: Final = frozenset(
    {
        "CONSTANT",
        "OPERATOR",
        "COMPARISON",
        "CONJUNCTION",
        "BETWEEN",
        "FUNCTION",
        "WINDOW",
        "SUBQUERY",
        "PARAMETER",
        "CASE",
        "CAST",
        "COLLATE",
    }
)


def name_columns(query: Node, sql: str) -> bool:
    """Name the columns of ``query``, the tree of ``sql``, and of the queries in it. Return whether any got a name. O(nodes)."""
    changed, todo = False, [(query, True)]
    while todo:
        node, outermost = todo.pop()
        for item in node.get("select_list") or () if node.get("type") == "SELECT_NODE" else ():
            if item["class"] not in _EXPRESSIONS or item["alias"] or _expands(item):
                continue
            if name := _name(item, sql) or (_UNNAMED if outermost else ""):
                item["alias"], changed = name, True
        for key, part in node.items():
            inner = outermost and key in ("left", "right", "children", "child") and str(node.get("type")).endswith("_NODE")
            todo += [(p, inner) for p in _nodes(part)]
    return changed


def _expands(node: Node) -> bool:
    """Return whether ``node`` makes more than one column: ``columns(...)`` in it, or the fields of a struct."""
    todo = [node]
    while todo:
        part = todo.pop()
        if part.get("class") == "SUBQUERY":
            # The columns of a query in it are its own.
            continue
        if part.get("class") == "STAR" or str(part.get("function_name", "")).lower() in ("unnest", "unlist"):
            return True
        todo += [n for value in part.values() for n in _nodes(value)]
    return False


def _nodes(part: Any) -> list[Node]:
    """Return the nodes that ``part`` is or holds in lists."""
    if isinstance(part, dict):
        return [part]
    return [n for p in part for n in _nodes(p)] if isinstance(part, list) else []


def _name(node: Node, sql: str) -> str:
    """Return the name of the column that ``node`` makes, "" if nothing in it gives one."""
    kind, of = node.get("class"), str(node.get("type"))
    if node.get("alias"):
        return str(node["alias"])
    if kind == "COLUMN_REF":
        return str(node["column_names"][-1])
    if kind in ("FUNCTION", "WINDOW"):
        name = str(node["function_name"]).lower()
        if node.get("is_operator"):
            return ""
        at = node["query_location"]
        return "extract" if name == "date_part" and sql[at : at + 7].lower() == "extract" else _FUNCTIONS.get(name, name)
    if kind == "CAST":
        target = node["type_expr"]
        named = str(target.get("type_name", "")).lower() if isinstance(target, dict) else ""
        while named in ("list", "array") and target["children"]:
            target = target["children"][0]
            named = str(target.get("type_name", "")).lower()
        return _name(node["child"], sql) or _TYPES.get(named, named)
    if kind == "CASE":
        return _name(node["else_expr"] or {}, sql) or "case"
    if kind == "OPERATOR":
        if of == "ARRAY_EXTRACT":
            return _name(node["children"][0], sql)
        return {"OPERATOR_COALESCE": "coalesce", "ARRAY_CONSTRUCTOR": "array"}.get(of, "")
    if kind == "COLLATE":
        return _name(node["child"], sql)
    if kind == "SUBQUERY":
        if node["subquery_type"] == "EXISTS":
            return "exists"
        items = (node["subquery"].get("node") or {}).get("select_list") if node["subquery_type"] == "SCALAR" else None
        if items:
            made_by_array = items[0].get("class") == "CASE" and "POSITIONAL_REFERENCE" in str(items[0]["else_expr"])
            return "array" if made_by_array else _name(items[0], sql)
    return ""


with extra("sql", "the server of a job's tables"):
    import duckdb

READS: Final = "this server answers queries only: the tables are written by runs alone"
_QUERIES: Final = frozenset({"SELECT_NODE", "SET_OPERATION_NODE", "RECURSIVE_CTE_NODE", "CTE_NODE"})
_RELATIONS: Final = frozenset(
    {"BASE_TABLE", "SUBQUERY", "JOIN", "TABLE_FUNCTION", "EMPTY", "EMPTY_FROM", "EXPRESSION_LIST", "SHOW_REF", "PIVOT", "COLUMN_DATA"}
)
_PARTS: Final = frozenset(
    {"ORDER_MODIFIER", "LIMIT_MODIFIER", "DISTINCT_MODIFIER", "LIMIT_PERCENT_MODIFIER", "ORDER_DEFAULT", "ASCENDING", "DESCENDING"}
)
_CLASSES: Final = frozenset(
    {
        "BETWEEN", "CASE", "CAST", "COLLATE", "COLUMN_REF", "COMPARISON", "CONJUNCTION", "CONSTANT", "FUNCTION", "LAMBDA", "LAMBDA_REF",
        "OPERATOR", "PARAMETER", "POSITIONAL_REFERENCE", "STAR", "SUBQUERY", "TYPE", "WINDOW",
    }
)  # fmt: skip
_DEPTH: Final = 20_000
"""Nodes of a statement at most: a tree beyond it is refused before it is worked on."""


class Names(Protocol):
    """What relations there are, and what PostgreSQL's clients get instead of its catalogs."""

    def resolve(self, schema: str, name: str) -> tuple[str, str] | None:
        """Return the schema and the name of a relation as they are spelled, None if there is none."""

    def known(self) -> Iterator[str]:
        """Return the names of all relations, for a hint."""

    def offers(self, node: Node) -> bool:
        """Return whether ``node`` calls a function that stands for one of PostgreSQL's."""

    def relation(self, node: Node) -> Node | None:
        """Return what stands for a table function that only PostgreSQL has, None for any other."""

    def column(self, node: Node) -> Node | None:
        """Return what stands for a column of a query that makes rows, None for any other."""

    def translate(self, node: Node) -> Node | None:
        """Return what stands for a call, a cast or a name that only PostgreSQL has; None for any other node."""


@dataclass(frozen=True, slots=True)
class Checked:
    """A statement that may run: its SQL, the relations that it reads, as (schema, name), and whether it calls what only PostgreSQL has."""

    sql: str
    reads: frozenset[tuple[str, str]]
    calls: bool = False


@dataclass(slots=True)
class _Found:
    reads: set[tuple[str, str]] = field(default_factory=set)
    changed: bool = False
    calls: bool = False


class Parser:
    """DuckDB's parser, in an instance that has no tables, no files and no settings to change."""

    def __init__(self) -> None:
        self._duck = duckdb.connect(config={**LOCKED, "threads": 1, "memory_limit": "512MB"})
        self._duck.execute("set lock_configuration = true")

    def tree(self, sql: str) -> list[Node]:
        """Return the statements in ``sql``. Raises Refused for what is no SQL, and for what is no query."""
        try:
            (text,) = self._duck.execute("select json_serialize_sql(?)", [sql]).fetchone() or ("",)
            parsed = json.loads(text)
        except duckdb.Error as e:
            raise Refused("42601", f"the statement is not understood: {one_line(e)[:500]}") from e
        except RecursionError as e:
            raise Refused("54001", "the statement is nested too deeply") from e
        if parsed["error"]:
            if "Only SELECT" in parsed["error_message"]:
                if re.search(r"\bpivot\b", sql, re.IGNORECASE):
                    raise Refused("0A000", "a pivot has to name its values", "from TABLE pivot (sum(a) for b in ('x', 'y'))")
                raise Refused("25006", READS)
            raise Refused("42601", f"the statement is not understood: {parsed['error_message'][:500]}")
        statements: list[Node] = parsed["statements"]
        return statements

    def text(self, statements: list[Node]) -> str:
        """Return the SQL of a tree."""
        try:
            document = json.dumps({"error": False, "statements": statements})
            (text,) = self._duck.execute("select json_deserialize_sql(cast(? as json))", [document]).fetchone() or ("",)
        except (duckdb.Error, RecursionError) as e:
            raise Refused("0A000", f"the statement cannot be run with parameters: {one_line(e)[:300]}") from e
        return str(text)

    def parameters(self, sql: str) -> int:
        """Return how many parameters ``sql`` has. Raises Refused for parameters that are not numbered from 1."""
        named = [p["key"] for s in self.tree(sql) for p in s["named_param_map"]]
        if sorted(named) != sorted(str(i + 1) for i in range(len(named))):
            raise Refused("42P02", "parameters are written $1, $2 and so on, without a gap")
        return len(named)

    def check(self, sql: str, names: Names, values: Sequence[Node] = (), before: Callable[[list[Node]], object] | None = None) -> Checked:
        """Return the statement that may run for ``sql``. Raises Refused if it asks for anything that is not allowed.

        ``before`` may change the tree before it is checked; without it columns get PostgreSQL's names.
        """
        statements = self.tree(sql)
        if len(statements) != 1:
            raise Refused("42601", "one query at a time")
        given = {str(i + 1): v for i, v in enumerate(values)}
        found = _Found(changed=name_columns(statements[0]["node"], sql) if before is None else True)
        if before is not None:
            before(statements)
        _insert(statements, given)
        _walk(statements, names, found)
        for statement in statements:
            statement["named_param_map"] = []
        return Checked(self.text(statements) if found.changed or given else sql, frozenset(found.reads), found.calls)


def _insert(root: Any, values: Mapping[str, Node]) -> None:
    """Put the values of parameters in their places. Raises Refused 42P02 for a parameter without a value."""
    todo: list[Any] = [root]
    while todo:
        holder = todo.pop()
        for key, node in list(holder.items() if isinstance(holder, dict) else enumerate(holder)):
            if isinstance(node, dict) and node.get("class") == "PARAMETER":
                value = values.get(str(node.get("identifier")))
                if value is None:
                    raise Refused("42P02", f"there is no parameter ${node.get('identifier')}")
                holder[key] = {**value, "alias": node.get("alias", "")}
            elif isinstance(node, (dict, list)):
                todo.append(node)


def _walk(root: list[Node], names: Names, found: _Found) -> None:
    """Visit every node, parents first; replace what is translated."""
    todo: list[tuple[Any, Any, frozenset[str]]] = [(root, i, frozenset()) for i in range(len(root))]
    visited = 0
    while todo:
        holder, key, scope = todo.pop()
        node = holder[key]
        if isinstance(node, list):
            todo += [(node, i, scope) for i in range(len(node))]
            continue
        if not isinstance(node, dict):
            continue
        visited += 1
        if visited > _DEPTH:
            raise Refused("54001", "the statement has too many parts")
        while "class" in node and (made := names.translate(node)) is not None:
            holder[key] = node = made
            found.changed = True
        if node.get("type") == "TABLE_FUNCTION" and "class" not in node and (made := names.relation(node)) is not None:
            holder[key] = node = made
            found.changed = True
        for i, item in enumerate(node["select_list"] if node.get("type") == "SELECT_NODE" else ()):
            if (made := names.column(item)) is not None:
                node["select_list"][i] = made
                found.changed = True
        _allowed(node, names, scope, found)
        called = node.get("function") if node.get("type") == "TABLE_FUNCTION" and "class" not in node else None
        if isinstance(called, dict):
            _table_function(called, names, found)
            todo.append((called, "arguments", scope))
        for entry in (node.get("cte_map") or {}).get("map") or ():
            # A definition sees those before it, and itself if it is recursive: any other name is that of a relation.
            name, query = str(entry["key"]).lower(), entry["value"].get("query_node") or {}
            todo.append((entry, "value", scope | {name} if query.get("type") == "RECURSIVE_CTE_NODE" else scope))
            scope |= {name}
        todo += [(node, k, scope) for k, v in node.items() if isinstance(v, (dict, list)) and v is not called and k != "cte_map"]


def _allowed(node: Node, names: Names, defined: frozenset[str], found: _Found) -> None:
    """Refuse a node that is of no known kind, a relation that there is not, a function that is not offered."""
    kind, of = node.get("class"), node.get("type")
    if kind is not None:
        if kind not in _CLASSES:
            raise Refused("0A000", f"expressions of the kind {str(kind).lower()} are not offered here")
        if kind in ("FUNCTION", "WINDOW"):
            _function(node, names, found)
        return
    if not isinstance(of, str):
        return
    if of.endswith("_NODE") and of not in _QUERIES:
        raise Refused("25006", READS)
    if of not in _QUERIES and of not in _RELATIONS and of not in _PARTS:
        raise Refused("0A000", f"a part of the statement ({of.lower().replace('_', ' ')}) is not offered here")
    if of == "SHOW_REF" and node.get("query") is None:
        raise Refused("0A000", "only tables and queries can be described", "show tables; describe TABLE; summarize TABLE")
    if of == "BASE_TABLE":
        schema, name = str(node["schema_name"]), str(node["table_name"])
        if not schema and name.lower() in defined:
            return
        resolved = names.resolve(schema, name) if node["catalog_name"].lower() in ("", "skyband") else None
        if resolved is None:
            full = f"{schema}.{name}" if schema else name
            hint = did_you_mean(name, names.known()) or "show tables lists the tables and views"
            raise Refused("42P01", f"there is no relation {json.dumps(full, ensure_ascii=False)}", hint)
        found.reads.add(resolved)
        if node["catalog_name"]:
            node["catalog_name"], node["qualified_name"] = "", {"path": list(resolved)}
            node["schema_name"], node["table_name"] = resolved
            found.changed = True
        if resolved[0] in SYSTEM:
            node["schema_name"], node["table_name"] = resolved
            node["catalog_name"], node["qualified_name"] = "", {"path": list(resolved)}
            node["alias"] = node["alias"] or name
            found.changed = True


def _function(node: Node, names: Names, found: _Found) -> None:
    name = str(node["function_name"])
    if names.offers(node):
        found.calls = True
    elif name.lower() not in ALLOWED:
        raise Refused("42883", f"the function {json.dumps(name, ensure_ascii=False)} is not offered here", _WHICH)


def _table_function(node: Node, names: Names, found: _Found) -> None:
    if str(node.get("function_name")).lower() in TABLE_CALLS:
        node.update(names.translate(node) or {})
        found.changed = found.calls = True
        return
    if node.get("class") == "FUNCTION" and str(node["schema"]).lower() == "pg_catalog":
        node["schema"], node["qualified_name"] = "", {"path": [node["function_name"]]}
        found.changed = True
    if node.get("class") != "FUNCTION" or str(node["function_name"]).lower() not in TABLE:
        name = json.dumps(str(node.get("function_name")), ensure_ascii=False)
        raise Refused("42883", f"the table function {name} is not offered here", _WHICH)


_WHICH: Final = "functions that depend on their arguments alone are: docs/explanation/security.md, section skyband serve"
