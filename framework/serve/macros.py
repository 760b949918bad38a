"""Functions of PostgreSQL that its clients call to look around, as macros over the tables of ``catalog``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from skyband.framework.serve.catalog import DATABASE, PG, USER
from skyband.framework.serve.protocol.types import FUNCTIONS, TYPES

_NEEDS: Final = ("pg_class", "pg_namespace", "pg_description", "pg_settings", "pg_rewrite")
"""The tables that the macros read."""
VERSION: Final = "16.0"
"""The PostgreSQL version reported to clients, which choose their catalog queries by it."""

_FALSE: Final = """
    pg_is_other_temp_schema(a) pg_is_in_recovery() pg_relation_is_publishable(a) row_security_active(a) pg_cancel_backend(a)
    pg_terminate_backend(a) pg_try_advisory_lock(a) pg_advisory_unlock(a) pg_is_wal_replay_paused()
"""
_TRUE: Final = " ".join(
    f"pg_{what}_is_visible(a)"
    for what in ("table", "type", "function", "operator", "opclass", "opfamily", "collation", "conversion", "ts_config", "statistics_obj")
)
_NULL: Final = """
    pg_get_expr(a,b) pg_get_expr(a,b,c) pg_get_constraintdef(a) pg_get_constraintdef(a,b) pg_get_indexdef(a) pg_get_indexdef(a,b,c)
    pg_get_ruledef(a) pg_get_ruledef(a,b) pg_get_triggerdef(a) pg_get_triggerdef(a,b)
    pg_get_partkeydef(a) pg_get_serial_sequence(a,b) pg_get_functiondef(a) pg_get_function_result(a) pg_get_function_arguments(a)
    pg_get_function_identity_arguments(a) pg_get_statisticsobjdef_columns(a) shobj_description(a,b) inet_server_addr()
    inet_server_port() inet_client_addr() inet_client_port() pg_tablespace_location(a) pg_sequence_last_value(a) to_regtype(a)
    pg_get_function_sqlbody(a) pg_get_partition_constraintdef(a) pg_describe_object(a,b,c) pg_advisory_unlock_all()
    pg_stat_get_last_vacuum_time(a) pg_stat_get_last_analyze_time(a) pg_get_function_arg_default(a,b) pg_export_snapshot()
"""
_NUMBERS: Final = """
    pg_my_temp_schema() pg_relation_size(a) pg_relation_size(a,b) pg_total_relation_size(a) pg_table_size(a) pg_indexes_size(a)
    pg_database_size(a) pg_stat_get_numscans(a) txid_current() pg_backend_pid()
"""
_PRIVILEGES: Final = """
    has_table_privilege has_schema_privilege has_database_privilege has_any_column_privilege has_function_privilege
    has_sequence_privilege has_tablespace_privilege has_type_privilege has_language_privilege pg_has_role
"""
_MAY: Final = "regexp_matches(lower({0}), '^(select|usage|connect|member|execute)( |$)')"

_DIGITS: Final = "cast(round(cast(abs(v) as decimal(38, 10)), s) as varchar)"
_WHOLE: Final = f"case when zeros = 0 and s > 0 and starts_with({_DIGITS}, '0.') then '' else split_part({_DIGITS}, '.', 1) end"
_PADDED: Final = f"lpad({_WHOLE}, cast(greatest(length({_WHOLE}), zeros) as integer), '0')"
_GROUPED: Final = f"reverse(rtrim(regexp_replace(reverse({_PADDED}), '([0-9][0-9][0-9])', '\\1,', 'g'), ','))"
_PART: Final = f"split_part({_DIGITS}, '.', 2)"
_SHOWN: Final = (
    f"(case when v < 0 then '-' when filled = 1 then '' else ' ' end || case when length({_WHOLE}) > whole then repeat('#', whole) "
    f"when grouped = 1 then {_GROUPED} else {_PADDED} end || case when s = 0 then '' when filled = 0 then '.' || {_PART} "
    f"else '.' || left({_PART}, kept) || rtrim(substring({_PART}, kept + 1), '0') end)"
)
_NUMBER_CHAR: Final = f"case when filled = 1 then {_SHOWN} else lpad({_SHOWN}, wide + 1, ' ') end"
"""A number by a pattern of PostgreSQL's: ``s`` digits behind the point, ``kept`` of them also if they are zeros."""

