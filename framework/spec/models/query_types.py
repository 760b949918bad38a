"""The models of the query types of a spec, by the name their ``type`` gives."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import BaseModel

from skyband.framework.queries.registry import QUERY_TYPES


def query_type_names() -> Sequence[str]:
    """The names of all query types, in the order a message lists them."""
    return tuple(QUERY_TYPES.all())


def model_of_query(type_name: str) -> type[BaseModel] | None:
    """The model of queries of this type, or None if there is no such type."""
    found = QUERY_TYPES.get(type_name)
    return None if found is None else found.model
