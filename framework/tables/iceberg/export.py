"""Export the published versions of the job's tables as Iceberg tables, over the same Parquet files."""

from __future__ import annotations

import hashlib
import io
import os
import time as clock
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from itertools import count
from typing import Any, Final
from urllib.parse import unquote

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from skyband.framework.base.extras import extra
from skyband.framework.base.failpoints import failpoint
from skyband.framework.storage import durable
from skyband.framework.storage.epochs import lease_lost
from skyband.framework.storage.location import Location, is_object
from skyband.framework.storage.records import read_regular_file
from skyband.framework.storage.settings import store_options
from skyband.framework.tables.delta.commits import overtaken
from skyband.framework.tables.iceberg.exported import EDITION, Export, Exports, avro_name, directory, metadata_name, properties, uri

# The data files of one version of a Delta table, with those statistics of its log that are sound as Iceberg's bounds.

Bound = int | str
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST_DAY: Final = date(1970, 1, 1)


@dataclass(frozen=True, slots=True)
class LiveFile:
    """A data file: ``path`` within the table's directory, decoded; ``partition`` has the values of columns that are not in the file.

    ``lower``, ``upper`` and ``nulls`` by column: numbers, days and microseconds as integers. A column that lacks one has no known bound.
    """

    path: str
    size: int
    rows: int
    partition: Mapping[str, Any] = field(default_factory=dict)
    lower: Mapping[str, Bound] = field(default_factory=dict)
    upper: Mapping[str, Bound] = field(default_factory=dict)
    nulls: Mapping[str, int] = field(default_factory=dict)


def paths(table: DeltaTable) -> set[str]:
    """Return the decoded paths of the data files of an open table."""
    return {unquote(p) for p in pa.table(table.get_add_actions(flatten=True))["path"].to_pylist()}


def live_files(table: DeltaTable, only: set[str] | None = None) -> list[LiveFile]:
    """Return the data files of an open table, those of ``only`` if it is given. O(files x columns).

    Raises ValueError for a file that is outside of the table's directory or whose number of rows is unknown.
    """
    actions = pa.table(table.get_add_actions(flatten=True))
    decoded = [unquote(p) for p in actions["path"].to_pylist()]
    if only is not None:
        wanted = [i for i, p in enumerate(decoded) if p in only]
        actions, decoded = actions.take(pa.array(wanted, pa.int64())), [decoded[i] for i in wanted]
    schema = pa.schema(table.schema().to_arrow())
    of_partition = {n: actions[f"partition.{n}"].to_pylist() for n in table.metadata().partition_columns}
    lower = _columns(actions, schema, "min", lambda v: v)
    upper = _columns(actions, schema, "max", _not_below)
    nulls = {n: c for n, c in _values(actions, "null_count", schema.names).items() if n not in of_partition}
    sizes, rows = actions["size_bytes"].to_pylist(), actions["num_records"].to_pylist()
    for path, n in zip(decoded, rows, strict=True):
        if "://" in path or ".." in path.split("/") or n is None:
            raise ValueError(f"the file {path[:200]} is outside of the table" if n is not None else f"{path[:200]} has no number of rows")
    return [
        LiveFile(
            path, sizes[i], rows[i], {n: v[i] for n, v in of_partition.items()}, _of_row(lower, i), _of_row(upper, i), _of_row(nulls, i)
        )
        for i, path in enumerate(decoded)
    ]


def _columns(actions: pa.Table, schema: pa.Schema, kind: str, fit: Callable[[Any], Any]) -> dict[str, list[Any]]:
    """Return the bounds of the columns that have sound ones.

    Floats have none: a bound says nothing about NaN, nor about the sign of zero. Decimals are numbers of JSON, that is doubles, in the log.
    """
    named = [f.name for f in schema if _bounded(f.type)]
    return {n: [_plain(fit(v)) for v in column] for n, column in _values(actions, kind, named).items()}


