"""Why a text does not parse: the column whose type it does not fit, what stands there, and what that looks like. Imports no Spark.

Spark only says that a row did not parse. What is said here is found by the text alone, a row at a time: a guess, told as one.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from skyband.framework.base.counts import counted
from skyband.framework.plan.model import Field, SourceNode
from skyband.framework.quality.looks import Looks, fits_json, fits_text, looks_of
from skyband.framework.sources import nested
from skyband.framework.sources.files.bad_files import separator_of
from skyband.framework.sources.json import syntax
from skyband.framework.sources.text.options import plain_digits

_WORDS: Final = frozenset({"string", "boolean", "timestamp", "date"})
_LONGEST: Final = 60
"""Characters of a value that are shown."""


@dataclass(frozen=True, slots=True)
class Unparsed:
    """Why a row does not parse. ``kind`` is equal for rows of one mistake; ``hint`` says what to do."""

    kind: tuple[str, ...]
    said: str
    hint: str | None = None


def unparsed(source: SourceNode, columns: Sequence[str] | None, text: str) -> Unparsed | None:
    """What is wrong with a row's ``text``; None if that cannot be seen. ``columns``: the names of a header, if there is one. O(length)."""
    options = {k.lower(): v for k, v in source.options}
    if source.format == "json":
        return _of_json(source, text)
    if source.format == "csv":
        return _of_csv(source, options, columns, text)
    return None


def _of_csv(source: SourceNode, options: Mapping[str, str], columns: Sequence[str] | None, text: str) -> Unparsed | None:
    names = list(columns) if columns is not None else [str(f.source_name) for f in source.fields]
    try:
        quote = options.get("quote", '"')[:1] or None
        cells = next(csv.reader([text], delimiter=separator_of(options)[:1] or ",", quotechar=quote, strict=False), [])
    except (csv.Error, TypeError):
        return Unparsed(("csv",), f"a row is no CSV: {_shown(text)}")
    if cells == names:
        return Unparsed(("header",), "the header stands there again as a row", "a file of several joined ones? leave their headers out")
    if len(cells) != len(names):
        return _other_width(cells, names, options, text)
    at = {name: i for i, name in enumerate(names)}
    formats = {"timestamp": "timestampformat", "date": "dateformat"}
    doubtful: Unparsed | None = None
    for f in source.fields:
        i = at.get(str(f.source_name))
        if i is None or cells[i] == options.get("nullvalue", "") or cells[i] == "":
            continue
        if formats.get(f.type) in options:
            form = options[formats[f.type]]
            hint = f"source.options.{'timestampFormat' if f.type == 'timestamp' else 'dateFormat'} says {form}"
            doubtful = doubtful or _misfit(f, cells[i], None, hint)
        elif not fits_text(f.type, plain_digits(cells[i], options) if f.type not in _WORDS else cells[i]):
            return _misfit(f, cells[i], looks_of(f.type, str(f.source_name), cells[i]))
    return doubtful


def _other_width(cells: list[str], names: list[str], options: Mapping[str, str], text: str) -> Unparsed:
    other = next((s for s in ";\t|," if s != separator_of(options) and text.count(s) >= len(names) - 1 > 0), None)
    said = f"a row has {counted(len(cells), 'cell')}, not {len(names)}: {_shown(text)}"
    if len(cells) == 1 and other is not None:
        return Unparsed(("separator", other), f"{said}; its cells look separated by {other!r}", f"options: {{sep: {json.dumps(other)}}}")
    quoted = len(cells) > len(names) and '"' not in text
    return Unparsed(("width",), said, "a cell that holds the separator must be quoted" if quoted else "is the row cut off?")


def _of_json(source: SourceNode, text: str) -> Unparsed | None:
    try:
        row: Any = syntax.value(text)
    except (ValueError, RecursionError):
        if _several(text):
            said = f"a line holds more than one value: {_shown(text)}"
            return Unparsed(("several",), said, "one object a line, or options: {multiLine: true}")
        return Unparsed(("json",), f"a row is no JSON object: {_shown(text)}", "one object a line, or options: {multiLine: true}")
    if not isinstance(row, dict):
        return Unparsed(("json",), f"a row is no JSON object: {_shown(text)}", 'each row is an object: {"column": value, ...}')
    for f in source.fields:
        try:
            value = nested.value_of(row, str(f.source_name))
        except nested.NoObject:
            return Unparsed((str(f.source_name), "no object"), f"column {f.source_name!r}: what it is a member of is no object")
        if value is not None and not fits_json(f.type, value):
            shown = value if isinstance(value, str) else json.dumps(value)
            return _misfit(f, shown, looks_of(f.type, str(f.source_name), shown, quoted=isinstance(value, str)))
    return None


def _several(text: str) -> bool:
    """Whether a text begins with a JSON value and goes on behind it."""
    try:
        json.JSONDecoder().raw_decode(text.lstrip())
    except (ValueError, RecursionError):
        return False
    return True


def _misfit(f: Field, value: str, looks: Looks | None, hint: str | None = None) -> Unparsed:
    said = f"column {f.source_name!r} ({f.type}) holds {_shown(value)}"
    if looks is None:
        return Unparsed((str(f.source_name), "?"), said, hint)
    return Unparsed((str(f.source_name), looks.like), f"{said}, which looks like {looks.like}", looks.hint)


def _shown(value: str) -> str:
    return repr(value if len(value) <= _LONGEST else value[: _LONGEST - 3] + "...")
