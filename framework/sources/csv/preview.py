"""The first rows of a CSV file, read without Spark."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from pathlib import Path

from skyband.framework.base.errors import SkybandError
from skyband.framework.plan.model import Field, SourceNode
from skyband.framework.sources.csv.unparsed import unparsed
from skyband.framework.sources.files import preflight
from skyband.framework.sources.files.bad_files import separator_of
from skyband.framework.sources.files.listing import values_of
from skyband.framework.sources.first_rows import FirstRows
from skyband.framework.sources.looks import fits_text
from skyband.framework.sources.preview_values import add_row, decoding_errors, undecodable, value_of_text
from skyband.framework.sources.text.lines import lines_of
from skyband.framework.sources.text.options import codec_of, plain_digits, skipped, slashed, with_bytes


def first_rows(source: SourceNode, path: str, most: int, found: FirstRows) -> None:
    """Add the first ``most`` rows of the file at ``path``. See ``SourceFormat.first_rows``."""
    options = {k.lower(): v for k, v in source.options}
    separator, quote = separator_of(options), options.get("quote", '"')
    if len(separator) != 1 or len(quote) > 1:
        raise SkybandError("SKY-E531", "cells separated so are read by Spark alone", hint="skyband preview --engine shows them")
    lines = (
        line.rstrip("\r\n") for line in islice(lines_of(Path(path), codec_of(options), decoding_errors(options)), skipped(options), None)
    )
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
        if texts is not None and any(undecodable(t) for t in texts.values()):
            shown = with_bytes(line)
            found.unparsed(shown, unparsed(source, header, shown))
            continue
        if texts is not None:
            numbers = [f for f in fields if _numeric(f.type, options) and not _empty(texts[f.name], options)]
            texts |= {f.name: plain_digits(texts[f.name], options) for f in numbers}
        if texts is None or not all(_empty(texts[f.name], options) or fits_text(f.type, texts[f.name]) for f in fields):
            shown = with_bytes(line)
            found.unparsed(shown, unparsed(source, header, shown))
            continue
        add_row(found, {f: None if _empty(texts[f.name], options) else texts[f.name] for f in fields}, value_of_text)


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


def _numeric(type_: str, options: Mapping[str, str]) -> bool:
    return type_ in ("double", "float") or type_.startswith("decimal") or (type_ in ("int", "bigint") and "thousands" in options)


def _empty(text: str, options: Mapping[str, str]) -> bool:
    return text in ("", options.get("nullvalue", ""))
