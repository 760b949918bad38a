"""What a source format is: one object that says what it takes of a spec, how it is read as a stream, and whether it can be read again.

A format's module may not import Spark when it is imported (checking a spec stays light): only its reading methods do, when called.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from skyband.framework.errors import SkybandError
from skyband.framework.plan.model import SourceNode

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CORRUPT: Final = "__corrupt"
"""Column of every frame read: the text of a row that did not parse, else null."""
ORIGIN: Final = "__origin"
"""Column of every frame read: where the row came from, as text (a file's name, a table, a topic's partition and offset)."""


@dataclass(frozen=True, slots=True)
class Section:
    """The part of a spec's ``source`` that is the format's. ``columns``: name in the spec -> (name in the source, type)."""

    format: str
    path: str | None
    options: Mapping[str, str]
    columns: Mapping[str, tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Mistake:
    """Something a format does not take: ``field`` is the path below ``source`` (of a missing field too).

    ``of_name``: that the field is there at all, not its value, is wrong.
    """

    code: str
    message: str
    field: tuple[str | int, ...]
    hint: str | None = None
    of_name: bool = False


class SourceFormat(Protocol):
    """One format of sources. ``columns`` of a first run are kept with the checkpoint and handed to every later reading of the source.

    Frames have the spec's columns (``SourceNode.fields``) with their names and types, then ``CORRUPT`` and ``ORIGIN``.
    """

    @property
    def jars(self) -> tuple[str, ...]:
        """Packages (Maven coordinates) the session needs beyond those it always has."""
        ...

    def check(self, section: Section) -> Iterator[Mistake]:
        """What is wrong with a spec's source for this format. Looks at nothing outside the spec."""
        ...

    def options(self, options: Mapping[str, str]) -> Mapping[str, str]:
        """The spec's options and this format's defaults."""
        ...

    def columns(self, spark: SparkSession, source: SourceNode) -> list[str] | None:
        """Names of the source's columns in their order, where the source itself says them (a header); else None.

        Raises SkybandError SKY-E301 if they cannot be known yet or do not have the spec's.
        """
        ...

    def stream(self, spark: SparkSession, source: SourceNode, columns: list[str] | None) -> DataFrame:
        """The source as a streaming frame, in batches no larger than ``source`` says."""
        ...

    def again(self, spark: SparkSession, source: SourceNode, columns: list[str] | None, checkpoint: Path) -> DataFrame:
        """Exactly what streams with ``checkpoint`` have taken so far, as a frame at rest.

        Raises SkybandError SKY-E301 with the reason where that cannot be done.
        """
        ...

    def failure(self, said: str, columns: list[str] | None) -> SkybandError | None:
        """The engine's error ``said`` in the user's words, if it is about the source's content; else None."""
        ...
