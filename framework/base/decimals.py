"""The decimal types of columns, as a plan spells them. Uses the standard library only."""

from __future__ import annotations

import re
from typing import Final

_DECIMAL: Final = re.compile(r"decimal\((\d+),(\d+)\)")


def decimal_digits(type_: str | None) -> tuple[int, int] | None:
    """Return precision and scale of ``decimal(p,s)``: the number of all digits, and of those after the point. None for other types."""
    found = _DECIMAL.fullmatch(type_ or "")
    return None if found is None else (int(found[1]), int(found[2]))