_SQL: Final = {
    "version()": f"'PostgreSQL {VERSION} (Skyband, answered by DuckDB)'",
    **{f"{name}()": f"'{DATABASE}'" for name in ("current_database", "current_catalog")},
    **{f"{name}()": f"'{USER}'" for name in ("current_user", "session_user", "current_role")},
    "pg_get_userbyid(a)": f"'{USER}'",
    "pg_encoding_to_char(a)": "'UTF8'",
    "pg_client_encoding()": "'UTF8'",
    "getdatabaseencoding()": "'UTF8'",
    "array_remove(a,b)": "list_filter(a, lambda x: x is distinct from b)",
    "pg_char_to_encoding(a)": "6",
    "pg_postmaster_start_time()": "now()",
    "pg_conf_load_time()": "now()",
    "pg_size_pretty(a)": "cast(a as varchar) || ' bytes'",
    "pg_typeof(a)": "lower(typeof(a))",
    "quote_literal(a)": """case when contains(cast(a as varchar), chr(92)) then 'E' else '' end
        || '''' || replace(replace(cast(a as varchar), '''', ''''''), chr(92), repeat(chr(92), 2)) || ''''""",
    "quote_nullable(a)": f"coalesce(\"{PG}\".quote_literal(a), 'NULL')",
    "number_char(v,s,wide,whole,zeros,grouped,filled,kept)": _NUMBER_CHAR,
    "initcap(a)": (
        "array_to_string(list_transform(regexp_extract_all(a, '[\\p{L}\\p{N}]+|[^\\p{L}\\p{N}]+'), "
        "lambda w: upper(w[1]) || lower(w[2:])), '')"
    ),
    "div(a,b)": (
        "case when typeof(a // b) like '%INT%' then cast(a // b as decimal(38, 0)) when typeof(a % b) in ('FLOAT', 'DOUBLE') then "
        "cast(trunc(a / b) as decimal(38, 0)) else cast(round((a - a % b) / b) as decimal(38, 0)) end"
    ),
    "width_bucket(a,b)": "cast(len(list_filter(b, lambda t: t <= a)) as integer)",
    "width_bucket(a,b,c,d)": (
        "cast(case when b < c then case when a < b then 0 when a >= c then d + 1 else floor((a - b) / (c - b) * d) + 1 end "
        "else case when a > b then 0 when a <= c then d + 1 else floor((b - a) / (b - c) * d) + 1 end end as integer)"
    ),
    "array_ndims(a)": "case when len(a) > 0 then 1 end",
    "array_dims(a)": "case when len(a) > 0 then '[1:' || len(a) || ']' end",
    "regtype_oid(a)": (
        "coalesce(try_cast(a as bigint), case replace(replace(cast(a as varchar), '\"', ''), 'pg_catalog.', '') "
        f"{' '.join(f'when $${name}$$ then {t.oid}' for t in TYPES for name in dict.fromkeys((t.name, t.sql)))} end)"
    ),
    "regproc_oid(a)": f"case cast(a as varchar) {' '.join(f'when $${f}$$ then {oid}' for f, oid in FUNCTIONS.items())} else 0 end",
    "quote_ident(a)": """case when regexp_full_match(a, '[a-z_][a-z0-9_]*') then a else '"' || replace(a, '"', '""') || '"' end""",
    "set_config(a,b,c)": "cast(b as varchar)",
    "current_setting(a)": f'(select s.setting from "{PG}".pg_settings s where s.name = lower(a))',
    "current_setting(a,b)": f'(select s.setting from "{PG}".pg_settings s where s.name = lower(a))',
    "obj_description(a)": f'(select any_value(d.description) from "{PG}".pg_description d where d.objoid = a and d.objsubid = 0)',
    "obj_description(a,b)": f'(select any_value(d.description) from "{PG}".pg_description d where d.objoid = a and d.objsubid = 0)',
    "col_description(a,b)": f'(select any_value(d.description) from "{PG}".pg_description d where d.objoid = a and d.objsubid = b)',
    **{
        f"pg_get_viewdef({arguments})": f'(select any_value(r.ev_action) from "{PG}".pg_rewrite r where r.ev_class = a)'
        for arguments in ("a", "a,b")
    },
    "to_regclass(a)": f'"{PG}".regclass_oid(a)',
    "regclass_name(a)": (
        f'coalesce((select any_value(c.relname) from "{PG}".pg_class c where c.oid = try_cast(a as bigint)), cast(a as varchar))'
    ),
    "regclass_oid(a)": (
        f'coalesce(try_cast(a as bigint), (select min(c.oid) from "{PG}".pg_class c join "{PG}".pg_namespace n on n.oid = c.relnamespace '
        "where replace(a, '\"', '') in (c.relname, n.nspname || '.' || c.relname)))"
    ),
    "regnamespace_oid(a)": f"(select min(n.oid) from \"{PG}\".pg_namespace n where n.nspname = replace(a, '\"', ''))",
    "regnamespace_name(a)": f'(select any_value(n.nspname) from "{PG}".pg_namespace n where n.oid = cast(a as bigint))',
    "has_column_privilege(a,b,c)": _MAY.format("c"),
    "has_column_privilege(a,b,c,d)": _MAY.format("d"),
    **{f"{name}({args})": _MAY.format(args[-1]) for name in _PRIVILEGES.split() for args in ("a,b", "a,b,c")},
    **dict.fromkeys(_FALSE.split(), "false"),
    **dict.fromkeys(_TRUE.split(), "true"),
    **dict.fromkeys(_NULL.split(), "cast(null as varchar)"),
    **dict.fromkeys(_NUMBERS.split(), "cast(0 as bigint)"),
    "format_type(a,b)": (
        "case when a is null then null "
        "when a = 1700 and b > 4 then 'numeric(' || ((b - 4) >> 16) || ',' || ((b - 4) & 65535) || ')' "
        f"else case cast(a as bigint) {' '.join(f'when {t.oid} then $${t.sql}$$' for t in TYPES)} else '???' end end"
    ),
    "array_upper(a,b)": "case when len(a) > 0 then len(a) end",
    "array_lower(a,b)": "case when len(a) > 0 then 1 end",
    "_pg_expandarray(a)": "struct_pack(x := a[1], n := 1)",
}
_ABOUT_PATH: Final = ("current_schema", "current_schemas")
CALLS: Final = frozenset({signature.partition("(")[0] for signature in _SQL}) | frozenset(_ABOUT_PATH)
"""The names of the functions."""
TABLE_CALLS: Final = frozenset({"pg_get_keywords", "pg_show_all_settings"})
"""Those that return tables."""


