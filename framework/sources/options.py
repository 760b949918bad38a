"""Options of Spark's readers that a spec may give: one list per format, each option with the reason why it is safe.

Anything else is refused. Spark hands what it does not know to its file systems and codecs, where a name such as ``fs.s3a.impl`` or
``parquet.crypto.factory.class`` loads a class: no list of bad names could be complete. Names are compared as Spark does, case aside.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from skyband.framework.base.errors import did_you_mean, one_of
from skyband.framework.base.zones import is_zone, zone_hint
from skyband.framework.sources.protocol import Mistake, Section

MAX_VALUE: Final = 1_000
"""Largest number of characters of an option's value."""

Options = Mapping[str, str]
"""Name, as Spark spells it -> why it is safe."""

_LOOK = "says which files of the source's own directory are read"
_MARK = "says how bytes of a file are cut into cells"
_MEANS = "says what the text of a cell means"
_WIDE = "a limit of the parser"

FILES: Final[Options] = {"pathGlobFilter": _LOOK, "recursiveFileLookup": _LOOK}
LISTING: Final = frozenset(name.lower() for name in FILES)
"""The names of ``FILES`` in lower case: options of how files are found, not of how they are read."""

_TEXT: Final[Options] = {
    "encoding": _MARK, "charset": _MARK, "lineSep": _MARK, "multiLine": _MARK, "dateFormat": _MEANS, "timestampFormat": _MEANS,
    "timestampNTZFormat": _MEANS, "enableDateTimeParsingFallback": _MEANS, "timeZone": _MEANS, "locale": _MEANS,
}  # fmt: skip

SPARK_CSV: Final[Options] = {
    **FILES, **_TEXT, "header": "says whether the first line names the columns", "sep": _MARK, "delimiter": _MARK, "quote": _MARK,
    "escape": _MARK, "charToEscapeQuoteEscaping": _MARK, "unescapedQuoteHandling": _MARK, "comment": "lines that begin with it are no rows",
    "ignoreLeadingWhiteSpace": _MARK, "ignoreTrailingWhiteSpace": _MARK, "nullValue": _MEANS, "emptyValue": _MEANS, "nanValue": _MEANS,
    "positiveInf": _MEANS, "negativeInf": _MEANS, "preferDate": _MEANS, "maxColumns": _WIDE, "maxCharsPerColumn": _WIDE,
}  # fmt: skip

_OURS_TOO = "Skyband's own: "

CSV: Final[Options] = {
    **SPARK_CSV, "decimal": _OURS_TOO + _MEANS, "thousands": _OURS_TOO + _MEANS,
    "skip_lines": _OURS_TOO + "says how many title lines of a file stand before its header",
}  # fmt: skip
"""What CSV files take: Spark's options and Skyband's own."""

JSON: Final[Options] = {
    **FILES, **_TEXT, "primitivesAsString": _MEANS, "prefersDecimal": _MEANS, "allowComments": _MARK, "allowUnquotedFieldNames": _MARK,
    "allowSingleQuotes": _MARK, "allowNumericLeadingZeros": _MEANS, "allowNonNumericNumbers": _MEANS,
    "allowBackslashEscapingAnyCharacter": _MARK, "allowUnquotedControlChars": _MARK, "maxNestingDepth": _WIDE, "maxNumLen": _WIDE,
    "maxStringLen": _WIDE,
}  # fmt: skip

PARQUET: Final[Options] = {**FILES, "mergeSchema": _MEANS, "datetimeRebaseMode": _MEANS, "int96RebaseMode": _MEANS}

ORC: Final[Options] = {**FILES, "mergeSchema": _MEANS}

DELTA: Final[Options] = {
    "startingVersion": "says where in the source's own history the stream begins",
    "startingTimestamp": "says where in the source's own history the stream begins",
    "ignoreDeletes": "passes over commits that only take rows away: none of them brings a row",
    "changes": "Skyband's own: says whether the table's changes are read, or the rows added",
}

_OURS = "Skyband sets it itself"
_LOSES = "rows would be lost without a word"
_MOVES = "it would delete or move the source's files"
_PLACE = "it names another place: source.path is the only one"
_ORDER = "files are taken once, in the order of modification"

