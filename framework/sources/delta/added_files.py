"""The files that a Delta table gets, in the order and under the positions of Spark's Delta source, read without Spark.

A stream begins with the files of the table as it is (the initial snapshot), in the order of their times, and goes on with the commits after
it. Spark's positions name a commit and a file in it; they are read and written as Spark does it, so either engine continues the other.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from skyband.framework.base.errors import SkybandError
from skyband.framework.base.plain_json import mapping, whole
from skyband.framework.plan.model import SourceNode
from skyband.framework.sources.delta import failures
from skyband.framework.sources.delta.arrow_reader import DeltaReader
from skyband.framework.sources.logs import file_url, local_path
from skyband.framework.storage.delta_logs import CODE, open_table, outside
from skyband.framework.storage.location import without_scheme

if TYPE_CHECKING:
    from deltalake import DeltaTable

_BEGIN: Final = -1
"""Index before all files of a commit, as offsets have it."""
_BEGIN_SINCE_3: Final = -100
"""The same in offsets of version 3."""
_END: Final = 1 << 62
"""Index behind all files of a commit, which no offset has."""
_FEATURES: Final = frozenset({"timestampNtz", "vacuumProtocolCheck"})
"""What a table may require of its readers: nothing else changes which rows its files hold."""
_READS: Final[Mapping[str, frozenset[str]]] = {
    "string": frozenset({"string"}),
    "int": frozenset({"integer", "short", "byte"}),
    "bigint": frozenset({"long", "integer", "short", "byte"}),
    "float": frozenset({"float"}),
    "double": frozenset({"double", "float"}),
    "boolean": frozenset({"boolean"}),
    "timestamp": frozenset({"timestamp"}),
    "date": frozenset({"date"}),
    "array<int>": frozenset({"array<integer>"}),
    "array<bigint>": frozenset({"array<long>"}),
}
"""Type of a spec -> types of a table's column that hold the same values."""
_PARTITIONS: Final = frozenset({"string", "int", "bigint", "date"})
"""Types that values of partitions may have in a spec: others may be spelled in several ways in the log."""
_PADDED: Final = "__CHAR_VARCHAR_TYPE_STRING"
"""Key of a column's metadata by which Spark pads or cuts texts."""
MOST_BYTES: Final = 1 << 62


@dataclass(frozen=True, slots=True)
class Position:
    """A position of Spark's Delta source: up to where a batch reads. ``initial``: within the table as it was at the beginning."""

    table: str
    version: int
    index: int
    initial: bool

    def line(self) -> str:
        """Return the text of the offset, as Spark writes it."""
        said = {
            "sourceVersion": 1, "reservoirId": self.table, "reservoirVersion": self.version, "index": self.index,
            "isStartingVersion": self.initial,
        }  # fmt: skip
        return json.dumps(said, separators=(",", ":"))

    @classmethod
    def of(cls, line: str) -> Position | None:
        """Return the position of an offset's text, None for that of no position. Raises ValueError."""
        if line == "-":
            return None
        said = mapping(line)
        try:
            version, index, table, initial = said["sourceVersion"], whole(said["index"]), said["reservoirId"], said["isStartingVersion"]
            index = _BEGIN if version == 3 and index == _BEGIN_SINCE_3 else index
            if version not in (1, 3) or index < _BEGIN or not isinstance(table, str) or not isinstance(initial, bool):
                raise ValueError("no offset that this version knows")
            return cls(table, whole(said["reservoirVersion"]), index, initial)
        except KeyError as e:
            raise ValueError("an offset is incomplete") from e


@dataclass(frozen=True, slots=True)
class Added:
    """A file that a commit adds, or (``url`` is None) the beginning or the end of the commit. ``values``: those of its partition."""

    version: int
    index: int
    url: str | None = None
    size: int = 0
    values: Mapping[str, Any] = field(default_factory=dict)


