"""Fail points: named points in the code where a test can make the process kill itself, so that tests need no sleeps.

``SKYBAND_FAILPOINT="name"`` kills at the first hit of ``name``, ``"name:3"`` at the third: this process and its companions (Spark).
``"name:3@ENGINE"`` kills only the companions; ``"name@TERM"`` sends another signal to this process alone, which runs on until the signal
takes effect. Without the variable a fail point costs one dictionary look-up and does nothing.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Final

VARIABLE: Final = "SKYBAND_FAILPOINT"
COMPANIONS: Final = "ENGINE"

_hits: Counter[str] = Counter()
_companions: list[Callable[[], Iterable[int]]] = []


def die_with(processes: Callable[[], Iterable[int]]) -> None:
    """Register processes that a fail point kills with this one, such as Spark's. Their ids are read when the fail point fires."""
    _companions.append(processes)


def failpoint(name: str) -> None:
    """Kill this process, or send the requested signal, if ``SKYBAND_FAILPOINT`` names this point and this hit."""
    requested = os.environ.get(VARIABLE)
    if not requested:
        return
    requested, _, how = requested.partition("@")
    point, _, number = requested.partition(":")
    if point != name:
        return
    _hits[name] += 1
    if _hits[name] != int(number or 1):
        return
    if how in ("", COMPANIONS):
        for ids in _companions:
            for process in ids():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
    if how != COMPANIONS:
        os.kill(os.getpid(), signal.Signals[f"SIG{how or 'KILL'}"])
