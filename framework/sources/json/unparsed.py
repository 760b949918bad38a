"""Say why a row of JSON does not parse, from its text alone. Spark only reports that it did not, so this is a guess."""

from __future__ import annotations

import json
from typing import Any

from skyband.framework.plan.model import SourceNode
from skyband.framework.sources import nested
from skyband.framework.sources.first_rows import Unparsed, misfit, shown
from skyband.framework.sources.json import syntax
from skyband.framework.sources.looks import fits_json, looks_of


def unparsed(source: SourceNode, text: str) -> Unparsed | None:
    """Return what is wrong with a row's text; None if that cannot be seen. O(length)."""
    if syntax.half_character(text):
        return Unparsed(("half",), f"a text has half a character (\\ud800 to \\udfff): {shown(text)}", "fix what writes it")
    try:
        row: Any = syntax.value(text)
    except ValueError:
        if _several(text):
            said = f"a line holds more than one value: {shown(text)}"
            return Unparsed(("several",), said, "one object a line, or options: {multiLine: true}")
        return Unparsed(("json",), f"a row is no JSON object: {shown(text)}", "one object a line, or options: {multiLine: true}")
    if not isinstance(row, dict):
        return Unparsed(("json",), f"a row is no JSON object: {shown(text)}", 'each row is an object: {"column": value, ...}')
    for f in source.fields:
        try:
            value = nested.value_of(row, str(f.source_name))
        except nested.NoObject:
            return Unparsed((str(f.source_name), "no object"), f"column {f.source_name!r}: what it is a member of is no object")
        if value is not None and not fits_json(f.type, value):
            spelled = value if isinstance(value, str) else _spelled(value)
            return misfit(f, spelled, looks_of(f.type, str(f.source_name), spelled, quoted=isinstance(value, str)))
    return None


def _spelled(value: Any) -> str:
    try:
        return json.dumps(value)
    except RecursionError:
        return "a value that is nested too deeply"


def _several(text: str) -> bool:
    """Whether a text begins with a JSON value and goes on behind it."""
    try:
        json.JSONDecoder().raw_decode(text.lstrip())
    except (ValueError, RecursionError):
        return False
    return True
