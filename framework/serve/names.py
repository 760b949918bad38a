"""Resolve the names in a statement: relations of jobs, PostgreSQL's catalogs, and calls and casts that only PostgreSQL has."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from skyband.framework.serve import formats, parameters
from skyband.framework.serve.catalog import DATABASE, PG, Relation, known
from skyband.framework.serve.catalog_columns import REGPROC
from skyband.framework.serve.functions import ALLOWED
from skyband.framework.serve.macros import CALLS, TABLE_CALLS
from skyband.framework.serve.parameters import Node
from skyband.framework.serve.protocol.types import by_name
from skyband.framework.serve.protocol.wire import Refused

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
