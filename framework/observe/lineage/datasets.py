"""The names of the datasets that a job reads and writes, by OpenLineage's naming: a namespace for where it is stored, a name within it.

Everything of a name that a spec takes from the environment is redacted: ``${WAREHOUSE}/flights``. Names of tables are never from there.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from skyband.framework.base.redaction import redact_values
from skyband.framework.observe.lineage.stream_columns import LOOKUP
from skyband.framework.plan.model import Field, Plan, SourceNode
from skyband.framework.sources.position import is_position
from skyband.framework.storage.overlap import without_scheme

_PATTERN: Final = re.compile(r"[*?\[\]{}]")
_SAME: Final[Mapping[str, str]] = {"s3a": "s3", "s3n": "s3", "abfs": "abfss", "wasb": "wasbs"}
"""Schemes with another name for the same storage: the namespace has the usual one."""
FILE: Final = "file"


class DatasetName(NamedTuple):
    """``namespace`` and ``name`` of a dataset; ``uri``: its address."""

    namespace: str
    name: str
    uri: str


class InputTable(NamedTuple):
    """A dataset that a job reads: its name, its format and its columns, as it names them."""

    dataset: DatasetName
    format: str
    fields: tuple[Field, ...]


def input_tables(plan: Plan) -> dict[str, InputTable]:
    """Return what a job reads, by ``InputColumn.table``: sources and look-up tables. Rows that are made up come from no dataset."""
    nodes = dict(plan.source.each) | {LOOKUP + node.name: table for node, table in zip(plan.intake.lookups, plan.lookups, strict=True)}
    found: dict[str, InputTable] = {}
    for table, node in nodes.items():
        name = _source(node)
        if name is not None:
            found[table] = InputTable(name, node.format, tuple(f for f in node.fields if not is_position(f)))
    return found


def output_name(root: str, table: str) -> DatasetName:
    """Return the name of a table below ``root``."""
    place = path_name(root)
    return DatasetName(place.namespace, f"{place.name.rstrip('/')}/{table}", f"{place.uri.rstrip('/')}/{table}")


def path_name(path: str) -> DatasetName:
    """Return the name of the data at a path: local, or of object storage. Of a pattern, that of the directory that it begins with."""
    scheme, mark, rest = path.partition("://")
    if not mark or scheme.lower() == FILE:
        name = _without_pattern(os.path.abspath(without_scheme(path)))
        return _redacted(FILE, name, f"{FILE}://{name}")
    parts = urlsplit(f"//{rest}")
    scheme = _SAME.get(scheme.lower(), scheme.lower())
    # A password has no place in a name; what stands before @ is a container of Azure's.
    user, at, host = parts.netloc.rpartition("@")
    namespace = f"{scheme}://{user.partition(':')[0] + at if ':' not in user else ''}{host}"
    name = _without_pattern(parts.path).strip("/") or "/"
    return _redacted(namespace, name if scheme != "hdfs" else f"/{name.strip('/')}", f"{namespace}/{name.strip('/')}")


def _redacted(*texts: str) -> DatasetName:
    return DatasetName(*map(redact_values, texts))


def _without_pattern(path: str) -> str:
    names = path.split("/")
    plain = next((n for n, name in enumerate(names) if _PATTERN.search(name)), len(names))
    return "/".join(names[:plain]) or "/"


def _source(node: SourceNode) -> DatasetName | None:
    options = dict(node.options)
    if node.path is not None:
        return path_name(node.path)
    if "topic" in options and "servers" in options:
        server = options["servers"].split(",")[0].strip()
        return _redacted(f"kafka://{server}", options["topic"], f"kafka://{server}/{options['topic']}")
    return None
