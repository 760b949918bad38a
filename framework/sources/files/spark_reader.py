"""Reads files with Spark, as a stream or as a batch, with the same columns and the same parse errors."""

from __future__ import annotations

import csv
import os
import re
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.readwriter import DataStreamReader
from pyspark.sql.types import StringType, StructField, StructType

from skyband.framework.base.errors import SkybandError
from skyband.framework.plan.model import Field, SourceNode
from skyband.framework.sources.columnar.file_columns import orc_columns, parquet_columns
from skyband.framework.sources.csv import spark_reader as csv_reader
from skyband.framework.sources.delta.change_feed import CHANGE, CHANGE_TYPE, COMMITTED, VERSION, follows
from skyband.framework.sources.files import preflight
from skyband.framework.sources.files.backlog import batch_bytes
from skyband.framework.sources.files.bad_files import separator_of, why
from skyband.framework.sources.files.listing import PATTERN, listing, marked, root_of, values_of, without_marks
from skyband.framework.sources.files.numbered_files import numbered
from skyband.framework.sources.json import spark_reader as json_reader
from skyband.framework.sources.nested import path_of, paths_of, tree
from skyband.framework.sources.options import LISTING
from skyband.framework.sources.position import FileNames
from skyband.framework.sources.protocol import CAP, CORRUPT, ORIGIN
from skyband.framework.sources.structs import struct
from skyband.framework.sources.text.options import WIDE, codec_of, encoding_of, folded, skipped
from skyband.framework.sources.watermark_caps import WatermarkCaps
from skyband.framework.spark_adapter.driver import type_of_ddl
from skyband.framework.storage.delta_logs import require_inside

# Number the rows of files that Spark reads, for ``source.id: position``.
#
# Spark may split a file among tasks, none of which knows the rows of the others. So files are read whole here, each by one task.

_COST: Final = 1 << 44
"""Bytes that a file counts for beside its own, 16 TB: more than a file has, so that none is larger than what a task gets."""
_WHOLE: Final = {"spark.sql.files.maxPartitionBytes": str(1 << 62), "spark.sql.files.openCostInBytes": str(_COST)}


def read_files_whole(spark: SparkSession) -> None:
    """Have the session's queries that start from now on split no file. Tasks get equal numbers of files."""
    for name, value in _WHOLE.items():
        spark.conf.set(name, value)


def with_position(frame: DataFrame, source: SourceNode, url: str) -> DataFrame:
    """Return ``frame``, whose rows have the URL of their file in the column ``url``, with the columns ``source.position``.

    The rows of a file have to follow each other in its order: see ``read_files_whole``.
    """
    schema = StructType([*frame.schema.fields, *(StructField(f.name, type_of_ddl(f.type)) for f in source.position)])
    return frame.mapInArrow(NumberRows(FileNames.of(source), source.position, url), schema)


@dataclass(frozen=True, slots=True)
class NumberRows:
    """The function for ``mapInArrow``: returns each batch with the columns ``position``."""

    names: FileNames
    position: tuple[Field, ...]
    url: str

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Count the rows of each file from 1."""
        file, before = None, 0
        for batch in batches:
            if not batch.num_rows:
                continue
            rows, runs = pa.Table.from_batches([batch]), pc.run_end_encode(batch[self.url])
            ends = runs.run_ends.to_numpy()
            for url, begin, end in zip(runs.values.to_pylist(), np.append(0, ends[:-1]), ends, strict=True):
                if url != file:
                    file, before = url, 0
                yield from numbered(rows.slice(begin, end - begin), self.position, self.names.name(url), before).to_batches()
                before += int(end - begin)


_GLOB = re.compile(f"([{re.escape(PATTERN)}])")
"""Characters of a pattern, which the name of a file may contain too."""

_WITHOUT_SUMS = {"fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem", "fs.file.impl.disable.cache": "true"}
"""Hadoop's local file system checks a sum beside each file, and cannot name that of a file with a colon. This one looks for none."""

_OWN = ("csv", "json")
"""Formats of text, whose values are made from texts here and not by Spark's readers."""
_BLANKS = 100
"""Lines after the titles among which the header is."""
_URL = "__url"
_FILE = struct(path="string", modificationTime="timestamp", length="bigint", content="binary")
"""The columns of Spark's reader of whole files; Spark only fills those that a query uses."""
_LATEST = 253_402_214_400_000_000
"""A cap that caps nothing, in microseconds: the end of 9999-12-30, after all instants of a stream."""

