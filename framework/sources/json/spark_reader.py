"""JSON files read with Spark: lines as texts, then values, so that what follows the first value of a line is seen.

Spark's own reader stops behind it. Here a line is put into an array before a mark of ours: it is one value if the mark is the second.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from skyband.framework.plan.model import Field, SourceNode
from skyband.framework.sources.csv.spark_reader import NAME, URL, Load, named_directories, of_directories, with_directories
from skyband.framework.sources.files.listing import partition_columns
from skyband.framework.sources.json.syntax import pieces
from skyband.framework.sources.nested import path_of, tree
from skyband.framework.sources.options import JSON, LISTING
from skyband.framework.sources.protocol import CORRUPT
from skyband.framework.sources.structs import struct
from skyband.framework.sources.text import values
from skyband.framework.sources.text.options import WIDE, codec_of, encoding_of, folded

_MARK: Final = f"__skyband_{secrets.token_hex(8)}"
"""Of this process alone: a line that could know it might close what is put around it, and be passed over from there on."""
_LINE: Final = "__line"
_TEXT: Final = "__text"
_PIECES: Final = struct(**{_LINE: "binary", NAME: "string", URL: "string"})
_BLANK: Final = " \t\r\n"
_SECONDS: Final = 9_223_372_036_854
"""Seconds whose microseconds 64 bits hold."""
_MOST: Final = 4 << 20
"""Bytes of values of a file that are handed on at a time."""


def read(load: Load, source: SourceNode) -> DataFrame:
    """The source's columns, ``CORRUPT``, ``NAME`` and ``URL`` of the file."""
    options, held = folded(source.options), partition_columns(source)
    lines = _lines(load, options, held)
    text = F.col(_TEXT)
    array = F.startswith(F.ltrim(text), F.lit("["))
    named = {str(f.source_name): f for f in source.fields}
    types = {n: _read_as(f, options) for n, f in named.items()}
    members = tree((path, types[n]) for n in named if (path := path_of(source, n)) is not None)
    inner = ", ".join(f"{_quoted(n)}: {_ddl(t)}" for n, t in {**types, **members, _MARK: "int"}.items())
    known = {name.lower() for name in JSON} - LISTING - {"encoding", "charset", "linesep", "multiline"}
    given = {n: v for n, v in options.items() if n in known} | {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT}

    def parsed(type_: str) -> Column:
        # In an array with our mark behind it, a line of two values, or of a value and a further field, makes another number of elements.
        end = f'{{"{_MARK}":1}}' if type_.startswith("struct") else f'[{{"{_MARK}":1}}]'
        whole = F.concat(F.lit(f'{{"{_MARK}":['), text, F.lit(f",{end}]}}"))
        return F.from_json(whole, f"{_MARK} array<{type_}>, {CORRUPT} string", given)

    one, many = F.col("__one"), F.col("__many")
    rows = lines.withColumn("__one", F.when(~array, parsed(f"struct<{inner}>")))
    rows = rows.withColumn("__many", F.when(array, parsed(f"array<struct<{inner}>>")))
    sound = F.when(array, _sound(many, F.get(_second(many), F.lit(0)))).otherwise(_sound(one, _second(one)))
    sound = sound & ~values.undecodable(text, options)
    rows = rows.withColumn("__sound", sound & (F.instr(text, "\\u").eqNullSafe(0) | ~_lone(text)))
    # What is no array of objects is one row, whatever it is.
    each = F.when(F.col("__sound") & array, _first(many)).otherwise(F.array(F.when(F.col("__sound"), _first(one))))
    rows = rows.select(_TEXT, "__sound", NAME, URL, *of_directories(held), F.explode(each).alias("__row"))
    made, bad = [], [~F.col("__sound")]
    for f in source.fields:
        name = str(f.source_name)
        if name in held:
            made.append(F.col(f"p{held.index(name)}").cast(f.type).alias(f.name))
            continue
        path = path_of(source, name)
        value, wrong = _value(_cell(name, path), f, name if path is None else path[-1], options)
        made.append(value.cast(f.type).alias(f.name))
        if wrong is not None:
            bad.append(wrong)
    corrupt = F.when(reduce(lambda a, b: a | b, (F.coalesce(b, F.lit(False)) for b in bad)), _shown(text, options))
    return rows.select(*made, corrupt.alias(CORRUPT), NAME, URL)