def _bounded(kind: pa.DataType) -> bool:
    tests = (pa.types.is_integer, pa.types.is_string, pa.types.is_date32)
    return any(test(kind) for test in tests) or (pa.types.is_timestamp(kind) and kind.tz is not None)


def _values(actions: pa.Table, kind: str, names: list[str]) -> dict[str, list[Any]]:
    return {n: actions[f"{kind}.{n}"].to_pylist() for n in names if f"{kind}.{n}" in actions.column_names}


def _not_below(value: Any) -> Any:
    """Return an upper bound that is sound although a writer may have cut a timestamp to milliseconds."""
    try:
        return value + timedelta(milliseconds=1) if isinstance(value, datetime) else value
    except OverflowError:
        return None


def _plain(value: Any) -> Bound | None:
    if isinstance(value, datetime):
        return None if value.tzinfo is None else (value - _EPOCH) // timedelta(microseconds=1)
    if isinstance(value, date):
        return (value - _FIRST_DAY).days
    return value if isinstance(value, (int, str)) and not isinstance(value, bool) else None


def _of_row(columns: Mapping[str, list[Any]], row: int) -> dict[str, Any]:
    return {n: v for n, values in columns.items() if (v := values[row]) is not None}


# Every use of pyiceberg: schemas, manifests and table metadata of Iceberg's format version 2. Needs the extra ``iceberg``.

with extra("iceberg", "sink.iceberg"):
    from pyiceberg import types as kinds
    from pyiceberg.conversions import to_bytes
    from pyiceberg.io import FileIO, InputFile, OutputFile
    from pyiceberg.manifest import (
        DataFile,
        DataFileContent,
        FileFormat,
        ManifestEntry,
        ManifestEntryStatus,
        ManifestFile,
        read_manifest_list,
        write_manifest,
        write_manifest_list,
    )
    from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC, PartitionField, PartitionSpec
    from pyiceberg.schema import Schema
    from pyiceberg.table.metadata import TableMetadataV2
    from pyiceberg.table.name_mapping import create_mapping_from_schema
    from pyiceberg.table.snapshots import Operation
    from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
    from pyiceberg.transforms import IdentityTransform
    from pyiceberg.typedef import Record

_VERSION: Final = 2
_FIRST_PARTITION_ID: Final = 1000
_PLAIN: Final = (
    (pa.types.is_boolean, kinds.BooleanType), (pa.types.is_int64, kinds.LongType), (pa.types.is_integer, kinds.IntegerType),
    (pa.types.is_float64, kinds.DoubleType), (pa.types.is_float32, kinds.FloatType), (pa.types.is_date, kinds.DateType),
    (pa.types.is_string, kinds.StringType), (pa.types.is_large_string, kinds.StringType), (pa.types.is_binary, kinds.BinaryType),
    (pa.types.is_large_binary, kinds.BinaryType),
)  # fmt: skip


class UnsupportedType(ValueError):
    """A column has a type that Iceberg's format version 2 does not have; the message names the column."""


class _Output(OutputFile):
    """A file that appears once it is complete."""

    def __init__(self, path: Location) -> None:
        super().__init__(uri(path))
        self._path = path
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def exists(self) -> bool:
        return self._path.exists()

    def to_input_file(self) -> InputFile:
        return _Input(self._path)

    def create(self, overwrite: bool = False) -> Any:
        return _Buffer(self)

    def write(self, content: bytes) -> None:
        self._size = len(content)
        durable.replace(self._path, content)


class _Buffer(io.BytesIO):
    def __init__(self, target: _Output) -> None:
        super().__init__()
        self._target = target

    def close(self) -> None:
        if not self.closed:
            self._target.write(self.getvalue())
        super().close()


class _Input(InputFile):
    def __init__(self, path: Location) -> None:
        super().__init__(uri(path))
        self._path = path

    def __len__(self) -> int:
        return self._path.stat().st_size

    def exists(self) -> bool:
        return self._path.exists()

    def open(self, seekable: bool = True) -> Any:
        return io.BytesIO(read_regular_file(self._path))


