"""The registry of query types: the directories beside this file that have a ``query_type`` module, and plugins.

A plugin's entry point (group ``skyband.query_types``) is named like the type and refers to an instance of ``protocol.QueryType``.
Types are imported on first use.
"""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from skyband.framework.base.errors import SkybandError, one_of
from skyband.framework.base.plugins import Registry
from skyband.framework.queries.protocol import QueryType


def _own_types() -> Mapping[str, QueryType]:
    found: dict[str, QueryType] = {}
    for package in pkgutil.iter_modules([str(Path(__file__).parent)]):
        name = f"{__package__}.{package.name}.query_type"
        if package.ispkg and importlib.util.find_spec(name) is not None:
            query_type: QueryType = importlib.import_module(name).QUERY_TYPE
            found[query_type.name] = query_type
    return found


QUERY_TYPES: Final = Registry[QueryType](
    "skyband.query_types", "query type", _own_types, needs=("name", "model", "item", "check", "compile", "brute_force", "example")
)


def query_type(name: str) -> QueryType:
    """Return the type called ``name``. Raise SkybandError SKY-E142 if there is none."""
    found = QUERY_TYPES.get(name)
    if found is None:
        raise SkybandError("SKY-E142", f"there is no query type {name!r}", f"there are {one_of(sorted(QUERY_TYPES.all()))}")
    return found
