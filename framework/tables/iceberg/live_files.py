"""The data files of one version of a Delta table, with those statistics of its log that are sound as Iceberg's bounds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final
from urllib.parse import unquote

import pyarrow as pa
from deltalake import DeltaTable

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
    for path, count in zip(decoded, rows, strict=True):
        if "://" in path or ".." in path.split("/") or count is None:
            raise ValueError(
                f"the file {path[:200]} is outside of the table" if count is not None else f"{path[:200]} has no number of rows"
            )
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
