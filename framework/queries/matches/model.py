"""The entry of a spec: for every arriving set the k most similar older ones."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from skyband.framework.queries.models import K
from skyband.framework.queries.set_pairs.model import SetPairs


class Matches(SetPairs):
    """For every row, once, at its arrival: the k rows of the window before it whose sets are most similar to its own."""

    type: Literal["matches"]
    k: K = Field(description="How many older rows at most.")
    every: ClassVar[None] = None  # type: ignore[misc]
    """No field of this type: what is reported once, at an arrival, has no boundaries."""
