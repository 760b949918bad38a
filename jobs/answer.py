"""The answer of a command, as data and as text, and the one function that prints it.

With ``--format json``, stdout has exactly one JSON document, whatever the exit code (docs/reference/commands.md). Text for people goes to
stderr.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any, Final

from skyband.framework.base.errors import SkybandError, printable, redacted, redacted_for_terminal

FORMATS: Final = ("text", "json")
"""The values of ``--format``, unless a command has its own."""


@dataclass(frozen=True, slots=True)
class Answer:
    """``data``: the document. ``text``: the same for people, None if it has been printed already.

    ``rows``: the answer consists of the job's own rows, which are not redacted; everything else goes through ``redacted``.
    """

    data: Any
    text: str | None
    code: int = 0
    rows: bool = False


def show(answer: Answer, form: str) -> None:
    """Print an answer to stdout as JSON or text. For other formats of a command, its text has that format."""
    said = document(answer.data) if form == "json" else answer.text
    if said is not None:
        print(printable(said) if answer.rows else redacted(said) if form == "json" else redacted_for_terminal(said), flush=True)


def document(data: Any) -> str:
    """Return ``data`` as one line of JSON: instants in ISO 8601 (UTC), NaN and infinities as text. O(size)."""
    return json.dumps(plain(data), ensure_ascii=False)


def refusal(errors: Iterable[SkybandError]) -> dict[str, Any]:
    """Return the document of a command that failed: its errors."""
    return {"errors": [e.plain() for e in errors]}


def plain(value: Any) -> Any:
    """Return ``value`` in the types of JSON. O(size)."""
    if value is None or isinstance(value, (str, bool, int)):
        return value
    if isinstance(value, float):
        return value if value - value == 0 else repr(value)
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, (Sequence, set, frozenset)) and not isinstance(value, (bytes, bytearray)):
        return [plain(v) for v in value]
    if isinstance(value, datetime):
        return (value if value.tzinfo is None else value.astimezone(UTC)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    return value.isoformat() if isinstance(value, date) else str(value)