NEVER_TOO_OLD = "100000000d"
"""Spark passes over files so much older than the newest it has seen, without a word: one stamp of the year 2400 must not do that."""


def files(
    spark: SparkSession, source: SourceNode, columns: list[str] | None, text: bool, paths: Sequence[str] | None,
    without: Sequence[str] = (), caps: WatermarkCaps | None = None, whole_origin: bool = False,
) -> DataFrame:  # fmt: skip
    """The files of a directory as a stream, or those in ``paths`` at rest. ``text``: what does not parse goes to ``CORRUPT``.

    The files at the URLs ``without`` are not opened; with ``drop`` rows have their file's ``CAP``. ``whole_origin``: the URLs are origins.
    """
    own = text and source.format in _OWN and not source.plain
    bound = {"maxFileAge": NEVER_TOO_OLD} | batch_bound(source)

    def load(format_: str, schema: StructType, options: Mapping[str, str]) -> DataFrame:
        given = {**options, **_found(source)}
        if paths is None:
            frame = _stream(spark.readStream.format(format_).schema(schema).options(**given, **bound), source)
        else:
            given |= _base(source, paths)
            frame = spark.read.format(format_).schema(schema).options(**given).load([_GLOB.sub(r"\\\1", p) for p in paths])
        return _without(frame, without)

    corrupt: Column | None
    if own:
        frame = csv_reader.read(load, source, columns) if source.format == "csv" else json_reader.read(load, source)
        name, url, corrupt = F.col(csv_reader.NAME), F.col(csv_reader.URL), F.make_valid_utf8(F.col(CORRUPT))
    else:
        options, schema = how(source, columns, text)
        frame = load(source.format, schema, options)
        name, url = F.col("_metadata.file_name"), F.col("_metadata.file_path")
        # A file in another encoding gives bytes that are no text, which Arrow would not take.
        corrupt = F.make_valid_utf8(F.col(CORRUPT)) if text else None
    placed = _placed if own else rows
    more = [url.alias(_URL)] if caps is not None or source.position else []
    found = placed(frame, source, url if whole_origin else name, corrupt, more)
    if source.position:
        read_files_whole(spark)
        found = with_position(found, source, _URL)
    return found.drop(_URL) if caps is None else _with_caps(spark, found, caps)


def _placed(frame: DataFrame, source: SourceNode, origin: Column, corrupt: Column | None, more: Sequence[Column] = ()) -> DataFrame:
    """Like ``rows``, of a frame whose columns have the spec's names and types."""
    assert corrupt is not None
    columns = [F.col(f"`{f.name}`") for f in source.fields]
    return frame.select(*columns, corrupt.alias(CORRUPT), origin.alias(ORIGIN), *more)


def urls(spark: SparkSession, source: SourceNode, name: str, without: Sequence[str], caps: WatermarkCaps | None) -> DataFrame:
    """The files of a directory as a stream of their URLs (column ``name``), with ``ORIGIN`` and ``CAP`` as ``files`` has them: none is
    opened.

    Spark takes and notes files as it does for ``files``: a checkpoint of the one goes on with the other.
    """
    options = _places(source) | _found(source) | {"maxFileAge": NEVER_TOO_OLD} | batch_bound(source)
    frame = _without(_stream(spark.readStream.format("binaryFile").schema(_FILE).options(**options), source), without)
    url = F.col("_metadata.file_path")
    named = [url.alias(name), F.col("_metadata.file_name").alias(ORIGIN)]
    return frame.select(*named) if caps is None else _with_caps(spark, frame.select(*named, url.alias(_URL)), caps)


def _without(frame: DataFrame, urls: Sequence[str]) -> DataFrame:
    # Spark lists its files by such a filter before it opens them.
    return frame.where(~F.col("_metadata.file_path").isin([s for u in urls for s in _spelled(u)])) if urls else frame


def _places(source: SourceNode) -> dict[str, str]:
    """Return those of the source's options that say which files are read."""
    return {name: value for name, value in source.options if name.lower() in LISTING}


def listed(spark: SparkSession, source: SourceNode) -> list[str]:
    """URLs of the files there, as Spark's stream would find and spell them; [] if there is no such directory."""
    try:
        given = _places(source) | _found(source)
        return list(spark.read.format("binaryFile").schema(_FILE).options(**given).load(_load_path(source)).inputFiles())
    except AnalysisException as e:
        if e.getCondition() != "PATH_NOT_FOUND":
            raise
        return []


