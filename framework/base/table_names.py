"""The names of a job's tables and of their columns (docs/semantics, tables)."""

from __future__ import annotations

from typing import Final

JOB_TABLES: Final = ("heads", "rejected", "runs", "checks", "published")
JOB_RUNS: Final = "job_runs"
"""The table of a job's runs. It belongs to no generation and to no batch."""
SUFFIXES: Final = ("", "_changes", "_now", "_skyband")
TRAJECTORY: Final = "_trajectory"
"""Suffix of the table of a query whose items have time-varying values."""
FINAL_RESULTS: Final = "_final"
"""Suffix of the table of a query with tumbling windows: their results as they close."""

NAMES_EDITION: Final = 2
"""Version of the names of all columns. The tables of a job keep the version they were created with (SKY-E307)."""
RENAMED: Final = (("at", "changed_at"), ("current", "is_current"), ("table (of checks)", "table_name"))
"""Names of edition 1, which some SQL engines reserve, and their names in edition 2."""

QUERY_COLUMN: Final = "query"
"""Column of results with the query (of a table of queries) that a row belongs to."""


def query_tables(query: str) -> tuple[str, ...]:
    """Return the names of tables that are reserved for a query. Only the first query of a shared state has ``_skyband``."""
    return tuple(query + s for s in SUFFIXES)


def every_table(query: str) -> tuple[str, ...]:
    """Return the names of all tables that a query may have."""
    return (*query_tables(query), query + TRAJECTORY, query + FINAL_RESULTS)


def append_only(table: str) -> bool:
    """Return True if rows of the job's table are only appended, each with its batch, so that a reader may skip rows it has seen.

    The name decides: these suffixes are reserved for such tables.
    """
    return table in ("rejected", "runs") or table.endswith(("_changes", TRAJECTORY, FINAL_RESULTS))
