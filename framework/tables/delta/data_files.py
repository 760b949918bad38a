"""Write the Parquet files of tables, in tasks and in the driver, with the statistics that a commit needs."""

from __future__ import annotations

import json
import math
import uuid
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import date
from functools import partial
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from skyband.framework.storage.location import Location, is_object

ROWS_PER_FILE: Final = 4_000_000
_LOOKS: Final = 8
"""Requests to object storage at a time."""
_PREFIX: Final = 32
"""Characters of a text in its bounds."""


@dataclass(frozen=True, slots=True)
class DataFile:
    """A file of a table: ``path`` within the table's directory, ``size`` in bytes, ``stats`` as the Delta protocol spells them."""

    path: str
    size: int
    rows: int
    stats: str
    partition: Mapping[str, str] = field(default_factory=dict)


def write(root: Location, table: str, rows: pa.Table, partition: Mapping[str, str] | None = None, prefix: str = "part") -> DataFile:
    """Write ``rows`` (of the table's schema, less the columns of ``partition``) to a file of ``table`` below ``root``. O(rows).

    ``root`` is a path of ``storage.places``. On a file system the directory of the table must exist. On object storage the file appears
    once it is complete (SkybandError SKY-E630 if it cannot be stored). The file is in no version of the table until it is committed.
    """
    directory = "".join(f"{column}={value}/" for column, value in (partition or {}).items())
    path = f"{directory}{prefix}-{uuid.uuid4()}.zstd.parquet"
    at = root / table / path
    if directory:
        at.parent.mkdir(exist_ok=True)
    # Dictionaries of numbers make files larger and take as long as everything else [measured].
    texts = [f.name for f in rows.schema if pa.types.is_string(f.type)]
    texts += [f"{f.name}.list.element" for f in rows.schema if f.type == pa.list_(pa.string())]
    options: dict[str, Any] = {"compression": "zstd", "use_dictionary": texts, "coerce_timestamps": "us", "version": "2.6"}
    with at.open("wb") as file:
        pq.write_table(rows.replace_schema_metadata(None), file, **options)
        size = file.tell()
    # Files of partitions get no bounds: delta-rs loses rows where only some files of a table have statistics of a column [measured, 1.6.6].
    stats = {"numRecords": rows.num_rows} if partition else statistics(rows)
    return DataFile(path, size, rows.num_rows, json.dumps(stats), dict(partition or {}))


def missing_files(root: Location, table: str, files: Sequence[DataFile]) -> list[DataFile]:
    """Return those of ``files`` that do not exist in full length. One request per file, several at a time on object storage."""
    if not is_object(root) or len(files) < 2:
        return [f for f in files if not _exists(root / table, f)]
    with ThreadPoolExecutor(_LOOKS) as threads:
        found = list(threads.map(partial(_exists, root / table), files))
    return [f for f, exists in zip(files, found, strict=True) if not exists]


def _exists(directory: Location, file: DataFile) -> bool:
    try:
        return (directory / file.path).stat().st_size == file.size
    except FileNotFoundError:
        return False


def bounded(schema: pa.Schema, partition_by: Sequence[str] = ()) -> list[str]:
    """Return the columns with statistics. Delta refuses booleans and binary, and JSON cannot hold the bounds of infinite floats."""
    plain = (pa.types.is_floating, pa.types.is_boolean, pa.types.is_binary)
    return [f.name for f in schema if not any(kind(f.type) for kind in plain) and f.name not in partition_by]


def statistics(rows: pa.Table) -> dict[str, Any]:
    """Return the number of rows, bounds and nulls as delta-rs writes them, with short bounds. O(rows)."""
    found: dict[str, dict[str, Any]] = {"minValues": {}, "maxValues": {}, "nullCount": {}}
    for name in bounded(rows.schema):
        column = rows[name]
        if pa.types.is_nested(column.type):
            continue
        found["nullCount"][name] = column.null_count
        bounds = pc.min_max(column)
        if bounds["min"].is_valid:
            found["minValues"][name], found["maxValues"][name] = _bound(bounds["min"], False), _bound(bounds["max"], True)
    return {"numRecords": rows.num_rows, **found}


def _bound(value: pa.Scalar, upper: bool) -> Any:
    if pa.types.is_timestamp(value.type):
        # Milliseconds, rounded outwards.
        micros = value.cast(pa.int64()).as_py()
        millis = -(-micros // 1000) if upper else micros // 1000
        at = pc.strftime(pa.scalar(millis, pa.int64()).cast(pa.timestamp("ms", "UTC")), format="%Y-%m-%dT%H:%M:%SZ")
        return at.as_py()
    known = value.as_py()
    if isinstance(known, str):
        # The prefix followed by the last of all characters is not less than any text with that prefix.
        return known if len(known) <= _PREFIX else known[:_PREFIX] + ("\U0010ffff" * 2 if upper else "")
    if isinstance(known, date):
        return known.isoformat()
    if pa.types.is_decimal(value.type):
        # A JSON number, rounded outwards if a double cannot hold it.
        near = float(known)
        exact = type(known)(near)
        return near if exact == known or (exact > known) == upper else math.nextafter(near, math.inf if upper else -math.inf)
    return known
