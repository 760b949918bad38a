"""The backlog: the unread files when a run starts, and their event times as far as they are known before reading."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

from skyband.framework.base.units import bytes_of
from skyband.framework.plan.model import SourceNode
from skyband.framework.sources.files.bad_files import named_in, plain, suspects
from skyband.framework.sources.logs import last_batch, local_path, offset, taken
from skyband.framework.sources.text.line_limit import too_large
from skyband.framework.sources.watermark_caps import NO_ROWS, Span, UnreadFile, fits
from skyband.framework.storage.location import Location, without_scheme

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BATCH_BYTES: Final = "128m"
"""Bounds the bytes of files in one batch if the spec sets no bound (a batch has at least one file)."""
_UNITS = {"milliseconds": 1000, "microseconds": 1}
"""Units of Parquet's instants that Spark reads, in microseconds."""
_TOO_LATE = 253_402_128_000_000_000
"""9999-12-30: the stream rejects instants from here on, and those before 1970."""


def batch_bytes(source: SourceNode) -> int:
    """Return the most bytes of a batch that is not bounded by the number of its files.

    A batch is held in memory: without a bound the first could be all files that there ever were.
    """
    return bytes_of(source.max_bytes_per_batch or BATCH_BYTES)


class FileBacklog:
    """The unread files of one job's source. ``home``: the directory ``_skyband`` of its sink; ``rows``: see ``Backlog.rows``."""

    def __init__(
        self, source: SourceNode, columns: Sequence[str] | None, home: Location,
        listed: Callable[[SparkSession], list[str]], rows: Callable[[SparkSession, Sequence[str]], DataFrame],
    ) -> None:  # fmt: skip
        self.source = source
        self.columns = columns
        self.checkpoint = home / "checkpoint"
        self.listed = listed
        self._rows = rows

    def unread(self, listed: Callable[[], list[str]], files: int | None, size: int) -> tuple[list[str], list[UnreadFile]]:
        """See ``Backlog.unread``. O(files there and files taken)."""
        planned, done = (offset(self.checkpoint, last_batch(self.checkpoint / log), self.source.number) for log in ("offsets", "commits"))
        known = taken(self.checkpoint / "sources" / str(self.source.number))
        begun = [t.url for t in known if done < t.number <= planned]
        found = [t.url for t in known if t.number > max(planned, done)]
        first = [_piece(u, first=True) for u in found]
        if self._few(first, {local_path(t.url) for t in known}, files, size):
            return begun, []
        seen = {t.url for t in known}
        return begun, first + [_piece(u) for u in listed() if u not in seen]

    def _few(self, first: Sequence[UnreadFile], known: set[str | None], files: int | None, size: int) -> bool:
        """Return True if one batch takes all files that may be unread in a local directory. That saves Spark's slow listing."""
        root = os.path.abspath(without_scheme(str(self.source.path)))
        if not os.path.isdir(root):
            return False
        there = list(first)
        for directory, directories, names in os.walk(root):
            if any(os.path.islink(os.path.join(directory, f)) for f in directories):
                return False  # Spark would follow it
            there += [_piece(Path(path).as_uri()) for n in names if (path := os.path.join(directory, n)) not in known]
        return fits(there, files, size)

    def footers(self, column: str, urls: Sequence[str]) -> dict[str, Span]:
        """See ``Backlog.footers``: of Parquet files of this machine."""
        if self.source.format != "parquet":
            return {}
        spans = {u: _footer(path, column) for u in urls if (path := local_path(u)) is not None}
        return {u: span for u, span in spans.items() if span is not None}

    def rows(self, spark: SparkSession, urls: Sequence[str]) -> DataFrame:
        """See ``Backlog.rows``."""
        return self._rows(spark, [unquote(u) for u in urls])

    def suspects(self, urls: Sequence[str]) -> list[str]:
        """See ``Backlog.suspects``."""
        return suspects(self.source, self.columns, {u: path for u in urls if (path := local_path(u)) is not None})

    def too_large(self, urls: Sequence[str]) -> list[str]:
        """See ``Backlog.too_large``."""
        return [u for u in urls if (path := local_path(u)) is not None and too_large(self.source, path) is not None]

    def named(self, said: str, urls: Sequence[str]) -> list[str]:
        """See ``Backlog.named``."""
        bad = {plain(u) for u in named_in(said)}
        return [u for u in urls if plain(u) in bad]


def _piece(url: str, first: bool = False) -> UnreadFile:
    path = local_path(url)
    try:
        stat = os.stat(path) if path is not None else None
    except OSError:
        stat = None
    if stat is None:
        return UnreadFile(url, -1 if first else 0, None)
    return UnreadFile(url, -1 if first else stat.st_mtime_ns // 1_000_000, stat.st_size)


def _footer(path: str, column: str) -> Span | None:
    """Return the span of a Parquet file's column of instants by its statistics, None if they do not state it."""
    # Checking a spec, which imports this module, stays light.
    import pyarrow as pa
    import pyarrow.parquet

    try:
        about: Any = pyarrow.parquet.read_metadata(path)
    except (OSError, pa.ArrowException):
        return None
    names = [about.schema.column(i).path for i in range(about.num_columns)]
    if names.count(column) != 1:
        return None
    at = names.index(column)
    unit = _UNITS.get(json.loads(about.schema.column(at).logical_type.to_json()).get("timeUnit", ""))
    if unit is None or about.schema.column(at).physical_type != "INT64":
        return None
    span = NO_ROWS
    for g in range(about.num_row_groups):
        part = about.row_group(g).column(at)
        stats = part.statistics
        if stats is not None and stats.has_null_count and stats.null_count == part.num_values:
            continue
        if stats is None or not stats.has_min_max:
            return None
        span = min(span[0], stats.min_raw * unit), max(span[1], stats.max_raw * unit)
    # Instants that the stream rejects make the statistics useless.
    return span if span == NO_ROWS or (span[0] >= 0 and span[1] < _TOO_LATE) else None
