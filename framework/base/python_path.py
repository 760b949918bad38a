"""What Python finds where: nothing is imported from the working directory, in the command or in Spark's workers.

A directory of data may hold a ``queue.py`` or a ``types.py`` that has nothing to do with the standard library's, or that somebody put
there.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Final

SAFE: Final = {"PYTHONSAFEPATH": "1"}
"""For the workers, which Spark starts with ``-m``: Python would put the working directory first on their path."""


def without_relative(path: str) -> str:
    """A ``PYTHONPATH`` without its relative entries: an empty one, as in ``a::b``, is the working directory too."""
    return os.pathsep.join(p for p in path.split(os.pathsep) if os.path.isabs(p))


def leave_working_directory() -> None:
    """Takes the working directory off this process's path (``python -m`` puts it first), unless Skyband itself is imported from it.

    It also goes from ``PYTHONPATH``, which Spark and its workers inherit, unless it stands there by its full name.
    """
    if os.environ.get("PYTHONPATH"):
        os.environ["PYTHONPATH"] = without_relative(os.environ["PYTHONPATH"])
    here, own = os.path.realpath(""), str(Path(__file__).resolve().parents[2])
    if here != own:
        put_first = not sys.flags.safe_path and sys.path and os.path.realpath(sys.path[0]) == here
        sys.path[:] = [p for p in sys.path[bool(put_first) :] if os.path.isabs(p)]
