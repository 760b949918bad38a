"""PostgreSQL's system catalogs and its information schema, as tables that describe the served relations.

Tables that clients read have rows. The others are empty, because the server has no indexes, keys, sequences, triggers or rules.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from skyband.framework.serve.catalog_columns import INFORMATION_TABLES, PG_TABLES
from skyband.framework.serve.types import LENGTHS, NAMES, TYPES, modifier
from skyband.framework.serve.values import oid_of

PG: Final = "pg catalog"
INFORMATION: Final = "information schema"
"""Names of the schemas with these tables; no job's schema is called so."""
SYSTEM: Final = frozenset({PG, INFORMATION})
USER: Final = "skyband"
DATABASE: Final = "skyband"
FIRST_OID: Final = 16384
_OWNER: Final = 10
_LETTERS: Final = {
    "o": pa.int64(), "t": pa.string(), "b": pa.bool_(), "i": pa.int32(), "f": pa.float32(), "x": pa.timestamp("us", "UTC"),
    "O": pa.list_(pa.int64()), "T": pa.list_(pa.string()),
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


def known(schema: str, name: str) -> tuple[str, str] | None:
    """Return where the table ``name`` of the catalogs is, None if it is none of them."""
    if schema.lower() in ("", "pg_catalog") and name.lower() in PG_TABLES:
        return PG, name.lower()
    if schema.lower() == "information_schema" and name.lower() in INFORMATION_TABLES:
        return INFORMATION, name.lower()
    return None


def table(schema: str, name: str, schemas: Sequence[str], relations: Sequence[Relation], settings: Mapping[str, str]) -> pa.Table:
    """Return one table of the catalogs. O(columns of what is served)."""
    columns = (PG_TABLES if schema == PG else INFORMATION_TABLES)[name]
    kinds = pa.schema([(c.split(":")[0], _LETTERS[c.split(":")[1]]) for c in columns.split()])
    make = _ROWS.get((schema, name))
    rows = [] if make is None else [_full(kinds, row) for row in make(schemas, relations, settings)]
    return pa.Table.from_pylist(rows, kinds)


def _full(kinds: pa.Schema, row: dict[str, Any]) -> dict[str, Any]:
    """Complete ``row``: what it does not say is zero, false or empty, as PostgreSQL has it for plain tables."""
    empty = {pa.int64(): 0, pa.int32(): 0, pa.bool_(): False, pa.float32(): 0.0}
    return {f.name: row.get(f.name, empty.get(f.type)) for f in kinds}


def _namespaces(schemas: Sequence[str], relations: Sequence[Relation], settings: Mapping[str, str]) -> Iterable[dict[str, Any]]:
    for name, oid in _schema_oids(schemas).items():
        yield {"oid": oid, "nspname": name, "nspowner": _OWNER}


def _schema_oids(schemas: Sequence[str]) -> dict[str, int]:
    """Return the OIDs of schemas. They end where those of relations begin."""
    return {"pg_catalog": 11, "information_schema": 13000, **{name: FIRST_OID - len(schemas) + i for i, name in enumerate(schemas)}}


def _classes(schemas: Sequence[str], relations: Sequence[Relation], settings: Mapping[str, str]) -> Iterable[dict[str, Any]]:
    oids = _schema_oids(schemas)
    for r in relations:
        yield {
            "oid": r.oid, "relname": r.name, "relnamespace": oids[r.schema], "relowner": _OWNER, "relkind": "v" if r.view else "r",
            "relnatts": len(r.columns), "relpersistence": "p", "relreplident": "d", "relam": 0 if r.view else 2, "reltuples": -1.0,
            "relispopulated": True,
        }  # fmt: skip


def _attributes(schemas: Sequence[str], relations: Sequence[Relation], settings: Mapping[str, str]) -> Iterable[dict[str, Any]]:
    for r in relations:
        for number, column in enumerate(r.columns, 1):
            oid = oid_of(column.type)
            yield {
                "attrelid": r.oid, "attname": column.name, "atttypid": oid, "attlen": LENGTHS.get(oid, -1), "attnum": number,
                "atttypmod": modifier(column.type), "attstorage": "p", "attalign": "i", "attidentity": "", "attgenerated": "",
                "attcompression": "", "attislocal": True, "attstattarget": -1,
            }  # fmt: skip


def _described(schemas: Sequence[str], relations: Sequence[Relation], settings: Mapping[str, str]) -> Iterable[dict[str, Any]]:
    for r in relations:
        if r.comment:
            yield {"objoid": r.oid, "classoid": 1259, "objsubid": 0, "description": r.comment}
        for number, column in enumerate(r.columns, 1):
            if comment := comment_of(column):
                yield {"objoid": r.oid, "classoid": 1259, "objsubid": number, "description": comment}


def comment_of(column: pa.Field) -> str:
    """Return the comment of a column, "" if it has none."""
    return str((column.metadata or {}).get(b"comment", b"").decode())


def _types(schemas: Sequence[str], relations: Sequence[Relation], settings: Mapping[str, str]) -> Iterable[dict[str, Any]]:
    for t in TYPES:
        yield {
            "oid": t.oid, "typname": t.name, "typnamespace": 11, "typowner": _OWNER, "typlen": LENGTHS.get(t.oid, -1), "typtype": "b",
            "typbyval": t.oid in LENGTHS, "typcategory": t.category, "typisdefined": True, "typdelim": ",", "typelem": t.element,
            "typarray": t.array, "typinput": f"{t.name}in", "typoutput": f"{t.name}out", "typreceive": f"{t.name}recv",
            "typsend": f"{t.name}send", "typmodin": "-", "typmodout": "-", "typalign": "i", "typstorage": "p", "typtypmod": -1,
        }  # fmt: skip


def _rules(schemas: Sequence[str], relations: Sequence[Relation], settings: Mapping[str, str]) -> Iterable[dict[str, Any]]:
    """Yield the definitions of views, where PostgreSQL has them."""
    for r in relations:
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


def _databases(schemas: Sequence[str], relations: Sequence[Relation], settings: Mapping[str, str]) -> Iterable[dict[str, Any]]:
    yield {
        "oid": 5, "datname": DATABASE, "datdba": _OWNER, "encoding": 6, "datlocprovider": "c", "datallowconn": True, "datconnlimit": -1,
        "datcollate": "C", "datctype": "C",
    }  # fmt: skip


def _roles(schemas: Sequence[str], relations: Sequence[Relation], settings: Mapping[str, str]) -> Iterable[dict[str, Any]]:
    common = {"oid": _OWNER, "rolname": USER, "rolinherit": True, "rolcanlogin": True, "rolconnlimit": -1}
    yield {**common, "usename": USER, "usesysid": _OWNER}


def _settings(schemas: Sequence[str], relations: Sequence[Relation], settings: Mapping[str, str]) -> Iterable[dict[str, Any]]:
    for name, value in settings.items():
        yield {"name": name, "setting": value, "vartype": "string", "context": "user", "source": "session", "boot_val": value}


def _methods(schemas: Sequence[str], relations: Sequence[Relation], settings: Mapping[str, str]) -> Iterable[dict[str, Any]]:
    yield {"oid": 2, "amname": "heap", "amhandler": "heap_tableam_handler", "amtype": "t"}


def _named(view: bool, keys: Sequence[str]) -> Any:
    def rows(schemas: Sequence[str], relations: Sequence[Relation], settings: Mapping[str, str]) -> Iterable[dict[str, Any]]:
        return ({keys[0]: r.schema, keys[1]: r.name, keys[2]: USER, "definition": r.sql} for r in relations if r.view == view)

    return rows


def _schemata(schemas: Sequence[str], relations: Sequence[Relation], settings: Mapping[str, str]) -> Iterable[dict[str, Any]]:
    for name in _schema_oids(schemas):
        yield {"catalog_name": DATABASE, "schema_name": name, "schema_owner": USER}


def _tables(schemas: Sequence[str], relations: Sequence[Relation], settings: Mapping[str, str]) -> Iterable[dict[str, Any]]:
    for r in relations:
        kind = "VIEW" if r.view else "BASE TABLE"
        yield {
            "table_catalog": DATABASE, "table_schema": r.schema, "table_name": r.name, "table_type": kind, "is_insertable_into": "NO",
            "is_typed": "NO",
        }  # fmt: skip


def _views(schemas: Sequence[str], relations: Sequence[Relation], settings: Mapping[str, str]) -> Iterable[dict[str, Any]]:
    for r in relations:
        if r.view:
            yield {
                "table_catalog": DATABASE,
                "table_schema": r.schema,
                "table_name": r.name,
                "view_definition": r.sql,
                "is_updatable": "NO",
            }


def _columns(schemas: Sequence[str], relations: Sequence[Relation], settings: Mapping[str, str]) -> Iterable[dict[str, Any]]:
    udt = {t.oid: t.name for t in TYPES}
    for r in relations:
        for number, column in enumerate(r.columns, 1):
            oid, decimal = oid_of(column.type), pa.types.is_decimal(column.type)
            yield {
                "table_catalog": DATABASE, "table_schema": r.schema, "table_name": r.name, "column_name": column.name,
                "ordinal_position": number, "is_nullable": "YES", "data_type": NAMES[oid], "udt_catalog": DATABASE,
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
    (PG, "pg_am"): _methods,
    (PG, "pg_tables"): _named(False, ("schemaname", "tablename", "tableowner")),
    (PG, "pg_views"): _named(True, ("schemaname", "viewname", "viewowner")),
    (INFORMATION, "schemata"): _schemata,
    (INFORMATION, "tables"): _tables,
    (INFORMATION, "views"): _views,
    (INFORMATION, "columns"): _columns,
}
