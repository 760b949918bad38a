"""Reads CSV files with Spark: cells as texts of their bytes, then as values, so that no value changes silently.

Spark reads files as ISO-8859-1, in which every byte is a character; ``text.values.decoded`` makes the texts of it. So bytes that are no
text are seen. Files in UTF-16, and UTF-8 with ``multiLine`` (where Spark keeps a byte order mark otherwise), are read in their encoding.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from skyband.framework.plan.model import Field, SourceNode
from skyband.framework.sources.files.bad_files import separator_of
from skyband.framework.sources.files.listing import partition_columns
from skyband.framework.sources.options import SPARK_CSV
from skyband.framework.sources.protocol import CORRUPT
from skyband.framework.sources.structs import struct
from skyband.framework.sources.text import values
from skyband.framework.sources.text.options import WIDE, codec_of, encoding_of, folded, skipped, slashed
from skyband.framework.spark_adapter.driver import type_of_ddl

URL: Final = "__url"
NAME: Final = "__name"
Load = Callable[[str, StructType, Mapping[str, str]], DataFrame]
"""(Spark's format, schema, options) -> the source's files as a stream or at rest, all that are to be read."""

_START: Final = "__start"
_LINE: Final = "__line"
_LINES: Final = struct(**{_LINE: "binary", NAME: "string", URL: "string"})
_TEXTS: Final = ("sep", "delimiter", "nullvalue", "emptyvalue", "nanvalue", "positiveinf", "negativeinf", "comment", "quote", "escape")
"""Options whose values are texts of the file."""


def read(load: Load, source: SourceNode, columns: Sequence[str] | None) -> DataFrame:
    """The source's columns, ``CORRUPT``, ``NAME`` and ``URL`` of the file. ``columns``: the names of the header, if there is one."""
    options, held = folded(source.options), partition_columns(source)
    names = list(columns) if columns is not None else [n for f in source.fields if (n := str(f.source_name)) not in held]
    types = _types(source, options, names)
    cells = _by_lines(load, source, columns, types, held) if skipped(options) else _by_spark(load, source, columns, names, types, held)
    exactly = not _in_its_encoding(options)
    text = {i: _decoded(i, types[i], options, exactly) for i in range(len(names))}
    of_cells = [*(text[i].alias(f"c{i}") for i in range(len(names))), *(_latin(i) for i in range(len(names)))]
    texts = cells.select(*of_cells, *of_directories(held), CORRUPT, NAME, URL)
    made: list[Column] = []
    bad: list[Column] = []
    for f in source.fields:
        name = str(f.source_name)
        value, wrong = _value(F.col(f"p{held.index(name)}" if name in held else f"c{names.index(name)}"), f, options)
        made.append(value.cast(f.type).alias(f.name))
        if wrong is not None:
            bad.append(wrong)
    mine = [names.index(n) for f in source.fields if (n := str(f.source_name)) not in held]
    torn = [values.undecodable(F.col(f"c{i}"), options, exactly) for i in dict.fromkeys(mine) if types[i] == "string"]
    # The text of the row as it was, or as its cells give it; with bytes that are no text, these are shown.
    text_of_row = _decoded_text(F.col(CORRUPT), options, exactly)
    line = _line([F.col(f"c{i}").cast("string") for i in range(len(names))], options)
    raw = _line([F.col(f"l{i}").cast("string") for i in range(len(names))], options)
    corrupt = F.when(F.col(CORRUPT).isNotNull(), text_of_row)
    if torn:
        corrupt = corrupt.when(_any(torn), values.with_bytes(raw) if exactly else line)
    if bad:
        corrupt = corrupt.when(_any(bad), line)
    return texts.select(*made, corrupt.alias(CORRUPT), NAME, URL)


def with_directories(schema: StructType, held: Sequence[str]) -> StructType:
    """``schema`` and, as texts, the columns that directories hold."""
    return StructType([*schema.fields, *(StructField(n, StringType()) for n in held if n not in schema.names)])


def named_directories(held: Sequence[str]) -> list[Column]:
    """The columns that directories hold, by names that no file's column has."""
    return [F.col("`" + n.replace("`", "``") + "`").alias(f"p{i}") for i, n in enumerate(held)]


def of_directories(held: Sequence[str]) -> list[str]:
    """Those names."""
    return [f"p{i}" for i in range(len(held))]


def spark_options(source: SourceNode, encoding: str | None = None) -> dict[str, str]:
    """The source's options as Spark's reader has them; values that are texts as the bytes of the file read as ``encoding``."""
    options = folded(source.options)
    known = {name.lower() for name in SPARK_CSV}
    kept = {name: value for name, value in options.items() if name in known and name not in ("encoding", "charset")}
    if encoding is None:
        return kept | ({"encoding": encoding_of(options)} if "encoding" in options or "charset" in options else {})
    return {n: mangled(v, options) if n in _TEXTS else v for n, v in kept.items()} | {"encoding": encoding}


def mangled(text: str, options: Mapping[str, str]) -> str:
    """A text of the file as it reads in ISO-8859-1."""
    return text.encode(codec_of(options).removesuffix("-sig"), "replace").decode("iso-8859-1")


def _in_its_encoding(options: Mapping[str, str]) -> bool:
    encoding = encoding_of(options)
    return encoding in WIDE or (encoding == "utf-8" and options.get("multiline", "false").lower() == "true")


def _types(source: SourceNode, options: Mapping[str, str], names: Sequence[str]) -> list[str]:
    """What Spark reads each cell as: a text where ``_value`` makes the value of it."""
    declared = {str(f.source_name): f.type for f in source.fields}
    return ["string" if _own(declared.get(n, "string"), options) else declared[n] for n in names]


def _own(type_: str, options: Mapping[str, str]) -> bool:
    if type_ in ("timestamp", "date"):
        return values.plain_instants(options)
    whole = type_ in ("int", "bigint")
    return type_ in ("string", "double", "float") or type_.startswith("decimal") or (whole and "thousands" in options)


def _value(cell: Column, f: Field, options: Mapping[str, str]) -> tuple[Column, Column | None]:
    if f.type == "string" or not _own(f.type, options):
        return cell, None
    if f.type == "timestamp":
        return values.instant(cell)
    if f.type == "date":
        return values.day(cell)
    if {"decimal", "thousands"} & set(options):
        cell = values.plain_digits(cell, options.get("decimal", "."), options.get("thousands"))
    return values.number(cell, f.type, options) if f.type in ("double", "float") else values.exact(cell, f.type)


def _decoded(i: int, type_: str, options: Mapping[str, str], exactly: bool) -> Column:
    cell = F.col(f"l{i}")
    return values.decoded(cell, options) if exactly and type_ == "string" else cell


def _decoded_text(text: Column, options: Mapping[str, str], exactly: bool) -> Column:
    if not exactly:
        return text
    made = values.decoded(text, options)
    return F.when(values.undecodable(made, options), values.with_bytes(text)).otherwise(made)


def _latin(i: int) -> Column:
    return F.col(f"l{i}")


def _any(conditions: Sequence[Column]) -> Column:
    return reduce(lambda a, b: a | b, (F.coalesce(c, F.lit(False)) for c in conditions))


def _line(cells: Sequence[Column], options: Mapping[str, str]) -> Column:
    """A row of the file made of its cells."""
    sep, quote = separator_of(options), options.get("quote", '"')
    if not quote:
        return F.concat_ws(sep, *(F.coalesce(c, F.lit("")) for c in cells))
    escaped = ("\\" if slashed(options) else quote) + quote

    def cell(c: Column) -> Column:
        quoted = F.concat(F.lit(quote), F.replace(c, F.lit(quote), F.lit(escaped)), F.lit(quote))
        special = reduce(lambda a, b: a | b, (c.contains(m) for m in (sep, quote, "\n", "\r")))
        return F.when(c.isNull(), "").when(special, quoted).otherwise(c)

    return F.concat_ws(sep, *map(cell, cells))


def _by_spark(
    load: Load, source: SourceNode, columns: Sequence[str] | None, names: Sequence[str], types: Sequence[str], held: Sequence[str]
) -> DataFrame:
    options = folded(source.options)
    own = _in_its_encoding(options)
    here = names if own else [mangled(n, options) for n in names]
    schema = StructType([StructField(n, type_of_ddl(t)) for n, t in zip(here, types, strict=True)])
    schema.add(CORRUPT, StringType())
    given = spark_options(source, None if own else "ISO-8859-1") | {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT}
    if columns is not None:
        given["enforceSchema"] = "false"
    frame = load("csv", with_directories(schema, held), given)
    cells = [F.col("`" + n.replace("`", "``") + "`").alias(f"l{i}") for i, n in enumerate(here)]
    meta = [F.col("_metadata.file_name").alias(NAME), F.col("_metadata.file_path").alias(URL)]
    return frame.select(*cells, *named_directories(held), CORRUPT, *meta)


def _by_lines(load: Load, source: SourceNode, columns: Sequence[str] | None, types: Sequence[str], held: Sequence[str]) -> DataFrame:
    """Files with lines before their header, which Spark's reader of CSV knows nothing of."""
    options = folded(source.options)
    known = {"pathglobfilter", "recursivefilelookup", "linesep", "maxfileage", "maxfilespertrigger", "maxbytespertrigger"}
    frame = load("text", with_directories(struct(value="string"), held), {n: v for n, v in options.items() if n in known})
    meta = [F.col("_metadata.file_name").alias(NAME), F.col("_metadata.file_path").alias(URL)]
    start = F.col("_metadata.file_block_start").alias(_START)
    lines = frame.select(F.col("value").cast("binary").alias(_LINE), *meta, *named_directories(held), start)
    untitled = Untitled(skipped(options), None if columns is None else tuple(columns), tuple(options.items()))
    lines = lines.mapInArrow(untitled, with_directories(_LINES, of_directories(held)))
    inner = ", ".join(f"l{i} {t}" for i, t in enumerate(types)) + f", {CORRUPT} string"
    given = spark_options(source, "ISO-8859-1") | {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT, "header": "false"}
    for name in ("encoding", "pathglobfilter", "recursivefilelookup", "linesep"):
        given.pop(name, None)
    row = F.from_csv(F.decode(F.col(_LINE), "ISO-8859-1"), inner, given)
    more = [NAME, URL, *of_directories(held)]
    return lines.select(row.alias("__row"), *more).select("__row.*", *more)


@dataclass(frozen=True, slots=True)
class Untitled:
    """The function given to ``mapInArrow``: lines of files in, those without titles, header, comments and blank lines out.

    Raises RuntimeError, worded as Spark words it, for a file whose header is not ``header``.
    """

    skip: int
    header: tuple[str, ...] | None
    options: tuple[tuple[str, str], ...]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The lines of a file's part follow each other: the first part of a file is the one that starts at its first byte."""
        options = dict(self.options)
        comment = mangled(options.get("comment", ""), options).encode("iso-8859-1")
        file: tuple[str, int] | None = None
        titles, headed, full = 0, True, False
        for batch in batches:
            lines, urls, starts = (batch.column(n).to_pylist() for n in (_LINE, URL, _START))
            keep = []
            for line, url, start in zip(lines, urls, starts, strict=True):
                if (url, start) != file:
                    self._need(file, headed, full)
                    file, full = (url, start), False
                    titles, headed = (self.skip, self.header is None) if start == 0 else (0, True)
                full = full or bool(line.strip())
                if titles:
                    titles -= 1
                    keep.append(False)
                    continue
                row = bool(line.strip()) and not (comment and line.startswith(comment))
                if row and not headed:
                    headed, row = True, False
                    self._check(line, url, options)
                keep.append(row)
            kept = batch.filter(pa.array(keep, pa.bool_()))
            if kept.num_rows:
                yield kept.select([n for n in kept.schema.names if n != _START])
        self._need(file, headed, full)

    def _need(self, file: tuple[str, int] | None, headed: bool, full: bool) -> None:
        """Check the header of a file that ends within its titles, which has no row to report it with."""
        if file is not None and full and not headed:
            self._check(b"", file[0], dict(self.options))

    def _check(self, line: bytes, url: str, options: Mapping[str, str]) -> None:
        text = line.decode(codec_of(options), "replace")
        names = next(csv.reader([text], delimiter=separator_of(options)[:1], quotechar=options.get("quote", '"') or None), [])
        if [n.lower() for n in names] != [n.lower() for n in self.header or ()]:
            said = f"CSV header does not conform to the schema.\n Header: {', '.join(names)}\nCSV file: {url}"
            raise RuntimeError(f"Encountered error while reading file {url}. \n{said}")
