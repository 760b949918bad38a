"""The metadata columns of a Delta table's change data feed. Imports no Spark."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

CHANGE: Final = "$change"
OF_CHANGE: Final[Mapping[str, str]] = {CHANGE: "string", "$version": "bigint", "$committed": "timestamp"}
"""Metadata of a change that ``from`` may name (its kind, ``insert`` or ``delete``, and its commit) -> its type."""


def follows(options: Mapping[str, str]) -> bool:
    """Return True if a Delta source with these options reads the changes of its table."""
    return options.get("changes") == "true"
