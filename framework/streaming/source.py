"""Reading a job's source as a stream or, for ``verify``, as a batch: the same columns, the same parse errors."""

from __future__ import annotations

import csv
import difflib
import gzip
from glob import glob
from pathlib import Path

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType, _parse_datatype_string

from skyband.framework.errors import SkybandError
from skyband.framework.plan.model import SourceNode

CORRUPT = "__corrupt"
ORIGIN = "__origin"
_TEXT_FORMATS = ("csv", "json")
BATCH_BYTES = "128m"
"""Most bytes of files in one batch, if the spec sets no bound (a batch has at least one file)."""


def header_columns(spark: SparkSession, source: SourceNode) -> list[str] | None:
    """Names in the header of a CSV source's files, in their order; None where names do not come from a header.

    Raises SkybandError SKY-E301 (no files yet) and SKY-E301 (a column of the schema is not in the header).
    """
    options = dict(source.options)
    if source.format != "csv" or options.get("header", "false").lower() != "true":
        return None
    names = _header(spark, source)
    if not names:
        raise SkybandError(
            "SKY-E301", f"no files to read in {source.path}", hint="the folder must hold at least one file when the job runs first"
        )
    for f in source.fields:
        if f.source_name not in names:
            close = difflib.get_close_matches(str(f.source_name), names, 1)
            hint = f"did you mean {close[0]!r}?" if close else "columns there: " + ", ".join(names)
            raise SkybandError("SKY-E301", f"column {f.source_name!r} is not in the header of the files in {source.path}", hint=hint)
    return list(names)


def _header(spark: SparkSession, source: SourceNode) -> list[str]:
    """The first line of the first file that has one, read without waking the engine where that is simple; [] if there is none."""
    options = {k.lower(): v for k, v in source.options}
    separator = {"\\t": "\t"}.get(options.get("sep", options.get("delimiter", ",")), options.get("sep", options.get("delimiter", ",")))
    root = Path(str(source.path).removeprefix("file://"))
    files = sorted(root.iterdir()) if root.is_dir() else sorted(Path(f) for f in glob(str(root)))
    visible = [f for f in files if f.is_file() and not f.name.startswith(("_", "."))]
    simple = all(f.suffix in ("", ".csv", ".txt", ".tsv", ".gz") for f in visible) and len(separator) == 1
    if "://" in str(root) or not simple or "ignoreleadingwhitespace" in options or (root.is_dir() and not visible):
        return _engine_header(spark, source)
    for file in visible:
        opener = gzip.open if file.suffix == ".gz" else open
        encoding = options.get("encoding", options.get("charset", "utf-8-sig"))
        with opener(file, "rt", encoding=encoding, errors="replace", newline="") as f:
            names = next(csv.reader(f, delimiter=separator, quotechar=options.get("quote", '"') or None), [])
        if names:
            return names
    return []


def _engine_header(spark: SparkSession, source: SourceNode) -> list[str]:
    """The same where only the engine can read the files."""
    try:
        return list(spark.read.format("csv").options(**dict(source.options)).load(source.path).columns)
    except AnalysisException as e:
        if e.getCondition() in ("PATH_NOT_FOUND", "UNABLE_TO_INFER_SCHEMA"):
            return []
        raise


def _bytes(size: str) -> int:
    """``128m`` as a number of bytes."""
    unit = {"b": 0, "k": 10, "m": 20, "g": 30, "t": 40}.get(size[-1].lower())
    return int(size) if unit is None else int(size[:-1]) << unit


def _schema(source: SourceNode, header: list[str] | None) -> StructType:
    """The schema to read with: CSV files give every column of the header a place, in its order."""
    types = {str(f.source_name): _parse_datatype_string(f.type) for f in source.fields}
    names = header if header is not None else list(types)
    schema = StructType([StructField(n, types.get(n, StringType())) for n in names])
    if source.format in _TEXT_FORMATS:
        schema.add(CORRUPT, StringType())
    return schema


def read(spark: SparkSession, source: SourceNode, header: list[str] | None, stream: bool) -> DataFrame:
    """The spec's columns, ``__corrupt`` (text of a row that did not parse, else null) and ``__origin`` (file or table)."""
    reader = (spark.readStream if stream else spark.read).format(source.format)
    options = dict(source.options)
    if source.format in _TEXT_FORMATS:
        options |= {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT}
    if header is not None:
        options["enforceSchema"] = "false"
    if stream and source.format != "delta":
        # Without it Spark forgets files older than the newest by a week.
        options.setdefault("maxFileAge", "36500d")
    if stream and source.max_files_per_batch:
        options["maxFilesPerTrigger"] = str(source.max_files_per_batch)
    elif stream:
        # The engine takes one of the two. A batch is held in memory: without a bound a first drop could be all there ever was.
        options["maxBytesPerTrigger"] = str(_bytes(source.max_bytes_per_batch or BATCH_BYTES))
    if source.format != "delta":
        reader = reader.schema(_schema(source, header))
    df = reader.options(**options).load(source.path)
    columns = [F.col("`" + str(f.source_name).replace("`", "``") + "`").cast(f.type).alias(f.name) for f in source.fields]
    corrupt = F.col(CORRUPT) if source.format in _TEXT_FORMATS else F.lit(None).cast("string")
    origin = F.lit(source.path) if source.format == "delta" else F.col("_metadata.file_name")
    return df.select(*columns, corrupt.alias(CORRUPT), origin.alias(ORIGIN))
