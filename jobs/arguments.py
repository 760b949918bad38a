"""Checks of arguments that the command line and Python (``skyband.Job``) have in common: what is wrong is a SKY-E201 that names one."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from skyband.framework.base.errors import SkybandError

MOST: Final = 1_000_000_000
"""The greatest number of rows, or of anything else, that can be asked for: larger ones mean "all", which is said by leaving them out."""
GREATEST: Final = 1e12
"""The greatest number that is no count."""
_SHOWN: Final = 40


def whole(name: str, least: int = 0, most: int = MOST) -> Callable[[str], int]:
    """What ``argparse`` reads the option ``name`` by: a whole number from ``least`` to ``most``."""

    def read(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            raise _no_number(name, text, least, most) from None
        return whole_number(name, value, least, most)

    return read


def whole_number(name: str, value: Any, least: int = 0, most: int = MOST) -> int:
    """``value``, of the argument ``name``, as an int. SkybandError SKY-E201 if it is not one from ``least`` to ``most``."""
    try:
        found = None if isinstance(value, bool) else value.__index__()
    except (AttributeError, TypeError):
        found = None
    if found is None or not least <= found <= most:
        raise _no_number(name, value, least, most)
    return int(found)


def positive(name: str, value: Any) -> float:
    """``value``, of the argument ``name``, as a float. SkybandError SKY-E201 if it is no number above 0 and up to ``GREATEST``."""
    try:
        found = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        found = math.nan
    if not 0 < found <= GREATEST:
        raise SkybandError("SKY-E201", f"{name} takes a number above 0 and up to {GREATEST:g}, not {_shown(value)}")
    return found


def text(name: str, value: Any) -> str:
    """``value``, of the argument ``name``. SkybandError SKY-E201 if it is not text that can be encoded."""
    if not isinstance(value, str):
        raise SkybandError("SKY-E201", f"{name} takes text, not {_shown(value)}")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise SkybandError("SKY-E201", f"{name} holds half a character (a surrogate): {_shown(value)}") from None
    return value


def texts(name: str, value: Any) -> dict[str, str]:
    """``value``, of the argument ``name``, as a dict of texts. SkybandError SKY-E201 if it is no mapping from texts to texts."""
    if not isinstance(value, Mapping):
        raise SkybandError("SKY-E201", f"{name} takes a mapping of names to texts, not {_shown(value)}", 'such as {"NAME": "value"}')
    return {text(f"a name in {name}", k): text(f"{name}[{k!r}]", v) for k, v in value.items()}


def listed(name: str, value: Any) -> list[Any]:
    """``value``, of the argument ``name``, as a list. SkybandError SKY-E201 if it is one text, or nothing that can be listed."""
    if isinstance(value, str | bytes) or not isinstance(value, Iterable):
        raise SkybandError("SKY-E201", f"{name} takes a list of texts, not {_shown(value)}")
    return list(value)


def path_of(value: Any) -> str:
    """``value``, of an argument ``path``. SkybandError SKY-E201 if it is none."""
    try:
        return os.fsdecode(value)
    except TypeError:
        raise SkybandError("SKY-E201", f"path takes the path of a spec, not {_shown(value)}") from None


def _no_number(name: str, value: Any, least: int, most: int) -> SkybandError:
    hint = "leave it out for all of them" if name.endswith("limit") else None
    return SkybandError("SKY-E201", f"{name} takes a whole number from {least:,} to {most:,}, not {_shown(value)}", hint)


def _shown(value: Any) -> str:
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= 10**_SHOWN:
        return f"a number of more than {_SHOWN} digits"
    said = value if isinstance(value, str) else repr(value)
    said = said if len(said) <= _SHOWN else said[: _SHOWN - 3] + "..."
    return repr(said) if isinstance(value, str) else said
