"""Entries of Spark's session catalog, read and written as they are kept there: nothing of this touches the tables' files or logs.

SQL would do the same through Delta, which commits to a table's log whenever a property of it is set.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_CATALOG: Final = "org.apache.spark.sql.catalyst.catalog"


class KeptTable(NamedTuple):
    """An entry: its type (``EXTERNAL``, ``MANAGED``, ``VIEW``), format and location, if it has them, and its properties."""

    type: str
    provider: str | None
    location: str | None
    properties: Mapping[str, str]


def keeps_entries(spark: SparkSession) -> bool:
    """Return True if the session's catalog is the Hive metastore. Any other one ends with the process."""
    return spark.conf.get("spark.sql.catalogImplementation", "in-memory") == "hive"


def kept_table(spark: SparkSession, schema: str, table: str) -> KeptTable | None:
    """Return the entry, None if there is none. Raises Py4JJavaError if the catalog does not answer."""
    catalog = _external(spark)
    if not catalog.databaseExists(schema) or not catalog.tableExists(schema, table):
        return None
    found = catalog.getTable(schema, table)
    location = found.storage().locationUri()
    provider = found.provider()
    properties = _jvm(spark).scala.jdk.javaapi.CollectionConverters.asJava(found.properties())
    return KeptTable(
        found.tableType().name(),
        provider.get() if provider.isDefined() else None,
        location.get().toString() if location.isDefined() else None,
        {str(name): str(properties[name]) for name in properties},
    )


def create_schema(spark: SparkSession, schema: str) -> None:
    """Create the schema if it does not exist, in the catalog's default location. Raises Py4JJavaError."""
    if _external(spark).databaseExists(schema):
        return
    private: Any = spark
    jvm = _jvm(spark)
    catalog = private._jsparkSession.sessionState().catalog()
    kind = jvm.org.apache.spark.sql.catalyst.catalog.CatalogDatabase
    given = {1: schema, 2: "", 3: catalog.getDefaultDBPath(schema), 4: jvm.PythonUtils.toScalaMap({})}
    catalog.createDatabase(kind.apply(*_arguments(kind, "apply", given)), True)


def keep_table(
    spark: SparkSession,
    schema: str,
    table: str,
    location: str,
    comment: str,
    fields: Sequence[Mapping[str, Any]],
    properties: Mapping[str, str],
) -> None:
    """Create the entry of an external Delta table. ``fields``: those of its schema, in Delta's JSON. Raises Py4JJavaError."""
    jvm = _jvm(spark)
    kinds, some = jvm.org.apache.spark.sql.catalyst.catalog, jvm.scala.Option.apply
    empty = kinds.CatalogStorageFormat.empty()
    storage = empty.copy(*_arguments(empty, "copy", {1: some(jvm.java.net.URI(location))}))
    columns = jvm.org.apache.spark.sql.types.DataType.fromJson(json.dumps({"type": "struct", "fields": list(fields)}))
    given = {
        1: jvm.org.apache.spark.sql.catalyst.TableIdentifier(table, some(schema)), 2: kinds.CatalogTableType("EXTERNAL"), 3: storage,
        4: columns, 5: some("delta"), 12: jvm.PythonUtils.toScalaMap(dict(properties)), 14: some(comment),
    }  # fmt: skip
    _external(spark).createTable(kinds.CatalogTable.apply(*_arguments(kinds.CatalogTable, "apply", given)), False)


def forget_table(spark: SparkSession, schema: str, table: str) -> None:
    """Remove an entry if it exists. The files of an external table stay. Raises Py4JJavaError."""
    _external(spark).dropTable(schema, table, True, False)


def _arguments(of: Any, function: str, given: Mapping[int, Any]) -> list[Any]:
    """Return all arguments of a function of Scala: the ``given`` ones, by their numbers from 1, and its defaults for the others."""
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]

    found: list[Any] = []
    while True:
        number = len(found) + 1
        try:
            found.append(given[number] if number in given else getattr(of, f"{function}$default${number}")())
        except (Py4JError, TypeError):
            return found


def _external(spark: SparkSession) -> Any:
    private: Any = spark
    return private._jsparkSession.sharedState().externalCatalog()


def _jvm(spark: SparkSession) -> Any:
    return spark._jvm
