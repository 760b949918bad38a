"""Options of text files that Skyband gives a meaning of its own, or bounds: encoding, decimal and thousands marks, title lines. No Spark.

``escape`` is stated by the format's defaults (``CsvFormat.options``). A job created before RFC 4180 became the default has none.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator, Mapping
from typing import Final

from skyband.framework.base.errors import did_you_mean, one_of
from skyband.framework.sources.protocol import Mistake, Section

SKIP_MOST: Final = 1_000
"""Most title lines before a header."""
DECIMALS: Final = (".", ",")
THOUSANDS: Final = (",", ".", " ", "'", "_", "\u2019", "\u00a0", "\u202f")
"""Marks between groups of three digits."""

SINGLE: Final = (
    "us-ascii", *(f"iso-8859-{n}" for n in (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 13, 14, 15, 16)), *(f"windows-125{n}" for n in range(9)),
    "koi8-r", "koi8-u", "cp437", "cp850", "cp852", "cp866", "macintosh",
)  # fmt: skip
"""Encodings of one byte per character whose lower half is ASCII."""
WIDE: Final = ("utf-16", "utf-16le", "utf-16be", "utf-32")
"""Encodings in which the byte of a line feed does not end a line."""
ENCODINGS: Final = ("utf-8", *SINGLE, *WIDE)
_SPELLED: Final = {
    "utf8": "utf-8", "utf16": "utf-16", "ascii": "us-ascii", "utf-16-le": "utf-16le", "utf-16-be": "utf-16be", "utf32": "utf-32",
}  # fmt: skip
INFINITE: Final = ("NaN", "Inf", "-Inf", "Infinity", "+Infinity", "-Infinity")
"""Spellings of numbers that are not finite."""
BAD: Final = "\ufffd"
"""The character for bytes that an encoding does not have."""


def folded(options: Mapping[str, str] | tuple[tuple[str, str], ...]) -> dict[str, str]:
    """Return options by their names in lower case."""
    return {name.lower(): value for name, value in dict(options).items()}


def encoding_of(options: Mapping[str, str]) -> str:
    """Return the encoding of text files, one of ``ENCODINGS``, by options in lower case. Raises KeyError for any other."""
    found = _known(options.get("encoding", options.get("charset", "utf-8")))
    if found is None:
        raise KeyError(options.get("encoding"))
    return found


def codec_of(options: Mapping[str, str]) -> str:
    """Return Python's codec for text files; a byte order mark at the start of UTF-8 is no text."""
    encoding = encoding_of(options)
    return "utf-8-sig" if encoding == "utf-8" else "mac_roman" if encoding == "macintosh" else encoding


def upper_half(encoding: str) -> str:
    """Return the 128 characters of a ``SINGLE`` encoding's bytes from 0x80 on, ``BAD`` for undefined ones."""
    return bytes(range(128, 256)).decode(codec_of({"encoding": encoding}), "replace")


def skipped(options: Mapping[str, str]) -> int:
    """Return the number of lines before the header of CSV files, by options in lower case."""
    return int(options.get("skip_lines", "0"))


def slashed(options: Mapping[str, str]) -> bool:
    """Return True if a backslash escapes quotes, by options in lower case."""
    return options.get("escape", "\\") == "\\"


def with_bytes(text: str) -> str:
    r"""A text of UTF-8 read with ``surrogateescape``: if some bytes of it are no text, all but those of ASCII are shown as ``\xNN``."""
    if not any("\udc80" <= c <= "\udcff" for c in text):
        return text
    return "".join(chr(b) if b < 128 else f"\\x{b:02X}" for b in text.encode("utf-8", "surrogateescape"))


def plain_digits(text: str, options: Mapping[str, str]) -> str:
    """A number with the marks of the options as one without; a text that is no such number as one that no type takes."""
    point, group = options.get("decimal", "."), options.get("thousands")
    if not {"decimal", "thousands"} & set(options) or text in INFINITE:
        return text
    bare = text.strip(" ")
    made = bare.replace(group, "") if group is not None else bare
    return made.replace(point, ".") if re.fullmatch(number_form(point, group), bare) else "?"


def number_form(point: str, group: str | None) -> str:
    """Return a pattern of numbers with these marks, for Python and Java."""
    mark = re.escape(point)
    form = rf"[0-9]+({mark}[0-9]*)?|{mark}[0-9]+"
    if group is not None:
        form = rf"[0-9]{{1,3}}({re.escape(group)}[0-9]{{3}})+({mark}[0-9]*)?|{form}"
    return rf"[+-]?({form})([eE][+-]?[0-9]+)?"


def wrong(section: Section) -> Iterator[Mistake]:
    """Yield the mistakes in the values of these options of a CSV or JSON source."""
    named = {name.lower(): name for name in section.options}
    options = {low: section.options[name] for low, name in named.items()}

    def at(low: str) -> tuple[str, str]:
        return "options", named[low]

    for low in ("encoding", "charset"):
        if low in options and _known(options[low]) is None:
            hint = did_you_mean(options[low].lower(), ENCODINGS) or one_of(list(ENCODINGS), 40)
            yield Mistake("SKY-E113", f"'{options[low][:64]}' is no encoding that can be read", at(low), hint)
            return
    if "encoding" in options and "charset" in options:
        yield Mistake("SKY-E117", "encoding and charset are two names of one option", at("charset"), "keep one of them")
        return
    wide = next((low for low in ("encoding", "charset") if low in options and _known(options[low]) in WIDE), None)
    whole = options.get("multiline", "false").lower() == "true"
    if wide is not None and not whole:
        yield Mistake("SKY-E117", f"files in {options[wide]} are read as a whole", at(wide), "add multiLine: true to source.options")
    if section.format == "csv":
        yield from _of_csv(options, named, whole)


def _of_csv(options: Mapping[str, str], named: Mapping[str, str], whole: bool) -> Iterator[Mistake]:
    for low, marks in (("decimal", DECIMALS), ("thousands", THOUSANDS)):
        if low in options and options[low] not in marks:
            yield Mistake(
                "SKY-E113", f"{named[low]} is none of the marks that numbers can have", ("options", named[low]), one_of(list(marks), 10)
            )
    if "thousands" in options and options["thousands"] == options.get("decimal", "."):
        hint = "decimal: ',' says that a comma stands before the fraction"
        yield Mistake("SKY-E117", "thousands and decimal are the same mark", ("options", named["thousands"]), hint)
    if "skip_lines" in options:
        at, value = ("options", named["skip_lines"]), options["skip_lines"]
        if not (value.isascii() and value.isdigit() and len(value) < 6 and int(value) <= SKIP_MOST):
            yield Mistake("SKY-E114", f"skip_lines is a number of lines from 0 to {SKIP_MOST:,}", at)
        elif int(value) and whole:
            yield Mistake("SKY-E117", "skip_lines and multiLine do not go together", at, "leave multiLine out, or the title lines")
    for low in ("quote", "escape", "comment", "chartoescapequoteescaping"):
        if low in options and len(options[low]) > 1:
            yield Mistake("SKY-E114", f"{named[low]} is one character", ("options", named[low]))


def _known(name: str) -> str | None:
    lowered = name.strip().lower().replace("_", "-")
    lowered = _SPELLED.get(lowered, lowered)
    if lowered in ENCODINGS:
        return lowered
    try:
        canonical = codecs.lookup(lowered).name
    except (LookupError, ValueError):
        return None
    return next((e for e in ENCODINGS if e != "macintosh" and codecs.lookup(e).name == canonical), None)
