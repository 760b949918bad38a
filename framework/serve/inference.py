"""Find the types of a statement's parameters that the client left open: those that the expressions around them imply.

DuckDB binds the statement with a marker text in the place of each such parameter. Its plan, not optimized, then says to which type it casts
each marker, as ``(score > CAST('§1§' AS DOUBLE))``. What is not cast is a text, as in PostgreSQL where nothing else decides.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from skyband.framework.base.extras import extra
from skyband.framework.serve import parameters
from skyband.framework.serve.parameters import Node
from skyband.framework.serve.protocol import values as pg
from skyband.framework.serve.protocol.values import by_name
from skyband.framework.serve.protocol.wire import Refused

with extra("sql", "the server of a job's tables"):
    import duckdb

_CAST: Final = re.compile(r"CAST\('§(?P<number>\d{1,5})§' AS ")
_ARITHMETIC: Final = frozenset({"+", "-", "*", "%"})
_OIDS: Final[Mapping[str, int]] = {
    "BOOLEAN": pg.BOOL, "TINYINT": pg.INT2, "UTINYINT": pg.INT2, "SMALLINT": pg.INT2, "USMALLINT": pg.INT4, "INTEGER": pg.INT4,
    "UINTEGER": pg.OID, "BIGINT": pg.INT8, "UBIGINT": pg.NUMERIC, "HUGEINT": pg.NUMERIC, "UHUGEINT": pg.NUMERIC, "DECIMAL": pg.NUMERIC,
    "FLOAT": pg.FLOAT4, "DOUBLE": pg.FLOAT8, "BLOB": pg.BYTEA, "DATE": pg.DATE, "TIME": pg.TIME, "TIMESTAMP": pg.TIMESTAMP,
    "TIMESTAMP_S": pg.TIMESTAMP, "TIMESTAMP_MS": pg.TIMESTAMP, "TIMESTAMP_NS": pg.TIMESTAMP, "TIMESTAMP WITH TIME ZONE": pg.TIMESTAMPTZ,
    "INTERVAL": pg.INTERVAL, "UUID": pg.UUID, "VARCHAR": pg.TEXT,
}  # fmt: skip
"""DuckDB's name of a type -> OID."""


class Open:
    """The parameters of ``root`` without a type: those whose OID in ``oids`` is 0.

    ``careful``: mark those in arithmetic as of the type of the other side, for statements that DuckDB does not bind otherwise.
    ``wrapped``: show the columns that have names in queries of their own, else take their names away: a plan does not say what they are.
    """

    def __init__(self, root: list[Node], oids: Sequence[int], careful: bool, wrapped: bool) -> None:
        self._oids, self._careful = oids, careful
        self._lists = set[int]()
        self._fixed = dict[int, int]()
        self._mark(root)
        _show_named(root, wrapped)

    def _mark(self, root: list[Node]) -> None:
        """Put markers into the places of the parameters, and values without a type into those that need a number."""
        for holder, key, parent in _places(root):
            number = int(str(holder[key]["identifier"]))
            if number > len(self._oids) or self._oids[number - 1]:
                continue
            made = parameters.constant("STRING", f"§{number}§")
            if parent.get("type") == "LIMIT_MODIFIER" or (parent.get("class") == "FUNCTION" and parent["function_name"] in _COUNTED):
                self._fixed[number], made = pg.INT8, parameters.constant("INTEGER", "1")
            elif parent.get("class") == "CAST" and (oid := _named(parent["type_expr"])):
                self._fixed[number], made = oid, parameters.constant("NULL_LITERAL", "")
            elif self._careful and parent.get("class") == "FUNCTION" and parent["function_name"] in _ARITHMETIC:
                others = [a["expression"] for a in parent["arguments"] if a["expression"] is not holder[key]]
                made = parameters.coalesce([made, *others])
            holder[key] = {**made, "alias": holder[key].get("alias", "")}
        for any_of, argument in _any_of_list(root):
            found = re.fullmatch(r"§(\d+)§", str((argument.get("literal") or {}).get("text")))
            if found:
                self._lists.add(int(found[1]))
                compared = {**parameters.node("COMPARISON", any_of["comparison_type"]), "left": any_of["child"], "right": argument}
                any_of.clear()
                any_of.update(compared)

    def types(self, duck: duckdb.DuckDBPyConnection, sql: str) -> list[int]:
        """Return the OID of each parameter of ``sql``, the text with the markers. Raises duckdb.Error if it cannot be bound."""
        plans = "\n".join(text for _, plan in duck.execute(f"explain (format json) {sql}").fetchall() for text in _texts(json.loads(plan)))
        found = dict(self._fixed)
        for cast in _CAST.finditer(plans):
            number = int(cast["number"])
            oid = _oid(_until_closed(plans, cast.end()))
            found.setdefault(number, pg.ARRAYS.get(oid, pg.TEXT) if number in self._lists else oid)
        texts = {n: pg.ARRAYS[pg.TEXT] for n in self._lists}
        return [oid or found.get(n, texts.get(n, pg.TEXT)) for n, oid in enumerate(self._oids, 1)]


