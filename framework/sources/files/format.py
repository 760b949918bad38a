"""The base of file formats: files in a directory, each read once by Spark's file source, in the order of modification."""

from __future__ import annotations

import os
import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final
from urllib.parse import unquote

from skyband.framework.base.counts import counted
from skyband.framework.base.errors import SkybandError, one_of
from skyband.framework.plan.model import SourceNode
from skyband.framework.sources.files.backlog import FileBacklog
from skyband.framework.sources.files.bad_files import named_in, other_type, why
from skyband.framework.sources.files.ledger import Ledger
from skyband.framework.sources.files.log_pruning import pruned
from skyband.framework.sources.files.watch import FileWatch
from skyband.framework.sources.logs import local_path, taken, unusable
from skyband.framework.sources.options import Options, unsafe
from skyband.framework.sources.position import OF_FILES, PositionColumn
from skyband.framework.sources.protocol import Mistake, Section, SourceFormat
from skyband.framework.sources.watermark_caps import WatermarkCaps
from skyband.framework.storage.location import Location, without_scheme
from skyband.framework.storage.settings import SOURCE_SCHEMES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")


def path_needed(section: Section) -> Iterator[Mistake]:
    """Yield the mistake of a source without the path that it needs, or whose path is on a system that sources are not read from."""
    if section.path is None:
        yield Mistake("SKY-E111", f"source needs the field 'path' for format {section.format}", ("path",), "the directory of the files")
    elif (found := _SCHEME.match(section.path)) is not None and (scheme := found[1].lower()) not in SOURCE_SCHEMES:
        hint = f"a path of this machine, or one that begins with {one_of([f'{s}://' for s in SOURCE_SCHEMES], 20)}"
        yield Mistake("SKY-E113", f"sources are not read from {scheme}: paths", ("path",), hint)


def files_taken(checkpoint: Location, number: int = 0) -> list[str]:
    """Return the URLs of the source files in Spark's log of source ``number``, those that batches have taken."""
    return [t.url for t in taken(checkpoint / "sources" / str(number))]


def files_to_read(source: SourceNode, checkpoint: Location) -> list[str]:
    """Return the URLs of the source files that batches have taken and that are not set aside, to read them again.

    Raises SkybandError SKY-E303 if one of them is outside the source.
    """
    found = files_taken(checkpoint, source.number)
    other = next((url for url in found if not _inside(source, url)), None)
    if other is not None:
        raise unusable(checkpoint, f"sources/{source.number} names a file that is not in the source {source.path}: {other[:300]}")
    aside = Ledger.load(checkpoint.parent, source.number).aside
    return [url for url in found if url not in aside]


def by_cuts(source: SourceNode, checkpoint: Location, files: Sequence[str], cuts: Sequence[int]) -> list[tuple[int, list[str]]]:
    """Return ``files`` that batches have taken in parts, as ``SourceFormat.again_in_parts`` does."""
    numbers = {t.url: t.number for t in taken(checkpoint / "sources" / str(source.number))} if cuts else {}
    parts: dict[int, list[str]] = {}
    for file in files:
        parts.setdefault(bisect_left(cuts, numbers.get(file, 0)), []).append(file)
    return sorted(parts.items())


def _inside(source: SourceNode, url: str) -> bool:
    """Return True if a file is in the source's directory or below it. For remote files, only that both are remote is checked."""
    local, there = local_path(url), without_scheme(str(source.path))
    if "://" in there:
        return local is None
    if local is None:
        return False
    parts = Path(os.path.abspath(there)).parts
    pattern = next((n for n, part in enumerate(parts) if set("[]{}*?") & set(part)), len(parts))
    root = Path(*parts[:pattern])
    file = Path(os.path.normpath(local))
    return any(file == r or r in file.parents for r in (root, Path(os.path.realpath(root)), Path(*parts)))


FIX_FILE = "fix it under the same name and run again, or set source.on_bad_file: reject (the file then goes to table rejected)"


