"""The models of query types by their name in the field ``type``."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import BaseModel

from skyband.framework.queries.registry import QUERY_TYPES


def query_type_names() -> Sequence[str]:
    """Return the names of all query types, in the order of messages."""
    return tuple(QUERY_TYPES.all())


def model_of_query(type_name: str) -> type[BaseModel] | None:
    """Return the model of queries of this type, or None for an unknown type."""
    found = QUERY_TYPES.get(type_name)
    return None if found is None else found.model
