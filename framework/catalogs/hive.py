"""The Hive metastore as a catalog, through Spark's session catalog."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from skyband.framework.base.redaction import redact_values
from skyband.framework.catalogs.model import Definition, Entry, Schema, Unavailable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

T = TypeVar("T")


class Hive:
    """See ``Catalog``."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    def get(self, schema: Schema, table: str) -> Entry | None:
        """See ``Catalog``."""
        from skyband.framework.spark_adapter.session_catalog import kept_table

        found = _answered(lambda: kept_table(self._spark, schema.schema, table.lower()))
        if found is None:
            return None
        return Entry(found.location, found.type == "EXTERNAL", (found.provider or "").upper(), found.properties)

    def create_schema(self, schema: Schema) -> None:
        """See ``Catalog``."""
        from skyband.framework.spark_adapter.session_catalog import create_schema

        _answered(lambda: create_schema(self._spark, schema.schema))

    def create(self, schema: Schema, table: Definition) -> None:
        """See ``Catalog``."""
        from skyband.framework.spark_adapter.session_catalog import keep_table

        location = table.location if "://" in table.location else "file://" + _quoted(table.location)
        fields: list[Mapping[str, Any]] = [
            {"name": c.name, "type": json.loads(c.type_json), "nullable": True, "metadata": {"comment": c.comment} if c.comment else {}}
            for c in table.columns
        ]
        name, properties = table.name.lower(), dict(table.properties)
        _answered(lambda: keep_table(self._spark, schema.schema, name, location, table.comment, fields, properties))

    def replace(self, schema: Schema, table: Definition) -> None:
        """See ``Catalog``."""
        self.drop(schema, table.name)
        self.create(schema, table)

    def drop(self, schema: Schema, table: str) -> None:
        """See ``Catalog``."""
        from skyband.framework.spark_adapter.session_catalog import forget_table

        _answered(lambda: forget_table(self._spark, schema.schema, table.lower()))


def _quoted(path: str) -> str:
    from urllib.parse import quote

    return quote(path)


def _answered(call: Callable[[], T]) -> T:
    """Return what ``call`` returns. Raises Unavailable for whatever Spark raises."""
    try:
        return call()
    except Exception as e:  # errors of the JVM have no common class without Spark
        raise Unavailable(f"the Hive metastore: {_first_line(e)}") from e


def _first_line(e: Exception) -> str:
    java = getattr(e, "java_exception", None)
    text = str(java.getMessage() if java is not None else e).strip()
    return redact_values(text.partition("\n")[0][:300]) or type(e).__name__
