"""Directories of what a process makes once for many tests."""

from __future__ import annotations

import atexit
import shutil
from pathlib import Path
from tempfile import mkdtemp


def directory() -> Path:
    """Return a new directory, which is removed when the process ends."""
    made = Path(mkdtemp(prefix="skyband-tests-"))
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return made
