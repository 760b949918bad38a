"""Keep Python from importing modules of the working directory, in the command and in Spark's workers.

A directory of data may hold a ``queue.py`` or a ``types.py`` that would shadow the standard library's, by chance or by intent.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Final

SAFE: Final = {"PYTHONSAFEPATH": "1"}
"""Environment of the workers: Spark starts them with ``-m``, which puts the working directory first on the path."""


def without_relative(path: str) -> str:
    """Return a ``PYTHONPATH`` without relative entries; an empty entry, as in ``a::b``, is the working directory too."""
    return os.pathsep.join(p for p in path.split(os.pathsep) if os.path.isabs(p))


def leave_working_directory() -> None:
    """Remove the working directory from this process's path (``python -m`` adds it), unless Skyband itself is imported from it.

    Also remove relative entries from ``PYTHONPATH``, which Spark and its workers inherit.
    """
    if os.environ.get("PYTHONPATH"):
        os.environ["PYTHONPATH"] = without_relative(os.environ["PYTHONPATH"])
    here, own = os.path.realpath(""), str(Path(__file__).resolve().parents[2])
    if here != own:
        put_first = not sys.flags.safe_path and sys.path and os.path.realpath(sys.path[0]) == here
        sys.path[:] = [p for p in sys.path[bool(put_first) :] if os.path.isabs(p)]
