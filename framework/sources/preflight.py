"""A look at a local source before an engine is started: is it there, and does its first file have the spec's columns, in types that fit?

Only what is certain is said; the engine has the last word. Imports no Spark.
"""

from __future__ import annotations

import csv
import glob
import os
import zlib
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final

from skyband.framework.counts import agree
from skyband.framework.errors import SkybandError
from skyband.framework.plan.model import Field, SourceNode
from skyband.framework.sources.bad_files import first_line
from skyband.framework.sources.listing import listing, marked, root_of, values_of
from skyband.framework.spec.places import without_scheme

CODE: Final = "SKY-E206"
FORMATS: Final = ("csv", "json", "parquet", "orc")
"""Those of files."""
_LOOKED: Final = 100
"""Files whose columns are looked at when all are."""

# What a Parquet file holds -> what the engine does not read it as, and what to declare.
_UNREADABLE: Final[dict[str, tuple[frozenset[str], str]]] = {
    "int64": (frozenset({"int", "string", "boolean", "timestamp", "date"}), "bigint"),
    "int32": (frozenset({"string", "boolean", "timestamp"}), "int"),
    "double": (frozenset({"int", "bigint", "float", "string", "boolean", "timestamp", "date"}), "double"),
    "float": (frozenset({"int", "bigint", "string", "boolean", "timestamp", "date"}), "float"),
    "string": (frozenset({"int", "bigint", "double", "float", "boolean", "timestamp", "date"}), "string"),
    "bool": (frozenset({"int", "bigint", "double", "float", "string", "timestamp", "date"}), "boolean"),
}


def missing(source: SourceNode) -> SkybandError | None:
    """SKY-E206 if nothing lies at the source's path; None if something does, or that cannot be seen from here."""
    path = _local(source)
    if path is None:
        return None
    if os.path.exists(path):
        return (_pattern(source) or _conflict(source)) if source.format in FORMATS else None
    if set("{\\") & set(path) or (glob.has_magic(path) and next(glob.iglob(path), None) is not None):
        return None
    kind = "Delta table" if source.format == "delta" else "folder"
    return SkybandError(CODE, f"there is no {kind} {source.path}", hint=f"make it{_may_be_empty(source)}, or mend source.path")


def _pattern(source: SourceNode) -> SkybandError | None:
    """SKY-E206 if Spark takes the path for a pattern although a directory or file has that very name."""
    path = str(root_of(source))
    if not marked(path):
        return None
    found = sorted({c for c in path if marked(c)})
    hint = "rename it, or let source.path name a symbolic link to it that has no such character in its path"
    return SkybandError(CODE, f"Spark takes {source.path} for a pattern, as its path has {' '.join(found)}", hint=hint)


def _conflict(source: SourceNode) -> SkybandError | None:
    found = listing(source)
    if found is None or found.conflict is None:
        return None
    said = f"the directories below {source.path} do not have the same columns: {found.conflict[0]} and {found.conflict[1]}"
    hint = "directories such as year=2024 take all files, at one depth; or read all subdirectories: options: {recursiveFileLookup: true}"
    return SkybandError(CODE, said, hint=hint)


def _may_be_empty(source: SourceNode) -> str:
    return " (it may be empty)" if source.format in ("json", "parquet", "orc") else ""


def columns(source: SourceNode, every: bool = False) -> list[SkybandError]:
    """What of the spec's columns the first file (``every``: each of the first 100) does not have, or has in a type that does not fit."""
    found: list[SkybandError] = []
    options = {k.lower(): v for k, v in source.options}
    for path in islice(files(source), _LOOKED if every else 1):
        if source.format == "csv" and options.get("header", "false").lower() == "true":
            found += _header(source, path, options)
        elif source.format == "parquet":
            found += _parquet(source, path, every)
    return found


def lacking(names: Sequence[str], fields: Sequence[Field]) -> list[str]:
    """The columns of ``fields`` that a file with the columns ``names`` lacks."""
    return [str(f.source_name) for f in fields if f.source_name not in names]


def _header(source: SourceNode, path: str, options: dict[str, str]) -> list[SkybandError]:
    try:
        names = first_line(path, options)
    except (OSError, EOFError, zlib.error, csv.Error, LookupError):
        return []
    gone = [n for n in lacking(names, source.fields) if n not in values_of(source, path)] if names else []
    if not gone:
        return []
    there = ", ".join(names)[:200]
    said = f"the file {path} lacks the {agree(len(gone), 'column', 'columns')} {', '.join(map(repr, gone))}"
    hint = f"its header has: {there}"
    if len(names) == 1 and any(c in names[0] for c in ";\t|"):
        hint += "; its cells are separated otherwise: see source.options.sep"
    else:
        hint += "; 'from:' gives a column another name, options: {header: false} says that there is no header"
    return [SkybandError(CODE, said, hint=hint)]


def _parquet(source: SourceNode, path: str, every: bool) -> Iterator[SkybandError]:
    # Checking a spec stays light.
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        schema = pq.read_schema(path)
    except (OSError, pa.ArrowException):
        return
    types = {name.lower(): str(schema.field(i).type) for i, name in enumerate(schema.names)}
    for f in source.fields:
        there = types.get(str(f.source_name).lower())
        bad, better = _UNREADABLE.get(there or "", (frozenset[str](), ""))
        if f.type in bad:
            said = f"column {f.source_name!r} of the file {path} is {there}, which cannot be read as {f.type}"
            yield SkybandError(CODE, said, hint=f"declare {better}")
        elif there is None and every:
            said = f"the file {path} lacks the column {f.source_name!r}"
            yield SkybandError(CODE, said, hint="it is then read as null; columns there: " + ", ".join(schema.names)[:200])


def _local(source: SourceNode) -> str | None:
    return local_folder(source.path) if source.format in (*FORMATS, "delta") and source.path is not None else None


def local_folder(path: str) -> str | None:
    """A spec's path as one of this machine; None for one elsewhere."""
    local = without_scheme(path)
    return None if "://" in local else local


def files(source: SourceNode) -> Iterator[str]:
    """The files of a source of this machine that Spark reads and that are not empty, by name."""
    found = listing(source) if source.format in FORMATS else None
    for file in () if found is None else found.files:
        if os.path.isfile(file) and os.path.getsize(file):
            yield file
