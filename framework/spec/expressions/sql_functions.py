"""Functions of Spark's own that a spec may not call, or not with every argument, and why.

A function on Spark's list (``spark_functions.json``) that stands nowhere here works on its arguments alone: it opens no file and no
connection, loads no class, and asks the session nothing that Skyband does not set.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from skyband.framework.base.errors import did_you_mean
from skyband.framework.sources.options import FILES, JSON, SPARK_CSV

_CODE: Final = "it runs arbitrary Java code"
_XML: Final = "an XML document may name files and addresses that its parser opens"
_OPENS: Final = "its options name files or addresses that it opens"

REFUSED: Final[Mapping[str, str]] = {
    **dict.fromkeys(("reflect", "java_method", "try_reflect"), _CODE),
    **dict.fromkeys(
        (
            "from_xml", "schema_of_xml", "to_xml", "xpath", "xpath_boolean", "xpath_double", "xpath_float", "xpath_int", "xpath_long",
            "xpath_number", "xpath_short", "xpath_string",
        ),
        _XML,
    ),
    **dict.fromkeys(("from_avro", "to_avro", "schema_of_avro", "from_protobuf", "to_protobuf"), _OPENS),
}  # fmt: skip
"""Function -> why it may not be called."""

_OPTIONS_AT: Final = {"from_json": 2, "from_csv": 2, "schema_of_json": 1, "schema_of_csv": 1, "to_json": 1, "to_csv": 1}
"""Function -> the argument that is a map of options."""
_WRITING: Final = ("ignoreNullFields", "pretty", "quoteAll", "escapeQuotes")
_TAKEN: Final = {
    "json": {*JSON, *_WRITING} - set(FILES),
    "csv": {*SPARK_CSV, *_WRITING} - set(FILES),
}
_SCHEMA: Final = re.compile(r"[\w\s,:<>()`.-]+")
"""A schema as DDL: Spark would read one in JSON too, where a type may name a class to load."""

Found = tuple[str, str | None, int, int]
"""Message, hint, start and end of one mistake."""


def bad_arguments(tokens: list[Any], at: int) -> Iterator[Found]:
    """What the call at ``tokens[at]`` (a function's name) may not be given. O(tokens of the call)."""
    name = tokens[at].text.lower()
    if name not in _OPTIONS_AT:
        return
    arguments = _arguments(tokens, at + 2)
    place = (tokens[at].start, tokens[at].end + 1)
    if any(t.token_type.name == "FARROW" for part in arguments for t in part):
        yield f"arguments of {name} are not named", None, *place
        return
    if name.startswith("from_") and len(arguments) > 1 and not _good_schema(arguments[1]):
        yield f"the schema of {name} must be a text such as 'a int, b string'", "or schema_of_json('...')", *place
    for part in arguments[_OPTIONS_AT[name] :]:
        yield from _bad_options(name, part, place)


def _arguments(tokens: list[Any], start: int) -> list[list[Any]]:
    """The tokens of each argument of a call whose arguments begin at ``start``."""
    parts: list[list[Any]] = [[]]
    depth = 0
    for token in tokens[start:]:
        kind = token.token_type.name
        depth += kind in {"L_PAREN", "L_BRACKET", "L_BRACE"}
        depth -= kind in {"R_PAREN", "R_BRACKET", "R_BRACE"}
        if depth < 0:
            break
        if kind == "COMMA" and depth == 0:
            parts.append([])
        else:
            parts[-1].append(token)
    return parts


def _good_schema(part: list[Any]) -> bool:
    if len(part) == 1:
        return part[0].token_type.name == "STRING" and _SCHEMA.fullmatch(part[0].text) is not None
    return bool(part) and part[0].text.lower() in {"schema_of_json", "schema_of_csv"}


def _bad_options(name: str, part: list[Any], place: tuple[int, int]) -> Iterator[Found]:
    """Options are ``map('name', 'value', ...)``, so that their names can be read here."""
    inner = part[2:-1]
    texts, commas = inner[::2], inner[1::2]
    spelled = (
        len(part) > 3 and part[0].text.lower() == "map" and part[1].token_type.name == "L_PAREN" and len(texts) % 2 == 0
        and all(t.token_type.name == "STRING" for t in texts) and all(t.token_type.name == "COMMA" for t in commas)
    )  # fmt: skip
    if not spelled:
        yield f"the options of {name} must be spelled out", "map('name', 'value', ...)", *place
        return
    taken = _TAKEN["json" if name.endswith("json") else "csv"]
    folded = {t.lower() for t in taken}
    for token in texts[::2]:
        if token.text.lower() not in folded:
            yield f"{name} may not be given the option {token.text[:64]!r}", did_you_mean(token.text, taken), token.start, token.end + 1
