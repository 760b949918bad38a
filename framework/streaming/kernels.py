"""Kernels that are compiled while a job runs: seen by the files that Numba's caches get. The first job of a machine waits for them."""

from __future__ import annotations

import os
from pathlib import Path

from skyband.operators.jit import HAVE_NUMBA, cache_folder


def compiled_since(instant: float) -> int:
    """How many kernels have been compiled since ``instant`` (seconds since 1970). O(files of the caches)."""
    if not HAVE_NUMBA:
        return 0
    operators = Path(__file__).resolve().parents[2] / "operators"
    places = {operators, cache_folder(), Path(os.environ.get("NUMBA_CACHE_DIR") or operators)}
    return sum(_newer(file, instant) for place in places for file in place.rglob("*.nbc"))


def _newer(file: Path, instant: float) -> bool:
    try:
        return file.stat().st_mtime >= instant
    except OSError:
        return False
