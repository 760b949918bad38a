"""The first rows of a source, read without Spark, and why some of them do not parse."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from skyband.framework.base.reasons import PARSE


@dataclass(frozen=True, slots=True)
class Unparsed:
    """Why a row does not parse. ``kind`` is equal for rows with the same mistake; ``hint`` says what to do."""

    kind: tuple[str, ...]
    said: str
    hint: str | None = None


@dataclass(slots=True)
class FirstRows:
    """The rows read so far.

    ``rows``: columns of the source by their names in the spec; ``reasons``, ``texts``: of rows that do not parse (else None, "").

    ``why``: what is wrong with each of these, as far as it can be seen. ``files``: the files read, of ``many``. ``doubtful``: the number of
    rows left out because Spark may read them differently. ``absent``: columns that no row has, not even as null.
    """

    rows: list[dict[str, Any]] = field(default_factory=list)
    reasons: list[str | None] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    why: list[Unparsed] = field(default_factory=list)
    files: list[str] = field(default_factory=list)
    many: int = 0
    doubtful: int = 0
    absent: list[str] = field(default_factory=list)

    def add(self, row: dict[str, Any]) -> None:
        """Add a row that parses."""
        self._put(row, None, "")

    def unparsed(self, text: str, why: Unparsed | None) -> None:
        """Add a row that does not parse."""
        self._put({}, PARSE, text)
        if why is not None:
            self.why.append(why)

    def _put(self, row: dict[str, Any], reason: str | None, text: str) -> None:
        self.rows.append(row)
        self.reasons.append(reason)
        self.texts.append(text)
