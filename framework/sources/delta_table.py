"""A Delta table whose rows are only ever added."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from skyband.framework.errors import SkybandError
from skyband.framework.plan.model import SourceNode
from skyband.framework.sources.drop import Drop
from skyband.framework.sources.files import path_needed
from skyband.framework.sources.options import DELTA, unsafe
from skyband.framework.sources.protocol import Mistake, Section

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True)
class DeltaTable:
    """A row's origin is the table. Delta's own jar is always there: the results are Delta tables."""

    jars: tuple[str, ...] = ()
    once: bool = True
    """What has been read is not read again."""

    def check(self, section: Section) -> Iterator[Mistake]:
        """See ``SourceFormat.check``."""
        yield from path_needed(section)
        yield from unsafe(section, DELTA)

    def options(self, options: Mapping[str, str]) -> Mapping[str, str]:
        """See ``SourceFormat.options``."""
        return options

    def columns(self, spark: SparkSession, source: SourceNode) -> list[str] | None:
        """See ``SourceFormat.columns``."""
        return None

    def stream(
        self, spark: SparkSession, source: SourceNode, columns: list[str] | None, without: Sequence[str] = (), drop: Drop | None = None
    ) -> DataFrame:
        """See ``SourceFormat.stream``."""
        from skyband.framework.sources import reading

        return reading.delta(spark, source)

    def watch(self, source: SourceNode, columns: list[str] | None, home: Path) -> None:
        """See ``SourceFormat.watch``: Delta itself says when a file of its table is gone."""

    def drops(self, source: SourceNode, columns: list[str] | None, home: Path) -> None:
        """See ``SourceFormat.drops``: a table's commits have an order."""

    def again(self, spark: SparkSession, source: SourceNode, columns: list[str] | None, checkpoint: Path) -> DataFrame:
        """See ``SourceFormat.again``: always SKY-E301."""
        raise SkybandError("SKY-E301", "a Delta source is not read again", hint="only the replay can be verified")

    def failure(self, said: str, columns: list[str] | None) -> SkybandError | None:
        """See ``SourceFormat.failure``."""
        return None
