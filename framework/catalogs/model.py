"""What is registered in a catalog, what a catalog says of a table, and what proves that an entry is the job's."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Final, Protocol
from urllib.parse import unquote

# Names of schemas and tables in catalogs, as specs write them. Standard library only, as the checks of specs import it.

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


JOB: Final = "skyband.job"
"""The property with the id of the job that an entry belongs to, as in the Delta log of its table."""


KIND: Final = "DELTA"
"""What catalogs call a Delta table, in capitals."""


class Unavailable(Exception):
    """A catalog does not answer, or refuses a request. The message is for users and ends without a period.

    ``refused``: it has answered, so that other requests may succeed.
    """

    def __init__(self, message: str, refused: bool = False) -> None:
        super().__init__(message)
        self.refused = refused


@dataclass(frozen=True, slots=True)
class ColumnDefinition:
    """A column. ``type_text``: its type in SQL; ``type_json``: in Delta's JSON; ``type_name``: Unity Catalog's name of its kind."""

    name: str
    type_text: str
    type_name: str
    type_json: str
    comment: str
    precision: int = 0
    scale: int = 0


@dataclass(frozen=True, slots=True)
class Definition:
    """A table of the job as it is to be registered. ``location``: a path or URL. ``properties`` include the job's id (``JOB``)."""

    name: str
    location: str
    comment: str
    columns: tuple[ColumnDefinition, ...]
    properties: tuple[tuple[str, str], ...]

    @property
    def job(self) -> str:
        """Return the id of the job."""
        return dict(self.properties)[JOB]

    def digest(self) -> str:
        """Return a hash of everything that is registered."""
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Entry:
    """What a catalog says of a table: ``location`` is None if it has none, such as a view's. ``kind``: its format, in capitals."""

    location: str | None
    external: bool
    kind: str
    properties: Mapping[str, str] = field(default_factory=dict)

    def foreign(self, job: str | None, location: str) -> str | None:
        """Return why the entry is not proven to be that of job ``job`` for its table at ``location``, in words; None if it is."""
        if self.location is None or not same_place(self.location, location):
            return "is of another table, at another location"
        if job is None or self.properties.get(JOB) != job:
            return "was not registered by this job"
        return None if self.external and self.kind == KIND else "is not an external Delta table"


class Catalog(Protocol):
    """A catalog that a back end serves. All methods raise ``Unavailable``."""

    def get(self, schema: Schema, table: str) -> Entry | None:
        """Return the entry of that name, None if there is none."""

    def create_schema(self, schema: Schema) -> None:
        """Create the schema if it does not exist."""

    def create(self, schema: Schema, table: Definition) -> None:
        """Create an entry that does not exist."""

    def replace(self, schema: Schema, table: Definition) -> None:
        """Replace an entry. Only for one that is proven to be the job's."""

    def drop(self, schema: Schema, table: str) -> None:
        """Remove an entry, never the table's files. Only for one that is proven to be the job's."""


def same_place(one: str, other: str) -> bool:
    """Return True if two locations are the same directory, in whatever way catalogs spell it."""
    return _canonical(one) == _canonical(other)


def _canonical(text: str) -> str:
    scheme, mark, rest = text.partition(":")
    if not mark or "/" in scheme or len(scheme) < 2:
        return "/" + text.strip("/")
    if scheme.lower() == "file":
        return "/" + unquote(rest).strip("/")
    return f"{'s3' if scheme.lower() in ('s3', 's3a', 's3n') else scheme.lower()}://{rest.strip('/')}"
