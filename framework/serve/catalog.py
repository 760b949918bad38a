"""PostgreSQL's system catalogs and its information schema, as tables that describe the served relations.

Tables that clients read have rows. The others are empty, because the server has no indexes, keys, sequences, triggers or rules.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from skyband.framework.serve.catalog_columns import INFORMATION_TABLES, PG_TABLES
from skyband.framework.serve.protocol.types import FUNCTIONS, LENGTHS, NAMES, TYPES, modifier, procedure
from skyband.framework.serve.protocol.values import ELEMENTS, oid_of

PG: Final = "pg catalog"
INFORMATION: Final = "information schema"
"""Names of the schemas with these tables; no job's schema is called so."""
SYSTEM: Final = frozenset({PG, INFORMATION})
USER: Final = "skyband"
DATABASE: Final = "skyband"
FIRST_OID: Final = 16384
_OWNER: Final = 10
_LETTERS: Final = {
    "o": pa.uint32(), "t": pa.string(), "b": pa.bool_(), "i": pa.int32(), "f": pa.float32(), "x": pa.timestamp("us", "UTC"),
    "O": pa.list_(pa.uint32()), "T": pa.list_(pa.string()),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Relation:
    """A table or a view that is served."""

    schema: str
    name: str
    columns: pa.Schema
    comment: str
    view: bool
    oid: int
    sql: str = ""


@dataclass(frozen=True, slots=True)
class Cursor:
    """A cursor of the connection: its name, the statement that declared it, whether it is binary, whether it outlives its transaction."""

    name: str
    statement: str
    binary: bool
    held: bool


@dataclass(frozen=True, slots=True)
class About:
    """What the catalogs describe: schemas, relations, and the settings and the cursors of the connection."""

    schemas: Sequence[str]
    relations: Sequence[Relation]
    settings: Mapping[str, str]
    cursors: Sequence[Cursor] = ()


def known(schema: str, name: str) -> tuple[str, str] | None:
    """Return where the table ``name`` of the catalogs is, None if it is none of them."""
    if schema.lower() in ("", "pg_catalog") and name.lower() in PG_TABLES:
        return PG, name.lower()
    if schema.lower() == "information_schema" and name.lower() in INFORMATION_TABLES:
        return INFORMATION, name.lower()
    return None


def table(schema: str, name: str, about: About) -> pa.Table:
    """Return one table of the catalogs. O(columns of what is served)."""
    columns = (PG_TABLES if schema == PG else INFORMATION_TABLES)[name]
    kinds = pa.schema([(c.split(":")[0], _LETTERS[c.split(":")[1]]) for c in columns.split()])
    make = _ROWS.get((schema, name))
    rows = [] if make is None else [_full(kinds, row) for row in make(about)]
    return pa.Table.from_pylist(rows, kinds)


def _full(kinds: pa.Schema, row: dict[str, Any]) -> dict[str, Any]:
    """Complete ``row``: what it does not say is zero, false or empty, as PostgreSQL has it for plain tables."""
    empty = {pa.uint32(): 0, pa.int32(): 0, pa.bool_(): False, pa.float32(): 0.0}
    return {f.name: row.get(f.name, empty.get(f.type)) for f in kinds}


def _namespaces(about: About) -> Iterable[dict[str, Any]]:
    for name, oid in _schema_oids(about.schemas).items():
        yield {"oid": oid, "nspname": name, "nspowner": _OWNER}


def _schema_oids(schemas: Sequence[str]) -> dict[str, int]:
    """Return the OIDs of schemas. They end where those of relations begin."""
    return {"pg_catalog": 11, "information_schema": 13000, **{name: FIRST_OID - len(schemas) + i for i, name in enumerate(schemas)}}


def _classes(about: About) -> Iterable[dict[str, Any]]:
    oids = _schema_oids(about.schemas)
    for r in about.relations:
        yield {
            "oid": r.oid, "relname": r.name, "relnamespace": oids[r.schema], "relowner": _OWNER, "relkind": "v" if r.view else "r",
            "relnatts": len(r.columns), "relpersistence": "p", "relreplident": "d", "relam": 0 if r.view else 2, "reltuples": -1.0,
            "relispopulated": True,
        }  # fmt: skip


def _attributes(about: About) -> Iterable[dict[str, Any]]:
    for r in about.relations:
        for number, column in enumerate(r.columns, 1):
            oid = oid_of(column.type)
            yield {
                "attrelid": r.oid, "attname": column.name, "atttypid": oid, "attlen": LENGTHS.get(oid, -1), "attnum": number,
                "atttypmod": modifier(column.type), "attstorage": "p", "attalign": "i", "attidentity": "", "attgenerated": "",
                "attcompression": "", "attndims": int(oid in ELEMENTS), "attislocal": True, "attstattarget": -1,
            }  # fmt: skip


def _described(about: About) -> Iterable[dict[str, Any]]:
    for r in about.relations:
        if r.comment:
            yield {"objoid": r.oid, "classoid": 1259, "objsubid": 0, "description": r.comment}
        for number, column in enumerate(r.columns, 1):
            if comment := comment_of(column):
                yield {"objoid": r.oid, "classoid": 1259, "objsubid": number, "description": comment}


def comment_of(column: pa.Field) -> str:
    """Return the comment of a column, "" if it has none."""
    return str((column.metadata or {}).get(b"comment", b"").decode())


def _types(about: About) -> Iterable[dict[str, Any]]:
    for t in TYPES:
        yield {
            "oid": t.oid, "typname": t.name, "typnamespace": 11, "typowner": _OWNER, "typlen": LENGTHS.get(t.oid, -1), "typtype": "b",
            "typbyval": t.oid in LENGTHS, "typcategory": t.category, "typisdefined": True, "typdelim": ",", "typelem": t.element,
            "typarray": t.array, "typinput": procedure(t, "in"), "typoutput": procedure(t, "out"),
            "typreceive": procedure(t, "recv"), "typsend": procedure(t, "send"), "typmodin": "-", "typmodout": "-", "typanalyze": "-",
            "typalign": "i", "typstorage": "p", "typtypmod": -1,
        }  # fmt: skip


def _functions(about: About) -> Iterable[dict[str, Any]]:
    for name, oid in FUNCTIONS.items():
        yield {"oid": oid, "proname": name, "pronamespace": 11, "proowner": _OWNER, "prokind": "f", "provolatile": "i", "prosrc": name}


def _cursors(about: About) -> Iterable[dict[str, Any]]:
    for c in about.cursors:
        yield {"name": c.name, "statement": c.statement, "is_binary": c.binary, "is_holdable": c.held}


def _rules(about: About) -> Iterable[dict[str, Any]]:
    """Yield the definitions of views, where PostgreSQL has them."""
    for r in about.relations:
        if r.view:
            yield {
                "oid": r.oid,
                "rulename": "_RETURN",
                "ev_class": r.oid,
                "ev_type": "1",
                "ev_enabled": "O",
                "is_instead": True,
                "ev_action": r.sql,
            }


def _databases(about: About) -> Iterable[dict[str, Any]]:
    yield {
        "oid": 5, "datname": DATABASE, "datdba": _OWNER, "encoding": 6, "datlocprovider": "c", "datallowconn": True, "datconnlimit": -1,
        "datcollate": "C", "datctype": "C",
    }  # fmt: skip


def _roles(about: About) -> Iterable[dict[str, Any]]:
    common = {"oid": _OWNER, "rolname": USER, "rolinherit": True, "rolcanlogin": True, "rolconnlimit": -1}
    yield {**common, "usename": USER, "usesysid": _OWNER}


def _settings(about: About) -> Iterable[dict[str, Any]]:
    for name, value in about.settings.items():
        yield {"name": name, "setting": value, "vartype": "string", "context": "user", "source": "session", "boot_val": value}


def _methods(about: About) -> Iterable[dict[str, Any]]:
    yield {"oid": 2, "amname": "heap", "amhandler": "heap_tableam_handler", "amtype": "t"}


def _named(view: bool, keys: Sequence[str]) -> Any:
    def rows(about: About) -> Iterable[dict[str, Any]]:
        return ({keys[0]: r.schema, keys[1]: r.name, keys[2]: USER, "definition": r.sql} for r in about.relations if r.view == view)

    return rows


def _schemata(about: About) -> Iterable[dict[str, Any]]:
    for name in _schema_oids(about.schemas):
        yield {"catalog_name": DATABASE, "schema_name": name, "schema_owner": USER}


def _tables(about: About) -> Iterable[dict[str, Any]]:
    for r in about.relations:
        kind = "VIEW" if r.view else "BASE TABLE"
        yield {
            "table_catalog": DATABASE, "table_schema": r.schema, "table_name": r.name, "table_type": kind, "is_insertable_into": "NO",
            "is_typed": "NO",
        }  # fmt: skip


def _views(about: About) -> Iterable[dict[str, Any]]:
    for r in about.relations:
        if r.view:
            yield {
                "table_catalog": DATABASE,
                "table_schema": r.schema,
                "table_name": r.name,
                "view_definition": r.sql,
                "is_updatable": "NO",
            }


def _columns(about: About) -> Iterable[dict[str, Any]]:
    udt = {t.oid: t.name for t in TYPES}
    for r in about.relations:
        for number, column in enumerate(r.columns, 1):
            oid, decimal = oid_of(column.type), pa.types.is_decimal(column.type)
            yield {
                "table_catalog": DATABASE, "table_schema": r.schema, "table_name": r.name, "column_name": column.name,
                "ordinal_position": number, "is_nullable": "YES", "udt_catalog": DATABASE,
                "data_type": "ARRAY" if oid in ELEMENTS else NAMES[oid],
                "udt_schema": "pg_catalog", "udt_name": udt[oid], "is_identity": "NO", "is_generated": "NEVER", "is_updatable": "NO",
                "numeric_precision": column.type.precision if decimal else None, "numeric_scale": column.type.scale if decimal else None,
                "character_maximum_length": None, "datetime_precision": None, "dtd_identifier": str(number),
            }  # fmt: skip


_ROWS: Final[Mapping[tuple[str, str], Any]] = {
    (PG, "pg_namespace"): _namespaces,
    (PG, "pg_class"): _classes,
    (PG, "pg_attribute"): _attributes,
    (PG, "pg_description"): _described,
    (PG, "pg_type"): _types,
    (PG, "pg_rewrite"): _rules,
    (PG, "pg_database"): _databases,
    (PG, "pg_roles"): _roles,
    (PG, "pg_authid"): _roles,
    (PG, "pg_user"): _roles,
    (PG, "pg_settings"): _settings,
    (PG, "pg_proc"): _functions,
    (PG, "pg_cursors"): _cursors,
    (PG, "pg_am"): _methods,
    (PG, "pg_tables"): _named(False, ("schemaname", "tablename", "tableowner")),
    (PG, "pg_views"): _named(True, ("schemaname", "viewname", "viewowner")),
    (INFORMATION, "schemata"): _schemata,
    (INFORMATION, "tables"): _tables,
    (INFORMATION, "views"): _views,
    (INFORMATION, "columns"): _columns,
}
