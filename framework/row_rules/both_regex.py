"""Translate regular expressions that mean the same in Great Expectations (Python's ``re``) and in Spark (Java).

Python parses a text, and a new text is written from the parsed form. So it does not matter how Java would read the original: a bracket
inside of brackets, which characters may be escaped, what ends a line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from re import _constants, _parser  # type: ignore[attr-defined]
from typing import Any, Final

from skyband.framework.quality.expectations import EXPECTATIONS, Wrong

_LINES: Final = "(?d)"
"""The flag of Java with which only a newline ends a line, as in Python. It affects ``.`` and ``$``."""
_MOST: Final = 1_000
"""The most repetitions, if they are bounded."""
_CLASSES: Final = r"\d, \w, \s and \b are Unicode in one and ASCII in the other: write [0-9], [A-Za-z0-9_], [ \t]"

checked: Final[Callable[[Any], str]] = EXPECTATIONS["expect_column_values_to_match_regex"]["regex"]
"""Returns the text of an expression that cannot take exponential time. Raises Wrong for others."""


def for_java(text: str) -> str:
    """Return the expression for Spark that fits exactly the texts that ``text`` fits in Python. Raises Wrong if there is none."""
    parsed = _parser.parse(checked(text))
    if parsed.state.flags & ~_constants.SRE_FLAG_UNICODE:
        raise Wrong("takes a regular expression without flags such as (?i): write [Aa]")
    return _LINES + _sequence(parsed)


def _sequence(parsed: Iterable[tuple[Any, Any]]) -> str:
    return "".join(_part(str(operation), argument) for operation, argument in parsed)


def _part(name: str, argument: Any) -> str:
    match name:
        case "LITERAL":
            return _character(argument)
        case "NOT_LITERAL":
            return f"[^{_character(argument)}]"
        case "ANY":
            return "."
        case "IN":
            return _set(argument)
        case "BRANCH":
            return f"(?:{'|'.join(_sequence(p) for p in argument[1])})"
        case "SUBPATTERN" if not argument[1] and not argument[2]:
            return f"(?:{_sequence(argument[3])})"
        case "MAX_REPEAT" | "MIN_REPEAT":
            return _repeated(argument) + ("?" if name == "MIN_REPEAT" else "")
        case "AT" if str(argument) in ("AT_BEGINNING", "AT_BEGINNING_STRING"):
            return "^"
        case "AT" if str(argument) == "AT_END":
            return "$"
        case "AT" if str(argument) == "AT_END_STRING":
            return r"\z"
        case "AT" | "CATEGORY":
            raise Wrong(f"takes what Python and Java read alike: {_CLASSES}")
        case "ASSERT" | "ASSERT_NOT" if argument[0] > 0:
            return f"(?{'=' if name == 'ASSERT' else '!'}{_sequence(argument[1])})"
    raise Wrong("takes what Python and Java read alike: texts, sets, choices, repetitions, groups, ^, $ and looking ahead")


def _repeated(argument: tuple[int, int, Any]) -> str:
    least, most, what = argument
    bound = most if most < _constants.MAXREPEAT else None
    if max(least, bound or 0) > _MOST:
        raise Wrong(f"takes at most {_MOST:,} repetitions, or any number")
    return f"(?:{_sequence(what)}){{{least},{'' if bound is None else bound}}}"


def _set(items: list[tuple[Any, Any]]) -> str:
    text = ""
    for operation, argument in items:
        match str(operation):
            case "NEGATE":
                text += "^"
            case "LITERAL":
                text += _character(argument)
            case "RANGE":
                text += f"{_character(argument[0])}-{_character(argument[1])}"
            case _:
                raise Wrong(f"takes what Python and Java read alike: {_CLASSES}")
    return f"[{text}]"


def _character(code: int) -> str:
    """Return a character that stands for itself, inside and outside of brackets."""
    if 0xD800 <= code <= 0xDFFF:
        raise Wrong("takes text, without halves of characters")
    character = chr(code)
    return character if character.isascii() and character.isalnum() else f"\\x{{{code:x}}}"
