"""The interface of source formats: their options, their readers and their capabilities.

Checking a spec imports every format, so the modules of formats import Spark only inside the methods that read.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final, Protocol

from skyband.framework.base.errors import SkybandError
from skyband.framework.plan.model import Field, SourceNode
from skyband.framework.sources.first_rows import FirstRows, Unparsed
from skyband.framework.sources.position import PositionColumn
from skyband.framework.sources.watermark_caps import Span, UnreadFile, WatermarkCaps
from skyband.framework.storage.location import Location

if TYPE_CHECKING:
    import pyarrow as pa
    from pyarrow.dataset import Dataset
    from pyspark.sql import DataFrame, SparkSession

    from skyband.framework.sources.delta.added_files import AddedFiles

CORRUPT: Final = "__corrupt"
"""Column of every frame read: the text of a row that did not parse, else null."""
ORIGIN: Final = "__origin"
"""Column of every frame read: the origin of the row as text (a file's name, a table, a topic's partition and offset)."""
Columns = dict[str, str]
"""Column -> its type, "" if the source does not state it, in the order of the source."""
CAP: Final = "__cap"
"""Column of streams read under caps (``WatermarkCaps``): the cap of the row's file in microseconds, null if it has none."""


@dataclass(frozen=True, slots=True)
class Section:
    """The part of a spec's ``source`` that the format checks. ``columns``: name in the spec -> (name in the source, type).

    ``secret``: the options whose values come from the environment. ``tie_break``: columns that order rows with the same event time.
    ``deletes``: whether rows can delete other rows. ``operation``: the column that says what a row does (``source.op``).
    """

    format: str
    path: str | None
    options: Mapping[str, str]
    columns: Mapping[str, tuple[str, str]]
    secret: frozenset[str] = frozenset()
    tie_break: tuple[str, ...] = ()
    deletes: bool = False
    operation: str | None = None
    event_time: str = ""


@dataclass(frozen=True, slots=True)
class Mistake:
    """A mistake in a spec's source. ``field``: its path below ``source``, of a missing field too.

    ``of_name``: the field itself is wrong, not its value.
    """

    code: str
    message: str
    field: tuple[str | int, ...]
    hint: str | None = None
    of_name: bool = False


class Watch(Protocol):
    """Checks a source's files during one run. Warnings are sentences for the run's output."""

    def at_start(self, committed: bool) -> list[str]:
        """Return warnings before a run continues. ``committed``: the tables already have rows of the unfinished batch.

        Raises SkybandError SKY-E303 (the checkpoint is damaged), SKY-E301 (a file of the unfinished batch is gone or has changed).
        """
        ...

    def before_batch(self, batch: int) -> None:
        """Look at the files of ``batch``, which has been planned, before they are read.

        Raises SkybandError SKY-E301 for a file that is too large to be read, RuntimeError that names such files if they can be set aside.
        """
        ...

    def before_commit(self, batch: int) -> list[str]:
        """Return warnings when ``batch`` has run and is not in the tables yet. Raises SkybandError SKY-E301 if a file of it is gone."""
        ...

    def files(self, batch: int) -> list[str]:
        """Return the URLs of the files that ``batch`` reads."""
        ...

    def left_out(self) -> list[str]:
        """Return the URLs of the files that unfinished batches leave out."""
        ...

    def rejected(self, batch: int) -> list[tuple[str, str]]:
        """Return (origin, text) of a row of table ``rejected`` for each file that ``batch`` leaves out."""
        ...

    def set_aside(self, spark: SparkSession, said: str, batch: int) -> list[str]:
        """Set aside, durably, the files of ``batch`` for which Spark failed with ``said``. Return warnings, none if no file is at fault.

        Raises SkybandError SKY-E301 if a file is gone or may not be read.
        """
        ...