def _first(parsed: Column) -> Column:
    return F.get(parsed[_MARK], F.lit(0))


def _second(parsed: Column) -> Column:
    return F.get(parsed[_MARK], F.lit(1))


def _sound(parsed: Column, mark: Column) -> Column:
    """Whether a line was one value and nothing behind it but the ``mark``, and its fields were of their types."""
    alone = (F.size(parsed[_MARK]) == 2) & mark[_MARK].isNotNull() & _first(parsed).isNotNull()
    return F.coalesce(alone & parsed[CORRUPT].isNull(), F.lit(False))


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _own(f: Field, options: Mapping[str, str]) -> bool:
    return f.type.startswith("decimal") or (f.type in ("timestamp", "date") and values.plain_instants(options))


def _read_as(f: Field, options: Mapping[str, str]) -> str:
    return "string" if _own(f, options) else f.type


def _cell(name: str, path: Sequence[str] | None) -> Column:
    """What a row has of the column ``name``: its own, else the member of an object that it names (``nested.path_of``)."""
    row = F.col("__row")
    return row[name] if path is None else F.coalesce(row[name], reduce(lambda at, part: at[part], path, row))


def _ddl(type_: Any) -> str:
    """A type, or objects in objects (``nested.tree``), as Spark spells it."""
    return type_ if isinstance(type_, str) else "struct<" + ", ".join(f"{_quoted(n)}: {_ddl(t)}" for n, t in type_.items()) + ">"


def _value(cell: Column, f: Field, member: str, options: Mapping[str, str]) -> tuple[Column, Column | None]:
    """The value of a field, and whether it is none of its type though it was read. ``member``: what it is called in its object."""
    if f.type in ("double", "float"):
        spelled = F.col(_TEXT).rlike(rf'"(\Q{f.source_name}\E|\Q{member}\E)"\s*:\s*"?[+-]?(?i:inf)')
        return cell, (F.abs(cell) == F.lit(float("inf"))) & ~spelled
    if f.type == "string":
        return _number_as_spelled(cell, member)
    if not _own(f, options):
        return cell, None
    if f.type not in ("timestamp", "date"):
        return values.exact(cell, f.type)
    # A number is of seconds since 1970; digits in quotes are no instant, or a year.
    digits = cell.rlike("^-?[0-9]+$")
    quoted = F.contains(F.col(_TEXT), F.concat(F.lit('"'), cell, F.lit('"')))
    number = digits & (~quoted | F.regexp_like(F.col(_TEXT), F.concat(_after(member), F.when(digits, cell), F.lit(r"\s*[,}]"))))
    if f.type == "date":
        # No day is a number: Spark would take it for a year.
        day, unlike = values.day(cell)
        return F.when(~number, day), number | unlike
    seconds = cell.try_cast("bigint")
    value, wrong = values.instant(cell)
    reached = F.coalesce(seconds.between(-_SECONDS, _SECONDS), F.lit(False))
    return F.when(number & reached, F.timestamp_seconds(F.when(reached, seconds))).otherwise(value), F.when(number, ~reached).otherwise(
        wrong
    )


def _after(member: str) -> Column:
    """The pattern of what stands before the value of a ``member`` of an object."""
    return F.concat(F.lit('"\\Q'), F.lit(member.replace("\\E", r"\E\\E\Q")), F.lit('\\E"\\s*:\\s*'))