def how(source: SourceNode, columns: list[str] | None, text: bool) -> tuple[dict[str, str], StructType]:
    """Spark's options and schema to read files of ``source`` with. ``columns``, ``text``: see ``files``."""
    options = (csv_reader.spark_options(source) if source.format == "csv" else dict(source.options)) | _found(source)
    if text:
        options |= {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT}
    if columns is not None:
        options["enforceSchema"] = "false"
    return options, _schema(source, columns, text)


def _found(source: SourceNode) -> dict[str, str]:
    """Options for names that Spark takes for patterns, where such files are set aside, and for names with a colon."""
    found = listing(source)
    if found is None:
        return {}
    made: dict[str, str] = {}
    if source.on_bad_file == "reject":
        named = next(((n, v) for n, v in source.options if n.lower() == "pathglobfilter"), ("pathGlobFilter", None))
        made[named[0]] = without_marks(named[1])
    return made | (_WITHOUT_SUMS if any(":" in os.path.basename(f) for f in found.files) else {})


def _base(source: SourceNode, paths: Sequence[str]) -> dict[str, str]:
    """The option for which Spark takes columns from the directories of files that are named one by one."""
    local = [p.removeprefix("file://") if p.startswith("file://") else p.removeprefix("file:") for p in paths]
    return {"basePath": str(root_of(source))} if any(values_of(source, p) for p in local) else {}


def _load_path(source: SourceNode) -> str | None:
    """The path for Spark. One that names a file is written as a pattern of that file alone: else Spark wants a directory."""
    root = root_of(source)
    if root is None or not os.path.isfile(root) or marked(root):
        return source.path
    return f"{os.path.dirname(root)}/{{{os.path.basename(root)}}}"


def _with_caps(spark: SparkSession, frame: DataFrame, caps: WatermarkCaps) -> DataFrame:
    """Return ``frame`` with the column ``CAP`` instead of the file's URL."""
    by_url = {spelled: _LATEST if cap is None else min(cap, _LATEST) for u, cap in caps.caps.items() for spelled in _spelled(u)}
    named = spark.createDataFrame(pa.table({_URL: pa.array(by_url, pa.string()), CAP: pa.array(by_url.values(), pa.int64())}))
    others = F.lit(None if caps.others is None else min(caps.others, _LATEST)).cast("bigint")
    joined = frame.join(F.broadcast(named), _URL, "left").withColumn(CAP, F.coalesce(F.col(CAP), others))
    return joined.drop(_URL)


def _spelled(url: str) -> set[str]:
    """Return the spellings that Spark may use for a file's URL."""
    return {url, url.replace("file:///", "file:/")}


def unreadable(spark: SparkSession, source: SourceNode, columns: list[str] | None, text: bool, path: str) -> str | None:
    """Return why Spark cannot read the file at ``path``, by reading all of it; None if it can."""
    try:
        files(spark, source, columns, text, [path]).write.format("noop").mode("overwrite").save()
    except Exception as e:  # whatever Spark says of this one file is the answer
        return why(str(e))
    return None


def _stream(reader: DataStreamReader, source: SourceNode) -> DataFrame:
    try:
        return reader.load(_load_path(source))
    except PySparkException as e:
        if str(e.getCondition()).startswith("CONFLICTING_"):
            said, hint = f"the directories below {source.path} do not have the same columns", "keep files of one kind in a directory"
            raise preflight.missing(source) or SkybandError("SKY-E301", said, hint=hint) from e
        if e.getCondition() != "PATH_NOT_FOUND":
            raise
        raise SkybandError(
            "SKY-E301", f"there is no directory {source.path}", hint="create it (it may be empty), or fix source.path"
        ) from e


def delta(spark: SparkSession, source: SourceNode) -> DataFrame:
    """Return a Delta table as a stream; a row's origin is its path as in the spec. With ``changes``, an update is two rows.

    Raises SkybandError SKY-E208 for a log that names files outside of the table.
    """
    require_inside(str(source.path))
    options = dict(source.options) | batch_bound(source)
    changes = follows(options)
    options.pop("changes", None)
    if changes:
        options["readChangeFeed"] = "true"
    frame = spark.readStream.format("delta").options(**options).load(source.path)
    if changes:
        kind = F.col("_change_type")
        change = F.when(kind.isin("delete", "update_preimage"), "delete").when(kind.isin("insert", "update_postimage"), "insert")
        commit = {VERSION: F.col("_commit_version"), COMMITTED: F.col("_commit_timestamp")}
        frame = frame.withColumns({CHANGE: change, CHANGE_TYPE: kind, **commit})
    return rows(frame, source, F.lit(source.written or source.relative or source.path))


