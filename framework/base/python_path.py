"""What Python finds where: nothing is imported from the working folder, in the command or in the engine's workers.

A folder of data may hold a ``queue.py`` or a ``types.py`` that has nothing to do with the standard library's, or that somebody put there.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Final

SAFE: Final = {"PYTHONSAFEPATH": "1"}
"""For the workers, which the engine starts with ``-m``: Python would put the working folder first on their path."""


def without_relative(path: str) -> str:
    """A ``PYTHONPATH`` without its relative entries: an empty one, as in ``a::b``, is the working folder too."""
    return os.pathsep.join(p for p in path.split(os.pathsep) if os.path.isabs(p))


def leave_working_folder() -> None:
    """Takes the working folder off this process's path (``python -m`` puts it first), unless Skyband itself is imported from it.

    It also goes from ``PYTHONPATH``, which the engine and its workers inherit, unless it stands there by its full name.
    """
    if os.environ.get("PYTHONPATH"):
        os.environ["PYTHONPATH"] = without_relative(os.environ["PYTHONPATH"])
    here, own = os.path.realpath(""), str(Path(__file__).resolve().parents[2])
    if here != own:
        put_first = not sys.flags.safe_path and sys.path and os.path.realpath(sys.path[0]) == here
        sys.path[:] = [p for p in sys.path[bool(put_first) :] if os.path.isabs(p)]
