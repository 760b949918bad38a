"""Functions of PostgreSQL that its clients call to look around, as macros over the tables of ``catalog``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from skyband.framework.serve.catalog import DATABASE, PG, USER
from skyband.framework.serve.protocol.values import FUNCTIONS, TYPES

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


# The DuckDB functions that a statement may call: those that depend only on their arguments and the clock.
#
# What is not named here is refused, also what a later DuckDB brings: functions that read files, settings, secrets, variables or the
# environment, that run a statement given as text, that change anything (sequences, the seed, logs), or that sleep.
# ``tests/framework/serve/test_functions.py`` holds the lists against the DuckDB that is installed.


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


SCALAR: Final = _words("""
    abs acos acosh add age apply array_aggr array_aggregate array_apply array_cat array_concat array_contains array_cosine_distance
    array_cosine_similarity array_cross_product array_distance array_distinct array_dot_product array_extract array_filter array_grade_up
    array_has array_has_all array_has_any array_indexof array_inner_product array_intersect array_length array_negative_dot_product
    array_negative_inner_product array_position array_reduce array_resize array_reverse_sort array_select array_slice array_sort
    array_to_json array_transform array_unique array_value array_where array_zip ascii asin asinh atan atan2 atanh bar base64 bin
    bit_count bit_length bit_position bitstring cardinality cbrt ceil ceiling century char_length character_length chr concat concat_ws
    contains cos cosh cot current_date current_localtime current_localtimestamp damerau_levenshtein date_diff date_part date_sub date_trunc
    datediff datepart datesub datetrunc day dayname dayofmonth dayofweek dayofyear decade decode degrees divide editdist3 element_at encode
    ends_with enum_code enum_first enum_last enum_range enum_range_boundary epoch epoch_ms epoch_ns epoch_us equi_width_bins era error even
    exp factorial filter flatten floor format format_bytes from_base64 from_binary from_hex from_json from_json_strict gamma gcd
    gen_random_uuid generate_series get_bit get_current_time get_current_timestamp grade_up greatest greatest_common_divisor hamming hash
    hex hour ilike_escape instr isfinite isinf isnan isodow isoyear jaccard jaro_similarity jaro_winkler_similarity json_array
    json_array_length json_contains json_deep_merge json_exists json_extract json_extract_path json_extract_path_text json_extract_string
    json_insert json_keys json_merge_patch json_normalize json_object json_pretty json_quote json_remove json_replace json_set
    json_strip_nulls json_structure json_transform json_transform_strict json_type json_valid json_value julian last_day lcase lcm least
    least_common_multiple left left_grapheme len length length_grapheme levenshtein lgamma like_escape list_aggr list_aggregate list_apply
    list_cat list_concat list_contains list_cosine_distance list_cosine_similarity list_distance list_distinct list_dot_product
    list_element list_extract list_filter list_grade_up list_has list_has_all list_has_any list_indexof list_inner_product list_intersect
    list_negative_dot_product list_negative_inner_product list_pack list_position list_reduce list_resize list_reverse_sort list_select
    list_slice list_sort list_transform list_unique list_value list_where list_zip ln log log10 log2 lower lpad ltrim make_date make_time
    make_timestamp make_timestamp_ms make_timestamp_ns make_timestamptz map map_concat map_contains map_entries map_extract
    map_extract_value map_from_entries map_keys map_values md5 md5_number microsecond millennium millisecond minute mismatches mod month
    monthname multiply nanosecond nextafter nfc_normalize normalized_interval not_ilike_escape not_like_escape now octet_length ord overlay
    parse_dirname parse_dirpath parse_filename parse_formatted_bytes parse_path pi position pow power prefix printf quarter radians random
    range reduce regexp_escape regexp_extract regexp_extract_all regexp_full_match regexp_matches regexp_replace regexp_split_to_array
    repeat replace reverse right right_grapheme round round_even roundbankers row row_to_json rpad rtrim second set_bit sha1 sha256 sign
    signbit sin sinh split sqrt starts_with str_split str_split_regex strftime string_split string_split_regex string_to_array
    strip_accents strlen strpos strptime struct_concat struct_contains struct_extract struct_extract_at struct_has struct_indexof
    struct_insert struct_keys struct_pack struct_position struct_update struct_values substr substring substring_grapheme subtract suffix
    tan tanh time_bucket timezone timezone_hour timezone_minute to_base to_base64 to_binary to_centuries to_days to_decades to_hex to_hours
    to_json to_microseconds to_millennia to_milliseconds to_minutes to_months to_quarters to_seconds to_timestamp to_weeks to_years today
    transaction_timestamp translate trim trunc try_strptime typeof ucase unbin unhex unicode union_extract union_tag union_value upper
    url_decode url_encode uuid uuidv4 uuidv7 week weekday weekofyear xor year yearweek
    ago array_append array_pop_back array_pop_front array_prepend array_push_back array_push_front array_reverse array_to_string
    array_to_string_comma_default date_add days_in_month fdiv fmod generate_subscripts geomean geometric_mean if json json_group_array
    json_group_object json_group_structure list_any_value list_append list_approx_count_distinct list_avg list_bit_and list_bit_or
    list_bit_xor list_bool_and list_bool_or list_count list_entropy list_first list_histogram list_kurtosis list_kurtosis_pop list_last
    list_mad list_max list_median list_min list_mode list_prepend list_product list_reverse list_sem list_skewness list_stddev_pop
    list_stddev_samp list_string_agg list_sum list_var_pop list_var_samp map_contains_entry map_contains_value nullif
    regexp_split_to_table split_part wavg weighted_avg
    unnest unlist grouping grouping_id coalesce
""")
"""Of one row; with DuckDB's macros over them."""

AGGREGATE: Final = _words("""
    any_value approx_count_distinct approx_quantile approx_top_k arbitrary arg_max arg_max_null arg_max_nulls_last arg_min arg_min_null
    arg_min_nulls_last argmax argmin array_agg avg bit_and bit_or bit_xor bitstring_agg bool_and bool_or corr count count_if count_star
    countif covar_pop covar_samp entropy favg first fsum group_concat histogram histogram_exact kahan_sum kurtosis kurtosis_pop last list
    listagg lttb mad max max_by mean median min min_by mode product quantile quantile_cont quantile_disc regr_avgx regr_avgy regr_count
    regr_intercept regr_r2 regr_slope regr_sxx regr_sxy regr_syy reservoir_quantile sem skewness stddev stddev_pop stddev_samp string_agg
    sum sum_no_overflow sumkahan var_pop var_samp variance
    cume_dist dense_rank fill first_value lag last_value lead nth_value ntile percent_rank rank rank_dense row_number
""")
"""Of many rows, and of windows."""

TABLE: Final = frozenset({"generate_series", "range", "unnest", "repeat", "repeat_row", "json_each", "json_tree", "regexp_split_to_table"})
"""Table functions: none reads a file, a catalog or a table by its name."""

OPERATORS: Final = _words("""
    + - * / // % ^ ** & | ~ << >> || ! @ ~~ !~~ ~~* !~~* ~~~ !~~~ !~ ~* !~* ^@ @> <@ && -> ->> <-> <=> <#>
""")
"""Functions that are written as operators."""

ALLOWED: Final = SCALAR | AGGREGATE | OPERATORS
