"""What a row of a Delta table's feed of changes has besides the table's columns. Imports no Spark."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

CHANGE: Final = "$change"
OF_CHANGE: Final[Mapping[str, str]] = {CHANGE: "string", "$version": "bigint", "$committed": "timestamp"}
"""What ``from`` may name of a change: whether it is an ``insert`` or a ``delete``, and its commit -> its type."""


def follows(options: Mapping[str, str]) -> bool:
    """Whether a Delta source with these options follows the changes of its table."""
    return options.get("changes") == "true"
