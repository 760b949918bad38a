"""The sets of tokens of a spec."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Final, Literal

from pydantic import Field

from skyband.framework.base.units import WHOLE, Name, Text
from skyband.framework.spec.models.base import Model
from skyband.framework.spec.models.words import WORDS
from skyband.operators.base import TOKENS, Kind

MAX_TOKENS: Final = 1_000_000


def token_kinds(names: Iterable[str]) -> dict[str, Kind]:
    """Return the kinds of sets of tokens, by the names that they have beside columns."""
    return {TOKENS + name: "tokens" for name in names}


class Tokens(Model):
    """The set of tokens of a row: elements of a list, parts of a delimited text, or words of a text (the default)."""

    column: Name = Field(description="A list column (array<string>, array<int>, array<bigint>) or a text column.")
    separator: Text | None = Field(default=None, description="The text between two tokens.")
    words: Text | None = Field(default=None, description="A regular expression (RE2) for one token.", json_schema_extra={"default": WORDS})
    lower: bool | None = Field(
        default=None, description="Convert text to lower case first, character by character. Default: true for words."
    )
    normalize: Literal["nfc", "none"] = Field(
        default="nfc",
        description="nfc: convert text to Unicode's composed form first, so that equal letters compare equal; none: leave it unchanged.",
    )
    stop_words: tuple[Text, ...] = Field(default=(), description="Tokens to ignore. They are removed before n-grams are built.")
    ngrams: Annotated[int, Field(ge=1, le=10), WHOLE] = Field(
        default=1, description="Join every n adjacent tokens into one token. A text with fewer than n tokens has none."
    )
    min_tokens: Annotated[int, Field(ge=1, le=MAX_TOKENS), WHOLE] = Field(
        default=1, description="A row with fewer distinct tokens is short."
    )
    short: Literal["skip", "reject"] = Field(
        default="skip", description="For a short row: skip it in set queries, or reject it to table rejected."
    )
    max_tokens: Annotated[int, Field(ge=1, le=MAX_TOKENS), WHOLE] = Field(
        default=10_000, description="Reject rows with more distinct tokens."
    )
