"""Regular expressions that mean the same to Great Expectations (Python's ``re``) and to Spark (Java's): what of them there is.

A text is read by Python and written anew from what was read, so that nothing is left to the other's reading of it: what a bracket means
inside of brackets, which characters may be escaped, what ends a line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from re import _constants, _parser  # type: ignore[attr-defined]
from typing import Any, Final

from skyband.framework.quality.expectations import EXPECTATIONS, Wrong

_LINES: Final = "(?d)"
"""Java's flag with which, as in Python, a line ends with a newline only: ``.`` and ``$`` depend on it."""
_MOST: Final = 1_000
"""Times that something may be repeated, if there is a limit at all."""
_CLASSES: Final = r"\d, \w, \s and \b are Unicode's in one engine and ASCII's in the other: write [0-9], [A-Za-z0-9_], [ \t]"

checked: Final[Callable[[Any], str]] = EXPECTATIONS["expect_column_values_to_match_regex"]["regex"]
"""The text of an expression that does not take for ever. Raises Wrong."""


def for_java(text: str) -> str:
    """The expression for Spark, which finds it in exactly the texts that Python finds ``text`` in. Raises Wrong for what has none."""
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
            raise Wrong(f"takes what both engines read alike: {_CLASSES}")
        case "ASSERT" | "ASSERT_NOT" if argument[0] > 0:
            return f"(?{'=' if name == 'ASSERT' else '!'}{_sequence(argument[1])})"
    raise Wrong("takes what both engines read alike: texts, sets, choices, repetitions, groups, ^, $ and looking ahead")


def _repeated(argument: tuple[int, int, Any]) -> str:
    least, most, what = argument
    bound = most if most < _constants.MAXREPEAT else None
    if max(least, bound or 0) > _MOST:
        raise Wrong(f"takes at most {_MOST:,} repetitions, or any number")
    return f"(?:{_sequence(what)}){{{least},{'' if bound is None else bound}}}"


def _set(items: list[tuple[Any, Any]]) -> str:
    made = ""
    for operation, argument in items:
        match str(operation):
            case "NEGATE":
                made += "^"
            case "LITERAL":
                made += _character(argument)
            case "RANGE":
                made += f"{_character(argument[0])}-{_character(argument[1])}"
            case _:
                raise Wrong(f"takes what both engines read alike: {_CLASSES}")
    return f"[{made}]"


def _character(code: int) -> str:
    """A character that means itself, inside of brackets and outside."""
    if 0xD800 <= code <= 0xDFFF:
        raise Wrong("takes text, without halves of characters")
    character = chr(code)
    return character if character.isascii() and character.isalnum() else f"\\x{{{code:x}}}"
