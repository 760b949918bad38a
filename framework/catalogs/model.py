"""What is registered in a catalog, what a catalog says of a table, and what proves that an entry is the job's."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Final, Protocol
from urllib.parse import unquote

from skyband.framework.catalogs.names import Schema

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
