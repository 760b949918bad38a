"""Names of a job's tables and of their columns (docs/semantics.md Tables)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from skyband.framework.spec.queries import LOYALTY_TYPES, PAIR_TYPES

JOB_TABLES: Final = ("heads", "rejected", "runs", "checks")
SUFFIXES: Final = ("", "_changes", "_now", "_skyband")
FIXED_COLUMNS: Final = (
    "at", "step", "pos", "change", "score", "cause", "batch_id", "valid_from", "valid_to", "from_step", "to_step", "current", "rank",
    "as_of", "bucket",
)  # fmt: skip
"""Columns of result tables that are not the user's."""

SKYLINE_COLUMNS: Final = ("newer", "pred", "pred_time")
"""Further columns of a skyline's ``_skyband`` table, which carries what the queries of its state carry."""

QUERY_COLUMN: Final = "query"
"""Column of results that says which query of a table of queries a row is about."""

HEAD_COLUMNS: Final = ("last_seq", "last_time", "as_of", "bucket")


def query_tables(query: str) -> tuple[str, ...]:
    """Tables a query may have; ``_skyband`` only if it is the first of its shared state, but the name is kept free."""
    return tuple(query + s for s in SUFFIXES)


def roles_of(query_type: str, between: bool) -> tuple[str, ...]:
    """Prefixes of an item's objects."""
    if query_type in PAIR_TYPES:
        return ("a", "b") if between else ("older", "newer")
    return ("",)


def item_columns(roles: Sequence[str], id_: Iterable[str], carry: Iterable[str], keys: Iterable[str]) -> list[tuple[str, str]]:
    """(column, the id or carried column it comes from, or "") of an item's columns, in order."""
    keys = set(keys)
    columns: list[tuple[str, str]] = []
    for role in roles:
        prefix = role + "_" if role else ""
        columns += [(prefix + c, c) for c in id_ if prefix or c not in keys]
        columns += [(prefix + "seq", ""), (prefix + "time", "")]
        columns += [(prefix + c, c) for c in carry]
    return columns


def result_columns(query_type: str, between: bool, id_: Iterable[str], carry: Iterable[str], keys: Iterable[str]) -> list[tuple[str, str]]:
    """(column, user's column or "") of an item as it stands in a query's result tables."""
    if query_type in LOYALTY_TYPES:
        return [("object", ""), ("loyalty_seconds", ""), ("slope", ""), *((c, c) for c in carry)]
    return item_columns(roles_of(query_type, between), id_, carry, keys)
