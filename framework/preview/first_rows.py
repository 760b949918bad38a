"""The first rows of a source, typed as the spec says: read here as Spark would read them, where that is certain.

A cell counts as Spark's parser would take it (``quality.looks``). What it might read otherwise is not guessed at: such options and
formats raise SKY-E531, and rows with such cells are counted (``doubtful``) and left out.
"""

from __future__ import annotations

import csv
import os
import re
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from itertools import islice
from pathlib import Path
from typing import Any, Final

from skyband.framework.base.errors import SkybandError
from skyband.framework.base.reasons import PARSE
from skyband.framework.guess.sample import lines_of, whole_text
from skyband.framework.plan.model import Field, SourceNode
from skyband.framework.quality.looks import Spelled, fits_json, fits_text
from skyband.framework.rehearsal.rows import in_spark
from skyband.framework.sources import nested
from skyband.framework.sources.columnar import column_types
from skyband.framework.sources.columnar.files import READ_ERRORS, opened
from skyband.framework.sources.files import preflight
from skyband.framework.sources.files.bad_files import separator_of
from skyband.framework.sources.files.listing import values_of
from skyband.framework.sources.json import syntax
from skyband.framework.sources.json.document import pieces
from skyband.framework.sources.protocol import Unparsed
from skyband.framework.sources.registry import source_format
from skyband.framework.sources.text.options import codec_of, encoding_of, plain_digits, skipped, slashed, with_bytes
from skyband.framework.spec.parsing.cells import cell

_LOOK: Final = frozenset({"pathglobfilter", "recursivefilelookup"})
_TEXT: Final = frozenset({"encoding", "charset"})
_PLAIN: Final[Mapping[str, frozenset[str]]] = {
    "csv": _LOOK | _TEXT | {"header", "sep", "delimiter", "quote", "escape", "nullvalue", "decimal", "thousands", "skip_lines"},
    "json": _LOOK | _TEXT | {"multiline"}, "parquet": _LOOK | {"mergeschema"}, "orc": _LOOK | {"mergeschema"}, "delta": frozenset(),
}  # fmt: skip
"""Options, in lower case, that are read here as Spark reads them."""


_INSTANT: Final = re.compile(r"\d{4}-\d\d-\d\d([ T]\d\d:\d\d:\d\d(\.\d{1,6})?Z?)?")
"""Instants and dates that have one reading."""


@dataclass(slots=True)
class FirstRows:
    """``rows``: columns of the source by their names in the spec; ``reasons`` and ``texts``: of those that do not parse (else None, "").

    ``why``: what is wrong with each of these, as far as it can be seen. ``files``: those looked at, of ``many``. ``doubtful``: rows left
    out, since Spark may read them otherwise. ``absent``: columns that no row looked at has, not even as null.
    """

    rows: list[dict[str, Any]] = field(default_factory=list)
    reasons: list[str | None] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    why: list[Unparsed] = field(default_factory=list)
    files: list[str] = field(default_factory=list)
    many: int = 0
    doubtful: int = 0
    absent: list[str] = field(default_factory=list)

    def add(self, row: dict[str, Any]) -> None:
        """One that parses."""
        self._put(row, None, "")

    def unparsed(self, text: str, why: Unparsed | None) -> None:
        """One that does not."""
        self._put({}, PARSE, text)
        if why is not None:
            self.why.append(why)

    def _put(self, row: dict[str, Any], reason: str | None, text: str) -> None:
        self.rows.append(row)
        self.reasons.append(reason)
        self.texts.append(text)


class _Doubtful(Exception):
    """Spark may read a value otherwise."""


def first_rows(source: SourceNode, most: int, files: Sequence[str] | None = None) -> FirstRows:
    """The first ``most`` rows, file by file in the order of modification, or of ``files`` in their order. O(``most``).

    SkybandError SKY-E531 where only Spark knows how they are read, SKY-E206 if there are none, SKY-E201 if a file cannot be read.
    """
    odd = [name for name, _ in source.options if name.lower() not in _PLAIN.get(source.format, frozenset())]
    if source.format not in _PLAIN or odd:
        what = f"source.options.{odd[0]}" if odd else f"the format {source.format}"
        raise SkybandError("SKY-E531", f"{what} is read by Spark alone", hint="skyband preview --engine shows its rows")
    gone = preflight.missing(source)
    if gone is not None:
        raise gone
    found = FirstRows(absent=[f.name for f in source.fields] if source.format == "json" else [])
    paths = (
        [str(preflight.local_directory(str(source.path)))] if source.format == "delta" else files if files is not None else _by_age(source)
    )
    found.many = len(paths)
    if not paths:
        raise SkybandError(
            "SKY-E206", f"there are no files in {source.path} yet", hint="put one there; names that begin with _ or . are not read"
        )
    read = {"csv": _csv, "json": _json}.get(source.format, _typed)
    for path in paths:
        if len(found.rows) + found.doubtful >= most:
            break
        found.files.append(path)
        try:
            read(source, path, most - len(found.rows) - found.doubtful, found)
        except (*READ_ERRORS, EOFError, zlib.error, csv.Error, LookupError) as e:
            raise SkybandError("SKY-E201", f"the file {path} cannot be read: {str(e)[:200]}", hint="mend it, or move it away") from e
    return found