class _Files(FileIO):
    """Reads the files of one directory, by the paths that metadata has of them; whoever can write to the sink may have named others."""

    def __init__(self, directory: Location) -> None:
        super().__init__()
        self._directory = directory

    def new_input(self, location: str) -> InputFile:
        directory, _, name = location.rpartition("/")
        if directory != uri(self._directory) or name in ("", ".", ".."):
            raise ValueError(f"the Iceberg metadata names a file outside of its directory: {location[:200]}")
        return _Input(self._directory / name)

    def new_output(self, location: str) -> OutputFile:
        raise NotImplementedError

    def delete(self, location: Any) -> None:
        raise NotImplementedError


class TableShape:
    """The Iceberg schema and partitioning of a table.

    ``before``: the metadata of the export before: its columns keep their field ids, and a new column gets one that no column had.
    Raises ``UnsupportedType``.
    """

    def __init__(self, schema: pa.Schema, partition_by: Sequence[str], before: Mapping[str, Any] | None = None) -> None:
        known = None if before is None else TableMetadataV2.model_validate(before)
        former = None if known is None else known.schema()
        ids = count(1 + (0 if known is None else known.last_column_id))
        fields = [_field(f, None if former is None else _named(former.fields, f.name), ids) for f in schema]
        made = Schema(*fields)
        self.same_schema = former is not None and former.fields == made.fields
        number = 0 if former is None else former.schema_id + (not self.same_schema)
        self.schema = Schema(*fields, schema_id=number)
        self.last_column_id: int = next(ids) - 1
        parts = [
            PartitionField(self.schema.find_field(name).field_id, _FIRST_PARTITION_ID + i, IdentityTransform(), name)
            for i, name in enumerate(partition_by)
        ]
        self.partitioning = PartitionSpec(*parts, spec_id=0) if parts else UNPARTITIONED_PARTITION_SPEC
        self.columns = {f.name: f for f in fields}


def unsupported(schema: pa.Schema) -> str | None:
    """Return which column Iceberg has no type for, in words; None if there is none."""
    try:
        TableShape(schema, ())
    except UnsupportedType as e:
        return str(e)
    return None


def _named(fields: Iterable[kinds.NestedField], name: str) -> kinds.NestedField | None:
    return next((f for f in fields if f.name == name), None)


def _field(field: pa.Field, former: kinds.NestedField | None, ids: Iterator[int]) -> kinds.NestedField:
    comment = bytes((field.metadata or {}).get(b"comment", b"")).decode() or None
    number = (
        None if former is None or type(_type(field.type, None, count(), field.name)) is not type(former.field_type) else former.field_id
    )
    own = next(ids) if number is None else number
    kind = _type(field.type, None if number is None or former is None else former.field_type, ids, field.name)
    if number is not None and former is not None and kind.is_primitive and kind != former.field_type:
        own = next(ids)
    return kinds.NestedField(own, field.name, kind, required=False, doc=comment)


def _type(kind: pa.DataType, former: Any, ids: Iterator[int], name: str) -> kinds.IcebergType:
    if pa.types.is_timestamp(kind):
        if kind.unit == "ns":
            raise UnsupportedType(f"column {name!r} has the type {kind}")
        return kinds.TimestampType() if kind.tz is None else kinds.TimestamptzType()
    if pa.types.is_decimal(kind) and kind.precision <= 38:
        return kinds.DecimalType(kind.precision, kind.scale)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        own = former.element_id if isinstance(former, kinds.ListType) else next(ids)
        element = _type(kind.value_type, former.element_type if isinstance(former, kinds.ListType) else None, ids, name)
        return kinds.ListType(own, element, element_required=False)
    if pa.types.is_struct(kind):
        inner = former.fields if isinstance(former, kinds.StructType) else ()
        return kinds.StructType(*(_field(f, _named(inner, f.name), ids) for f in kind))
    for test, made in _PLAIN:
        if test(kind) and not pa.types.is_uint64(kind) and not pa.types.is_uint32(kind):
            return made()
    raise UnsupportedType(f"column {name!r} has the type {kind}")


