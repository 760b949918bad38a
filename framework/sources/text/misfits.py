"""Describe a value that does not fit the type of its column."""

from __future__ import annotations

from typing import Final

from skyband.framework.plan.model import Field
from skyband.framework.quality.looks import Looks
from skyband.framework.sources.first_rows import Unparsed

_LONGEST: Final = 60
"""Most characters of a value that are shown."""


def misfit(f: Field, value: str, looks: Looks | None, hint: str | None = None) -> Unparsed:
    """Return that ``value`` does not fit the column ``f``. ``looks``: what the value looks like, if that is known."""
    said = f"column {f.source_name!r} ({f.type}) holds {shown(value)}"
    if looks is None:
        return Unparsed((str(f.source_name), "?"), said, hint)
    return Unparsed((str(f.source_name), looks.like), f"{said}, which looks like {looks.like}", looks.hint)


def shown(value: str) -> str:
    """Return a value in quotes, cut to ``_LONGEST`` characters."""
    return repr(value if len(value) <= _LONGEST else value[: _LONGEST - 3] + "...")