class Backlog(Protocol):
    """The files of a source that are present when a run starts, with the event times known before they are read."""

    def listed(self, spark: SparkSession) -> list[str]:
        """Return the URLs of the files that are there, as Spark's stream would find and spell them."""
        ...

    def unread(self, listed: Callable[[], list[str]], files: int | None, size: int) -> tuple[list[str], list[UnreadFile]]:
        """Return (URLs of the files of an unfinished batch, the files that no batch has taken).

        The latter may be left out if one batch takes all of them; see ``watermark_caps.fits`` for ``files`` and ``size``.
        """
        ...

    def footers(self, column: str, urls: Sequence[str]) -> dict[str, Span]:
        """Return the spans of ``column``, of instants, that files state in their footers. Rejected rows count too."""
        ...

    def rows(self, spark: SparkSession, urls: Sequence[str]) -> DataFrame:
        """Return the files as a batch frame, each row with its file's URL as ``ORIGIN``."""
        ...

    def suspects(self, urls: Sequence[str]) -> list[str]:
        """Return the files that look unreadable."""
        ...

    def too_large(self, urls: Sequence[str]) -> list[str]:
        """Return the files that are too large to be read."""
        ...

    def named(self, said: str, urls: Sequence[str]) -> list[str]:
        """Return the files that Spark's error ``said`` names."""
        ...


@dataclass(frozen=True, slots=True)
class ArrowRules:
    """States what a plan must satisfy for a format's files to be read by Arrow.

    ``option``: whether an option (name in lower case, value) leaves the rows as Arrow reads them. ``decimals``: whether Arrow reads decimal
    columns. ``lists``: whether it reads lists of texts and of numbers. ``compiled``: whether reading needs Numba. ``header``: whether the
    job has to know the header first.
    """

    option: Callable[[str, str], bool]
    decimals: bool = True
    lists: bool = False
    compiled: bool = False
    header: bool = False


class ArrowReader(Protocol):
    """Reads files without Spark's reader."""

    def tables(self, url: str) -> Iterator[pa.Table]:
        """Yield the rows of a file in its order, with the names and types of the source's fields. Raises UnsupportedFile."""
        ...