def _number_as_spelled(cell: Column, member: str) -> tuple[Column, Column]:
    """A text that is a number in the file as the file spells it, as ``1.10``: the value that is read has gone through a double.

    None of its type if the line has several spellings of the number, or the number also as a text: which is the cell's, nobody knows.
    """
    number = cell.rlike(r'^(-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?|"-?Infinity")$') & cell.rlike("[.eEI]")
    name = _after(member)
    spelled = F.regexp_extract_all(F.col(_TEXT), F.concat(name, F.lit("(-?[0-9][0-9.eE+-]*)")), F.lit(1))
    value = F.btrim(cell, F.lit('"')).try_cast("double")
    same = F.array_distinct(F.filter(spelled, lambda s: s.try_cast("double") == value))
    found = number & (F.size(same) > 0)
    # Other texts become no part of a pattern.
    quoted = F.regexp_like(F.col(_TEXT), F.concat(name, F.lit('"\\Q'), F.when(found, cell), F.lit('\\E"')))
    return F.when(found, F.get(same, F.lit(0))).otherwise(cell), found & ((F.size(same) > 1) | quoted)


def _lone(text: Column) -> Column:
    r"""Whether half a character is spelled, such as ``\ud800``, of which Spark makes a question mark."""
    whole = F.regexp_replace(text, r"\\\\|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}", "")
    return whole.rlike(r"\\u[dD][89a-fA-F][0-9a-fA-F]{2}")


def _shown(text: Column, options: Mapping[str, str]) -> Column:
    if encoding_of(options) != "utf-8":
        return text
    latin = F.decode(text.cast("binary"), "ISO-8859-1")
    return F.when(values.undecodable(text, options), values.with_bytes(latin)).otherwise(text)


def _lines(load: Load, options: Mapping[str, str], held: Sequence[str]) -> DataFrame:
    """The texts that hold a value each: lines, or what stands at the top of files read as a whole."""
    whole = options.get("multiline", "false").lower() == "true"
    known = {"pathglobfilter", "recursivefilelookup", *(() if whole else ("linesep",))}
    given = {n: v for n, v in options.items() if n in known} | ({"wholetext": "true"} if whole else {})
    frame = load("text", with_directories(struct(value="string"), held), given)
    meta = [F.col("_metadata.file_name").alias(NAME), F.col("_metadata.file_path").alias(URL), *named_directories(held)]
    more = [NAME, URL, *of_directories(held)]
    if whole:
        pieces_of = with_directories(_PIECES, of_directories(held))
        frame = frame.select(F.col("value").cast("binary").alias(_LINE), *meta).mapInArrow(Pieces(codec_of(options)), pieces_of)
        text = F.col(_LINE).cast("string")
        if encoding_of(options) == "utf-8" or encoding_of(options) in WIDE:
            return frame.select(text.alias(_TEXT), *more)
        return frame.select(values.decoded(F.decode(F.col(_LINE), "ISO-8859-1"), options).alias(_TEXT), *more)
    text = F.col("value")
    if encoding_of(options) != "utf-8":
        text = values.decoded(F.decode(text.cast("binary"), "ISO-8859-1"), options)
    return frame.where(F.btrim("value", F.lit(_BLANK)) != "").select(text.alias(_TEXT), *meta)


@dataclass(frozen=True, slots=True)
class Pieces:
    """The function given to ``mapInArrow``: whole files in, the values that they hold out. ``codec``: Python's, of the files."""

    codec: str

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Holds one file at a time."""
        for batch in batches:
            for row in range(batch.num_rows):
                file = batch.slice(row, 1)
                found: list[bytes] = []
                size = 0
                for piece in pieces(self._bytes(file.column(_LINE)[0].as_py())):
                    found.append(piece)
                    size += len(piece)
                    if size > _MOST:
                        yield _of_file(file, found)
                        found, size = [], 0
                if found:
                    yield _of_file(file, found)

    def _bytes(self, text: bytes) -> bytes:
        if self.codec in WIDE:
            return text.decode(self.codec, "replace").removeprefix("\ufeff").encode()
        return text.removeprefix(b"\xef\xbb\xbf")


def _of_file(file: pa.RecordBatch, found: list[bytes]) -> pa.RecordBatch:
    """``found`` in the place of the file's text, beside what else its row has."""
    columns = [
        pa.array(found, pa.binary()) if n == _LINE else pa.array([file.column(n)[0].as_py()] * len(found), pa.string())
        for n in file.schema.names
    ]
    return pa.RecordBatch.from_arrays(columns, file.schema.names)
