"""Counts the rows of text files by their lines, for ``skyband verify``. Uses no reader of the run."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator, Mapping
from typing import Final

from skyband.framework.plan.model import SourceNode
from skyband.framework.sources.files.bad_files import opened
from skyband.framework.sources.text.options import codec_of, encoding_of, folded, skipped

_GAP: Final = re.compile("[ \\t\\r\\n,]*")
_BLANK: Final = "".join(map(chr, range(33)))


def count_csv(source: SourceNode, path: str, header: bool) -> int | None:
    """Return the number of rows of a CSV file; None if lines do not tell. Raises OSError, EOFError, UnicodeError."""
    options = folded(source.options)
    if "linesep" in options or options.get("multiline", "false").lower() == "true":
        return None
    comment = options.get("comment", "").encode(codec_of(options).removesuffix("-sig"), "replace").decode("iso-8859-1")
    rows = sum(1 for line in _lines(path, options, _BLANK) if not (comment and line.startswith(comment)))
    return max(0, rows - (1 if header else 0))


def count_json(source: SourceNode, path: str) -> int | None:
    """Return the number of rows of a JSON file; None if lines do not tell. Raises OSError, EOFError, UnicodeError."""
    options = folded(source.options)
    if "linesep" in options:
        return None
    if options.get("multiline", "false").lower() == "true":
        with opened(path) as raw:
            return _values(raw.read().decode(codec_of(options)).removeprefix("\ufeff"))
    rows = 0
    for line in _lines(path, options, " \t\r\n"):
        if line.lstrip(" \t").startswith("["):
            return None  # an array holds any number of rows
        rows += 1
    return rows


def _lines(path: str, options: Mapping[str, str], blank: str) -> Iterator[str]:
    """Yield the lines below the titles that hold more than the characters ``blank``."""
    with opened(path) as raw:
        titles = skipped(options)
        for number, line in enumerate(io.TextIOWrapper(raw, "iso-8859-1", newline=None)):
            text = line.removeprefix("\xef\xbb\xbf") if number == 0 and encoding_of(options) == "utf-8" else line
            if number >= titles and text.strip(blank):
                yield text


def _values(text: str) -> int | None:
    """Return the number of objects of a JSON text, at its top or in arrays there; None if it holds anything else."""
    decoder, at, rows = json.JSONDecoder(), 0, 0
    while True:
        at = _GAP.match(text, at).end()  # type: ignore[union-attr]
        if at == len(text):
            return rows
        try:
            value, at = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            return None
        each = value if isinstance(value, list) else [value]
        if not all(isinstance(v, dict) for v in each):
            return None
        rows += len(each)
