"""A job's tables and views in Spark's catalog, and Spark's Thrift server over it: for tools that speak JDBC or ODBC."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from pyspark.sql import SparkSession

from skyband.framework.errors import SkybandError
from skyband.framework.machine import one_line
from skyband.framework.plan.model import Plan
from skyband.framework.tables import delta_read
from skyband.framework.tables.dialects import plain
from skyband.framework.tables.schemas import tables
from skyband.framework.tables.views import views

HOST: Final = "127.0.0.1"


def settings(port: int) -> dict[str, str]:
    """The engine's settings for a Thrift server at ``port`` of loopback.

    With Spark's own catalog: Delta's comes with a package, whose classes the threads that open sessions do not see.
    """
    return {
        "spark.hadoop.hive.server2.thrift.bind.host": HOST,
        "spark.hadoop.hive.server2.thrift.port": str(port),
        "spark.hadoop.hive.server2.transport.mode": "binary",
        "spark.hadoop.hive.server2.authentication": "NONE",
        "spark.sql.catalog.spark_catalog": "builtin",
        "spark.databricks.delta.checkRequiredConfs": "false",
    }


def register(spark: SparkSession, plan: Plan) -> tuple[str, int, int]:
    """Makes a database of the job, with its tables and views; (its name, how many tables, how many views).

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
    made = [v for v in views(plan) if set(v.reads) <= set(names)]
    for view in made:
        spark.sql(f"create view `{view.name}` as {plain(view.sql, 'spark')}")
    spark.catalog.setCurrentDatabase("default")
    return database, len(names), len(made)


def serve(spark: SparkSession, plans: Sequence[Plan]) -> list[tuple[str, int, int]]:
    """Registers the jobs and starts the server, which runs as long as the session. SkybandError SKY-E300 if it does not start."""
    served = [register(spark, plan) for plan in plans]
    session: Any = spark
    try:
        session._jvm.org.apache.spark.sql.hive.thriftserver.HiveThriftServer2.startWithContext(session._jsparkSession.sqlContext())
    except Exception as e:
        raise SkybandError("SKY-E300", f"the Thrift server did not start: {one_line(e)[:300]}", hint="is the port in use? --port N") from e
    return served
