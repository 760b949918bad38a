"""The part of a plan about sets of tokens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from skyband.operators.base import TOKENS


@dataclass(frozen=True, slots=True)
class TokenNode:
    """Sets of tokens called ``name``: of each row the distinct tokens of ``column``, as codes.

    A list's elements; a text split at ``separator``, or what ``words`` (RE2) finds in it, lower-cased first if ``lower``. ``stop_words`` do
    not count; ``ngrams`` neighbours together are one token. A row with more than ``most`` is rejected; one with fewer than ``least`` has an
    empty set, or is rejected too (``short``).

    ``normalize`` and ``short`` are None in a job of a former version (``plan.former``), which knew neither: text stays as it is, short rows
    are rejected. ``given`` names those of ``words``, ``normalize`` and ``short`` that the spec sets.
    """

    name: str
    column: str
    separator: str | None
    words: str | None
    lower: bool
    stop_words: tuple[str, ...]
    ngrams: int
    least: int
    most: int
    normalize: Literal["nfc", "none"] | None = "nfc"
    short: Literal["skip", "reject"] | None = "skip"
    given: tuple[str, ...] = ()

    @property
    def composes(self) -> bool:
        """Return True if text is converted to Unicode's composed form (NFC) first."""
        return self.normalize == "nfc"

    @property
    def skips_short(self) -> bool:
        """Return True if a row with fewer than ``least`` tokens is accepted, with an empty set."""
        return self.short == "skip"

    @property
    def codes(self) -> str:
        """Return the name of the column with the codes."""
        return TOKENS + self.name
