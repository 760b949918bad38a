"""Which values of the environment are places, and nothing else: paths that a spec reads or writes at, shown to whoever runs the command.

A value is one only if every use of it is the beginning of ``source.path`` or ``sink.path``, its name is not that of a secret, and it is
a directory of this machine (or in one), or a place on object storage. Whatever else it might be, it is concealed.
"""

from __future__ import annotations

import os.path
import re
from collections.abc import Mapping
from typing import Final

from skyband.framework.base.redaction import place
from skyband.framework.spec.positions import is_secret

_PLACES: Final = (("source", "path"), ("sink", "path"))
_REFERENCE: Final = re.compile(r"(?<!\$)\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_OBJECTS: Final = re.compile(r"(?:s3a?|gs|abfss)://[A-Za-z0-9.@_/=-]+")


def note_places(written: Mapping[tuple[str | int, ...], str], env: Mapping[str, str]) -> None:
    """Note of every variable that the spec uses whether it is only a place. ``written``: path of a value -> how the spec has it."""
    only: dict[str, bool] = {}
    for path, text in written.items():
        for found in _REFERENCE.finditer(text):
            begins = path in _PLACES and found.start() == 0 and text[found.end() : found.end() + 1] in ("", "/")
            only[found[1]] = only.get(found[1], True) and begins
    for name, so in only.items():
        if name in env:
            place(name, env[name], only=so and not is_secret((name,)) and _is_place(env[name]))


def _is_place(value: str) -> bool:
    if _OBJECTS.fullmatch(value):
        return True
    try:
        whole = os.path.normpath(value)
        above = os.path.dirname(whole)
        return os.path.isabs(value) and (os.path.isdir(whole) or (above != "/" and os.path.isdir(above))) and whole != "/"
    except ValueError:
        return False
