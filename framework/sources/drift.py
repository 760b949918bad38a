"""The columns of a source, file by file, against those of the job's first run: what is new, missing, moved, or of another type.

Only what a file says of itself is compared: the header of CSV files, the schema in Parquet and ORC files and of Delta tables. Rows of JSON
have no schema beyond themselves, and a file that is not on this machine is not looked at. Imports no Spark.
"""

from __future__ import annotations

import csv
import re
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from skyband.framework.plan.model import SourceNode
from skyband.framework.sources.files.bad_files import first_line, separator_of
from skyband.framework.sources.files.listing import values_of

Columns = dict[str, str]
"""Column -> its type, "" if the source does not say it, in the order of the source."""
Kind = Literal["new", "missing", "moved", "retyped"]
_HIVE: Final = re.compile(r"_col\d+")


@dataclass(frozen=True, slots=True)
class Drift:
    """How a column is not as it was. ``harmless``: what is read means what it did."""

    kind: Kind
    column: str
    said: str
    harmless: bool


def of_file(source: SourceNode, path: str) -> Columns | None:
    """The columns of a file of this machine; None if it does not say them, or cannot be read (Spark says that). O(1) of its rows."""
    try:
        if source.format == "csv":
            return _header(source, path)
        return _schema(source.format, path) if source.format in ("parquet", "orc") else None
    except (OSError, EOFError, zlib.error, csv.Error, LookupError, UnicodeError):
        return None


def of_table(path: str) -> Columns | None:
    """The columns of a Delta table of this machine; None if it cannot be read."""
    # Checking a spec, which imports this module, stays light.
    import pyarrow as pa
    from deltalake import DeltaTable
    from deltalake.exceptions import DeltaError

    try:
        schema = pa.schema(DeltaTable(path).schema().to_arrow())
    except (DeltaError, OSError, pa.ArrowException):
        return None
    return {f.name: _family(f.type) for f in schema}


def compare(source: SourceNode, recorded: Mapping[str, str], found: Mapping[str, str]) -> list[Drift]:
    """What has changed from ``recorded`` to ``found``; case of names aside, as Spark does. O(columns)."""
    used = {str(f.source_name).lower() for f in source.fields}
    before, now = ({n.lower(): (n, t) for n, t in columns.items()} for columns in (recorded, found))
    by_place = source.format == "csv"
    drifts = []
    for key, (name, type_) in before.items():
        if key not in now:
            drifts.append(Drift("missing", name, f"column {name!r} is missing", key not in used and not by_place))
        elif type_ and now[key][1] not in (type_, "", "null") and type_ != "null":
            said = f"column {name!r} is {now[key][1]}, was {type_}"
            drifts.append(Drift("retyped", name, said, key not in used))
    drifts += [Drift("new", name, f"column {name!r} is new", not by_place) for key, (name, _) in now.items() if key not in before]
    there, here = [k for k in before if k in now], [k for k in now if k in before]
    if there != here:
        first = next(now[k][0] for k, other in zip(here, there, strict=True) if k != other)
        drifts.append(Drift("moved", first, f"the columns have another order, from {first!r} on", not by_place))
    return drifts


def unnamed(source: SourceNode, found: Mapping[str, str]) -> bool:
    """Whether which column is which cannot be told: ORC files of old versions of Hive, whose columns Spark takes by their place."""
    return source.format == "orc" and bool(found) and all(_HIVE.fullmatch(n) for n in found)


def updated(recorded: Mapping[str, str], found: Mapping[str, str]) -> Columns:
    """What is recorded once ``found`` has been accepted: its types, and all columns there ever were."""
    known = {n.lower(): n for n in recorded}
    named = {known.get(n.lower(), n): t for n, t in found.items()}
    return {**recorded, **{n: t for n, t in named.items() if t != "null" or n not in recorded}}


def first_of(source: SourceNode, paths: Iterable[str]) -> Columns | None:
    """The columns of the first of ``paths`` that says them."""
    return next((found for path in paths if (found := of_file(source, path))), None)


def _header(source: SourceNode, path: str) -> Columns | None:
    options = {k.lower(): v for k, v in source.options}
    plain = len(separator_of(options)) == 1 and not {"ignoreleadingwhitespace", "comment"} & set(options)
    if options.get("header", "false").lower() != "true" or not plain:
        return None
    names = first_line(path, options)
    return dict.fromkeys([*names, *values_of(source, path)], "") if names else None


def _schema(kind: str, path: str) -> Columns | None:
    # Checking a spec, which imports this module, stays light.
    import pyarrow as pa
    import pyarrow.orc
    import pyarrow.parquet

    try:
        schema = pyarrow.parquet.read_schema(path) if kind == "parquet" else pyarrow.orc.ORCFile(path).schema
    except pa.ArrowException:
        return None
    return {f.name: _family(f.type) for f in schema}


def _family(type_: Any) -> str:
    """A type as it is told apart: widths and spellings of one kind of value are one, since values survive them."""
    import pyarrow as pa

    if pa.types.is_dictionary(type_):
        return _family(type_.value_type)
    if pa.types.is_integer(type_):
        return "whole numbers"
    if pa.types.is_floating(type_):
        return "fractions"
    if pa.types.is_string(type_) or pa.types.is_large_string(type_) or pa.types.is_string_view(type_):
        return "text"
    if pa.types.is_timestamp(type_):
        return "instants" if type_.tz is not None else "times without a zone"
    if pa.types.is_list(type_) or pa.types.is_large_list(type_):
        return f"lists of {_family(type_.value_type)}"
    return "null" if pa.types.is_null(type_) else str(type_)
