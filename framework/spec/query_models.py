"""The models of the query types of a spec, by the name their ``type`` gives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import get_args

from pydantic import BaseModel

from skyband.framework.spec import queries


@cache
def _models() -> Mapping[str, type[BaseModel]]:
    union = get_args(queries.Query)[0]
    return {get_args(model.model_fields["type"].annotation)[0]: model for model in get_args(union)}


def query_type_names() -> Sequence[str]:
    """The names of all query types, in the order a message lists them."""
    return tuple(_models())


def model_of_query(type_name: str) -> type[BaseModel] | None:
    """The model of queries of this type, or None if there is no such type."""
    return _models().get(type_name)
