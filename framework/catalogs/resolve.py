"""Find the tables that sources name in a catalog: a plan with their locations is as if the spec had named these as paths."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

from skyband.framework.base.errors import SkybandError
from skyband.framework.catalogs.model import KIND, Entry, Schema, Unavailable, table_of
from skyband.framework.catalogs.registrar import PATIENCE, TOKEN, URL, Hive, Unity
from skyband.framework.settings.spark import IMPLEMENTATION, spark_settings
from skyband.framework.storage.overlap import is_root, unusable_characters
from skyband.framework.storage.settings import SCHEMES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from skyband.framework.plan.model import Plan, SourceNode

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
