"""The base class of the models of a spec."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict


class Model(BaseModel):
    """Base: frozen, no unknown fields, and values never shown in errors (they may be secret)."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True, populate_by_name=True)


# Tags of unions appear in pydantic's error locations; the angle brackets distinguish them from field names.
def short_or_long(value: Any) -> str:
    """Return the tag of a value that is written as one word or as a mapping."""
    return "<long>" if isinstance(value, (dict, Model)) else "<short>"
