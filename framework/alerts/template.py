"""Templates of messages: text in which ``{name}`` inserts a value. A template is data: it can read no attribute, index or format.

Standard library only. The length of a message is bounded, whatever the values are.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Final

from skyband.framework.base.errors import did_you_mean, one_of
from skyband.framework.base.units import WrittenFloat

MOST_VALUE: Final = 200
"""The most characters of an inserted value."""
MOST_TEXT: Final = 2_000
"""The most characters of a message."""
FIXED: Final = ("job", "alert", "query", "what", "item", "key", "time", "value", "bound")
"""Names that every template may use. They take precedence over columns of the same names."""
ABSENT: Final = "-"
"""What is inserted for a value that is null, or that a message of its kind does not have."""
_PART: Final = re.compile(r"\{\{|\}\}|\{([A-Za-z_][A-Za-z0-9_]*)\}|[{}]")
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
_CUT: Final = "..."


@dataclass(frozen=True, slots=True)
class Mistake:
    """What is wrong with a template, at ``start`` <= offset < ``end``."""

    message: str
    hint: str
    start: int
    end: int


def mistakes(text: str, names: Collection[str]) -> list[Mistake]:
    """Return the mistakes of a template that may use ``names``. O(characters)."""
    found = []
    for m in _PART.finditer(text):
        name = m.group(1)
        if name is not None and name not in names:
            hint = did_you_mean(name, names) or f"names: {one_of(sorted(names), 30)}"
            found.append(Mistake(f"a message has no value '{name}'", hint, m.start(), m.end()))
        elif m.group() == "{":
            hint = "write {name} with the name alone, or {{ for a literal brace"
            close = text.find("}", m.start())
            found.append(Mistake("'{' without a name and '}'", hint, m.start(), m.start() + 1 if close < 0 else close + 1))
        elif m.group() == "}":
            if found and found[-1].end == m.end():
                continue  # the end of what was reported
            found.append(Mistake("'}' without '{'", "write {name}, or }} for a literal brace", m.start(), m.end()))
    return found


def render(text: str, values: Mapping[str, Any]) -> str:
    """Return the message: every ``{name}`` replaced by its value, ``{{`` and ``}}`` by a brace. At most ``MOST_TEXT`` characters.

    A name that ``values`` lacks becomes ``ABSENT``. Inserted values are not read as templates.
    """

    def replace(m: re.Match[str]) -> str:
        name = m.group(1)
        return m.group()[0] if name is None else value_text(values.get(name))

    return cut(_PART.sub(replace, text), MOST_TEXT)


def fill(text: str, values: Mapping[str, str]) -> str:
    """Return ``text`` with every ``{name}`` replaced by its value, as it is, and ``{{`` and ``}}`` by a brace."""
    return _PART.sub(lambda m: m.group()[0] if m.group(1) is None else values.get(m.group(1), ABSENT), text)


def value_text(value: Any) -> str:
    """Return a value of a table as text of one line, at most ``MOST_VALUE`` characters."""
    if value is None:
        return ABSENT
    if isinstance(value, datetime):
        return instant_text(value)
    if isinstance(value, WrittenFloat):
        return repr(value)
    if isinstance(value, float):
        return repr(value).removesuffix(".0")
    if isinstance(value, Decimal):
        return format(value, "f") if abs(value.adjusted()) < 100 else str(value)
    if isinstance(value, (list, tuple)):
        return cut(", ".join(value_text(v) for v in value[:MOST_VALUE]), MOST_VALUE)
    # Cut first: a value of a table may be of any length.
    return cut(_CONTROL.sub(" ", str(value)[: MOST_VALUE + 1]), MOST_VALUE)


def instant_text(value: datetime) -> str:
    """Return an instant as ISO 8601, UTC, with as many digits of a second as it needs."""
    at = value if value.tzinfo is None else value.astimezone(UTC).replace(tzinfo=None)
    return f"{at.isoformat(timespec='microseconds' if at.microsecond else 'seconds')}Z"


def cut(text: str, most: int) -> str:
    """Return ``text``, or its beginning with dots if it is longer than ``most`` characters."""
    return text if len(text) <= most else text[: most - len(_CUT)] + _CUT