def rows(frame: DataFrame, source: SourceNode, origin: Column, corrupt: Column | None = None, more: Sequence[Column] = ()) -> DataFrame:
    """``frame``, whose columns have the source's names, as ``SourceFormat`` promises it, and ``more`` columns."""
    there = {c.lower() for c in frame.columns}
    columns = [_column(source, str(f.source_name), there).cast(f.type).alias(f.name) for f in source.fields]
    parsed = F.lit(None).cast("string") if corrupt is None else corrupt
    return frame.select(*columns, parsed.alias(CORRUPT), origin.alias(ORIGIN), *more)


def _column(source: SourceNode, name: str, there: Set[str]) -> Column:
    """The column ``name`` of a frame with the columns ``there`` (in lower case): its own, else the member of an object that it names."""
    path = path_of(source, name)
    own = F.col(_quoted(name))
    if path is None or path[0].lower() not in there:
        return own
    member = F.col(".".join(map(_quoted, path)))
    return F.coalesce(own, member) if name.lower() in there else member


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def batch_bound(source: SourceNode) -> dict[str, str]:
    """The option of file and table streams that bounds a batch."""
    if source.max_files_per_batch:
        return {"maxFilesPerTrigger": str(source.max_files_per_batch)}
    return {"maxBytesPerTrigger": str(batch_bytes(source))}


def csv_header(spark: SparkSession, source: SourceNode, path: str) -> list[str]:
    """The header of CSV files that only Spark can read; [] if there are none. SkybandError SKY-E301 if one cannot be read."""
    options = folded(source.options)
    own = encoding_of(options) in WIDE or encoding_of(options) == "utf-8"
    try:
        if skipped(options):
            return _behind_titles(spark, options, path)
        given = csv_reader.spark_options(source, None if own else "ISO-8859-1")
        names = list(spark.read.format("csv").options(**given).load(path).columns)
        return names if own else [n.encode("iso-8859-1").decode(codec_of(options), "replace") for n in names]
    except AnalysisException as e:
        if e.getCondition() in ("PATH_NOT_FOUND", "UNABLE_TO_INFER_SCHEMA"):
            return []
        raise
    except Exception as e:
        raise SkybandError(
            "SKY-E301", f"no header can be read in {path}: {why(str(e))}", hint="fix the file, then run the job again"
        ) from e


def _behind_titles(spark: SparkSession, options: dict[str, str], path: str) -> list[str]:
    """The header of the first file at ``path``, which has lines before it."""
    places = {n: v for n, v in options.items() if n in ("pathglobfilter", "recursivefilelookup", "linesep")}
    first = spark.read.format("binaryFile").options(**places).load(path).inputFiles()[:1]
    lines = spark.read.format("text").options(**places).load(first).take(skipped(options) + _BLANKS) if first else []
    texts = (str(line[0]).encode("utf-8", "surrogateescape").decode(codec_of(options), "replace") for line in lines[skipped(options) :])
    header = next((t for t in texts if t.strip()), "")
    return next(csv.reader([header], delimiter=separator_of(options)[:1], quotechar=options.get("quote", '"') or None), [])


def _schema(source: SourceNode, columns: list[str] | None, text: bool) -> StructType:
    """The schema to read with: files with a header give every column of it a place, in its order."""
    types = {str(f.source_name): type_of_ddl(f.type) for f in source.fields}
    schema = StructType([StructField(n, types.get(n, StringType())) for n in (columns if columns is not None else types)])
    objects = tree(p for p in paths_of(source) if not _has_column(source, ".".join(p[0])))
    for name, inside in objects.items():
        schema.add(name, _struct(inside))
    if text:
        schema.add(CORRUPT, StringType())
    return schema


def _struct(members: Mapping[str, Any]) -> StructType:
    """Objects in objects (``nested.tree``) as Spark's type."""
    return StructType([StructField(n, _struct(t) if isinstance(t, dict) else type_of_ddl(t)) for n, t in members.items()])


def _has_column(source: SourceNode, name: str) -> bool:
    """Return True if the first file of a source with typed columns has a column of that very name, which is then no member."""
    columns_of = {"parquet": parquet_columns, "orc": orc_columns}.get(source.format)
    first = next(iter(preflight.files(source)), None) if columns_of is not None else None
    found = columns_of(first) if columns_of is not None and first is not None else None
    return found is not None and name.lower() in {n.lower() for n in found}
