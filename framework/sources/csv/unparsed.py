"""Say why a row of CSV does not parse, from its text alone. Spark only reports that it did not, so this is a guess."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping, Sequence
from typing import Final

from skyband.framework.base.counts import counted
from skyband.framework.plan.model import SourceNode
from skyband.framework.sources.files.bad_files import separator_of
from skyband.framework.sources.first_rows import Unparsed, misfit, shown
from skyband.framework.sources.looks import fits_text, looks_of
from skyband.framework.sources.text.options import folded, plain_digits

_WORDS: Final = frozenset({"string", "boolean", "timestamp", "date"})


def unparsed(source: SourceNode, columns: Sequence[str] | None, text: str) -> Unparsed | None:
    """Return what is wrong with a row's text; None if that cannot be seen. ``columns``: the header, if there is one. O(length)."""
    options = folded(source.options)
    names = list(columns) if columns is not None else [str(f.source_name) for f in source.fields]
    try:
        quote = options.get("quote", '"')[:1] or None
        cells = next(csv.reader([text], delimiter=separator_of(options)[:1] or ",", quotechar=quote, strict=False), [])
    except (csv.Error, TypeError):
        return Unparsed(("csv",), f"a row is no CSV: {shown(text)}")
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
            doubtful = doubtful or misfit(f, cells[i], None, hint)
        elif not fits_text(f.type, plain_digits(cells[i], options) if f.type not in _WORDS else cells[i]):
            return misfit(f, cells[i], looks_of(f.type, str(f.source_name), cells[i]))
    return doubtful


def _other_width(cells: list[str], names: list[str], options: Mapping[str, str], text: str) -> Unparsed:
    other = next((s for s in ";\t|," if s != separator_of(options) and text.count(s) >= len(names) - 1 > 0), None)
    said = f"a row has {counted(len(cells), 'cell')}, not {len(names)}: {shown(text)}"
    if len(cells) == 1 and other is not None:
        return Unparsed(("separator", other), f"{said}; its cells look separated by {other!r}", f"options: {{sep: {json.dumps(other)}}}")
    quoted = len(cells) > len(names) and '"' not in text
    return Unparsed(("width",), said, "a cell that holds the separator must be quoted" if quoted else "is the row cut off?")
