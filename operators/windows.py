"""Window arithmetic that operators share: effective ends, checks, and the integers kernels work with."""

from __future__ import annotations

from skyband.operators.base import Window

MANY: int = 2**60
"""A count or a duration no window reaches: "no such end"."""


def count_of(window: Window) -> int:
    """The window's count, or ``MANY``."""
    return MANY if window.count is None else window.count


def micros_of(window: Window) -> int:
    """The window's duration in microseconds, or ``MANY``."""
    return MANY if window.micros is None else window.micros


def check_window(window: Window, largest: Window, what: str) -> None:
    """Raise ValueError unless ``window`` has an end, is of a kind ``largest`` has, and is no larger."""
    if window.count is None and window.micros is None:
        raise ValueError(f"{what}: a window needs a count or a duration")
    for asked, most, kind in ((window.count, largest.count, "count"), (window.micros, largest.micros, "time")):
        if asked is None:
            continue
        if asked < 1:
            raise ValueError(f"{what}: a {kind} window must be at least 1, not {asked}")
        if most is None:
            raise ValueError(f"{what}: a {kind} window was asked for, but the state's window is not by {kind}")
        if asked > most:
            raise ValueError(f"{what}: {kind} window {asked} is larger than the state's {most}")


def within(window: Window, largest: Window) -> Window:
    """The effective window of a query: its own ends, and the state's where it has none."""
    return Window(
        largest.count if window.count is None else window.count,
        largest.micros if window.micros is None else window.micros,
    )
