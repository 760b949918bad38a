"""Checks a local source before the JVM starts: that it exists and that its first file has the spec's columns with types that fit.

Reports only what is certain; Spark decides the rest. Imports no Spark.
"""

from __future__ import annotations

import csv
import glob
import os
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Final

from skyband.framework.base.counts import agree
from skyband.framework.base.errors import SkybandError
from skyband.framework.plan.model import Field, SourceNode
from skyband.framework.sources.files.bad_files import first_line
from skyband.framework.sources.files.listing import listing, marked, root_of, values_of
from skyband.framework.storage.location import without_scheme

if TYPE_CHECKING:
    from skyband.framework.sources.columnar.files import TypedFile

CODE: Final = "SKY-E206"
FORMATS: Final = ("csv", "json", "parquet", "orc")
"""Built-in formats of files."""
_LOOKED: Final = 100
"""Most files whose columns are checked."""
ONE_NAME: Final = "give each column a name of its own: Spark does not tell case apart"


def missing(source: SourceNode) -> SkybandError | None:
    """Return SKY-E206 if nothing exists at the source's path; None if something does, or if the path is not on this machine."""
    path = _local(source)
    if path is None:
        return None
    if os.path.exists(path):
        return (_pattern(source) or _conflict(source)) if source.format in FORMATS else None
    if set("{\\") & set(path) or (glob.has_magic(path) and next(glob.iglob(path), None) is not None):
        return None
    kind = "Delta table" if source.format == "delta" else "directory"
    return SkybandError(CODE, f"there is no {kind} {source.path}", hint=f"create it{_may_be_empty(source)}, or fix source.path")


def _pattern(source: SourceNode) -> SkybandError | None:
    """Return SKY-E206 if Spark takes the path for a pattern although a directory or file has that name."""
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
    """Return an error for each column that the first file (``every``: each of the first 100) lacks or has in a type that does not fit."""
    found: list[SkybandError] = []
    options = {k.lower(): v for k, v in source.options}
    for path in islice(files(source), _LOOKED if every else 1):
        if source.format == "csv" and options.get("header", "false").lower() == "true":
            found += _header(source, path, options)
        elif source.format in ("parquet", "orc"):
            found += _typed(source, path, every)
    if every and source.format == "delta" and (table := _local(source)) is not None:
        found += _typed(source, table, every)
    return found


def lacking(names: Sequence[str], fields: Sequence[Field]) -> list[str]:
    """Return the columns of ``fields`` that a file with the columns ``names`` lacks."""
    return [str(f.source_name) for f in fields if f.source_name not in names]


def _header(source: SourceNode, path: str, options: dict[str, str]) -> list[SkybandError]:
    try:
        names = first_line(path, options)
    except (OSError, EOFError, zlib.error, csv.Error, LookupError):
        return []
    return header(source, path, names) if names else []


def header(source: SourceNode, path: str, names: Sequence[str]) -> list[SkybandError]:
    """Return an error for the columns that the header ``names`` of the CSV file at ``path`` lacks or has twice."""
    repeated = [n for n, count in Counter(n.lower() for n in names if n).items() if count > 1]
    if repeated:
        spelled = ", ".join(repr(n) for n in dict.fromkeys(names) if n.lower() in repeated)
        said = f"the header of the file {path} has two columns of one name: {spelled}"
        return [SkybandError(CODE, said, hint=ONE_NAME)]
    held = values_of(source, path)
    gone = [n for n in lacking(names, source.fields) if n not in held]
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


def _typed(source: SourceNode, path: str, every: bool) -> list[SkybandError]:
    # Checking a spec stays light.
    from skyband.framework.sources.columnar.files import READ_ERRORS, opened

    try:
        file = opened(source.format, path)
    except READ_ERRORS:
        return []
    return list(types(source, file, every))


def types(source: SourceNode, file: TypedFile, every: bool) -> Iterator[SkybandError]:
    """Yield an error for each column that a file or Delta table has twice or with a type that does not fit; ``every``: or lacks."""
    from skyband.framework.sources.columnar import column_types

    names = file.schema.names
    repeated, held = column_types.twice(names), values_of(source, file.path)
    what = "table" if source.format == "delta" else "file"
    for f in source.fields:
        name = str(f.source_name)
        if name.lower() in repeated:
            said = f"the {what} {file.path} has two columns of one name: {', '.join(map(repr, repeated[name.lower()]))}"
            yield SkybandError(CODE, said, hint=ONE_NAME)
            continue
        there = file.column(source, f)
        if name in held or name.startswith("$"):
            continue
        if there is None:
            if every:
                hint = ("it is then read as null; " if what == "file" else "") + "columns there: " + ", ".join(names)[:200]
                yield SkybandError(CODE, f"the {what} {file.path} lacks the column {name!r}", hint=hint)
            continue
        path, column = there
        physical = file.physical_of(path)
        if source.format == "parquet" and not column_types.parquet_reads(column.type, physical, f.type):
            better = column_types.declare(column.type, physical)
            nanos = better == "bigint" and str(column.type).startswith("timestamp")
            hint = (
                "Spark reads no nanoseconds: declare bigint and derive the instant: timestamp_micros(NAME div 1000)" if nanos
                else f"declare {better}" if better is not None else "a spec has no type for it: leave it out"
            )  # fmt: skip
            said = f"column {name!r} of the file {file.path} is {column.type}, which cannot be read as {f.type}"
            yield SkybandError(CODE, said, hint=hint)


def _local(source: SourceNode) -> str | None:
    return local_directory(source.path) if source.format in (*FORMATS, "delta") and source.path is not None else None


def local_directory(path: str) -> str | None:
    """Return a spec's path as a local path; None if it is remote."""
    local = without_scheme(path)
    return None if "://" in local else local


def files(source: SourceNode) -> Iterator[str]:
    """Yield the local files of a source that Spark reads and that are not empty, by name."""
    found = None if source.format == "delta" else listing(source)
    for file in () if found is None else found.files:
        if os.path.isfile(file) and os.path.getsize(file):
            yield file
