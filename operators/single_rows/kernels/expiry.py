"""When objects stop being alive: window arithmetic inside kernels."""

from __future__ import annotations

from skyband.operators.jit import jit
from skyband.operators.windows import UNBOUNDED

ALWAYS = -(2**63)
"""A time nothing is older than."""

FAR_PAST = -(2**62)
FAR_FUTURE = 2**62


@jit
def alive_from(instant: int, micros: int) -> int:
    """Return the smallest time of an object alive at ``instant`` in a time window of ``micros`` (``UNBOUNDED``: no time window)."""
    if micros >= UNBOUNDED or instant < FAR_PAST + micros:
        return ALWAYS
    return instant - micros + 1
