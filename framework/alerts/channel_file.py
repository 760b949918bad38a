"""Find and read the operator's file of channels, which ``SKYBAND_CHANNELS`` names. Standard library only: the reader of specs uses it.

The file is never found by default, and no spec can name it. Other users must not be able to write it: it names commands.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from skyband.framework.base.errors import SkybandError
from skyband.framework.settings.toml_file import parse, read_text

CHANNELS: Final = "SKYBAND_CHANNELS"
"""The environment variable that names the file; unset or empty: there are no channels."""
CODE: Final = "SKY-E660"
REFERENCE: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
"""A value of the environment in a text of the file."""


def path_of(env: Mapping[str, str]) -> Path | None:
    """Return the file that the environment names, None if it names none."""
    return Path(env[CHANNELS]).absolute() if env.get(CHANNELS) else None


def text_of(path: Path) -> str:
    """Return the file's text. Raises SkybandError SKY-E660 if it cannot be read, or if other users may have written it."""
    hint = f"{CHANNELS} names the file of the channels of alerts"
    return read_text(path, CODE, hint, f"it can start programs: chown it to this user, and chmod o-w {path}")


def reserved(env: Mapping[str, str]) -> frozenset[str]:
    """Return the names of the environment variables that the file uses, which no spec may use. Raises SkybandError SKY-E660."""
    path = path_of(env)
    if path is None:
        return frozenset()
    text = text_of(path)
    found = set(REFERENCE.findall(text))
    # A text may spell a reference with escapes. A file that cannot be parsed is reported where channels are needed.
    with suppress(SkybandError):
        found |= {name for value in _texts(parse(path, text, CODE)) for name in REFERENCE.findall(value)}
    return frozenset(found)


def _texts(value: Any) -> Iterator[str]:
    """Yield the texts in a value of the file."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, (dict, list)):
        for one in value.values() if isinstance(value, dict) else value:
            yield from _texts(one)