def needed() -> tuple[str, ...]:
    """Return the tables of the catalog that have to be there for the macros."""
    return _NEEDS


def definitions(path: list[str]) -> Iterator[str]:
    """Return the statements that create the macros, for the search path ``path`` of names that were checked."""
    signatures: Mapping[str, str] = {
        **_SQL,
        "current_schema()": f"'{path[0]}'" if path else "cast(null as varchar)",
        "current_schemas(a)": f"case when a then {_texts(['pg_catalog', *path])} else {_texts(path)} end",
    }
    overloads: dict[str, list[str]] = {}
    for signature, sql in signatures.items():
        name, _, arguments = signature.partition("(")
        overloads.setdefault(name, []).append(f"({arguments} as {sql}")
    # What others call comes first.
    for name in sorted(overloads, key=lambda n: n in ("to_regclass", "quote_nullable")):
        yield f'create macro "{PG}".{name}{", ".join(overloads[name])}'
    yield f'create macro "{PG}".pg_show_all_settings() as table select * from "{PG}".pg_settings'
    yield f"create macro \"{PG}\".pg_get_keywords() as table select 'select' as word, 'R' as catcode, 'reserved' as catdesc"


def _texts(names: list[str]) -> str:
    return "[" + ", ".join(f"'{n}'" for n in names) + "]::varchar[]"