_COUNTED: Final = frozenset({"range", "generate_series"})


def _texts(plan: Any) -> Iterator[str]:
    """Yield all texts in ``plan``."""
    if isinstance(plan, str):
        yield plan
    elif isinstance(plan, (dict, list)):
        for part in plan.values() if isinstance(plan, dict) else plan:
            yield from _texts(part)


def prepare(duck: duckdb.DuckDBPyConnection) -> None:
    """Make ``duck`` say in its plans what it casts to which type."""
    duck.execute("pragma disable_optimizer")
    duck.execute("set explain_output = 'all'")


def _places(root: list[Node]) -> Iterator[tuple[Any, Any, Node]]:
    """Yield (holder, key, next node above) of each parameter below ``root``."""
    todo: list[tuple[Any, Node]] = [(root, {})]
    while todo:
        holder, above = todo.pop()
        own = holder if isinstance(holder, dict) and ("class" in holder or "type" in holder) else above
        for key, node in list(holder.items() if isinstance(holder, dict) else enumerate(holder)):
            if isinstance(node, dict) and node.get("class") == "PARAMETER":
                if not str(node.get("identifier")).isdigit():
                    raise Refused("42P02", "parameters are written $1, $2 and so on")
                yield holder, key, own
            elif isinstance(node, (dict, list)):
                todo.append((node, own))


def _any_of_list(root: list[Node]) -> Iterator[tuple[Node, Node]]:
    """Yield each ``x = any(list)`` below ``root`` with its list."""
    todo: list[Any] = [root]
    while todo:
        node = todo.pop()
        if isinstance(node, dict) and node.get("subquery_type") == "ANY":
            query = (node.get("subquery") or {}).get("node") or {}
            items = query.get("select_list") or [{}]
            if items[0].get("function_name") == "unnest" and (query.get("from_table") or {}).get("type") == "EMPTY":
                yield node, items[0]["arguments"][0]["expression"]
                todo.append(node.get("left"))
                continue
        todo += [n for n in (node.values() if isinstance(node, dict) else node or ()) if isinstance(n, (dict, list))]


def _named(kind: Any) -> int | None:
    """Return the OID of the type that a cast names, None if it is none of PostgreSQL's."""
    if not isinstance(kind, dict):
        return None
    name = str(kind.get("type_name"))
    if name.lower() in ("list", "array") and kind["children"]:
        return pg.ARRAYS.get(_named(kind["children"][0]) or 0)
    oid = by_name(name) or _OIDS.get(name.upper())
    # Names of relations and types come as texts.
    return oid if oid is None or parameters.is_taken(oid) else pg.TEXT


def _show_named(root: list[Node], wrapped: bool) -> None:
    """Make the columns with markers in them appear in the plan, which shows no more than the name of one that has a name."""
    todo: list[Any] = [root]
    while todo:
        node = todo.pop()
        for i, item in enumerate(node.get("select_list") or ()) if isinstance(node, dict) and node.get("type") == "SELECT_NODE" else ():
            if item.get("alias") and "§" in json.dumps(item, ensure_ascii=False):
                plain = {**item, "alias": ""}
                node["select_list"][i] = {**parameters.scalar(plain), "alias": item["alias"]} if wrapped else plain
        todo += [n for n in (node.values() if isinstance(node, dict) else node or ()) if isinstance(n, (dict, list))]


def _until_closed(text: str, at: int) -> str:
    """Return ``text`` from ``at`` to the parenthesis that closes the one before it."""
    depth = 0
    for i in range(at, len(text)):
        depth += {"(": 1, ")": -1}.get(text[i], 0)
        if depth < 0:
            return text[at:i]
    return ""


def _oid(name: str) -> int:
    """Return the OID of the type that DuckDB calls ``name``; what has no type of PostgreSQL's is a text."""
    if name.endswith("]"):
        return pg.ARRAYS.get(_oid(name[: name.rindex("[")]), pg.TEXT)
    return _OIDS.get(name.partition("(")[0].strip(), pg.TEXT)
