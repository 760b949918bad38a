"""What a command answers, once as data and once as text, and the one place that prints it.

``--format json``: stdout has one JSON document and nothing else, whatever the exit code (docs/reference/commands.md). Text for people goes
to stderr.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any, Final

from skyband.framework.base.errors import SkybandError, printable, redacted, redacted_for_terminal

FORMATS: Final = ("text", "json")
"""What ``--format`` takes, if a command does not say otherwise."""


@dataclass(frozen=True, slots=True)
class Answer:
    """``data``: the document. ``text``: the same for people, None if it has been printed already.

    ``rows``: whether it consists of the job's own rows, of which nothing is taken out; all else goes through ``redacted``.
    """

    data: Any
    text: str | None
    code: int = 0
    rows: bool = False


def show(answer: Answer, form: str) -> None:
    """Prints an answer to stdout, in a form of ``FORMATS``; in any other form its text is printed already in that form."""
    said = document(answer.data) if form == "json" else answer.text
    if said is not None:
        print(printable(said) if answer.rows else redacted(said) if form == "json" else redacted_for_terminal(said), flush=True)


def document(data: Any) -> str:
    """``data`` as one line of JSON: instants in ISO 8601 (UTC), NaN and infinities, which JSON lacks, as text. O(size)."""
    return json.dumps(plain(data), ensure_ascii=False)


def refusal(errors: Iterable[SkybandError]) -> dict[str, Any]:
    """The document of a command that has no answer: what was wrong."""
    return {"errors": [e.plain() for e in errors]}


def plain(value: Any) -> Any:
    """``value`` as JSON has it. O(size)."""
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
