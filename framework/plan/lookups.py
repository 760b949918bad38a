"""The nodes of look-ups in a plan: how rows of the source are joined with a static table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class LookupNode:
    """The join of the source's rows with the table ``name``.

    ``on``: (column of the row, column of the table); ``take``: (new column of the row, column of the table). ``valid``: the columns of the
    table from which and up to which its rows are valid at the row's event time; None: always. ``missing``: what becomes of a row without a
    match.
    """

    name: str
    on: tuple[tuple[str, str], ...]
    take: tuple[tuple[str, str], ...]
    valid: tuple[str, str] | None = None
    missing: Literal["null", "reject"] = "null"

    @property
    def taken(self) -> tuple[str, ...]:
        """Return the columns that rows take."""
        return tuple(new for new, _ in self.take)
