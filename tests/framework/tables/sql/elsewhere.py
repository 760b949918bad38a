"""Running the SQL that ``query --sql`` prints: in DuckDB and in Spark."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import duckdb
from deltalake import DeltaTable

from skyband.framework.plan.model import Plan
from skyband.framework.tables.results.reader import Answer, Reader, first
from skyband.framework.tables.sql.dialects import complete

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LIMIT = 7


def in_duckdb(statement: str) -> list[dict[str, Any]]:
    """Its rows. DuckDB's extension for Delta is no part of its package, so each table is handed over under the path that is named."""
    connection = duckdb.connect()
    connection.execute("set timezone = 'UTC'")
    paths = list(dict.fromkeys(re.findall(r"delta_scan\('((?:[^']|'')*)'\)", statement)))
    assert paths
    for i, path in enumerate(paths):
        connection.register(f"scanned_{i}", DeltaTable(path.replace("''", "'")).to_pyarrow_table())
        statement = statement.replace(f"delta_scan('{path}')", f"scanned_{i}")
    rows: list[dict[str, Any]] = connection.sql(statement).to_arrow_table().to_pylist()
    return rows


def same_elsewhere(plan: Plan, name: str, answer: Answer, spark: SparkSession | None = None) -> int:
    """Asserts that the printed SQL gives the answer's rows, in their order, with their rank, whole and cut; how many there are."""
    query, columns = Reader(plan).query(name), answer.rows.column_names
    for limit in (None, LIMIT):
        expected = first(plan, query, answer.rows, limit).to_pylist()
        assert in_duckdb(complete(plan, query, answer.sql, columns, "duckdb", limit)) == expected
        if spark is not None:
            assert spark.sql(complete(plan, query, answer.sql, columns, "spark", limit)).toArrow().to_pylist() == expected
    return answer.rows.num_rows