def _by_age(source: SourceNode) -> list[str]:
    return sorted(preflight.files(source), key=lambda p: (os.stat(p).st_mtime_ns, p))


def _csv(source: SourceNode, path: str, most: int, found: FirstRows) -> None:
    options = {k.lower(): v for k, v in source.options}
    separator, quote = separator_of(options), options.get("quote", '"')
    if len(separator) != 1 or len(quote) > 1:
        raise SkybandError("SKY-E531", "cells separated so are read by Spark alone", hint="skyband preview --engine shows them")
    lines = (line.rstrip("\r\n") for line in islice(lines_of(Path(path), codec_of(options), _errors(options)), skipped(options), None))
    lines = (line for line in lines if line.strip())
    sound = _sound(separator, quote, slashed(options))

    def cells(line: str) -> list[str]:
        if not quote:
            return line.split(separator)
        return next(csv.reader([line], delimiter=separator, quotechar=quote), [])

    fields, header, held = source.fields, None, dict[str, str | None]()
    if options.get("header", "false").lower() == "true":
        header = cells(next(lines, ""))
        held = values_of(source, path)
        wrong = preflight.header(source, path, header)
        if wrong:
            raise wrong[0]
    names = [str(f.source_name) for f in fields] if header is None else header
    at = {name: i for i, name in enumerate(names)}
    for line in islice(lines, most):
        if not sound(line):
            found.doubtful += 1
            continue
        given = cells(line)
        texts = {f.name: _cell(given, at, held, f) for f in fields} if len(given) == len(names) else None
        if texts is not None and any(_torn(t) for t in texts.values()):
            shown = with_bytes(line)
            found.unparsed(shown, source_format(source.format).unparsed(source, header, shown))
            continue
        if texts is not None:
            texts |= {f.name: plain_digits(texts[f.name], options) for f in fields if _numeric(f.type, options)}
        if texts is None or not all(_empty(texts[f.name], options) or fits_text(f.type, texts[f.name]) for f in fields):
            found.unparsed(line, source_format(source.format).unparsed(source, header, line))
            continue
        _put(found, {f: None if _empty(texts[f.name], options) else texts[f.name] for f in fields}, _of_text)


def _cell(given: Sequence[str], at: Mapping[str, int], held: Mapping[str, str | None], f: Field) -> str:
    """The text of a cell, or what the file's directories hold."""
    name = str(f.source_name)
    return held[name] or "" if name in held else given[at[name]]


def _sound(separator: str, quote: str, escaped: bool) -> Callable[[str], bool]:
    """Whether the quotes of a line are around whole cells, doubled inside of them, and none is escaped: then all read it alike."""
    if not quote:
        return lambda line: True
    end, q = re.escape(separator), re.escape(quote)
    inside = f"[^{q}]*" if escaped else f"(?:[^{q}]|{q}{q})*"
    whole = re.compile(f"(?:^|(?<={end})){q}{inside}{q}(?={end}|$)")
    return lambda line: quote not in line or (not (escaped and "\\" in line) and quote not in whole.sub("", line))


def _errors(options: Mapping[str, str]) -> str:
    """Bytes that are no text become something that no text has."""
    return "surrogateescape" if encoding_of(options) == "utf-8" else "replace"


def _torn(text: str) -> bool:
    return not text.isascii() and any("\udc80" <= c <= "\udcff" for c in text)


def _numeric(type_: str, options: Mapping[str, str]) -> bool:
    return type_ in ("double", "float") or type_.startswith("decimal") or (type_ in ("int", "bigint") and "thousands" in options)


def _empty(text: str, options: Mapping[str, str]) -> bool:
    return text in ("", options.get("nullvalue", ""))


def _json(source: SourceNode, path: str, most: int, found: FirstRows) -> None:
    read, options = 0, {k.lower(): v for k, v in source.options}
    for text in _texts(path, options):
        rows = None if _torn(text) else syntax.rows(text, Spelled)
        if rows is None:
            _unparsed_json(source, text, found)
            read += 1
        for row in rows or ():
            _of_object(source, row, text, found)
            read += 1
            if read >= most:
                return


def _texts(path: str, options: Mapping[str, str]) -> Iterator[str]:
    """The texts of a JSON file that hold values: its lines, or what stands at the top of all of it."""
    codec, errors = codec_of(options), _errors(options)
    if options.get("multiline", "false").lower() == "true":
        yield from (
            piece.decode("utf-8", "surrogateescape") for piece in pieces(whole_text(Path(path), codec, errors).encode("utf-8", errors))
        )
        return
    lines = (line.rstrip("\r\n") for line in lines_of(Path(path), codec, errors))
    yield from (line for line in lines if line.strip())


def _unparsed_json(source: SourceNode, text: str, found: FirstRows) -> None:
    shown = with_bytes(text)
    found.unparsed(shown, source_format(source.format).unparsed(source, None, shown))