class AddedFiles:
    """The files of a local Delta table.

    The constructor opens the table. Raises SkybandError SKY-E137 if only Spark reads it, SKY-E208 (``require_inside``), SKY-E301 if it is
    gone.
    """

    def __init__(self, source: SourceNode) -> None:
        self._root = os.path.abspath(without_scheme(str(source.path)))
        self._source, self._options = source, {name.lower(): value for name, value in source.options}
        self.origin = str(source.written or source.relative or source.path)
        """The origin of all rows."""
        table = self._open(None)
        self._check_protocol(table.protocol().min_reader_version, table.protocol().reader_features or ())
        metadata = table.metadata()
        self._id, self._latest = str(metadata.id), int(table.version())
        self._types = {str(f.source_name).lower(): f.type for f in source.fields}
        self._check_columns(mapping(table.schema().to_json()), metadata.partition_columns, metadata.configuration)
        self.reader = DeltaReader(self._root, tuple(source.fields))
        """Reads the files, by their URLs, that ``between`` has returned."""
        self._snapshots: dict[int, list[Added]] = {}

    def after(self, start: Position | None) -> list[Added]:
        """Return what the table has now behind ``start``; None: behind the point where the stream begins."""
        version, index, initial = self._start(start, None)
        return list(self._entries(version, index, initial))

    def next(self, start: Position | None, found: list[Added], most_files: int | None, most_bytes: int) -> Position | None:
        """Remove from ``found`` (see ``after``) what the batch after ``start`` takes, and return its end; None: there is nothing."""
        files, left, taken = most_files if most_files is not None else MOST_BYTES, most_bytes, 0
        for entry in found:
            if entry.url is not None:
                # The file that goes beyond the limit is still taken.
                if files <= 0 or left <= 0:
                    break
                files, left = files - 1, left - entry.size
            taken += 1
        if not taken:
            return None
        last = found[taken - 1]
        del found[:taken]
        if last.index == _END:
            return Position(self._id, last.version + 1, _BEGIN, False)
        version, _, initial = self._start(start, None)
        return Position(self._id, last.version, last.index, initial and last.version == version)

    def between(self, start: Position | None, end: Position) -> list[str]:
        """Return the URLs of the files of the batch from ``start`` to ``end``, in its order.

        Raises SkybandError SKY-E207 if the table has not these commits any more, or is another one.
        """
        version, index, initial = self._start(start, end)
        urls = []
        for entry in self._entries(version, index, initial, end):
            if (entry.version, entry.index) > (end.version, end.index):
                break
            if entry.url is not None:
                self.reader.values[entry.url] = entry.values
                urls.append(entry.url)
        return urls

    def _start(self, start: Position | None, end: Position | None) -> tuple[int, int, bool]:
        """Return the version, the index and ``initial`` behind which a stream reads. ``end``: that of the first batch, if it is planned."""
        for position in (start, end):
            if position is not None and position.table != self._id:
                raise failures.recreated(self._root)
        if start is not None:
            return start.version, start.index, start.initial
        given = self._options.get("startingversion")
        if given is not None:
            if not os.path.exists(self._commit_file(int(given))):
                raise failures.cannot_begin(self._root)
            return int(given), _BEGIN, False
        if end is None:
            return self._latest, _BEGIN, True
        return (end.version if end.initial else end.version - 1), _BEGIN, True

    def _entries(self, version: int, index: int, initial: bool, end: Position | None = None) -> Iterator[Added]:
        """Yield what is behind a position. ``end``: no commit is looked at of which nothing is before it."""
        found = self._snapshot(version) if initial else self._commit(version)
        while found is not None:
            yield from (e for e in found if e.index > index)
            version, index = version + 1, _BEGIN - 1
            if end is not None and (version, _BEGIN) >= (end.version, end.index):
                return
            found = self._commit(version)

    def _snapshot(self, version: int) -> list[Added]:
        """Return the files of the table as of ``version``, by their times and paths."""
        known = self._snapshots.get(version)
        if known is not None:
            return known
        table = self._open(version)
        self._check_protocol(table.protocol().min_reader_version, table.protocol().reader_features or ())
        files = pa.table(table.get_add_actions(flatten=True))
        names = {c: c.removeprefix("partition.") for c in files.column_names if c.startswith("partition.")}
        rows = files.select(["path", "size_bytes", "modification_time", *names]).set_column(
            2, "modification_time", files["modification_time"].cast(pa.int64())
        )
        ordered = sorted(rows.to_pylist(), key=lambda r: (r["modification_time"], r["path"].encode()))
        found = [
            Added(version, i, self._url(r["path"]), int(r["size_bytes"]), {n: r[c] for c, n in names.items()})
            for i, r in enumerate(ordered)
        ]
        self._snapshots = {version: _between_ends(version, found)}
        return self._snapshots[version]

    def _commit(self, version: int) -> list[Added] | None:
        """Return the files that commit ``version`` adds, None if there is none yet.

        Raises SkybandError SKY-E207 for one that removes rows.
        """
        path = self._commit_file(version)
        try:
            with open(path, encoding="utf-8") as file:
                actions = [mapping(line) for line in file if line.strip()]
        except FileNotFoundError:
            if any(n.endswith(".json") and n[:20].isdigit() and int(n[:20]) > version for n in os.listdir(os.path.dirname(path))):
                raise failures.gone(self._root) from None
            return None
        except (OSError, ValueError) as e:
            raise self._unreadable(path) from e
        try:
            return self._added(version, actions)
        except (AttributeError, KeyError, TypeError, ValueError) as e:
            raise self._unreadable(path) from e

    def _unreadable(self, path: str) -> SkybandError:
        said = f"the Delta table {self._root} is not read: {os.path.basename(path)} of its log cannot be read"
        return SkybandError(CODE, said, hint="restore the table's log, or name another table")

    def _added(self, version: int, actions: Sequence[Mapping[str, Any]]) -> list[Added]:
        """Return the files that the ``actions`` of commit ``version`` add. Raises what Python raises for actions that are not Delta's."""
        found: list[Added] = []
        removes, by = False, ""
        for action in actions:
            if (protocol := action.get("protocol")) is not None:
                self._check_protocol(int(protocol.get("minReaderVersion", 1)), protocol.get("readerFeatures") or ())
            if (metadata := action.get("metaData")) is not None:
                if metadata.get("id") != self._id:
                    raise failures.recreated(self._root)
                self._check_columns(
                    mapping(metadata["schemaString"]), metadata.get("partitionColumns") or (), metadata.get("configuration") or {}
                )
            if (info := action.get("commitInfo")) is not None:
                by = str(info.get("operation") or "")
            if (remove := action.get("remove")) is not None:
                removes = removes or remove.get("dataChange", True) is True
            if (add := action.get("add")) is not None and add.get("dataChange", True) is True:
                found.append(
                    Added(version, len(found), self._url(add["path"]), int(add["size"]), self._typed(add.get("partitionValues") or {}))
                )
        if removes and (found or self._options.get("ignoredeletes") != "true"):
            raise failures.changed(self._root, version, not found, by)
        return _between_ends(version, found)

    def _commit_file(self, version: int) -> str:
        return os.path.join(self._root, "_delta_log", f"{version:020}.json")

    def _url(self, path: str) -> str:
        if outside(path):
            said = f"the Delta table {self._root} is not read: its log names a file outside of it, {path[:200]}"
            raise SkybandError(CODE, said, hint="a shallow clone reads the files of another table: name that table, or make a deep clone")
        # Paths in the log are encoded as those of URLs.
        return file_url(os.path.join(self._root, local_path(f"file:///{path}")[1:]))  # type: ignore[index]

    def _open(self, version: int | None) -> DeltaTable:
        try:
            return open_table(self._root, version)
        except OSError as e:
            if os.path.isdir(os.path.join(self._root, "_delta_log")):
                raise self._only_spark(f"delta-rs cannot open it ({e})") from e
            raise SkybandError("SKY-E301", f"there is no Delta table at {self._root}", hint="bring it back, or fix source.path") from e

    def _check_protocol(self, reader: int, features: Sequence[str]) -> None:
        other = sorted(set(map(str, features)) - _FEATURES)
        if reader > 3 or other:
            raise self._only_spark(f"it uses {', '.join(other) or f'version {reader} of the protocol'}")

    def _check_columns(self, schema: Mapping[str, Any], partitions: Sequence[str], configuration: Mapping[str, Any]) -> None:
        if configuration.get("delta.columnMapping.mode", "none") != "none":
            raise self._only_spark("it uses columnMapping")
        there = {str(f["name"]).lower(): f for f in schema["fields"]}
        lower = {p.lower() for p in partitions}
        for f in self._source.fields:
            name = str(f.source_name)
            column = there.get(name.lower())
            if column is None:
                raise self._only_spark(f"it has no column {name}, or that is a member of an object")
            type_ = _type_name(column["type"])
            if type_ not in _READS.get(f.type, (f.type,)) or _PADDED in (column.get("metadata") or {}):
                raise self._only_spark(f"column {name} is {type_}, where the spec says {f.type}")
            if name.lower() in lower and f.type not in _PARTITIONS:
                raise self._only_spark(f"it is partitioned by {name}, which is {f.type}")

    def _typed(self, values: Mapping[str, str | None]) -> dict[str, Any]:
        """Return values of a partition, which the log has as texts, in the types of the spec. Those of other columns are left out."""
        found: dict[str, Any] = {}
        for name, text in values.items():
            type_ = self._types.get(name.lower())
            if type_ is None:
                continue
            try:
                if text is None or text == "":
                    found[name] = None
                elif type_ in ("int", "bigint"):
                    found[name] = int(text)
                else:
                    found[name] = date.fromisoformat(text) if type_ == "date" else text
            except ValueError as e:
                raise self._only_spark(f"a value of {name} is spelled otherwise in its log") from e
        return found

    def _only_spark(self, why: str) -> SkybandError:
        said = f"the local engine cannot run this job: only Spark reads the table {self._root}: {why}"
        return SkybandError("SKY-E137", said, hint="run it with --engine spark, which goes on where this engine has stopped")


def _type_name(type_: Any) -> str:
    """Return the type of a table's column, without what is in the elements of a list but its type."""
    if isinstance(type_, str):
        return type_
    inner = type_.get("elementType")
    return f"array<{inner}>" if type_.get("type") == "array" and isinstance(inner, str) else str(type_.get("type"))


def _between_ends(version: int, files: list[Added]) -> list[Added]:
    return [Added(version, _BEGIN), *files, Added(version, _END)]
