"""A job's tables, source and views in Spark's catalog, for tests that compare Spark's answers with DuckDB's."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from skyband.framework.plan.model import Plan
from skyband.framework.sources.files.spark_reader import how
from skyband.framework.storage import delta_read
from skyband.framework.tables.schemas import tables
from skyband.framework.tables.sql.dialects import plain
from skyband.framework.tables.sql.source_read import header_of
from skyband.framework.tables.sql.source_rows import SOURCE, why_not
from skyband.framework.tables.sql.views import views

SOURCE_FILES: Final = "source_files"
"""The table of the source's files, with their own names of columns."""
READ: Final = ("csv", "json", "parquet", "orc", "delta")
"""Formats whose rows a table of Spark's catalog can be."""


def register(spark: SparkSession, plan: Plan) -> None:
    """Make a database of the job, with its tables, its source and its views."""
    database, root = plan.job.replace("-", "_"), plan.sink.removeprefix("file://")
    names = [t.name for t in tables(plan) if delta_read.exists(root, t.name)]
    spark.sql(f"create database `{database}`")
    spark.catalog.setCurrentDatabase(database)
    for name in names:
        spark.catalog.createTable(name, path=delta_read.open_table(root, name).table_uri, source="delta")
    joined = _source(spark, plan)
    for view in views(plan):
        if set(view.reads) <= set(names) and (joined or not view.source_keys):
            spark.sql(f"create view `{view.name}` as {plain(view.sql, 'spark')}")
    spark.catalog.setCurrentDatabase("default")


def _source(spark: SparkSession, plan: Plan) -> bool:
    """Make the table and the view of the source's rows in the current database; return whether there is one to make."""
    source = plan.source
    if why_not(plan) is not None or source.format not in READ or {SOURCE, SOURCE_FILES} & {t.name for t in tables(plan)}:
        return False
    header = header_of(Path(plan.sink.removeprefix("file://")) / "_skyband")
    if header is None and source.format == "csv" and dict(source.options).get("header", "").lower() == "true":
        # Files are read by the place of their columns.
        return False
    options, schema = ({}, None) if source.format == "delta" else how(source, header, text=False)
    if source.on_bad_file == "reject":
        options["ignoreCorruptFiles"] = "true"
    try:
        spark.catalog.createTable(SOURCE_FILES, path=str(source.path), source=source.format, schema=schema, **options)
    except AnalysisException:
        return False
    columns = ", ".join(f"{_name(str(f.source_name))} as {_name(f.name)}" for f in source.fields)
    spark.sql(f"create view `{SOURCE}` as select {columns} from `{SOURCE_FILES}`")
    return True


def _name(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
