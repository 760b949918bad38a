"""How many tasks the stateful step has, as who runs a job says it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final

from skyband.framework.base.errors import SkybandError

TASKS: Final = "SKYBAND_SHUFFLE_PARTITIONS"
"""The variable that says so."""
DEFAULT_TASKS: Final = 2
"""Those of a first run if it does not."""


def requested_tasks(environ: Mapping[str, str] = os.environ) -> int | None:
    """The tasks that the environment asks for, None if it does not. SkybandError SKY-E201 if that is no number of tasks."""
    said = environ.get(TASKS)
    if not said:
        return None
    if not (said.isascii() and said.isdecimal() and len(said) <= 6 and int(said) > 0):
        raise SkybandError("SKY-E201", f"{TASKS} is no number of tasks", hint="a whole number from 1 to 999999")
    return int(said)