class Manifests:
    """The manifests of a snapshot in the making: those of the snapshot before that still hold, and new ones.

    ``directory`` has them, ``data`` the files of the table; ``name``: a function from a part of a name to the name of a new Avro file.
    """

    def __init__(self, shape: TableShape, directory: Location, data: Location, snapshot_id: int, name: Callable[[str], str]) -> None:
        self._shape, self._directory, self._data, self._snapshot_id, self._name = shape, directory, data, snapshot_id, name
        self._files = _Files(directory)
        self.kept: list[ManifestFile] = []

    def take_over(self, manifest_list: str) -> None:
        """Begin with the manifests of an earlier snapshot."""
        self.kept = list(read_manifest_list(self._files.new_input(manifest_list)))

    def drop(self, paths: set[str]) -> None:
        """Leave out the data files ``paths``, by their paths within the table. Manifests without any of them stay. O(data files)."""
        gone = {self._uri(p) for p in paths}
        made: list[ManifestFile] = []
        for manifest in self.kept:
            entries = manifest.fetch_manifest_entry(self._files)
            left = [e for e in entries if e.data_file.file_path not in gone]
            made += [manifest] if len(left) == len(entries) else self._written(left, f"m{len(made)}r") if left else []
        self.kept = made

    def merge(self, most: int, small: int) -> None:
        """Once there are more than ``most`` manifests, make one of those with fewer than ``small`` data files. O(these data files)."""
        if len(self.kept) <= most:
            return
        few = [m for m in self.kept if (m.added_files_count or 0) + (m.existing_files_count or 0) < small]
        if len(few) < 2:
            return
        entries = [e for m in few for e in m.fetch_manifest_entry(self._files)]
        self.kept = [m for m in self.kept if m not in few]
        self.kept += self._written(entries, "merged")

    def add(self, files: Sequence[LiveFile]) -> None:
        """Add a manifest with ``files``, if there are any."""
        if files:
            self.kept += self._written([self._entry(f) for f in files], "added")

    def write_list(self, sequence_number: int) -> Location:
        """Write the manifest list; return its path."""
        path = self._directory / self._name("list")
        with write_manifest_list(_VERSION, _Output(path), self._snapshot_id, None, sequence_number, "deflate") as out:
            out.add_manifests(self.kept)
        return path

    @property
    def names(self) -> list[str]:
        """Return the names of the manifests' files."""
        return [m.manifest_path.rpartition("/")[2] for m in self.kept]

    def _uri(self, path: str) -> str:
        return f"{uri(self._data)}/{path}"

    def _written(self, entries: Sequence[ManifestEntry], part: str) -> list[ManifestFile]:
        shape = self._shape
        made = write_manifest(
            _VERSION, shape.partitioning, shape.schema, _Output(self._directory / self._name(part)), self._snapshot_id, "null"
        )
        with made as out:
            for entry in entries:
                if entry.sequence_number is None:
                    out.add(entry)
                else:
                    out.existing(entry)
        return [made.to_manifest_file()]

    def _entry(self, file: LiveFile) -> ManifestEntry:
        values = [file.partition[f.name] for f in self._shape.partitioning.fields]
        columns = self._shape.columns
        ids = {n: columns[n].field_id for n in file.nulls if n in columns and columns[n].field_type.is_primitive}
        data = DataFile.from_args(
            _table_format_version=_VERSION,
            content=DataFileContent.DATA,
            file_path=self._uri(file.path),
            file_format=FileFormat.PARQUET,
            partition=Record(*values),
            record_count=file.rows,
            file_size_in_bytes=file.size,
            column_sizes=None,
            value_counts=dict.fromkeys(ids.values(), file.rows) or None,
            null_value_counts={i: file.nulls[n] for n, i in ids.items()} or None,
            nan_value_counts=None,
            lower_bounds=self._bounds(file.lower),
            upper_bounds=self._bounds(file.upper),
            key_metadata=None,
            split_offsets=None,
            equality_ids=None,
            sort_order_id=None,
        )
        data.spec_id = self._shape.partitioning.spec_id
        return ManifestEntry.from_args(status=ManifestEntryStatus.ADDED, snapshot_id=self._snapshot_id, data_file=data)

    def _bounds(self, known: Mapping[str, Bound]) -> dict[int, bytes] | None:
        found = {}
        for name, bound in known.items():
            column = self._shape.columns.get(name)
            if column is not None and isinstance(column.field_type, kinds.PrimitiveType):
                found[column.field_id] = to_bytes(column.field_type, bound)
        return found or None


