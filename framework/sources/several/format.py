"""The format of a stream made of several sources, each with a format of its own (``sources:`` of a spec).

Rows have the columns of all sources, null where their own source lacks them, and the name of their source in the column ``SOURCE``. It is
no format that a spec can name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Final

from skyband.framework.base.errors import SkybandError
from skyband.framework.plan.model import SourceNode
from skyband.framework.sources.protocol import CAP, CORRUPT, ORIGIN, SourceFormat, Watch
from skyband.framework.sources.watermark_caps import WatermarkCaps
from skyband.framework.storage.location import Location

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SEVERAL: Final = "several"
"""The name of the format in a plan."""
SOURCE: Final = "source"
"""The column that names a row's source."""
_OF: Final = "\x1f"
"""Begins the name of a source in a list of headers: no column has it."""


def joined(headers: Mapping[str, list[str] | None]) -> list[str] | None:
    """Return the headers of the sources, by name, as one list; None if there is none."""
    found = [name for source, header in headers.items() if header is not None for name in (_OF + source, *header)]
    return found or None


def header_of(columns: Sequence[str] | None, name: str) -> list[str] | None:
    """Return the header of the source ``name`` in a list that ``joined`` has made; None if it has none."""
    if columns is None or _OF + name not in columns:
        return None
    after = columns[list(columns).index(_OF + name) + 1 :]
    end = next((i for i, column in enumerate(after) if column.startswith(_OF)), len(after))
    return list(after[:end])


class SeveralSources(SourceFormat):
    """Reads the sources ``SourceNode.parts`` by their own formats. ``find`` returns the format of a name, ``every`` all formats."""

    __slots__ = ("_every", "_find")

    def __init__(self, find: Callable[[str], SourceFormat], every: Callable[[], Iterable[SourceFormat]]) -> None:
        self._find, self._every = find, every

    def packages(self, source: SourceNode) -> tuple[str, ...]:
        """See ``SourceFormat.packages``."""
        return tuple(dict.fromkeys(p for _, part in source.parts for p in self._find(part.format).packages(part)))

    def explain(self, source: SourceNode) -> list[str]:
        """See ``SourceFormat.explain``."""
        return [f"{name}: {line}" for name, part in source.parts for line in self._find(part.format).explain(part)]

    def columns(self, spark: SparkSession, source: SourceNode) -> list[str] | None:
        """See ``SourceFormat.columns``: the headers of all sources that have one."""
        return joined({name: self._find(part.format).columns(spark, part) for name, part in source.parts})

    def frames(
        self,
        spark: SparkSession,
        source: SourceNode,
        columns: list[str] | None,
        without: Sequence[str] = (),
        caps: WatermarkCaps | None = None,
    ) -> list[DataFrame]:
        """See ``SourceFormat.frames``: one for each source, in the order of the spec."""
        made = []
        for name, part in source.parts:
            format_ = self._find(part.format)
            frame = format_.stream(spark, part, header_of(columns, name), without, caps if format_.of_files else None)
            made.append(widened(frame, source, name, capped=caps is not None))
        return made

    def again(self, spark: SparkSession, source: SourceNode, columns: list[str] | None, checkpoint: Location) -> DataFrame:
        """See ``SourceFormat.again``."""
        from pyspark.sql import DataFrame

        read = ((name, self._find(part.format).again(spark, part, header_of(columns, name), checkpoint)) for name, part in source.parts)
        return reduce(DataFrame.unionByName, (widened(frame, source, name, capped=False) for name, frame in read))

    def watch(self, source: SourceNode, columns: list[str] | None, home: Location) -> Watch | None:
        """See ``SourceFormat.watch``."""
        found = [self._find(part.format).watch(part, header_of(columns, name), home) for name, part in source.parts]
        watches = [w for w in found if w is not None]
        return _Watches(watches) if watches else None

    def failure(self, said: str, columns: list[str] | None, path: str | None = None) -> SkybandError | None:
        """See ``SourceFormat.failure``."""
        of_sources = (format_.failure(said, None, path) for format_ in self._every())
        return next((error for error in of_sources if error is not None), None)


def widened(frame: DataFrame, source: SourceNode, name: str, capped: bool) -> DataFrame:
    """Return ``frame`` with the columns of all sources, in their order, and the row's source ``name``; ``capped``: with ``CAP``."""
    from pyspark.sql import functions as F

    own = set(frame.columns)
    columns = [
        F.lit(name).alias(SOURCE) if f.name == SOURCE else F.col(f"`{f.name}`") if f.name in own else F.lit(None).cast(f.type).alias(f.name)
        for f in source.fields
    ]
    caps = [F.col(CAP) if CAP in own else F.lit(None).cast("bigint").alias(CAP)] if capped else []
    return frame.select(*columns, F.col(CORRUPT), F.col(ORIGIN), *caps)


class _Watches:
    """The watches over the files of several sources, as one."""

    def __init__(self, watches: Sequence[Watch]) -> None:
        self._watches = watches

    def at_start(self, committed: bool) -> list[str]:
        """See ``Watch.at_start``."""
        return list(self._each(lambda w: w.at_start(committed)))

    def before_batch(self, batch: int) -> None:
        """See ``Watch.before_batch``."""
        for watch in self._watches:
            watch.before_batch(batch)

    def before_commit(self, batch: int) -> list[str]:
        """See ``Watch.before_commit``."""
        return list(self._each(lambda w: w.before_commit(batch)))

    def files(self, batch: int) -> list[str]:
        """See ``Watch.files``."""
        return list(self._each(lambda w: w.files(batch)))

    def left_out(self) -> list[str]:
        """See ``Watch.left_out``."""
        return list(self._each(lambda w: w.left_out()))

    def rejected(self, batch: int) -> list[tuple[str, str]]:
        """See ``Watch.rejected``."""
        return [row for w in self._watches for row in w.rejected(batch)]

    def set_aside(self, spark: SparkSession, said: str, batch: int) -> list[str]:
        """See ``Watch.set_aside``: of the source whose file Spark names."""
        return list(self._each(lambda w: w.set_aside(spark, said, batch)))

    def _each(self, ask: Callable[[Watch], list[str]]) -> Iterator[str]:
        for watch in self._watches:
            yield from ask(watch)