def _of_object(source: SourceNode, row: Mapping[str, Any], text: str, found: FirstRows) -> None:
    values: dict[Field, Any] = {}
    try:
        for f in source.fields:
            values[f], there = nested.found_in(row, str(f.source_name))
            if there and f.name in found.absent:
                found.absent.remove(f.name)
    except nested.NoObject:
        values = {}
    if not values or not all(v is None or fits_json(f.type, v) for f, v in values.items()):
        _unparsed_json(source, text, found)
        return
    _put(found, values, _of_json)


def _typed(source: SourceNode, path: str, most: int, found: FirstRows) -> None:
    """Files (or a table) that say types: their columns have to be of the spec's, or be widened as Spark does."""
    file = opened(source.format, path)
    wrong = [e for e in preflight.types(source, file, every=False)]
    if wrong:
        raise wrong[0]
    rows = file.head(most)
    held = values_of(source, path)
    columns: dict[Field, Sequence[Any]] = {}
    for f in source.fields:
        name = str(f.source_name)
        if name in held:
            text = held[name]
            columns[f] = (None if text is None else _of_text(text, f),) * rows.num_rows
            continue
        there = file.column(source, f)
        column = None if there is None else column_types.take(rows, there[0])
        values = (None,) * rows.num_rows if column is None else column_types.values(column, f.type)
        if column is not None and (values is None or not _alike(source, column.type, f.type)):
            said = f"column {f.source_name!r} of {path} is {column.type}, and {f.type} in the spec: Spark alone knows whether it fits"
            raise SkybandError("SKY-E531", said, hint="declare what is there, or see what skyband preview --engine makes of it")
        columns[f] = values or ()
    for i in range(rows.num_rows):
        _put(found, {f: values[i] for f, values in columns.items()}, lambda value, f: value)


_WIDER: Final = {"bigint": ("int",), "double": ("float", "int"), "timestamp": ()}


def _alike(source: SourceNode, there: Any, type_: str) -> bool:
    """Whether values are read here as Spark reads them: of Parquet all that it reads at all, of others what is of the very type."""
    return source.format == "parquet" or column_types.declare(there, column_types.INT96) in (type_, *_WIDER.get(type_, ()))


def _put(found: FirstRows, given: Mapping[Field, Any], read: Callable[[Any, Field], Any]) -> None:
    try:
        row = {f.name: None if v is None else read(v, f) for f, v in given.items()}
    except (_Doubtful, ValueError, ArithmeticError):
        found.doubtful += 1
        return
    found.add({n: _days(v) for n, v in row.items()})


def _days(value: Any) -> Any:
    return value.toordinal() - date(1970, 1, 1).toordinal() if isinstance(value, date) else value


def _of_text(text: str, f: Field) -> Any:
    """A cell that fits its type. Raises _Doubtful, or ValueError, for a spelling that is read by Spark alone."""
    if f.type == "string":
        return text
    if f.type in ("int", "bigint"):
        return int(text)
    if f.type in ("double", "float"):
        return in_spark(float(text), f.type)
    if f.type == "boolean":
        return text.lower() == "true"
    if f.type.startswith("decimal"):
        precision, scale = (int(n) for n in f.type.removeprefix("decimal(").rstrip(")").split(","))
        number = Decimal(text.strip())
        if number != round(number, scale) or abs(number) >= 10 ** (precision - scale):
            raise _Doubtful
        return round(number, scale)
    if _INSTANT.fullmatch(text) is None:
        raise _Doubtful
    return in_spark(cell(text, "time"), f.type)


def _of_json(value: Any, f: Field) -> Any:
    """As ``_of_text``, of a value of JSON."""
    if f.type == "string" and not isinstance(value, str):
        return _json_text(value)
    if f.type == "array<string>":
        return [None if v is None else v if isinstance(v, str) else _json_text(v) for v in value]
    if isinstance(value, str) and f.type not in ("string", "boolean"):
        return _of_text(value, f)
    if f.type in ("double", "float"):
        return in_spark(float(value), f.type)
    if f.type.startswith("decimal") and len(repr(value)) <= 15:
        return _of_text(repr(value), f)  # so few digits that nothing of them has been lost
    if f.type in ("timestamp", "date") or f.type.startswith("decimal"):
        raise _Doubtful
    return value


def _json_text(value: Any) -> str:
    """A number or truth value of JSON that is declared a text, as it is spelled. Raises _Doubtful where that cannot be told."""
    if isinstance(value, bool):
        return str(value).lower()
    if not isinstance(value, int) or not value:
        raise _Doubtful
    return str(value)


def texts_of(rows: FirstRows) -> Iterator[str]:
    """What is wrong with rows that do not parse, each kind once, with how many there are of it."""
    kinds: dict[tuple[str, ...], list[Unparsed]] = {}
    for w in rows.why:
        kinds.setdefault(w.kind, []).append(w)
    for same in sorted(kinds.values(), key=len, reverse=True):
        first = same[0]
        yield f"{len(same):,} x {first.said}" + (f"; {first.hint}" if first.hint else "")
