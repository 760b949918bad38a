"""Fail points: named places where a process can be made to kill itself, so that tests need no sleeps.

``SKYBAND_FAILPOINT="name"`` kills at the first hit of ``name``, ``"name:3"`` at the third: this process and its companions (Spark).
``"name:3@ENGINE"`` kills the companions alone; ``"name@TERM"`` sends this process alone another signal, and it goes on until that takes
effect. Without the variable a fail point costs one dictionary look-up and does nothing.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Final

VARIABLE: Final = "SKYBAND_FAILPOINT"
ENGINE: Final = "ENGINE"

_hits: Counter[str] = Counter()
_companions: list[Callable[[], Iterable[int]]] = []


def die_with(processes: Callable[[], Iterable[int]]) -> None:
    """Names further processes (by id, asked at the moment of death) that a fail point kills with this one: Spark's, for instance."""
    _companions.append(processes)


def failpoint(name: str) -> None:
    """Kills this process (SIGKILL), or does what else is asked for, if ``SKYBAND_FAILPOINT`` names this point and this hit of it."""
    wanted = os.environ.get(VARIABLE)
    if not wanted:
        return
    wanted, _, how = wanted.partition("@")
    point, _, number = wanted.partition(":")
    if point != name:
        return
    _hits[name] += 1
    if _hits[name] != int(number or 1):
        return
    if how in ("", ENGINE):
        for ids in _companions:
            for process in ids():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
    if how != ENGINE:
        os.kill(os.getpid(), signal.Signals[f"SIG{how or 'KILL'}"])
