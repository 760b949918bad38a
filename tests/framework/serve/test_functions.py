"""The allow list of functions against the DuckDB that is installed."""

from __future__ import annotations

import duckdb

from skyband.framework.serve.macros import ALLOWED, OPERATORS, TABLE

REFUSED = {
    "getvariable", "current_setting", "in_search_path", "nextval", "currval", "setval", "setseed", "sleep_ms", "write_log", "stats",
    "current_query", "current_query_id", "current_connection_id", "current_transaction_id", "txid_current", "json_serialize_plan",
    "json_serialize_sql", "json_deserialize_sql", "version", "which_secret", "vector_type",
}  # fmt: skip
"""Functions of settings, secrets and state."""
BY_SYNTAX = {"unlist", "grouping", "grouping_id", "coalesce", "unnest"}
"""What DuckDB's parser makes and its list of functions lacks."""


def known(*kinds: str) -> set[str]:
    rows = duckdb.connect().execute("select distinct function_name, function_type from duckdb_functions()").fetchall()
    return {name for name, kind in rows if kind in kinds}


def test_the_allow_list_names_functions_that_there_are() -> None:
    there = known("scalar", "aggregate", "macro", "window")
    assert ALLOWED - OPERATORS - BY_SYNTAX - there == set()
    assert TABLE - known("table", "table_macro") - there == set()


def test_what_is_not_consistent_is_allowed_by_name_only() -> None:
    """DuckDB says itself which functions depend on more than their arguments: of those, the clock and chance are allowed."""
    rows = duckdb.connect().execute("select distinct function_name from duckdb_functions() where stability <> 'CONSISTENT'").fetchall()
    assert {n for (n,) in rows} & ALLOWED == {
        "current_date", "error", "gen_random_uuid", "get_current_time", "get_current_timestamp", "now", "random", "today",
        "transaction_timestamp", "uuid", "uuidv4", "uuidv7",
    }  # fmt: skip


def test_no_table_function_that_reads_anything_is_allowed() -> None:
    """Of all table functions, eight make their rows of their arguments."""
    refused = known("table", "table_macro", "pragma") - TABLE
    assert {"read_csv", "read_text", "glob", "query", "query_table", "duckdb_settings", "json_execute_serialized_sql"} <= refused
    assert known("table", "table_macro", "pragma") & TABLE == TABLE - {"regexp_split_to_table"}
    assert ALLOWED & refused == {"histogram"}


def test_functions_of_secrets_settings_and_state_are_refused() -> None:
    assert not REFUSED & (ALLOWED | TABLE)
