"""The number of tasks of the stateful step, as the user sets it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final

from skyband.framework.base.errors import SkybandError

TASKS: Final = "SKYBAND_SHUFFLE_PARTITIONS"
"""The environment variable with the number of tasks."""
DEFAULT_TASKS: Final = 2
"""The number of tasks of a first run by default."""


def requested_tasks(environ: Mapping[str, str] = os.environ) -> int | None:
    """Return the requested number of tasks, None if it is not set. Raise SkybandError SKY-E201 if it is invalid."""
    said = environ.get(TASKS)
    if not said:
        return None
    if not (said.isascii() and said.isdecimal() and len(said) <= 6 and int(said) > 0):
        raise SkybandError("SKY-E201", f"{TASKS} is not a number of tasks", hint="set it to a whole number from 1 to 999999")
    return int(said)