def metadata(
    shape: TableShape, home: Location, table_id: uuid.UUID, snapshot_id: int, number: int, at_millis: int, manifest_list: Location,
    appended: bool, summary: Mapping[str, str], own: Mapping[str, str],
) -> bytes:  # fmt: skip
    """Return the content of a metadata file with one snapshot. ``own``: further properties of the table; ``home``: its location."""
    shown = shape.schema.schema_id
    content = {
        "format-version": _VERSION,
        "table-uuid": table_id,
        "location": uri(home),
        "last-sequence-number": number,
        "last-updated-ms": at_millis,
        "last-column-id": shape.last_column_id,
        "schemas": [shape.schema],
        "current-schema-id": shown,
        "partition-specs": [shape.partitioning],
        "default-spec-id": shape.partitioning.spec_id,
        "last-partition-id": _FIRST_PARTITION_ID - 1 + len(shape.partitioning.fields),
        "sort-orders": [UNSORTED_SORT_ORDER],
        "default-sort-order-id": UNSORTED_SORT_ORDER.order_id,
        # The files have no field ids: readers find their columns by name.
        "properties": {"schema.name-mapping.default": create_mapping_from_schema(shape.schema).model_dump_json(), **own},
        "current-snapshot-id": snapshot_id,
        "snapshots": [
            {
                "snapshot-id": snapshot_id,
                "sequence-number": number,
                "timestamp-ms": at_millis,
                "manifest-list": uri(manifest_list),
                "summary": {"operation": Operation.APPEND if appended else Operation.OVERWRITE, **summary},
                "schema-id": shown,
            }
        ],
        "snapshot-log": [{"snapshot-id": snapshot_id, "timestamp-ms": at_millis}],
    }
    return TableMetadataV2.model_validate(content).model_dump_json().encode()


MOST_MANIFESTS: Final = 24
"""The number of manifests of a table above which small ones are merged: each publish that adds files adds one."""
SMALL: Final = 1000
"""The number of data files below which a manifest is small."""
_TABLES: Final = uuid.UUID("6b1f7a52-6d3a-4f0e-9d6c-0d6a3f0c8a11")
"""The name space of the tables' ids."""


