"""The metadata columns of a Delta table's change data feed. Imports no Spark."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

CHANGE: Final = "$change"
"""The kind of change, ``insert`` or ``delete``; an update is both."""
CHANGE_TYPE: Final = "$change_type"
"""The kind of change as Delta names it: ``insert``, ``update_preimage``, ``update_postimage`` or ``delete``."""
VERSION, COMMITTED = "$version", "$committed"
OF_CHANGE: Final[Mapping[str, str]] = {CHANGE: "string", CHANGE_TYPE: "string", VERSION: "bigint", COMMITTED: "timestamp"}
"""Metadata of a change that ``from`` may name -> its type."""


def follows(options: Mapping[str, str]) -> bool:
    """Return True if a Delta source with these options reads the changes of its table."""
    return options.get("changes") == "true"
