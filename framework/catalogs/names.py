"""Names of schemas and tables in catalogs, as specs write them. Standard library only, as the checks of specs import it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

SESSION: Final = "spark_catalog"
"""Spark's name of its session catalog, which the Hive metastore serves. All other catalogs are Unity Catalog's."""
_UNITY: Final = re.compile(r"[A-Za-z0-9_-]{1,255}")
_HIVE: Final = re.compile(r"[A-Za-z0-9_]{1,128}")
_SCHEMA_HINT: Final = "write CATALOG.SCHEMA for Unity Catalog, or SCHEMA or spark_catalog.SCHEMA for the Hive metastore"
_TABLE_HINT: Final = "write CATALOG.SCHEMA.TABLE for Unity Catalog, or SCHEMA.TABLE or spark_catalog.SCHEMA.TABLE for the Hive metastore"


class InvalidName(ValueError):
    """A name that no catalog takes. The message says why; ``hint`` says what to write."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


@dataclass(frozen=True, slots=True, order=True)
class Schema:
    """A schema of a catalog. ``str`` gives its full name."""

    catalog: str
    schema: str

    @property
    def hive(self) -> bool:
        """Return True if the Hive metastore serves it, through Spark; False if Unity Catalog does."""
        return self.catalog == SESSION

    def __str__(self) -> str:
        return f"{self.catalog}.{self.schema}"

    def table(self, name: str) -> str:
        """Return the full name of its table ``name``."""
        return f"{self}.{name}"


def schema_of(text: str) -> Schema:
    """Return the schema that ``text`` names: ``catalog.schema``, or ``schema`` of the Hive metastore. Raises InvalidName."""
    parts = text.split(".")
    if len(parts) > 2:
        raise InvalidName(f"{text!r} is not the name of a schema in a catalog: it has {len(parts)} parts", _SCHEMA_HINT)
    return Schema(*_checked([SESSION, *parts] if len(parts) == 1 else parts, text, _SCHEMA_HINT))


def table_of(text: str) -> tuple[Schema, str]:
    """Return the schema and the table that ``text`` names: ``catalog.schema.table`` or ``schema.table``. Raises InvalidName."""
    parts = text.split(".")
    if len(parts) not in (2, 3):
        raise InvalidName(f"{text!r} is not the name of a table in a catalog: it has {len(parts)} parts", _TABLE_HINT)
    catalog, schema, table = _checked([SESSION, *parts] if len(parts) == 2 else parts, text, _TABLE_HINT)
    return Schema(catalog, schema), table


def _checked(parts: list[str], text: str, hint: str) -> list[str]:
    """Return the parts as the catalog spells them. The Hive metastore ignores case."""
    hive = parts[0].lower() == SESSION
    allowed, said = (_HIVE, "letters, digits and _") if hive else (_UNITY, "letters, digits, _ and -")
    if any(allowed.fullmatch(part) is None for part in parts):
        raise InvalidName(f"{text!r} is not a name that {'the Hive metastore' if hive else 'Unity Catalog'} takes", f"{hint}, with {said}")
    return [part.lower() for part in parts] if hive else parts
