"""Name the columns of a query that it does not name itself, as PostgreSQL does: ``count`` for ``count(*)``, ``a`` for ``a::text``."""

from __future__ import annotations

from typing import Any, Final

from skyband.framework.serve.parameters import Node

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