@dataclass(frozen=True, slots=True)
class FileFormat(SourceFormat):
    """A format of files that Spark's file source reads. A row's origin is the name of its file.

    ``takes``: the options that a spec may give. ``text``: rows are texts and may fail to parse. ``engine``: Spark's name of the format,
    if specs call it otherwise.
    """

    takes: Options
    of_files: ClassVar[bool] = True
    position: ClassVar[tuple[PositionColumn, ...]] = OF_FILES
    text: bool = False
    jars: tuple[str, ...] = ()
    engine: str | None = None

    def _named(self, source: SourceNode) -> SourceNode:
        """Return the source under Spark's name of its format."""
        return source if self.engine is None else replace(source, format=self.engine)

    def check(self, section: Section) -> Iterator[Mistake]:
        """See ``SourceFormat.check``."""
        yield from path_needed(section)
        yield from unsafe(section, self.takes)

    def stream(
        self,
        spark: SparkSession,
        source: SourceNode,
        columns: list[str] | None,
        without: Sequence[str] = (),
        caps: WatermarkCaps | None = None,
    ) -> DataFrame:
        """See ``SourceFormat.stream``."""
        from skyband.framework.sources.files import spark_reader

        return spark_reader.files(spark, self._named(source), columns, self.text, None, without, caps)

    def watch(self, source: SourceNode, columns: list[str] | None, home: Location) -> FileWatch:
        """See ``SourceFormat.watch``."""
        source = self._named(source)

        def probe(spark: SparkSession, url: str) -> str | None:
            from skyband.framework.sources.files import spark_reader

            return spark_reader.unreadable(spark, source, columns, self.text, unquote(url))

        return FileWatch(source, home, columns, probe)

    def backlog(self, source: SourceNode, columns: list[str] | None, home: Location) -> FileBacklog:
        """See ``SourceFormat.backlog``."""
        source = self._named(source)

        def listed(spark: SparkSession) -> list[str]:
            from skyband.framework.sources.files import spark_reader

            return spark_reader.listed(spark, source)

        def rows(spark: SparkSession, paths: Sequence[str]) -> DataFrame:
            from skyband.framework.sources.files import spark_reader
            from skyband.framework.sources.json.plain import may_be_plain, why_not_plain

            plain = may_be_plain(source) and all(why_not_plain(source, p) is None for u in paths if (p := local_path(u)) is not None)
            return spark_reader.files(spark, replace(source, plain=plain), columns, self.text, paths, whole_origin=True)

        return FileBacklog(source, columns, home, listed, rows)

    def at_rest(
        self, spark: SparkSession, source: SourceNode, columns: list[str] | None, urls: Sequence[str], caps: WatermarkCaps | None
    ) -> DataFrame:
        """Return the rows of the files ``urls``, as ``stream`` gives them."""
        from skyband.framework.sources.files import spark_reader

        return spark_reader.files(spark, self._named(source), columns, self.text, [unquote(u) for u in urls], caps=caps)

    def again(self, spark: SparkSession, source: SourceNode, columns: list[str] | None, checkpoint: Location) -> DataFrame:
        """See ``SourceFormat.again``: SKY-E301 if files are gone. Files set aside are left out."""
        ((_, rows),) = self.again_in_parts(spark, source, columns, checkpoint, ())
        return rows

    def again_in_parts(
        self, spark: SparkSession, source: SourceNode, columns: list[str] | None, checkpoint: Location, cuts: Sequence[int]
    ) -> list[tuple[int, DataFrame]]:
        """See ``SourceFormat.again_in_parts``."""
        from skyband.framework.sources.files import spark_reader

        parts = by_cuts(source, checkpoint, self.files_again(source, checkpoint), cuts) or [(0, [])]
        return [(i, spark_reader.files(spark, self._named(source), columns, self.text, [unquote(f) for f in files])) for i, files in parts]

    def files_again(self, source: SourceNode, checkpoint: Location) -> list[str]:
        """Return the URLs of the files that a job has taken, without those set aside. Raises SkybandError SKY-E301 if some are gone."""
        files = files_to_read(source, checkpoint)
        gone = [f for f in files if (path := local_path(f)) is not None and not Path(path).exists()]
        dropped = pruned(checkpoint, source.number)
        if gone or dropped:
            named = [f"first: {gone[0]}"] if gone else []
            named += [f"of {dropped:,} the names are no longer kept either: run.keep"] if dropped else []
            raise SkybandError(
                "SKY-E301",
                f"{len(gone) + dropped} of the {counted(len(files) + dropped, 'source file')} are gone ({'; '.join(named)})",
                hint="without them only the replay can be verified",
            )
        return files

    def failure(self, said: str, columns: list[str] | None, path: str | None = None) -> SkybandError | None:
        """See ``SourceFormat.failure``: a file that cannot be read."""
        named = named_in(said)
        if "PlainValuesDictionary" in said:
            text = "a column of the Parquet files holds another type than the spec declares: whole numbers without a sign (UINT32, UINT64)?"
            return SkybandError("SKY-E301", text, hint="skyband validate --data SPEC names the column; declare UINT64 as decimal(20,0)")
        if not named:
            return None
        file = local_path(named[0]) or named[0]
        other = other_type(said)
        if other is not None:
            column, there, declared, better = other
            text = f"column {column!r} of the file {file} is {there}, which cannot be read as {declared}"
            return SkybandError("SKY-E301", text, hint=f"declare {better}" if better else f"files must hold {declared} there")
        return SkybandError("SKY-E301", f"the file {file} cannot be read: {why(said)}", hint=FIX_FILE)