class SourceFormat:
    """One source format: its options, its readers and its capabilities. Every format subclasses this.

    A format has to define ``stream``; the other methods have defaults for a format without that capability. ``columns`` are those that a
    job's first run found: they are kept with the checkpoint and passed to every later reading of the source. Frames have the spec's columns
    (``SourceNode.fields``) with their names and types, then ``CORRUPT`` and ``ORIGIN``.
    """

    __slots__ = ()

    jars: tuple[str, ...] = ()
    """Packages (Maven coordinates) that the session needs beyond those it always has."""
    once: ClassVar[bool] = False
    """True if the source cannot be read a second time."""
    of_files: ClassVar[bool] = False
    """True if the source is a directory whose files Spark's file source lists and logs."""
    columns_by_position: ClassVar[bool] = False
    """True if values find their column by its position: then a new or moved column stops a run, and Spark itself checks each file."""
    export_ending: ClassVar[str | None] = None
    """Ending of the file that rejected rows are exported to as they came (``.csv``); None if they are no texts."""
    of_table: ClassVar[bool] = False
    """True if the source is one Delta table at its path."""
    duckdb_options: ClassVar[frozenset[str] | None] = None
    """Options, in lower case, with which DuckDB reads the rows that Spark reads; None if DuckDB does not read the format."""
    preview_options: ClassVar[frozenset[str] | None] = None
    """Options, in lower case, with which ``first_rows`` reads what Spark reads; None if only Spark reads the format."""
    columns_per_row: ClassVar[bool] = False
    """True if each row names its own columns, so that a column may be in no row."""
    position: ClassVar[tuple[PositionColumn, ...]] = ()
    """The columns that ``id: position`` stands for; () if rows have no position that lasts."""
    counts_rows: ClassVar[bool] = False
    """True if ``count_rows`` can count the rows of a file."""

    # -- the spec

    def check(self, section: Section) -> Iterator[Mistake]:
        """Yield what is wrong with a spec's source. Looks at nothing outside the spec."""
        yield from ()

    def options(self, options: Mapping[str, str]) -> Mapping[str, str]:
        """Return the spec's options with the format's defaults added."""
        return options

    def options_of_job(self, source: SourceNode, given: Collection[str], escape: str | None) -> SourceNode:
        """Return ``source`` with the defaults of the version that created the job.

        ``given``: the options that the spec itself names, in lower case. ``escape``: the escape character of the job's first run.
        """
        return source

    def packages(self, source: SourceNode) -> tuple[str, ...]:
        """Return the Maven packages that reading ``source`` needs."""
        return self.jars

    def explain(self, source: SourceNode) -> list[str]:
        """Return lines for ``skyband explain`` that describe how the files are read."""
        return []

    # -- reading by Spark

    def columns(self, spark: SparkSession, source: SourceNode) -> list[str] | None:
        """Return the names of the source's columns in their order if the source states them in a header, else None.

        Raises SkybandError SKY-E301 if they are not known yet or do not include the spec's columns.
        """
        return None

    def stream(
        self,
        spark: SparkSession,
        source: SourceNode,
        columns: list[str] | None,
        without: Sequence[str] = (),
        caps: WatermarkCaps | None = None,
    ) -> DataFrame:
        """Return the source as a streaming frame, in batches no larger than ``source`` says, without the files at the URLs ``without``.

        With ``caps`` (only for a format with a ``backlog``) the frame has the column ``CAP`` too: the cap of the row's file, else null.
        """
        raise NotImplementedError

    def frames(
        self,
        spark: SparkSession,
        source: SourceNode,
        columns: list[str] | None,
        without: Sequence[str] = (),
        caps: WatermarkCaps | None = None,
    ) -> list[DataFrame]:
        """Return the frames that make up the stream, with the same columns: one, unless the stream has several sources."""
        return [self.stream(spark, source, columns, without, caps)]

    def watch(self, source: SourceNode, columns: list[str] | None, home: Location) -> Watch | None:
        """Return the watch over the source's files; None for a source that has no files or watches them itself.

        ``home``: the directory ``_skyband`` of the job's sink, with the checkpoint.
        """
        return None

    def backlog(self, source: SourceNode, columns: list[str] | None, home: Location) -> Backlog | None:
        """Return the files present when a run starts; None if the source delivers rows in the order of time. ``home``: see ``watch``."""
        return None

    def again(self, spark: SparkSession, source: SourceNode, columns: list[str] | None, checkpoint: Location) -> DataFrame:
        """Return exactly the rows that streams with ``checkpoint`` have taken so far, as a batch frame.

        Raises SkybandError SKY-E301 with the reason if they cannot be read again.
        """
        raise SkybandError("SKY-E301", f"a {source.format} source is not read again", hint="only the replay can be verified")

    def again_in_parts(
        self, spark: SparkSession, source: SourceNode, columns: list[str] | None, checkpoint: Location, cuts: Sequence[int]
    ) -> list[tuple[int, DataFrame]]:
        """Return what ``again`` does in parts: (number of cuts before them, rows). At least one part.

        ``cuts``: numbers in the source's log of files, ascending; a file belongs behind those that are less than its own.
        Raises SkybandError SKY-E301 as ``again``, or if rows of the source have no such numbers and there are cuts.
        """
        if cuts:
            said = f"look-up tables have changed, and it is not recorded which rows of {source.shown} came before that"
            raise SkybandError("SKY-E301", said, hint="only the replay can be verified")
        return [(0, self.again(spark, source, columns, checkpoint))]

    def failure(self, said: str, columns: list[str] | None, path: str | None = None) -> SkybandError | None:
        """Return Spark's error ``said`` in the user's words if it is about the content of the source at ``path``, else None."""
        return None

    # -- reading by Arrow, in tasks or in this process

    def arrow_rules(self) -> ArrowRules | None:
        """Return when the files may be read by Arrow; None if Spark always reads them."""
        return None

    def local_rules(self) -> ArrowRules | None:
        """Return when the local engine may read the source; None if it never does. By default, it may read what Arrow reads."""
        return self.arrow_rules()

    def added_files(self, source: SourceNode) -> AddedFiles | None:
        """Return the files that a table gets, for the local engine; None if the source is a directory of files. Opens the table."""
        return None

    def arrow_reader(self, source: SourceNode, root: str, below: bool, fields: tuple[Field, ...], header: tuple[str, ...]) -> ArrowReader:
        """Return the reader of ``fields`` for the files in ``root`` (``below``: and in its subdirectories)."""
        raise NotImplementedError

    # -- columns that change

    def file_columns(self, source: SourceNode, path: str) -> Columns | None:
        """Return the columns that the local file at ``path`` states; None if it states none or cannot be read."""
        return None

    def table_columns(self, source: SourceNode) -> Columns | None:
        """Return the columns of a source that is one local table; None if it is not, or cannot be read."""
        return None

    def columns_unnamed(self, found: Columns) -> bool:
        """Return True if the names of ``found`` are only numbers, so that columns cannot be matched by name."""
        return False

    # -- rejected rows

    def unparsed(self, source: SourceNode, columns: Sequence[str] | None, text: str) -> Unparsed | None:
        """Return why the row ``text`` does not parse; None if that cannot be seen. ``columns``: the header, if there is one."""
        return None

    def csv_options(self, source: SourceNode) -> Mapping[str, str]:
        """Return the options, in lower case, that say how rejected rows are written as CSV."""
        return {}

    def without_rows(self, source: SourceNode, header: bool, path: Path, data: bytes, keep: Sequence[bool]) -> bytes | None:
        """Return the file ``data`` at ``path`` without the rows that are not kept; None if its rows cannot be distinguished."""
        return None

    # -- verify

    def count_rows(self, source: SourceNode, path: str, header: bool) -> int | None:
        """Return the number of rows of a file, counted without any reader of a run; None if lines do not tell.

        Raises OSError, EOFError, UnicodeError.
        """
        return None

    # -- SQL over the source's rows

    def duckdb_call(self, source: SourceNode, files: Sequence[str], header: Sequence[str] | None) -> str | None:
        """Return the call of DuckDB's function that reads ``files``, patterns or names; None if ``dataset`` has to read them.

        ``header``: the columns that the job's first run found, if there are any. Cells of text are read as text.
        """
        return None

    def dataset(self, source: SourceNode, files: Sequence[str]) -> Dataset:
        """Return the rows of ``files``, or of the table, for DuckDB. Only for a format without a ``duckdb_call``."""
        raise NotImplementedError

    def duckdb_condition(self, source: SourceNode, columns: Sequence[str]) -> str:
        """Return the ``where`` clause that leaves out rows which DuckDB and Spark read differently, or an empty text."""
        return ""

    def duckdb_member(self, column: str, path: Sequence[str]) -> str:
        """Return the SQL of the member ``path`` of ``column``, an object; ``column`` is quoted already."""
        return ".".join([column, *(f'"{name.replace(chr(34), chr(34) * 2)}"' for name in path)])

    def null_text(self, source: SourceNode) -> str:
        """Return the text that stands for null in a cell; an empty text if only empty cells are null."""
        return ""

    def spark_relation(self, path: str) -> str | None:
        """Return how Spark SQL names the files at ``path``; None if it takes more than a name."""
        return None

    def rows_gone(self, source: SourceNode) -> str | None:
        """Return why the source no longer holds every row that it delivered; None if it does."""
        return None

    # -- preview

    def first_rows(self, source: SourceNode, path: str, most: int, found: FirstRows) -> None:
        """Add the first ``most`` rows of the file or table at ``path`` to ``found``, as Spark would read them.

        Raises SkybandError SKY-E531 if only Spark knows how they are read, SKY-E206 if columns are missing.
        """
        raise NotImplementedError