@dataclass(frozen=True, slots=True)
class TableExport:
    """The export of the table ``name`` below ``root`` at a Delta version, None: the newest. ``owner`` is the id of the job."""

    root: Location
    name: str
    version: int | None
    job: str
    owner: str

    def run(self) -> bool:
        """Make the version the one that Iceberg readers see; return False if it is already.

        O(data files in the log) to compare, O(added data files) to write, and O(data files) if files were removed.
        """
        table = self._opened(self.version)
        exports = Exports(self.root, self.name, self.owner)
        before = next(iter(exports.newest()), None)
        delta_id = str(table.metadata().id)
        if before is not None and self._is_export_of(before, table, delta_id):
            exports.point_to(before.number)
            return False
        self._write(table, delta_id, exports, before)
        return True

    def _opened(self, version: int | None) -> DeltaTable:
        path = str(self.root / self.name)
        return DeltaTable(path, version=version, storage_options=store_options(path))

    @property
    def _home(self) -> Location:
        return directory(self.root, self.name).parent

    def _same_place(self, before: Export, delta_id: str) -> bool:
        return before.edition == EDITION and before.delta_id == delta_id and before.location == uri(self._home)

    def _is_export_of(self, before: Export, table: DeltaTable, delta_id: str) -> bool:
        return self._same_place(before, delta_id) and before.version == table.version()

    def _write(self, table: DeltaTable, delta_id: str, exports: Exports, before: Export | None) -> None:
        number, where, shown = exports.next, exports.directory, exports.shown()
        where.mkdir(parents=True, exist_ok=True)
        try:
            content = self._content(table, delta_id, number, where, before)
        except Exception:
            if before is None:
                raise
            # Whatever is wrong with the metadata of the export before, nothing of it is needed.
            content = self._content(table, delta_id, number, where, None)
        if is_object(self.root) and overtaken(self.root, self.name):
            raise lease_lost(self.root)
        durable.replace(where / metadata_name(number), content)
        failpoint("iceberg.metadata")
        exports.point_to(number)
        Exports(self.root, self.name, self.owner).clean(shown)

    def _content(self, table: DeltaTable, delta_id: str, number: int, where: Location, before: Export | None) -> bytes:
        """Write the manifests of export ``number``, with those of ``before`` that still hold; return the content of its metadata file."""
        version, attempt = table.version(), os.urandom(4).hex()
        partition_by = table.metadata().partition_columns
        shape = TableShape(pa.schema(table.schema().to_arrow()), partition_by, None if before is None else before.content)
        snapshot_id = self._snapshot_id(delta_id, version)
        manifests = Manifests(shape, where, self.root / self.name, snapshot_id, lambda part: avro_name(self.owner, number, attempt, part))
        now = paths(table)
        earlier = self._earlier(before, delta_id)
        removed = set() if earlier is None else earlier - now
        if before is not None and earlier is not None and earlier & now:
            manifests.take_over(before.content["snapshots"][0]["manifest-list"])
            if removed:
                manifests.drop(removed)
        files = live_files(table, now if earlier is None else now - earlier)
        manifests.add(files)
        manifests.merge(MOST_MANIFESTS, SMALL)
        failpoint("iceberg.manifests")
        listed = manifests.write_list(number)
        failpoint("iceberg.listed")
        totals = self._totals(table, files, removed)
        at = int(clock.time() * 1000)
        own = properties(self.owner, self.name, delta_id, version, [listed.name, *manifests.names])
        summary = {"skyband.delta-version": str(version), "skyband.delta-id": delta_id, "skyband.job": self.job, **totals}
        return metadata(
            shape, self._home, uuid.uuid5(_TABLES, f"{self.owner}/{self.name}"), snapshot_id, number, at, listed, not removed, summary, own
        )

    def _snapshot_id(self, delta_id: str, version: int) -> int:
        """Return the same positive number for the same version of the same table."""
        text = "\n".join([self.owner, self.job, self.name, delta_id, str(version)])
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1 or 1

    def _earlier(self, before: Export | None, delta_id: str) -> set[str] | None:
        """Return the data files of the export before, None if its manifests cannot be used: another table, place or edition."""
        if before is None or not self._same_place(before, delta_id):
            return None
        if not all((directory(self.root, self.name) / name).exists() for name in before.files):
            return None
        try:
            return paths(self._opened(before.version))
        except (DeltaError, OSError):
            # The log no longer has this version.
            return None

    def _totals(self, table: DeltaTable, added: list[Any], removed: set[str]) -> Mapping[str, str]:
        actions = pa.table(table.get_add_actions())
        rows, sizes = actions["num_records"].to_pylist(), actions["size_bytes"].to_pylist()
        return {
            "added-data-files": str(len(added)), "deleted-data-files": str(len(removed)), "total-data-files": str(len(rows)),
            "total-records": str(sum(rows)), "total-files-size": str(sum(sizes)), "total-delete-files": "0",
        }  # fmt: skip
