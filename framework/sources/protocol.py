"""What a source format is: one object that says what it takes of a spec, how it is read as a stream, and whether it can be read again.

A format's module may not import Spark when it is imported (checking a spec stays light): only its reading methods do, when called.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from skyband.framework.base.errors import SkybandError
from skyband.framework.plan.model import SourceNode
from skyband.framework.sources.watermark_caps import Span, UnreadFile, WatermarkCaps

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CORRUPT: Final = "__corrupt"
"""Column of every frame read: the text of a row that did not parse, else null."""
ORIGIN: Final = "__origin"
"""Column of every frame read: where the row came from, as text (a file's name, a table, a topic's partition and offset)."""
CAP: Final = "__cap"
"""Column of streams read under caps (``WatermarkCaps``): the cap of the row's piece in microseconds, null if it has none."""


@dataclass(frozen=True, slots=True)
class Section:
    """The part of a spec's ``source`` that is the format's. ``columns``: name in the spec -> (name in the source, type).

    ``secret``: the options whose values come from the environment. ``tie_break``: columns that order rows of one instant. ``deletes``:
    whether some rows delete.
    """

    format: str
    path: str | None
    options: Mapping[str, str]
    columns: Mapping[str, tuple[str, str]]
    secret: frozenset[str] = frozenset()
    tie_break: tuple[str, ...] = ()
    deletes: bool = False


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


class Watch(Protocol):
    """Watches over a source's pieces during one run. Warnings are sentences for the run's output."""

    def at_start(self, committed: bool) -> list[str]:
        """Warnings before a run goes on. ``committed``: tables have rows of the unfinished batch already.

        Raises SkybandError SKY-E303 (the checkpoint's part is damaged), SKY-E301 (a piece of the unfinished batch is gone or changed).
        """
        ...

    def before_commit(self, batch: int) -> list[str]:
        """Warnings when ``batch`` has run and is not in the tables yet. Raises SkybandError SKY-E301 if a piece of it is gone."""
        ...

    def files(self, batch: int) -> list[str]:
        """URLs of the files that ``batch`` reads."""
        ...

    def left_out(self) -> list[str]:
        """The pieces that batches not done yet do without."""
        ...

    def rejected(self, batch: int) -> list[tuple[str, str]]:
        """(origin, text) of a row of table ``rejected`` for each piece that ``batch`` does without."""
        ...

    def set_aside(self, spark: SparkSession, said: str, batch: int) -> list[str]:
        """Leaves out, durably, the pieces of ``batch`` for which Spark failed with ``said``: warnings, none if no piece is at fault.

        Raises SkybandError SKY-E301 if a piece is gone or may not be read.
        """
        ...


class Backlog(Protocol):
    """The pieces of a source that lie there when a run starts, and what is known of their event times before they are read."""

    def unread(self, spark: SparkSession, files: int | None, size: int) -> tuple[list[str], list[UnreadFile]]:
        """(URLs of the pieces of a batch that has begun and is not done, the pieces that no batch has taken).

        The latter may be left out if one batch takes all of them; see ``drop.fits`` for ``files`` and ``size``.
        """
        ...

    def footers(self, column: str, urls: Sequence[str]) -> dict[str, Span]:
        """Spans of the source's ``column``, of instants, where a piece itself says them. Rows that are no rows of the stream count too."""
        ...

    def rows(self, spark: SparkSession, urls: Sequence[str]) -> DataFrame:
        """The pieces as a frame at rest, each row with its piece's URL as ``ORIGIN``."""
        ...

    def suspects(self, urls: Sequence[str]) -> list[str]:
        """Those that look as if they cannot be read."""
        ...

    def named(self, said: str, urls: Sequence[str]) -> list[str]:
        """Those that Spark's error ``said`` is about."""
        ...


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

    def stream(
        self,
        spark: SparkSession,
        source: SourceNode,
        columns: list[str] | None,
        without: Sequence[str] = (),
        drop: WatermarkCaps | None = None,
    ) -> DataFrame:
        """The source as a streaming frame, in batches no larger than ``source`` says, ``without`` the pieces that ``watch`` left out.

        With ``drop`` (never, where ``drops`` gives None) it has the column ``CAP`` too: the cap of the row's piece, null if it has none.
        """
        ...

    def watch(self, source: SourceNode, columns: list[str] | None, home: Path) -> Watch | None:
        """Who watches over the pieces (files) of the source; None for a source that is not in pieces, or watches itself.

        ``home``: the directory ``_skyband`` of the job's sink, with the checkpoint.
        """
        ...

    def drops(self, source: SourceNode, columns: list[str] | None, home: Path) -> Backlog | None:
        """What lies there when a run starts, if the order of its pieces is not one of time; else None. ``home``: see ``watch``."""
        ...

    def again(self, spark: SparkSession, source: SourceNode, columns: list[str] | None, checkpoint: Path) -> DataFrame:
        """Exactly what streams with ``checkpoint`` have taken so far, as a frame at rest.

        Raises SkybandError SKY-E301 with the reason where that cannot be done.
        """
        ...

    def failure(self, said: str, columns: list[str] | None, path: str | None = None) -> SkybandError | None:
        """Spark's error ``said`` in the user's words, if it is about the content of the source at ``path``; else None."""
        ...
