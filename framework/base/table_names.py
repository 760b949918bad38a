"""Names of a job's tables and of their columns (docs/semantics, tables)."""

from __future__ import annotations

from typing import Final

JOB_TABLES: Final = ("heads", "rejected", "runs", "checks", "published")
JOB_RUNS: Final = "job_runs"
"""The table of a job's runs: of no generation of its tables, and of no batch."""
SUFFIXES: Final = ("", "_changes", "_now", "_skyband")
TRAJECTORY: Final = "_trajectory"
"""Behind the name of a query whose items have values that move."""
FIXED_COLUMNS: Final = (
    "changed_at", "step", "pos", "change", "score", "cause", "batch_id", "valid_from", "valid_to", "from_step", "to_step", "is_current",
    "rank", "as_of", "bucket",
)  # fmt: skip
"""Columns of result tables that are not the user's."""

NAMES_EDITION: Final = 2
"""Of the names of all tables' columns; a job's tables keep theirs for good (SKY-E307)."""
RENAMED: Final = (("at", "changed_at"), ("current", "is_current"), ("table (of checks)", "table_name"))
"""Names of edition 1, which are reserved words in one engine or another, and those of edition 2."""

QUERY_COLUMN: Final = "query"
"""Column of results that says which query of a table of queries a row is about."""

HEAD_COLUMNS: Final = ("last_seq", "last_time", "as_of", "bucket")


def query_tables(query: str) -> tuple[str, ...]:
    """Tables a query may have; ``_skyband`` only if it is the first of its shared state, but the name is kept free."""
    return tuple(query + s for s in SUFFIXES)


def append_only(table: str) -> bool:
    """Whether rows of the job's table are only ever added, each with the batch that brought it: a look may pass over those it has seen.

    By the name alone, of a table that the job has: names with these endings are kept free for such tables.
    """
    return table in ("rejected", "runs") or table.endswith(("_changes", TRAJECTORY))
