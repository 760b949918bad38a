"""The first rows of a source, read without Spark, and why some of them do not parse or fit the type of a column."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from skyband.framework.base.reasons import PARSE
from skyband.framework.plan.model import Field
from skyband.framework.sources.looks import Looks


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
    ``numbers``: what number of the rows read, from 1, each is, where rows left out count.

    ``why``: what is wrong with each of these, as far as it can be seen. ``files``: the files read, of ``many``. ``doubtful``: the number of
    rows left out because Spark may read them differently. ``absent``: columns that no row has, not even as null.
    """

    rows: list[dict[str, Any]] = field(default_factory=list)
    reasons: list[str | None] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)
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

    @property
    def read(self) -> int:
        """Return the number of rows read so far, those left out included."""
        return len(self.rows) + self.doubtful

    def _put(self, row: dict[str, Any], reason: str | None, text: str) -> None:
        self.numbers.append(self.read + 1)
        self.rows.append(row)
        self.reasons.append(reason)
        self.texts.append(text)


_LONGEST: Final = 60
"""Most characters of a value that are shown."""


def misfit(f: Field, value: str, looks: Looks | None, hint: str | None = None) -> Unparsed:
    """Return that ``value`` does not fit the column ``f``. ``looks``: what the value looks like, if that is known."""
    said = f"column {f.source_name!r} ({f.type}) holds {shown(value)}"
    if looks is None:
        return Unparsed((str(f.source_name), "?"), said, hint)
    return Unparsed((str(f.source_name), looks.like), f"{said}, which looks like {looks.like}", looks.hint)


def shown(value: str) -> str:
    """Return a value in quotes, cut to ``_LONGEST`` characters."""
    return repr(value if len(value) <= _LONGEST else value[: _LONGEST - 3] + "...")
