"""The query types there are: the directories beside this file that have a ``query_type`` module, and those other packages bring.

A plugin's entry point (group ``skyband.query_types``) is named like the type and points at an instance of ``protocol.QueryType``.
Imports none of them before they are asked for.
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


def _rooms() -> Mapping[str, QueryType]:
    found: dict[str, QueryType] = {}
    for room in pkgutil.iter_modules([str(Path(__file__).parent)]):
        name = f"{__package__}.{room.name}.query_type"
        if room.ispkg and importlib.util.find_spec(name) is not None:
            made: QueryType = importlib.import_module(name).QUERY_TYPE
            found[made.name] = made
    return found


QUERY_TYPES: Final = Registry[QueryType](
    "skyband.query_types", "query type", _rooms, needs=("name", "model", "item", "check", "compile", "brute_force", "example")
)


def query_type(name: str) -> QueryType:
    """The type called ``name``. SkybandError SKY-E142 if there is none."""
    found = QUERY_TYPES.get(name)
    if found is None:
        raise SkybandError("SKY-E142", f"there is no query type {name!r}", f"there are {one_of(sorted(QUERY_TYPES.all()))}")
    return found
