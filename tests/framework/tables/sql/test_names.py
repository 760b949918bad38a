"""No column that we name needs quotes in a JVM that reads the tables: by the engines that are here, by the lists of the others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import duckdb
import pytest
from sqlglot.dialects import BigQuery

from skyband.framework.base.columns import FIXED_COLUMNS
from skyband.framework.base.table_names import QUERY_COLUMN
from skyband.framework.plan.compile import compile_job
from skyband.framework.plan.model import Plan
from skyband.framework.spec.load import validate_text
from skyband.framework.tables.schemas import tables
from skyband.framework.tables.sql.statements import described
from tests.framework.spec.examples import ENV, OTHERS, SENSORS, other

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RESERVED: Final = {
    "postgres": """
        all analyse analyze and any array as asc asymmetric authorization binary both case cast check collate collation column concurrently
        constraint create cross current_catalog current_date current_role current_schema current_time current_timestamp current_user default
        deferrable desc distinct do else end except false fetch for foreign freeze from full grant group having ilike in initially inner
        intersect into is isnull join lateral leading left like limit localtime localtimestamp natural not notnull null offset on only or
        order outer overlaps placing primary references returning right select session_user similar some symmetric system_user table
        tablesample then to trailing true union unique user using variadic verbose when where window with""",
    "tsql": """
        add all alter and any as asc authorization backup begin between break browse bulk by cascade case check checkpoint close
        clustered coalesce collate column commit compute constraint contains containstable continue convert create cross current
        current_date current_time current_timestamp current_user cursor database dbcc deallocate declare default delete deny desc disk
        distinct distributed double drop dump else end errlvl escape except exec execute exists exit external fetch file fillfactor for
        foreign freetext freetexttable from full function goto grant group having holdlock identity identity_insert identitycol if in
        index inner insert intersect into is join key kill left like lineno load merge national nocheck nonclustered not null nullif of
        off offsets on open opendatasource openquery openrowset openxml option or order outer over percent pivot plan precision primary
        print proc procedure public raiserror read readtext reconfigure references replication restore restrict return revert revoke
        right rollback rowcount rowguidcol rule save schema securityaudit select semantickeyphrasetable semanticsimilaritydetailstable
        semanticsimilaritytable session_user set setuser shutdown some statistics system_user table tablesample textsize then to top
        tran transaction trigger truncate try_convert tsequal union unique unpivot update updatetext use user values varying view
        waitfor when where while with within writetext""",
    "snowflake": """
        account all alter and any as between by case cast check column connect connection constraint create cross current current_date
        current_time current_timestamp current_user database delete distinct drop else exists false following for from full grant group
        gscluster having ilike in increment inner insert intersect into is issue join lateral left like localtime localtimestamp minus
        natural not null of on or order organization qualify regexp revoke right rlike row rows sample schema select set some start table
        tablesample then to trigger true try_cast union unique update using values view when whenever where with""",
}
"""Words that cannot be a column's name without quotes, as each engine's documentation lists them."""


def plans() -> list[Plan]:
    """One of every query type, keyed and not."""
    made = []
    plain = [other(t) for t in OTHERS]
    for text in (SENSORS, *plain, *(t.replace("  id: [id]", "  id: [id]\n  partition_by: [author]") for t in plain)):
        job, problems = validate_text(text, ENV)
        assert job is not None, problems
        made.append(compile_job(job))
    return made


def named() -> dict[str, list[str]]:
    """Table -> its columns, of all plans; one table with all that no table of theirs has."""
    found = {f"{plan.job}_{i}_{t.name}".replace("-", "_"): list(t.schema.names) for i, plan in enumerate(plans()) for t in tables(plan)}
    seen = {f"{plan.job}_{i}_{n}".replace("-", "_"): list(s.names) for i, plan in enumerate(plans()) for n, s in described(plan).items()}
    return {**found, **seen, "other_names": [QUERY_COLUMN, *FIXED_COLUMNS]}


def test_no_column_is_a_reserved_word_elsewhere() -> None:
    columns = {c.lower() for names in named().values() for c in names}
    assert {
        "changed_at",
        "is_current",
        "valid_from",
        "table_name",
        "loyalty_seconds",
        "pred_time",
        "lasted_seconds",
        "items_ever",
        QUERY_COLUMN,
    } <= columns
    for engine, words in {**RESERVED, "bigquery": " ".join(BigQuery.Generator.RESERVED_KEYWORDS)}.items():
        assert len(words.split()) > 70 and not columns & set(words.lower().split()), engine


def test_every_column_in_duckdb_without_quotes() -> None:
    connection = duckdb.connect()
    for table, columns in named().items():
        connection.execute(f"create table {table} ({', '.join(f'{c} integer' for c in columns)})")
        listed = ", ".join(columns)
        connection.execute(f"select {listed} from {table} where {' = 1 and '.join(columns)} = 1 order by {listed}")
        for c in columns:
            connection.execute(f"select {c} from {table} group by {c} order by {c}")


@pytest.mark.spark
@pytest.mark.parametrize("strict", [False, True])
def test_every_column_in_spark_without_quotes(spark: SparkSession, strict: bool) -> None:
    """As Spark reads names by default, and in its strictest mode, where `time` would have to be quoted: nobody has that on unasked."""
    parser = spark._jsparkSession.sessionState().sqlParser()  # type: ignore[attr-defined]
    modes = ("spark.sql.ansi.enabled", "spark.sql.ansi.enforceReservedKeywords")
    before = {name: spark.conf.get(name) for name in modes}
    spark.conf.set(modes[0], "true")
    spark.conf.set(modes[1], str(strict).lower())
    try:
        if strict:
            with pytest.raises(Exception, match="PARSE_SYNTAX_ERROR"):
                parser.parsePlan("select table from t")
        for table, columns in named().items():
            for c in columns:
                if not strict or c != "time":
                    parser.parsePlan(f"select {c}, {table}.{c} from {table} where {c} = 1 group by {c} order by {c}")
    finally:
        for name, value in before.items():
            spark.conf.set(name, str(value))
