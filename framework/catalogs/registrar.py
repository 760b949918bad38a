"""Keep the entries of a job's tables in a catalog right: register new and changed tables, drop the entries of those that are gone.

No entry is replaced or dropped unless the catalog itself proves that it is the job's (``Entry.foreign``). A catalog that does not answer
delays a run by at most ``PATIENCE`` seconds a call, and loses nothing: the next run registers.
"""

from __future__ import annotations

import http.client
import json
import os
import re
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, TypeVar
from urllib.parse import quote, unquote, urlsplit

import pyarrow as pa
from pydantic import ConfigDict, Field
from pydantic.dataclasses import dataclass

from skyband.framework.base.counts import counted
from skyband.framework.base.errors import SkybandError
from skyband.framework.base.plain_json import mapping
from skyband.framework.base.redaction import conceal, redact_values
from skyband.framework.base.table_names import JOB_RUNS
from skyband.framework.catalogs.model import (
    JOB,
    KIND,
    Catalog,
    ColumnDefinition,
    Definition,
    Entry,
    InvalidName,
    Schema,
    Unavailable,
    schema_of,
    table_of,
)
from skyband.framework.console.web import NoRedirects
from skyband.framework.plan.model import Plan
from skyband.framework.settings.spark import IMPLEMENTATION, spark_settings
from skyband.framework.storage.location import Location, is_root, location, unusable_characters
from skyband.framework.storage.records import STRICT, InvalidRecord, Record
from skyband.framework.storage.settings import SCHEMES
from skyband.framework.tables.delta.ownership import Owner
from skyband.framework.tables.schemas import (
    changes_name,
    final_name,
    identity_columns,
    now_name,
    skyband_name,
    stream_columns,
    tables,
    trajectory_name,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from skyband.framework.plan.model import SourceNode


T = TypeVar("T")

# The Hive metastore as a catalog, through Spark's session catalog.


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


# A client of Unity Catalog's open REST interface: schemas and external Delta tables. Standard library only.
#
# The address and the token come from the environment of the person who runs the job. The token is sent to that address only: redirects are
# not followed.

URL: Final = "SKYBAND_UNITY_URL"
TOKEN: Final = "SKYBAND_UNITY_TOKEN"
SECONDS: Final = 5.0
"""How long the server may be silent."""
_ROOT: Final = "/api/2.1/unity-catalog"
_MOST: Final = 8 << 20


class Unity:
    """See ``Catalog``. ``url``: of the server, with or without the path of the interface. Raises SkybandError SKY-E681 if it is none."""

    def __init__(self, url: str, token: str | None, seconds: float = SECONDS) -> None:
        try:
            parts = urlsplit(url)
            usable = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0 and not parts.query and not parts.fragment
        except ValueError:
            usable = False
        if not usable or parts.username is not None or parts.password is not None:
            hint = f"set it to the address of a Unity Catalog server, such as https://catalog.example.com; a token belongs into {TOKEN}"
            raise SkybandError("SKY-E681", f"{URL} is not a URL of http or https with a host, and without user and query", hint)
        if token is not None and (not token.isascii() or not token.isprintable() or " " in token):
            raise SkybandError("SKY-E681", f"{TOKEN} is not a token: it has spaces, or characters other than visible ASCII")
        path = parts.path.rstrip("/")
        self._base = f"{parts.scheme}://{parts.netloc}{path if path.endswith(_ROOT) else path + _ROOT}"
        self._headers = {"Accept": "application/json", "Content-Type": "application/json"}
        self._headers |= {"Authorization": f"Bearer {token}"} if token else {}
        self._seconds = seconds
        self._opener = urllib.request.build_opener(NoRedirects)

    @classmethod
    def of(cls, env: Mapping[str, str]) -> Unity | None:
        """Return the client that the environment configures, None if it does not. The token is concealed from now on."""
        url, token = env.get(URL) or None, (env.get(TOKEN) or "").strip() or None
        if token is not None:
            conceal(TOKEN, token)
        return None if url is None else cls(url, token)

    def table(self, schema: Schema, table: str) -> Mapping[str, Any] | None:
        """Return what the server says of a table, None if there is none. Raises Unavailable."""
        return self._request("GET", f"/tables/{_segment(schema.table(table))}")

    def get(self, schema: Schema, table: str) -> Entry | None:
        """See ``Catalog``."""
        found = self.table(schema, table)
        if found is None:
            return None
        location, properties = found.get("storage_location"), found.get("properties")
        return Entry(
            location if isinstance(location, str) else None, found.get("table_type") == "EXTERNAL",
            str(found.get("data_source_format", "")).upper(), properties if isinstance(properties, dict) else {},
        )  # fmt: skip

    def create_schema(self, schema: Schema) -> None:
        """See ``Catalog``."""
        if self._request("GET", f"/schemas/{_segment(str(schema))}") is None:
            body = {"name": schema.schema, "catalog_name": schema.catalog}
            if self._request("POST", "/schemas", body) is None:
                raise Unavailable(f"Unity Catalog has no catalog {schema.catalog!r}, and Skyband creates none")

    def create(self, schema: Schema, table: Definition) -> None:
        """See ``Catalog``."""
        body = {
            "name": table.name, "catalog_name": schema.catalog, "schema_name": schema.schema, "table_type": "EXTERNAL",
            "data_source_format": KIND, "storage_location": _location(table.location), "comment": table.comment,
            "properties": dict(table.properties),
            "columns": [
                {
                    "name": c.name, "type_text": c.type_text, "type_json": c.type_json, "type_name": c.type_name, "position": i,
                    "type_precision": c.precision, "type_scale": c.scale, "nullable": True, "comment": c.comment,
                }
                for i, c in enumerate(table.columns)
            ],
        }  # fmt: skip
        if self._request("POST", "/tables", body) is None:
            raise Unavailable(f"Unity Catalog has no schema {str(schema)!r}")

    def replace(self, schema: Schema, table: Definition) -> None:
        """See ``Catalog``. The open interface cannot change a table's columns, comments and properties."""
        self.drop(schema, table.name)
        self.create(schema, table)

    def drop(self, schema: Schema, table: str) -> None:
        """See ``Catalog``."""
        self._request("DELETE", f"/tables/{_segment(schema.table(table))}")

    def _request(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> dict[str, Any] | None:
        """Return the answer, None if the server says that something is not there. Raises Unavailable."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self._base + path, data, self._headers, method=method)
        try:
            with self._opener.open(request, timeout=self._seconds) as answer:
                return _object(answer.read(_MOST))
        except urllib.error.HTTPError as e:
            with e:
                said = _said(e)
            if e.code == 404 and said is not None:
                return None
            about = "refuses the token" if e.code == 401 else f"answers {e.code}"
            refused = e.code in (400, 403, 404, 409)
            raise Unavailable(f"Unity Catalog {about} to {method} {path}{f': {said}' if said else ''}", refused) from None
        except (OSError, http.client.HTTPException, ValueError) as e:
            why = str(getattr(e, "reason", None) or e) or type(e).__name__
            raise Unavailable(f"Unity Catalog does not answer: {redact_values(why)[:200].lower()}") from None


def _segment(name: str) -> str:
    return quote(name, safe="")


def _location(path: str) -> str:
    """Return the URL of a table's directory."""
    if "://" not in path:
        return PurePosixPath(path).as_uri()
    scheme, _, rest = path.partition("://")
    return f"{'s3' if scheme in ('s3a', 's3n') else scheme}://{rest}"


def _object(text: bytes) -> dict[str, Any]:
    """Return a JSON object. An answer without content is an empty one. Raises ValueError."""
    try:
        return mapping(text) if text.strip() else {}
    except ValueError as e:
        raise ValueError("its answer is not a JSON object") from e


def _said(e: urllib.error.HTTPError) -> str | None:
    """Return the message of the server's own error, None if the answer is not one, such as another server's page."""
    try:
        found = _object(e.read(1 << 16))
    except (OSError, http.client.HTTPException, ValueError):
        return None
    text = found.get("message") or found.get("error_code")
    return redact_values(str(text).partition("\n")[0][:200]) if text else None


# What a job has registered, and where: ``<sink>/_skyband/catalog.json``.
#
# It says what need not be done again, and where entries may have to be dropped. It proves nothing: only what the catalog itself says of an
# entry decides whether it is the job's.

FILE: Final = "catalog.json"
_Part: Final = r"[A-Za-z0-9_-]{1,255}"
_Place = Annotated[str, Field(pattern=rf"^{_Part}\.{_Part}$")]
_Table = Annotated[str, Field(pattern=r"^[A-Za-z0-9_]{1,255}$")]
_Digest = Annotated[str, Field(pattern=r"^([0-9a-f]{64})?$")]


@dataclass(frozen=True, slots=True)
class _File:
    places: Annotated[dict[_Place, Annotated[dict[_Table, _Digest], Field(max_length=100_000)]], Field(max_length=100)]
    __pydantic_config__: ClassVar[ConfigDict] = STRICT


_RECORD: Final = Record[_File](_File)


class Registrations:
    """Full name of a schema -> the tables registered there, with the digests of what was; "" for one that is about to be."""

    def __init__(self, home: Location) -> None:
        self._path = home / FILE
        self.damage: str | None = None
        """Why the file is ignored, in words."""
        self.places: dict[str, dict[str, str]] = {}
        try:
            found = _RECORD.read(self._path)
            _check([] if found is None else list(found.places))
        except InvalidRecord as e:
            self.damage = f"{self._path} is not what a run has written, so it is ignored: {e}"
        else:
            self.places = {} if found is None else {place: dict(kept) for place, kept in found.places.items()}
        self._written = _copy(self.places)

    @staticmethod
    def exists(home: Location) -> bool:
        """Return True if there is a file."""
        return (home / FILE).exists()

    def save(self) -> None:
        """Write the file if it has changed. Raises OSError."""
        places = {place: kept for place, kept in self.places.items() if kept}
        if places == self._written and self.damage is None:
            return
        if places:
            _RECORD.write(self._path, _File(places))
        else:
            self._path.unlink(missing_ok=True)
        self._written, self.damage = _copy(places), None


def _check(places: list[str]) -> None:
    """Raise InvalidRecord for a place that is not the full name of a schema as ``Schema`` spells it."""
    for place in places:
        try:
            same = str(schema_of(place)) == place
        except InvalidName as e:
            raise InvalidRecord(str(e)) from e
        if not same:
            raise InvalidRecord(f"{place!r} is not spelled as a run spells it")


def _copy(places: dict[str, dict[str, str]]) -> dict[str, dict[str, str]]:
    return {place: dict(kept) for place, kept in places.items()}


# The tables of a plan as they are registered: their columns and comments, keys and properties.

_SIMPLE: Final[dict[pa.DataType, tuple[str, str, str]]] = {
    pa.string(): ("STRING", "string", "string"), pa.binary(): ("BINARY", "binary", "binary"), pa.bool_(): ("BOOLEAN", "boolean", "boolean"),
    pa.int8(): ("BYTE", "tinyint", "byte"), pa.int16(): ("SHORT", "smallint", "short"), pa.int32(): ("INT", "int", "integer"),
    pa.int64(): ("LONG", "bigint", "long"), pa.float32(): ("FLOAT", "float", "float"), pa.float64(): ("DOUBLE", "double", "double"),
    pa.date32(): ("DATE", "date", "date"),
}  # fmt: skip
"""Arrow type -> Unity Catalog's name, the name in SQL, the name in Delta's JSON."""


def definitions(plan: Plan, root: Location, job: str) -> list[Definition]:
    """Return every table of ``plan``, whose tables are below ``root``, as it is registered for the job with the id ``job``."""
    roles = {name: (role, query, key) for name, role, query, key in _roles(plan)}
    made = []
    for table in tables(plan):
        role, query, key = roles.get(table.name, (table.name, None, ()))
        properties = {JOB: job, "skyband.name": plan.job, "skyband.table": role}
        properties |= {"skyband.query": query} if query is not None else {}
        properties |= {"skyband.key": ",".join(key)} if key else {}
        columns = tuple(_column(field) for field in table.schema)
        comment = redact_values(table.comment)
        made.append(Definition(table.name, str(root / table.name), comment, columns, tuple(sorted(properties.items()))))
    return made


def _roles(plan: Plan) -> Iterator[tuple[str, str, str | None, tuple[str, ...]]]:
    """Yield for each table its name, what it holds, the query that it is of, and the columns that identify a row of it."""
    for q in plan.every_query:
        one = plan.of(q.name)
        stream, item = stream_columns(one, q), identity_columns(one, q)
        yield changes_name(q.name), "changes", q.name, (*stream, "step", "pos")
        yield q.name, "results", q.name, (*stream, *item, "from_step")
        yield now_name(q.name), "current results", q.name, (*stream, "rank")
        yield trajectory_name(q.name), "trajectories", q.name, (*stream, *item, "valid_from")
        yield final_name(q.name), "final results", q.name, (*stream, "window_start", "rank")
    for one in plan.plans:
        for o in one.operators:
            yield skyband_name(o.name), "skyband", None, ()
    yield "heads", "heads", None, plan.intake.partition_by
    yield "runs", "batches", None, ("batch_id",)
    yield JOB_RUNS, "runs", None, ()


def _column(field: pa.Field) -> ColumnDefinition:
    name, text, spelled = _type(field.type)
    decimal = pa.types.is_decimal(field.type)
    return ColumnDefinition(
        field.name, text, name, json.dumps(spelled), redact_values((field.metadata or {}).get(b"comment", b"").decode()),
        field.type.precision if decimal else 0, field.type.scale if decimal else 0,
    )  # fmt: skip


def _type(kind: pa.DataType) -> tuple[str, str, str]:
    """Return Unity Catalog's name of a type, its name in SQL, and its name in Delta's log. All columns of tables are scalar."""
    if pa.types.is_timestamp(kind):
        return "TIMESTAMP", "timestamp", "timestamp"
    if pa.types.is_decimal(kind):
        text = f"decimal({kind.precision},{kind.scale})"
        return "DECIMAL", text, text
    return _SIMPLE[kind]


PATIENCE: Final = 20.0
"""The most seconds that a check, or a registration, may take."""


class Registrar:
    """Registers the tables below ``root`` in ``schema``; None: drops what is registered.

    ``session`` returns the Spark session, which only the Hive metastore needs. ``warn`` takes warnings for the user. Only for a caller that
    holds the job's lock. Raises SkybandError SKY-E681 if the person who runs the job has not configured the catalog of ``schema``.
    """

    def __init__(
        self,
        root: str,
        schema: Schema | None,
        session: Callable[[], SparkSession],
        warn: Callable[[str], None],
        env: Mapping[str, str] = os.environ,
        patience: float = PATIENCE,
    ) -> None:
        self._root: Location = location(root)
        self._schema, self._session, self._warn, self._patience = schema, session, warn, patience
        self._hive = spark_settings(env=env).conf.get(IMPLEMENTATION) == "hive"
        self._unity = Unity.of(env)
        if schema is not None and not self._configured(schema):
            raise _not_configured(schema)
        self._record = Registrations(self._root / "_skyband")
        self._down = False
        self._deadline = 0.0
        self._working: threading.Thread | None = None
        self._spark: SparkSession | None = None
        if self._record.damage is not None:
            warn(self._record.damage)

    @classmethod
    def of(
        cls, plan: Plan, session: Callable[[], SparkSession], warn: Callable[[str], None], env: Mapping[str, str] = os.environ
    ) -> Registrar | None:
        """Return the registrar of a plan, None if it names no catalog and nothing is registered."""
        if plan.catalog is None and not Registrations.exists(location(plan.sink) / "_skyband"):
            return None
        return cls(plan.sink, None if plan.catalog is None else schema_of(plan.catalog), session, warn, env)

    def check(self, plan: Plan, started: bool = False) -> None:
        """Raise SkybandError SKY-E682 if a name that the job has not registered yet is taken. Warn if the catalog does not answer.

        Unity Catalog is asked before Spark is ``started``, the Hive metastore after.
        """
        schema = self._schema
        if schema is None or schema.hive != started or self._settled(plan):
            return
        known = self._record.places.get(str(schema), {})
        new = [d for d in definitions(plan, self._root, self._owner or "") if d.name not in known]
        try:
            taken = self._within([schema], lambda: self._taken(schema, new)) if new else {}
        except Unavailable as e:
            self._give_up(schema, e)
            return
        if taken:
            name, why = next(iter(taken.items()))
            others = f" (and {counted(len(taken) - 1, 'more table')})" if len(taken) > 1 else ""
            hint = "drop that entry, rename the query, or name another schema in sink.catalog; if the sink was moved or reset, drop it"
            raise SkybandError("SKY-E682", f"{schema.table(name)} exists{others}: its entry {why}, so the job does not replace it", hint)

    def register(self, plan: Plan) -> None:
        """Register what is new or changed, and drop what is gone, unless nothing is. Warn of what could not be done; raise nothing."""
        if self._down or self._settled(plan):
            return
        places = [schema_of(place) for place in self._record.places]
        try:
            self._within([*places, *([self._schema] if self._schema is not None else [])], lambda: self._bring(plan))
        except Unavailable as e:
            if self._schema is not None:
                self._give_up(self._schema, e)
            else:
                self._leave(", ".join(map(str, places)), str(e))

    def needs_spark(self, plan: Plan) -> bool:
        """Return True if there is something to do in the Hive metastore."""
        places = [schema_of(place) for place in self._record.places] + ([self._schema] if self._schema is not None else [])
        return self._hive and any(place.hive for place in places) and not self._settled(plan)

    def look_again(self) -> None:
        """Forget what was registered, but not where: the next registration compares everything with the catalog."""
        for kept in self._record.places.values():
            kept.update(dict.fromkeys(kept, ""))
        self._record.save()

    @property
    def _owner(self) -> str | None:
        return Owner(self._root).id

    def _settled(self, plan: Plan) -> bool:
        """Return True if the record says that all is registered as the plan has it, and nothing else."""
        if self._schema is None or self._owner is None:
            return self._schema is None and not self._record.places
        wanted = {d.name: d.digest() for d in definitions(plan, self._root, self._owner)}
        return self._record.places == {str(self._schema): wanted}

    def _configured(self, schema: Schema) -> bool:
        return self._hive if schema.hive else self._unity is not None

    def _catalog(self, schema: Schema) -> Catalog:
        if time.monotonic() > self._deadline:
            raise Unavailable(f"no answer within {self._patience:g} s")
        if schema.hive and self._spark is not None:
            return Hive(self._spark)
        if not schema.hive and self._unity is not None:
            return self._unity
        raise Unavailable(f"no {'Hive metastore' if schema.hive else 'Unity Catalog'} is configured")

    def _taken(self, schema: Schema, new: list[Definition]) -> dict[str, str]:
        """Return the names of tables that others have, with the reasons."""
        found = {}
        for table in new:
            entry = self._catalog(schema).get(schema, table.name)
            why = None if entry is None else entry.foreign(self._owner, table.location)
            if why is not None:
                found[table.name] = why
        return found

    def _bring(self, plan: Plan) -> None:
        """Bring the catalogs to what the plan has. Raises Unavailable."""
        owner = Owner(self._root).made_id()
        wanted = {} if self._schema is None else {d.name: d for d in definitions(plan, self._root, owner)}
        failed: list[str] = []
        try:
            for place in list(self._record.places):
                schema = schema_of(place)
                gone = [n for n in self._record.places[place] if schema != self._schema or n not in wanted]
                left: list[str] = []
                self._each(schema, gone, lambda name, schema=schema: self._drop(schema, name, owner), left)  # type: ignore[misc]
                if left:
                    self._leave(place, _first(left))
            if self._schema is not None:
                self._register(self._schema, wanted, failed)
        finally:
            self._record.save()
        if failed:
            raise Unavailable(_first(failed))

    def _register(self, schema: Schema, wanted: Mapping[str, Definition], failed: list[str]) -> None:
        kept = self._record.places.setdefault(str(schema), {})
        changed = {name: table for name, table in wanted.items() if kept.get(name) != table.digest()}
        if not changed:
            return
        # A killed run leaves no entry that is not recorded.
        kept.update(dict.fromkeys(changed, ""))
        self._record.save()
        self._catalog(schema).create_schema(schema)
        self._each(schema, list(changed), lambda name: self._put(schema, changed[name]), failed)

    def _each(self, schema: Schema, names: list[str], do: Callable[[str], None], failed: list[str]) -> None:
        """Call ``do`` for each name. What is refused for one is kept in ``failed``; a catalog that is down ends it."""
        for name in names:
            try:
                do(name)
            except Unavailable as e:
                failed.append(str(e))
                if not e.refused:
                    return

    def _put(self, schema: Schema, table: Definition) -> None:
        catalog, kept = self._catalog(schema), self._record.places[str(schema)]
        entry = catalog.get(schema, table.name)
        if entry is None:
            catalog.create(schema, table)
        elif (why := entry.foreign(table.job, table.location)) is not None:
            del kept[table.name]
            self._warn(f"{schema.table(table.name)} is not registered: the entry of that name {why}")
            return
        else:
            catalog.replace(schema, table)
        kept[table.name] = table.digest()

    def _drop(self, schema: Schema, name: str, owner: str) -> None:
        catalog = self._catalog(schema)
        entry = catalog.get(schema, name)
        why = None if entry is None else entry.foreign(owner, str(self._root / name))
        if why is not None:
            self._warn(f"{schema.table(name)} is left alone: its entry {why}")
        elif entry is not None:
            catalog.drop(schema, name)
        del self._record.places[str(schema)][name]
        if not self._record.places[str(schema)]:
            del self._record.places[str(schema)]

    def _within(self, places: list[Schema], work: Callable[[], T]) -> T:
        """Return what ``work`` returns, on a thread of its own. Raises Unavailable, also if it takes longer than ``patience``."""
        if self._working is not None and self._working.is_alive():
            raise Unavailable("an earlier request has not been answered")
        if self._hive and self._spark is None and any(place.hive for place in places):
            self._spark = self._session()
        done: list[T] = []
        failed: list[BaseException] = []

        def run() -> None:
            try:
                done.append(work())
            except BaseException as e:  # raised again below
                failed.append(e)

        self._deadline = time.monotonic() + self._patience
        self._working = threading.Thread(target=run, name="catalog", daemon=True)
        self._working.start()
        self._working.join(self._patience)
        if failed:
            raise failed[0]
        if not done:
            raise Unavailable(f"no answer within {self._patience:g} s")
        return done[0]

    def _give_up(self, schema: Schema, e: Unavailable) -> None:
        self._down = True
        self._warn(f"the tables are not registered in {schema}: {e}")

    def _leave(self, places: str, why: str) -> None:
        self._down = True
        self._warn(f"entries of tables are left in {places}: {why}")


def _first(failed: list[str]) -> str:
    return failed[0] + (f" (and {counted(len(failed) - 1, 'more failure')})" if len(failed) > 1 else "")


def _not_configured(schema: Schema) -> SkybandError:
    if schema.hive:
        said = f"sink.catalog names {schema}, and Spark's session catalog is not a Hive metastore"
        return SkybandError("SKY-E681", said, f"set {IMPLEMENTATION}=hive and the metastore's settings, such as in SKYBAND_CONF")
    return SkybandError("SKY-E681", f"sink.catalog names {schema}, and no Unity Catalog is configured", f"set {URL} and {TOKEN}")


# Find the tables that sources name in a catalog: a plan with their locations is as if the spec had named these as paths.

_FOUND: Final = "SKY-E683"
_USER: Final = re.compile(r"(?<=//)[^/@]*:[^/@]*@")
"""A user with a password in a location. A catalog should have none there, and nobody else may see them."""


class Locations:
    """The locations of tables by the names that sources have for them. Each is looked up once.

    ``session`` returns the Spark session for a plan, which only the Hive metastore needs.
    """

    def __init__(self, session: Callable[[Plan], SparkSession], env: Mapping[str, str] = os.environ) -> None:
        self._session, self._env = session, env
        self._known: dict[str, str] = {}

    def put_into(self, plan: Plan) -> Plan:
        """Return ``plan`` with the locations as paths of its sources. Raises SkybandError SKY-E681 and SKY-E683."""

        def located(source: SourceNode) -> SourceNode:
            if source.table is None:
                return source
            if source.table not in self._known:
                self._known[source.table] = self._location(source.table, plan)
            return replace(source, path=self._known[source.table])

        parts = tuple((name, located(part)) for name, part in plan.source.parts)
        return replace(plan, source=replace(located(plan.source), parts=parts))

    def _location(self, name: str, plan: Plan) -> str:
        schema, table = table_of(name)
        try:
            entry = self._entry(schema, table, name, plan)
        except Unavailable as e:
            raise SkybandError(_FOUND, f"the source {name} cannot be looked up: {e}", "run again when the catalog answers") from e
        if entry is None:
            raise SkybandError(_FOUND, f"the source {name} is not in the catalog", "see its name, and whether you may read it there")
        if entry.location is None or entry.kind != KIND:
            raise SkybandError(_FOUND, f"the source {name} is not a Delta table in the catalog", "name a Delta table, no view")
        if not schema.hive and not entry.external:
            said = f"the source {name} is a managed table: only clients with credentials of Unity Catalog may read its files"
            raise SkybandError(_FOUND, said, "name an external table, or read the table's directory with path:, if you may")
        return _checked(name, entry.location)

    def _entry(self, schema: Schema, table: str, name: str, plan: Plan) -> Entry | None:
        if schema.hive:
            if spark_settings(env=self._env).conf.get(IMPLEMENTATION) != "hive":
                said = f"the source {name} is in Spark's session catalog, which is not a Hive metastore"
                raise SkybandError("SKY-E681", said, f"set {IMPLEMENTATION}=hive and the metastore's settings, such as in SKYBAND_CONF")
            return Hive(self._session(plan)).get(schema, table)
        unity = Unity.of(self._env)
        if unity is None:
            raise SkybandError("SKY-E681", f"the source {name} is in a Unity Catalog, and none is configured", f"set {URL} and {TOKEN}")
        return _within(PATIENCE, lambda: unity.get(schema, table))


def _within(seconds: float, work: Callable[[], Entry | None]) -> Entry | None:
    """Return what ``work`` returns. Raises Unavailable, also after ``seconds``: the server may send a byte at a time."""
    done: list[Entry | None] = []
    failed: list[BaseException] = []

    def run() -> None:
        try:
            done.append(work())
        except BaseException as e:  # raised again below
            failed.append(e)

    working = threading.Thread(target=run, name="catalog", daemon=True)
    working.start()
    working.join(seconds)
    if failed:
        raise failed[0]
    if not done:
        raise Unavailable(f"no answer within {seconds:g} s")
    return done[0]


def _checked(name: str, location: str) -> str:
    """Return a location as a path of a source. Raises SkybandError SKY-E683 for one that is none."""
    scheme, mark, rest = location.partition(":")
    if mark and scheme.lower() == "file":
        location = "/" + unquote(rest).lstrip("/")
    elif mark and scheme.lower() in ("s3a", "s3n"):
        location = f"s3:{rest}"
    usable = (location.startswith("/") or location.partition("://")[0] in SCHEMES) and _USER.search(location) is None
    if not usable or unusable_characters(location) or ".." in location.split("/") or is_root(location):
        shown = re.split("[?;]", _USER.sub("", location))[0][:200]
        said = f"the source {name} is at {shown}, where Skyband cannot read it"
        raise SkybandError(_FOUND, said, f"it reads local directories, {', '.join(f'{s}://' for s in SCHEMES)}")
    return location
