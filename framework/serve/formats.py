"""Patterns of PostgreSQL's ``to_char``, ``to_timestamp``, ``to_date`` and ``to_number``, as calls of DuckDB's functions."""

from __future__ import annotations

import re
from typing import Final

from skyband.framework.serve.parameters import Node, cast, constant, decimal, function
from skyband.framework.serve.protocol.wire import Refused

_TIMES: Final = {
    "HH24": "%H", "HH12": "%I", "HH": "%I", "MI": "%M", "SS": "%S", "MS": "%g", "US": "%f", "AM": "%p", "PM": "%p", "YYYY": "%Y",
    "YY": "%y", "IYYY": "%G", "IW": "%V", "MM": "%m", "DDD": "%j", "DD": "%d", "TZ": "%Z", "OF": "%z", "MON": "%b", "MONTH": "%B",
    "DY": "%a", "DAY": "%A",
}  # fmt: skip
"""Part of a pattern for instants -> DuckDB's."""
_CASED: Final = frozenset({"MON", "MONTH", "DY", "DAY", "AM", "PM"})
"""Parts whose case is that of the text."""
_COUNTED: Final = {"Q": "quarter", "ID": "isodow", "J": "julian", "CC": "century"}
"""Parts that are numbers, with DuckDB's function of them."""
_TIME: Final = re.compile(
    r'(?P<fill>FM)?(?P<part>HH24|HH12|HH|MI|SS|MS|US|AM|PM|IYYY|YYYY|YY|IW|ID|MONTH|MON|MM|DDD|DD|DAY|DY|TZ|OF|CC|Q|J)'
    r'|"(?P<text>[^"]*)"|(?P<other>[^A-Za-z])',
    re.IGNORECASE,
)  # fmt: skip
_NUMBER: Final = re.compile(r"(?P<fill>FM)?(?P<money>[$L]?)(?P<whole>[90,G]*)(?:[.D](?P<part>[90]*))?(?P<percent>%?)", re.IGNORECASE)


def char(value: Node, pattern: str) -> Node:
    """Return the call that writes ``value``, an instant or a number, by ``pattern``. Raises Refused 0A000 for what is not taken."""
    number = _NUMBER.fullmatch(pattern)
    return _number(value, number) if number and (number["whole"] or number["part"]) else _instant(value, pattern)


def _parts(pattern: str) -> list[re.Match[str]]:
    found, at = list[re.Match[str]](), 0
    while at < len(pattern):
        part = _TIME.match(pattern, at)
        if part is None:
            raise Refused("0A000", f"the pattern {pattern[:60]!r} has a part that is not taken here: {pattern[at : at + 10]!r}", _HINT)
        found.append(part)
        at = part.end()
    return found


_HINT: Final = "YYYY-MM-DD HH24:MI:SS.US and such, or strftime(instant, '%Y-%m-%d')"


def _instant(value: Node, pattern: str) -> Node:
    pieces, plain = list[Node](), ""

    def flushed() -> None:
        nonlocal plain
        if plain:
            pieces.append(function("strftime", [value, constant("STRING", plain)]))
            plain = ""

    for part in _parts(pattern):
        word = (part["part"] or "").upper()
        if not word:
            text = part["text"] if part["text"] is not None else part["other"]
            plain += text.replace("%", "%%")
        elif word in _COUNTED:
            flushed()
            name = _COUNTED[word]
            pieces.append(cast(cast(function(name, [value]), "BIGINT"), "VARCHAR"))
        elif word in _CASED:
            flushed()
            pieces.append(_word(value, word, part["part"], bool(part["fill"])))
        else:
            directive = _TIMES[word]
            plain += f"%-{directive[1:]}" if part["fill"] and directive[1:] in "dmHIMSyj" else directive
    flushed()
    made = pieces[0] if pieces else constant("STRING", "")
    for piece in pieces[1:]:
        made = function("||", [made, piece], operator=True)
    return made


def _word(value: Node, word: str, written: str, filled: bool) -> Node:
    """Return the name of a day or a month in the case of ``written``; long ones have 9 letters, unless they are not filled."""
    named = function("strftime", [value, constant("STRING", _TIMES[word])])
    if written.isupper():
        named = function("upper", [named])
    elif written.islower():
        named = function("lower", [named])
    if word in ("DAY", "MONTH") and not filled:
        named = function("rpad", [named, constant("INTEGER", "9"), constant("STRING", " ")])
    return named


def _number(value: Node, found: re.Match[str]) -> Node:
    whole, part = found["whole"].upper().replace("G", ","), found["part"] or ""
    digits = whole.replace(",", "")
    if whole and "," in whole and not re.fullmatch(r"[90]{1,3}(,[90]{3})*", whole):
        raise Refused("0A000", "to_char() takes groups of three digits only", "to_char(number, 'FM999,999,990.00')")
    zeros = len(digits) - digits.index("0") if "0" in digits else 0
    wide = len(whole) + (1 + len(part) if found.group().upper().find("D") >= 0 or "." in found.group() else 0)
    kept = part.rindex("0") + 1 if "0" in part else 0
    counts = [len(part), wide, len(digits), zeros, int("," in whole), int(bool(found["fill"])), kept]
    made = function("number_char", [value, *(constant("INTEGER", str(n)) for n in counts)])
    for text, before in ((found["money"].replace("L", "").replace("l", ""), True), (found["percent"], False)):
        if text:
            made = function("||", [constant("STRING", text), made] if before else [made, constant("STRING", text)], operator=True)
    return made


def instant(text: Node, pattern: str, kind: str) -> Node:
    """Return the call that reads ``text`` by ``pattern`` as a value of ``kind``: DATE or TIMESTAMPTZ."""
    made = ""
    for part in _parts(pattern):
        word = (part["part"] or "").upper()
        if word in _COUNTED or word in ("IYYY", "IW"):
            raise Refused("0A000", f"texts are not read by the part {word} of a pattern here", "strptime(text, '%d/%m/%Y')")
        directive = _TIMES.get(word)
        made += directive or (part["text"] if part["text"] is not None else part["other"]).replace("%", "%%")
    return cast(function("strptime", [text, constant("STRING", made)]), kind)


def number(text: Node, pattern: str) -> Node:
    """Return the call that reads ``text`` as a number with as many digits behind the point as ``pattern`` has."""
    found = _NUMBER.fullmatch(pattern)
    if found is None:
        raise Refused("0A000", "to_number() takes patterns of 9, 0, D, G, a point and a comma only", "to_number(text, '999,999.99')")
    digits = function("regexp_replace", [text, *(constant("STRING", t) for t in ("[^0-9.+-]", "", "g"))])
    # A sign may stand behind the number, too.
    signed = function("regexp_replace", [digits, *(constant("STRING", t) for t in ("^(.*)-$", "-\\1"))])
    return decimal(signed, len(found["part"] or ""))
