"""A job's tables and views in Spark's catalog, and Spark's Thrift server over it: for tools that speak JDBC or ODBC."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from skyband.framework.errors import SkybandError
from skyband.framework.machine import one_line
from skyband.framework.plan.model import Plan
from skyband.framework.sources.reading import how
from skyband.framework.streaming.session import DELTA
from skyband.framework.tables import delta_read
from skyband.framework.tables.dialects import plain
from skyband.framework.tables.read_only import KEPT_OFF, make_read_only
from skyband.framework.tables.schemas import tables
from skyband.framework.tables.source_read import header_of
from skyband.framework.tables.source_rows import SOURCE, why_not
from skyband.framework.tables.views import views

HOST: Final = "127.0.0.1"
SOURCE_FILES: Final = "source_files"
"""The table of the source as it lies there, with its own names of columns."""
READ: Final = ("csv", "json", "parquet", "orc", "delta")
"""Formats whose rows a table of Spark's catalog can be."""


def settings(port: int) -> dict[str, str]:
    """The engine's settings for a Thrift server at ``port`` of loopback.

    With Spark's own catalog, and Delta on the class path besides: it comes with a package, whose classes the server's threads see only if
    it was the right one of them that first opened a session.
    """
    return {
        "spark.driver.extraClassPath": os.pathsep.join(_jars()),
        "spark.hadoop.hive.server2.thrift.bind.host": HOST,
        "spark.hadoop.hive.server2.thrift.port": str(port),
        "spark.hadoop.hive.server2.transport.mode": "binary",
        "spark.hadoop.hive.server2.authentication": "NONE",
        "spark.sql.catalog.spark_catalog": "builtin",
        **dict.fromkeys(KEPT_OFF, "false"),
        # Else a connection would go on with the files that the source had when it first looked.
        "spark.sql.filesourceTableRelationCacheSize": "0",
        "spark.databricks.delta.checkRequiredConfs": "false",
    }


def _jars() -> list[str]:
    """Delta's jars where Spark's package mechanism keeps them: those of the version that the engine uses, once it has fetched them."""
    kept = sorted(Path.home().glob(f".ivy2*/jars/io.delta_*-{DELTA.rpartition(':')[2]}.jar"))
    return [str(jar) for jar in (*kept, *sorted(kept[0].parent.glob("io.unitycatalog_*.jar")))] if kept else []


def register(spark: SparkSession, plan: Plan) -> tuple[str, int, int]:
    """Makes a database of the job, with its tables, its source and its views; (its name, how many tables, how many views).

    Tables are registered where they lie, and stay what they are. SkybandError SKY-E400 if there are none, SKY-E201 for a second job of
    one name.
    """
    database, root = plan.job.replace("-", "_"), plan.sink.removeprefix("file://")
    if spark.catalog.databaseExists(database):
        raise SkybandError("SKY-E201", f"two jobs would be the database {database!r}", hint="serve one of them at another port")
    delta_read.open_table(root, "runs")
    # A table that a later version of Skyband has comes with its first run.
    names = [t.name for t in tables(plan) if delta_read.exists(root, t.name)]
    places = [delta_read.open_table(root, n).table_uri for n in names]
    spark.sql(f"create database `{database}`")
    spark.catalog.setCurrentDatabase(database)
    for name, place in zip(names, places, strict=True):
        spark.catalog.createTable(name, path=place, source="delta")
    joined = _source(spark, plan)
    made = [v for v in views(plan) if set(v.reads) <= set(names) and (joined or not v.wanted)]
    for view in made:
        spark.sql(f"create view `{view.name}` as {plain(view.sql, 'spark')}")
    spark.catalog.setCurrentDatabase("default")
    return database, len(names), len(made)


def _source(spark: SparkSession, plan: Plan) -> bool:
    """Makes the table and the view of the source's rows in the current database; whether there is one to make."""
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
        # The folder is gone, or is none any more: its rows are.
        return False
    columns = ", ".join(f"{_name(str(f.source_name))} as {_name(f.name)}" for f in source.fields)
    spark.sql(f"create view `{SOURCE}` as select {columns} from `{SOURCE_FILES}`")
    return True


def _name(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def serve(spark: SparkSession, plans: Sequence[Plan]) -> list[tuple[str, int, int]]:
    """Registers the jobs and starts the server, which runs as long as the session and only answers queries (``read_only``).

    SkybandError SKY-E300 if it does not start, or cannot be kept from writing.
    """
    served = [register(spark, plan) for plan in plans]
    make_read_only(spark)
    session: Any = spark
    try:
        session._jvm.org.apache.spark.sql.hive.thriftserver.HiveThriftServer2.startWithContext(session._jsparkSession.sqlContext())
    except Exception as e:
        raise SkybandError("SKY-E300", f"the Thrift server did not start: {one_line(e)[:300]}", hint="is the port in use? --port N") from e
    return served
