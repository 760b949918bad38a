"""The first rows of a JSON file, read without Spark."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from skyband.framework.plan.model import Field, SourceNode
from skyband.framework.sources import nested
from skyband.framework.sources.first_rows import FirstRows
from skyband.framework.sources.json import syntax
from skyband.framework.sources.json.syntax import pieces
from skyband.framework.sources.json.unparsed import unparsed
from skyband.framework.sources.looks import Spelled, fits_json
from skyband.framework.sources.preview_values import Doubtful, add_row, decoding_errors, undecodable, value_of_text
from skyband.framework.sources.text.lines import lines_of, whole_text
from skyband.framework.sources.text.options import codec_of, with_bytes
from skyband.framework.sources.values import in_spark


def first_rows(source: SourceNode, path: str, most: int, found: FirstRows) -> None:
    """Add the first ``most`` rows of the file at ``path``. See ``SourceFormat.first_rows``."""
    read, options = 0, {k.lower(): v for k, v in source.options}
    for text in _texts(path, options):
        rows = None if undecodable(text) else syntax.rows(text, Spelled)
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
    codec, errors = codec_of(options), decoding_errors(options)
    if options.get("multiline", "false").lower() == "true":
        yield from (
            piece.decode("utf-8", "surrogateescape") for piece in pieces(whole_text(Path(path), codec, errors).encode("utf-8", errors))
        )
        return
    lines = (line.rstrip("\r\n") for line in lines_of(Path(path), codec, errors))
    yield from (line for line in lines if line.strip())


def _unparsed_json(source: SourceNode, text: str, found: FirstRows) -> None:
    shown = with_bytes(text)
    found.unparsed(shown, unparsed(source, shown))


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
    add_row(found, values, _of_json)


def _of_json(value: Any, f: Field) -> Any:
    """As ``value_of_text``, of a value of JSON."""
    if f.type == "string" and not isinstance(value, str):
        return _json_text(value)
    if f.type == "array<string>":
        return [None if v is None else v if isinstance(v, str) else _json_text(v) for v in value]
    if f.type in ("array<float>", "array<double>"):
        element = replace(f, type=f.type.removeprefix("array<").removesuffix(">"))
        return [None if v is None else _of_json(v, element) for v in value]
    if isinstance(value, str) and f.type not in ("string", "boolean"):
        return value_of_text(value, f)
    if f.type in ("double", "float"):
        return in_spark(float(value), f.type)
    if f.type.startswith("decimal") and len(repr(value)) <= 15:
        return value_of_text(repr(value), f)  # so few digits that nothing of them has been lost
    if f.type in ("timestamp", "date") or f.type.startswith("decimal"):
        raise Doubtful
    return value


def _json_text(value: Any) -> str:
    """Return a JSON number or boolean of a text column in its spelling. Raises Doubtful if the spelling is unknown."""
    if isinstance(value, bool):
        return str(value).lower()
    if not isinstance(value, int) or not value:
        raise Doubtful
    return str(value)