WHY_NOT: Final[Options] = {
    "cleanSource": _MOVES, "sourceArchiveDir": _MOVES, "ignoreCorruptFiles": _LOSES, "ignoreMissingFiles": _LOSES, "failOnDataLoss": _LOSES,
    "modifiedBefore": _LOSES, "modifiedAfter": _LOSES, "excludeRegex": _LOSES, "skipChangeCommits": _LOSES, "ignoreChanges": _LOSES,
    "fileNameOnly": "of two files of one name only one would be read", "mode": _OURS + ": a row that does not parse is rejected",
    "columnNameOfCorruptRecord": _OURS, "enforceSchema": _OURS, "inferSchema": "source.schema says the types", "maxFileAge": _OURS,
    "maxFilesPerTrigger": "use run.max_files", "maxBytesPerTrigger": "use run.max_bytes", "latestFirst": _ORDER, "path": _PLACE,
    "paths": _PLACE, "basePath": _PLACE, "rowValidationXSDPath": "it would open any file", "schemaTrackingLocation": _PLACE,
    "schemaLocation": _PLACE, "readChangeFeed": "use changes",
}  # fmt: skip
"""Known options that are refused, with the reason that a message gives. Options in no list are refused too."""


_SWITCHES: Final = frozenset({
    "header", "multiline", "recursivefilelookup", "mergeschema", "enabledatetimeparsingfallback", "ignoreleadingwhitespace",
    "ignoretrailingwhitespace", "preferdate", "primitivesasstring", "prefersdecimal", "allowcomments", "allowunquotedfieldnames",
    "allowsinglequotes", "allownumericleadingzeros", "allownonnumericnumbers", "allowbackslashescapinganycharacter",
    "allowunquotedcontrolchars", "ignoredeletes",
})  # fmt: skip
"""Options that take true or false, in lower case. Spark reads some other words as false without a word."""
_LIMITS: Final = frozenset({"maxcolumns", "maxnestingdepth", "maxnumlen", "maxstringlen"})
"""Options that take a whole number from 1, in lower case."""
_OFFSET: Final = re.compile(r"(UTC|GMT|UT)?([+-](0?[0-9]|1[0-8])(:?[0-5][0-9])?)?|Z")
"""Offsets, which Spark takes as time zones, too."""
_SHORT_ZONES: Final = frozenset({
    "ACT", "AET", "AGT", "ART", "AST", "BET", "BST", "CAT", "CNT", "CST", "CTT", "EAT", "ECT", "EST",
    "HST", "IET", "IST", "JST", "MIT", "MST", "NET", "NST", "PLT", "PNT", "PRT", "PST", "SST", "VST",
})  # fmt: skip
"""Java's names of three letters (``ZoneId.SHORT_IDS``), which Spark takes, too."""


def _unusable_value(name: str, value: str) -> tuple[str, str] | None:
    """Return what an option takes and a hint if it does not take ``value``."""
    folded = name.lower()
    if folded in _SWITCHES and value.lower() not in ("true", "false"):
        return "true or false", "write true or false"
    if folded in _LIMITS and not (value.isascii() and value.isdigit() and 0 < int(value[:12]) < 2**31):
        return "a whole number from 1", "write digits only, such as 100000"
    if folded == "timezone" and not (value and (_OFFSET.fullmatch(value) or value in _SHORT_ZONES or is_zone(value))):
        return "the name of a time zone", zone_hint(value)
    return None


def unsafe(section: Section, allowed: Options) -> Iterator[Mistake]:
    """Yield a mistake for every option that is not ``allowed``, is given twice (ignoring case), or has an unusable value. O(options)."""
    known = {name.lower() for name in allowed}
    why_not = {name.lower(): why for name, why in WHY_NOT.items()}
    seen: set[str] = set()
    for name, value in section.options.items():
        at = ("options", name)
        folded = name.lower()
        if folded not in known:
            why = why_not.get(folded) or did_you_mean(name, allowed) or f"options of {section.format}: {one_of(list(allowed), 40)}"
            yield Mistake("SKY-E119", f"format {section.format} does not take the option '{name[:64]}'", at, why, of_name=True)
        elif folded in seen:
            yield Mistake("SKY-E102", f"the option '{name}' is written twice (Spark does not tell case apart)", at, of_name=True)
        elif len(value) > MAX_VALUE or "\0" in value:
            yield Mistake("SKY-E114", f"the value of '{name}' is longer than {MAX_VALUE:,} characters, or not text", at)
        elif (takes := _unusable_value(name, value)) is not None:
            yield Mistake("SKY-E113", f"the option '{name}' takes {takes[0]}", at, takes[1])
        seen.add(folded)
